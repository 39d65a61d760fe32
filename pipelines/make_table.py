"""This is where a stage's tables are made, empty, before its query starts."""

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from pipelines.chain import Target
from pipelines.exactly_once.ledger import Ledger
from pipelines.jvm import hadoop


def make_table(spark: SparkSession, target: Target, path: str, ledger: Ledger) -> None:
    """Make a table with its columns and properties, unless it is there."""
    if ledger.versions():
        return
    if not any(name.endswith((".json", ".parquet")) for name in ledger.whole_names()):
        _clear_leftover(spark, path)
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(target.schema(spark))
    for key, value in target.properties.items():
        builder = builder.property(key, value)
    builder.execute()


def _clear_leftover(spark: SparkSession, path: str) -> None:
    """Remove a log directory without a commit: a kill while the table was made leaves one, and Delta stumbles."""
    log, store = hadoop(spark, f"{path}/_delta_log")
    store.delete(log, True)
