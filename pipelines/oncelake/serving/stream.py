"""Turn a batch into rows of a served table: gold's latest values, or counts of silver's lines."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.lake import identifier
from oncelake.exactly_once.batch import Batch
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.transform import aggregate
from oncelake.serving.patience import Patience
from oncelake.serving.rows import computed_rows
from oncelake.serving.served import Served
from oncelake.serving.settings import CHANGE_FEED

_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def follow_changes(spark: SparkSession, path: str, max_bytes: int) -> DataFrame:
    """Return a stream of a gold table's changes: its current rows first, then every later change with its version.

    It turns on the table's change data feed if the feed is off.
    """
    table = spark.sql(f"SHOW TBLPROPERTIES {identifier(path)}").where(F.col("key") == CHANGE_FEED)
    if [row["value"] for row in table.collect()] != ["true"]:
        spark.sql(f"ALTER TABLE {identifier(path)} SET TBLPROPERTIES ('{CHANGE_FEED}' = 'true')")
    reader = spark.readStream.option("readChangeFeed", "true").option("maxBytesPerTrigger", f"{max_bytes}b")
    return tables.follow(reader, path)


def write(served: Served) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch: it computes the rows once and applies them in one transaction."""
    gold_rows = partial(aggregate, wide=True) if served.mode == "transactional" else _latest

    def write_batch(frame: DataFrame, batch: Batch) -> None:
        observed = Observation()
        gold = gold_rows(frame.observe(observed, F.count(F.lit(1)).alias("rows")), served.declared)
        patience = Patience(batch.patience, batch.stopping, batch.say)
        with computed_rows(gold, served.declared, lambda: int(observed.get["rows"]), served.sink) as rows:
            batch.put(served.table, lambda metadata: served.apply(rows, metadata, patience, batch.fence))

    return write_batch


def _latest(changes: DataFrame, declared: GoldTable) -> DataFrame:
    """Return the newest value of every row that changed. Gold never deletes a row."""
    columns = [name for name in changes.columns if name not in _CHANGE_COLUMNS]
    written = changes.where(F.col("_change_type").isin("insert", "update_postimage"))
    keys = [F.col(quoted(name)) for name in (LOG_TIME, *declared.by)]
    row = F.struct(*(F.col(quoted(name)) for name in columns))
    return written.groupBy(*keys).agg(F.max_by(row, "_commit_version").alias("_row")).select("_row.*")
