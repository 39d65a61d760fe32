"""The settings of Spark, without those that the exactly-once guarantee depends on."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from oncelake.common.models import Options, Strict

MEBIBYTE = 1024**2
_SIZE = r"^[0-9]+[mg]$"
# Spark refuses less than 450 MiB, as Java reports it: without the part of the heap that is empty at any time.
_LEAST = 512
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
            raise ValueError(
                f"spark.conf.{key} cannot be set: oncelake's guarantee depends on its own value; remove the setting"
            )
    return conf


def _size(size: str) -> str:
    if re.fullmatch(_SIZE, size) is None:
        raise ValueError("expected a number and m or g, such as 2g")
    if mebibytes(size) < _LEAST:
        raise ValueError(f"expected at least {_LEAST}m, which is what Spark needs")
    return size


def mebibytes(size: str) -> int:
    """Return a size such as 2g in MiB."""
    return int(size[:-1]) * (1024 if size.endswith("g") else 1)


class SparkSettings(Strict):
    """The settings for starting Spark."""

    master: str = Field("local[*]", description="Spark's master URL")
    driver_memory: Annotated[str, AfterValidator(_size)] = Field(
        "2g", json_schema_extra={"pattern": _SIZE}, description="the size of the JVM's heap"
    )
    conf: Annotated[Options, AfterValidator(_not_owned)] = Field(
        default_factory=dict,
        repr=False,
        description="further Spark settings; those that the guarantee depends on are refused, and "
        "`spark.driver.extraJavaOptions` are added to oncelake's own",
    )
