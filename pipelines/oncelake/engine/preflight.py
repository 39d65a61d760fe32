"""Check, before anything starts, that Spark accepts what the configuration says, and that no commit can be overwritten.

Delta's rule is that a version is written once, and the second writer is told so. Our log store keeps it by a hard link.
Hadoop's way on a local disk is a look whether the name is free, and then a rename, which replaces what came in between.
"""

import json

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import ConfigError
from oncelake.common.lake import Lake, Table
from oncelake.common.spark import direct_file_system
from oncelake.common.spark.runtime import check_catalog, is_given, on_databricks
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine.chain import Chain
from oncelake.engine.graph import DECLARATION
from oncelake.exactly_once.lease import has_lock, links_are_missing
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
    schemas = {target.table: target.schema for stage in chain.stages for target in stage.writes}
    for table, suite in chain.suites.items():
        check_suite(spark, suite, schemas[table](spark))
    _check_memory(chain)
    for name, declared in settings.gold.items():
        built = chain.commit_log(Table("gold", name)).properties().get(DECLARATION)  # None where there is no table
        _check_declared(spark, name, declared, built)
    for stage in chain.stages:
        if stage.served is not None:
            check_served(spark, stage.served)


def _check_memory(chain: Chain) -> None:
    """Refuse a table that was told to forget its transactions: a replay would then count twice."""
    for table in (target.table for stage in chain.stages for target in stage.writes):
        kept = chain.commit_log(table).properties().get(RETENTION)
        if kept is not None:
            raise ConfigError(
                f"{table} has {RETENTION} = {kept}: Delta would forget which batches it holds, and a replay would "
                f"count twice; run ALTER TABLE {tables.identifier(chain.lake.at(table))} "
                f"UNSET TBLPROPERTIES ('{RETENTION}')"
            )


def _check_declared(spark: SparkSession, name: str, declared: GoldTable, built: str | None) -> None:
    """Refuse a declaration that cannot be, or that is not the one that a table was built by."""
    anew = "declare the new one under another name, and it builds itself from silver's beginning"
    try:
        check_gold(spark, name, declared, SILVER)
    except ConfigError as error:
        if built is None:
            raise
        raise ConfigError(f"{error}; the table of gold.{name} stays as it is: {anew}") from None
    said = declared.model_dump_json(exclude_none=True)
    if built is not None and json.loads(built) != json.loads(said):
        raise ConfigError(f"gold.{name} is declared as {said}, and the table was built as {built}; {anew}")


def other_log_store(lake: Lake, settings: SparkSettings) -> list[str]:
    """Return a warning if commits to a lake are not written by our log store.

    To be asked before a Spark of our own is started: one that is there by then counts as somebody else's.
    """
    why = _other_log_store(settings) if has_lock(lake) and not on_databricks() else None
    return [_warning(lake, why)] if why else []


def no_hard_links(lake: Lake) -> list[str]:
    """Return a warning if the last process that held a lake found no hard links on its file system."""
    found = has_lock(lake) and links_are_missing(lake)
    return [_warning(lake, "its file system has no hard links; put the lake on one that has")] if found else []


def _warning(lake: Lake, why: str) -> str:
    return (
        f"{lake.root}: of two processes that commit at the same moment one can overwrite the other, so run "
        f"`oncelake maintain` only while nothing else writes the lake; {why}"
    )


def _other_log_store(settings: SparkSettings) -> str | None:
    """Return why Spark does not, or will not, write commits by our log store; None when it does."""
    if is_given():
        active = SparkSession.getActiveSession()
        used = active.conf.get(direct_file_system.LOG_STORE, "") if active is not None else ""
        ours = used == direct_file_system.CONF[direct_file_system.LOG_STORE]
        return None if ours else "this Spark was started by somebody else, and has another log store"
    if not settings.master.startswith("local"):
        return f"with spark.master {settings.master} Delta's own log store is used"
    return direct_file_system.why_not(settings.conf)
