"""Create a stage's empty tables before its query starts, and add missing columns to existing ones."""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField

from oncelake.common.errors import ReceiptError
from oncelake.common.lake import identifier, is_name
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_delta_log
from oncelake.engine.chain import Chain
from oncelake.engine.graph import STATS, Stage, Target
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog, TableState
from oncelake.exactly_once.new_table import make_new
from oncelake.exactly_once.write import again_on_conflict
from oncelake.exactly_once.writers.spark import replace_table
from oncelake.serving.settings import CHANGE_FEED

# Prefix of Spark's settings for the properties of new tables.
NEW_TABLES = "spark.databricks.delta.properties.defaults."


def make_tables(spark: SparkSession, chain: Chain, stage: Stage, *, by_delta_rs: bool = False) -> None:
    """Create the lake tables of a stage, or add the columns that they lack.

    Args:
        spark: the session.
        chain: the chain.
        stage: the stage.
        by_delta_rs: True if delta-rs may write the lake; creating a table with it takes no Spark job.
    """
    for target in stage.writes:
        path, commit_log = chain.lake.at(target.table), chain.commit_log(target.table)
        if not (by_delta_rs and commit_log.newest() is None and _made_by_delta_rs(spark, target, path)):
            make_table(spark, target, path, commit_log)


def make_table(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    """Create a table with its columns and properties, or add what a table of an older oncelake lacks."""
    if commit_log.newest() is not None:
        _add_columns(spark, target, path, commit_log)
        name_columns_with_bounds(spark, target, path, commit_log)
        return
    if is_name(path):
        name = path.rpartition(".")[0]
        if not spark.catalog.databaseExists(name):  # an existing schema needs no right to create schemas
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
    make_new(spark, commit_log, target.schema(spark), target.properties)


def replace_rows(chain: Chain, target: Target, rows: DataFrame, metadata: CommitMetadata) -> TableState:
    """Put rows in the place of a table's rows in one commit, the first batch of a new query; return the new state.

    Raises:
        ReceiptError: the table does not hold the commit.
    """
    table = target.table
    again_on_conflict(partial(replace_table, rows, chain.lake.at(table), metadata, target.properties))
    state = chain.commit_log(table).state()
    if state.metadata != metadata:
        # guard: replaced-log-has-first-batch
        raise ReceiptError(f"{table} was not replaced; run again: oncelake rebuild {metadata.stage}")
    return state


def forget_tables(spark: SparkSession) -> None:
    """Clear Delta's cache, which keeps the state of a table that was removed or whose log was changed."""
    if has_delta_log(spark):
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def _made_by_delta_rs(spark: SparkSession, target: Target, path: str) -> bool:
    """Create a table with delta-rs, if it gets the same properties and version of Delta's protocol as by Spark."""
    from oncelake.exactly_once.writers.local import create  # noqa: PLC0415 - needs delta-rs, which is optional

    is_set = any(key.startswith(NEW_TABLES) for key, _ in spark.sparkContext.getConf().getAll())
    is_plain = target.properties.get(CHANGE_FEED) is None and not is_set
    return is_plain and create(path, target.schema(spark), target.properties)


def _add_columns(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    existing = commit_log.columns()
    missing = [field for field in target.schema(spark) if field.name not in existing]
    if missing:
        columns = ", ".join(map(_definition, missing))
        spark.sql(f"ALTER TABLE {identifier(path)} ADD COLUMNS ({columns})")


def name_columns_with_bounds(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    """Name the columns that get bounds in the properties of a table that names none."""
    if STATS in target.properties and STATS not in commit_log.properties():
        property_ = f"'{STATS}' = '{target.properties[STATS]}'"
        spark.sql(f"ALTER TABLE {identifier(path)} SET TBLPROPERTIES ({property_})")


def _definition(field: StructField) -> str:
    comment = str(field.metadata.get("comment", "")).replace("\\", "\\\\").replace("'", "\\'")
    return f"`{field.name}` {field.dataType.simpleString()}" + (f" COMMENT '{comment}'" if comment else "")
