"""The settings of Spark; those that the guarantee rests on are not among them."""

from typing import Annotated

from pydantic import AfterValidator, Field

from oncelake.common.models import Options, Strict

_SPARK_OWNED = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.databricks.delta.write.txn",
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration",
    "spark.master",
    "spark.driver.memory",
)


def _not_owned(conf: dict[str, str]) -> dict[str, str]:
    for key in conf:
        if key.startswith(_SPARK_OWNED):
            raise ValueError(f"spark.conf.{key} cannot be set: oncelake's guarantee rests on its own value")
    return conf


class SparkSettings(Strict):
    """How Spark is started."""

    master: str = Field("local[*]", description="Spark's master URL")
    driver_memory: str = Field("2g", pattern=r"^\d+[mg]$", description="the JVM's heap")
    conf: Annotated[Options, AfterValidator(_not_owned)] = Field(
        default_factory=dict,
        repr=False,
        description="any further Spark setting; those that the guarantee rests on are refused, "
        "`spark.driver.extraJavaOptions` are added to oncelake's own",
    )
