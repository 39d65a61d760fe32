"""Create a stage's empty tables before its query starts, and add missing columns to existing ones."""

import json

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.spark.jvm import hadoop
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage, Target
from oncelake.exactly_once.delta_log import DeltaLog


def make_tables(spark: SparkSession, chain: Chain, stage: Stage) -> None:
    """Create the lake tables of a stage, or add the columns that they lack."""
    for target in stage.writes:
        make_table(spark, target, chain.lake.at(target.table), chain.commit_log(target.table))


def make_table(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    """Create a table with its columns and properties, or add the columns that a table of an older oncelake lacks."""
    if commit_log.newest() is not None:
        _add_columns(spark, target, path, commit_log)
        return
    if tables.is_name(path):
        name = path.rpartition(".")[0]
        if not spark.catalog.databaseExists(name):  # an existing schema needs no right to create schemas
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
    elif not any(name.endswith((".json", ".parquet")) for name in commit_log.whole_names()):
        # a process killed while creating a table leaves a log directory without a commit, on which Delta fails
        log, store = hadoop(spark, f"{path}/_delta_log")
        store.delete(log, True)
    tables.make(spark, path, target.schema(spark), target.properties)


def _add_columns(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    there = {field["name"] for field in json.loads((commit_log.metadata() or {})["schemaString"])["fields"]}
    missing = [field for field in target.schema(spark) if field.name not in there]
    if missing:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in missing)
        spark.sql(f"ALTER TABLE {tables.identifier(path)} ADD COLUMNS ({columns})")
