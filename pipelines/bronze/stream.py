"""This is where lines are read from the source and appended to bronze."""

from pyspark.sql import DataFrame, SparkSession

from pipelines.bronze.transform import from_files, from_kafka
from pipelines.exactly_once.batch import Batch
from pipelines.lake import BRONZE
from pipelines.runtime import AUTO_LOADER, has_auto_loader
from pipelines.settings import SourceSettings

# Spark ignores files older than this beside the newest one; a hundred years is any age.
ANY_AGE = "36500d"


def read(spark: SparkSession, source: SourceSettings) -> DataFrame:
    """Read the source as a stream of bronze's columns."""
    return _kafka(spark, source) if source.kind == "kafka" else _files(spark, source)


def _files(spark: SparkSession, source: SourceSettings) -> DataFrame:
    assert source.path is not None
    if has_auto_loader(spark):
        loader = spark.readStream.format(AUTO_LOADER).schema("value STRING").options(**auto_loader(source))
        return from_files(loader.load(source.path))
    reader = (
        spark.readStream.format("text")
        .option("lineSep", "\n")  # a lone \r is part of a line
        .option("recursiveFileLookup", "true")  # subdirectories, and no column made of `date=…` names
        .option("maxFileAge", ANY_AGE)
        .option("maxBytesPerTrigger", str(int(source.max_bytes_per_batch)))
    )
    return from_files(reader.load(source.path))


def auto_loader(source: SourceSettings) -> dict[str, str]:
    """Give Auto Loader's options: the same lines as Spark's own file source gives, each file once."""
    given = {key.removeprefix("cloudFiles."): value for key, value in source.auto_loader.items()}
    fixed = {
        "format": "text",
        "allowOverwrites": "false",
        "partitionColumns": "",  # no column made of `date=…` names
        "maxBytesPerTrigger": str(int(source.max_bytes_per_batch)),
    }
    if given.get("useNotifications") == "true":  # not every event arrives: what was missed is listed once a day
        fixed["backfillInterval"] = "1 day"
    return {"lineSep": "\n", **{f"cloudFiles.{key}": value for key, value in {**fixed, **given}.items()}}


def _kafka(spark: SparkSession, source: SourceSettings) -> DataFrame:
    reader = spark.readStream.format("kafka")
    for key, value in kafka_client(source).items():
        reader = reader.option(f"kafka.{key}", value)
    reader = (
        reader.option("subscribe", source.topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(source.max_offsets_per_batch))
    )
    return from_kafka(reader.load())


def kafka_client(source: SourceSettings) -> dict[str, str]:
    """Give the Kafka client's settings: the given ones, the brokers, and committed records only."""
    given = {key.removeprefix("kafka."): value for key, value in source.kafka.items()}
    assert source.bootstrap_servers is not None
    return {**given, "bootstrap.servers": source.bootstrap_servers, "isolation.level": "read_committed"}


def write(lines: DataFrame, batch: Batch) -> None:
    """Append a batch of lines."""
    batch.append(BRONZE, lines)
