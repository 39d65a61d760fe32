"""This is where a stage's tables are made, empty, before its query starts."""

import json

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from pipelines.chain import Target
from pipelines.exactly_once.ledger import Ledger
from pipelines.jvm import hadoop


def make_table(spark: SparkSession, target: Target, path: str, ledger: Ledger) -> None:
    """Make a table with its columns and properties, or add the columns that one of an earlier version lacks."""
    if ledger.versions():
        _add_columns(spark, target, path, ledger)
        return
    if not any(name.endswith((".json", ".parquet")) for name in ledger.whole_names()):
        _clear_leftover(spark, path)
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(target.schema(spark))
    for key, value in target.properties.items():
        builder = builder.property(key, value)
    builder.execute()


def _add_columns(spark: SparkSession, target: Target, path: str, ledger: Ledger) -> None:
    there = {field["name"] for field in json.loads((ledger.metadata() or {})["schemaString"])["fields"]}
    missing = [field for field in target.schema(spark) if field.name not in there]
    if missing:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in missing)
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({columns})")


def _clear_leftover(spark: SparkSession, path: str) -> None:
    """Remove a log directory without a commit: a kill while the table was made leaves one, and Delta stumbles."""
    log, store = hadoop(spark, f"{path}/_delta_log")
    store.delete(log, True)
