"""This is where a stage's tables are made, empty, before its query starts."""

import json

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.spark.jvm import hadoop
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage, Target
from oncelake.exactly_once.delta_log import DeltaLog


def make_tables(spark: SparkSession, chain: Chain, stage: Stage) -> None:
    """Make the tables of a stage that are in the lake, or add the columns that they lack."""
    for target in stage.writes:
        make_table(spark, target, chain.lake.at(target.table), chain.commit_log(target.table))


def make_table(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    """Make a table with its columns and properties, or add the columns that one of an earlier version lacks."""
    if commit_log.newest() is not None:
        _add_columns(spark, target, path, commit_log)
        return
    if tables.is_name(path):
        name = path.rpartition(".")[0]
        if not spark.catalog.databaseExists(name):  # where there is one, no right to make one is needed
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
    elif not any(name.endswith((".json", ".parquet")) for name in commit_log.whole_names()):
        # a kill while the table was made leaves a log directory without a commit, and Delta stumbles over it
        log, store = hadoop(spark, f"{path}/_delta_log")
        store.delete(log, True)
    tables.make(spark, path, target.schema(spark), target.properties)


def _add_columns(spark: SparkSession, target: Target, path: str, commit_log: DeltaLog) -> None:
    there = {field["name"] for field in json.loads((commit_log.metadata() or {})["schemaString"])["fields"]}
    missing = [field for field in target.schema(spark) if field.name not in there]
    if missing:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in missing)
        spark.sql(f"ALTER TABLE {tables.identifier(path)} ADD COLUMNS ({columns})")
