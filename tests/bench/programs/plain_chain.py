"""The plain chain that tutorials show, and nothing more: the baseline for oncelake.

It runs three queries: one after the other over all available input, or all at once without end. Silver and gold use
foreachBatch, gold with MERGE. There are no guards, no positions, no quality rules, and all statistics are written.
Shuffle partitions are set to 2, as anyone who looked once would do. A replayed batch counts twice.

    python -m tests.bench.programs.plain_chain DIRECTORY|kafka://HOST:PORT/TOPIC LAKE [--on]
"""

import sys
import time
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from oncelake.common.spark import jars

PATTERN = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([^ ]+)(?: (.*))?$"
KAFKA = "kafka://"

ONCE, ON = {"availableNow": True}, {"processingTime": "0 seconds"}


def session() -> SparkSession:
    """Start Spark with Delta, as Delta's quick start does."""
    return (
        SparkSession.builder.appName("plain")
        .master("local[2]")
        .config("spark.driver.extraClassPath", jars.class_path())
        .config("spark.driver.memory", "2g")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def to_silver(lake: Path, trigger: dict[str, Any]) -> StreamingQuery:
    """Parse bronze's lines; those that do not match go to quarantine."""

    def write(lines: DataFrame, _: int) -> None:
        parsed = lines.select(
            "*",
            F.to_timestamp(F.regexp_extract("value", PATTERN, 1), "yyyy-MM-dd HH:mm:ss").alias("log_time"),
            F.regexp_extract("value", PATTERN, 2).alias("level"),
            F.regexp_extract("value", PATTERN, 3).alias("message"),
        )
        good = parsed.where("log_time IS NOT NULL").drop("value")
        good.write.format("delta").mode("append").save(str(lake / "silver"))
        bad = parsed.where("log_time IS NULL").drop("log_time", "level", "message")
        bad.write.format("delta").mode("append").save(str(lake / "quarantine"))

    lines = session().readStream.format("delta").load(str(lake / "bronze"))
    query = lines.writeStream.foreachBatch(write).option("checkpointLocation", str(lake / "_checkpoints/silver"))
    return query.trigger(**trigger).start()


def to_bronze(source: str, lake: Path, trigger: dict[str, Any]) -> StreamingQuery:
    """Append every line, with its file or offset and the time of ingest."""
    lines = _records(source) if source.startswith(KAFKA) else _lines(source)
    query = lines.writeStream.format("delta").option("checkpointLocation", str(lake / "_checkpoints/bronze"))
    return query.trigger(**trigger).start(str(lake / "bronze"))


def _lines(directory: str) -> DataFrame:
    lines = session().readStream.format("text").load(directory)
    return lines.select("value", F.col("_metadata.file_path").alias("file"), F.current_timestamp().alias("ingested_at"))


def _records(source: str) -> DataFrame:
    servers, topic = source.removeprefix(KAFKA).split("/")
    reader = session().readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    value = F.col("value").cast("string").alias("value")
    return records.select(value, "partition", "offset", F.current_timestamp().alias("ingested_at"))


def to_gold(lake: Path, trigger: dict[str, Any]) -> StreamingQuery:
    """Count errors per minute, and add the counts by MERGE."""
    gold = str(lake / "gold")
    DeltaTable.createIfNotExists(session()).location(gold).addColumn("log_time", "timestamp").addColumn(
        "log_count", "bigint"
    ).execute()

    def write(rows: DataFrame, _: int) -> None:
        counts = (
            rows.where("level = 'ERROR'")
            .groupBy(F.date_trunc("minute", "log_time").alias("log_time"))
            .agg(F.count("*").alias("log_count"))
        )
        table = DeltaTable.forPath(rows.sparkSession, gold).alias("gold")
        merge = table.merge(counts.alias("batch"), "gold.log_time = batch.log_time")
        merge = merge.whenMatchedUpdate(set={"log_count": "gold.log_count + batch.log_count"})
        merge.whenNotMatchedInsertAll().execute()

    rows = session().readStream.format("delta").load(str(lake / "silver"))
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(lake / "_checkpoints/gold"))
    return query.trigger(**trigger).start()


def once(source: str, lake: Path) -> None:
    """Ingest everything, one table after the other."""
    to_bronze(source, lake, ONCE).awaitTermination()
    to_silver(lake, ONCE).awaitTermination()
    to_gold(lake, ONCE).awaitTermination()


def on(source: str, lake: Path) -> None:
    """Run until killed; a query starts when the table that it reads exists."""
    to_bronze(source, lake, ON)
    _wait_for(lake / "bronze")
    to_silver(lake, ON)
    _wait_for(lake / "silver")
    to_gold(lake, ON).awaitTermination()


def _wait_for(table: Path) -> None:
    while not (table / "_delta_log" / f"{0:020d}.json").exists():
        time.sleep(0.1)


if __name__ == "__main__":
    work = on if "--on" in sys.argv else once
    work(sys.argv[1], Path(sys.argv[2]))
    session().stop()
