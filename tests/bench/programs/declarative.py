"""Declare the same four tables as a Spark Declarative Pipeline, as Spark's guide shows: one of the compared programs.

Bronze, silver and quarantine are streaming tables; gold is a materialized view, which each run computes again from all
of silver. tests.bench.programs.declarative_run starts it.

The tables name no format and so get the default one, which is set to Delta. With `format="delta"` on each, a second
run fails: Spark alters the table's provider, and Delta refuses that (DELTA_CANNOT_CHANGE_PROVIDER).
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PATTERN = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([^ ]+)(?: (.*))?$"

spark = SparkSession.active()


@dp.table
def bronze() -> DataFrame:
    """Append every line, with its file and the time of ingest."""
    lines = spark.readStream.format("text").load(spark.conf.get("spark.bench.source"))
    return lines.select("value", F.col("_metadata.file_path").alias("file"), F.current_timestamp().alias("ingested_at"))


@dp.temporary_view
def parsed() -> DataFrame:
    """Parse bronze's lines."""
    return spark.readStream.table("bronze").select(
        "*",
        F.to_timestamp(F.regexp_extract("value", PATTERN, 1), "yyyy-MM-dd HH:mm:ss").alias("log_time"),
        F.regexp_extract("value", PATTERN, 2).alias("level"),
        F.regexp_extract("value", PATTERN, 3).alias("message"),
    )


@dp.table
def silver() -> DataFrame:
    """Keep the lines that match."""
    good = spark.readStream.table("parsed").where("log_time IS NOT NULL")
    return good.select("file", "ingested_at", "log_time", "level", "message")


@dp.table
def quarantine() -> DataFrame:
    """Keep the lines that do not match."""
    return spark.readStream.table("parsed").where("log_time IS NULL").select("value", "file", "ingested_at")


@dp.materialized_view
def gold() -> DataFrame:
    """Count errors per minute."""
    errors = spark.read.table("silver").where("level = 'ERROR'")
    return errors.groupBy(F.date_trunc("minute", "log_time").alias("log_time")).agg(F.count("*").alias("log_count"))
