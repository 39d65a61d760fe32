"""This is where it is checked, before anything starts, that Spark accepts what the configuration says."""

import json

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import ConfigError
from oncelake.common.lake import Table
from oncelake.common.spark.runtime import check_catalog
from oncelake.engine.chain import Chain
from oncelake.engine.graph import DECLARATION
from oncelake.gold.check import check as check_gold
from oncelake.gold.declaration import GoldTable
from oncelake.quality.check import check_suite
from oncelake.serving.check import check_served
from oncelake.silver.check import check as check_format
from oncelake.silver.schema import SILVER

RETENTION = "delta.setTransactionRetentionDuration"


def preflight(spark: SparkSession, chain: Chain) -> None:
    """Check the source's place, the format's patterns, every gold declaration and every served table.

    Raises:
        ConfigError: one of them cannot be; nothing has been started.
    """
    settings = chain.settings
    if settings.lake.catalog is not None:
        check_catalog(spark, settings.lake.catalog)
    chain.kind.check(spark)
    check_format(spark, chain.silver.log_format)
    _check_suites(spark, chain)
    _check_memory(chain)
    for name, declared in settings.gold.items():
        built = _built(chain, name)
        _check_declared(spark, name, declared, built=built is not None)
        _check_unchanged(built, name, declared.model_dump_json(exclude_none=True))
    for stage in chain.stages:
        if stage.served is not None:
            check_served(spark, stage.served)


def _check_suites(spark: SparkSession, chain: Chain) -> None:
    schemas = {target.table: target.schema for stage in chain.stages for target in stage.writes}
    for table, suite in chain.suites.items():
        check_suite(spark, suite, schemas[table](spark))


def _check_memory(chain: Chain) -> None:
    """Refuse a table that was told to forget its transactions: a replay would then count twice."""
    for table in (target.table for stage in chain.stages for target in stage.writes):
        metadata = chain.commit_log(table).metadata()
        kept = (metadata or {}).get("configuration", {}).get(RETENTION)
        if kept is not None:
            raise ConfigError(
                f"{table} has {RETENTION} = {kept}: Delta would forget which batches it holds, and a replay would "
                f"count twice; run ALTER TABLE {tables.identifier(chain.lake.at(table))} "
                f"UNSET TBLPROPERTIES ('{RETENTION}')"
            )


def _built(chain: Chain, name: str) -> str | None:
    """Return the declaration that a gold table was built by; None where there is no table."""
    metadata = chain.commit_log(Table("gold", name)).metadata()
    built: str | None = (metadata or {}).get("configuration", {}).get(DECLARATION)
    return built


def _check_declared(spark: SparkSession, name: str, declared: GoldTable, *, built: bool) -> None:
    """Refuse a declaration that cannot be; a table that was built by it is not counted on by another one."""
    try:
        check_gold(spark, name, declared, SILVER)
    except ConfigError as error:
        if not built:
            raise
        raise ConfigError(
            f"{error}; the table of gold.{name} stays as it is: declare the new one under another name, "
            "and it builds itself from silver's beginning"
        ) from None


def _check_unchanged(built: str | None, name: str, declared: str) -> None:
    """Refuse a declaration that is not the one a table was built by."""
    if built is not None and json.loads(built) != json.loads(declared):
        raise ConfigError(
            f"gold.{name} is declared as {declared}, and the table was built as {built}; declare the new one "
            "under another name, and it builds itself from silver's beginning"
        )
