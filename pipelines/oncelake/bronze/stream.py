"""This is where lines are read from the source and appended to bronze."""

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.files_plan import check_plan, check_read, counts, files_of
from oncelake.bronze.transform import LINES, from_files, from_kafka
from oncelake.common.lake import BRONZE, place
from oncelake.common.spark.runtime import AUTO_LOADER, has_auto_loader
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.files import files_at
from oncelake.exactly_once.files_seen import SeenFiles
from oncelake.exactly_once.files_source import place_of
from oncelake.exactly_once.positions import listing_number

# Spark ignores files that are older than the newest one by this; no date reaches the largest number of milliseconds.
ANY_AGE = f"{2**63 - 1}ms"


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
        .options(**LINES)
        .option("maxFileAge", ANY_AGE)
        .option("maxBytesPerTrigger", str(int(source.max_bytes_per_batch)))
    )
    return from_files(reader.load(place(source.path)))  # spelled as the census spells it


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


def write(source: SourceSettings, checkpoint: str) -> Callable[[DataFrame, Batch], None]:
    """Return the work of a batch: append its lines; of files, only when they are those that were planned.

    Args:
        source: what is read.
        checkpoint: bronze's checkpoint, where Spark keeps its list of files.
    """

    def write_batch(lines: DataFrame, batch: Batch) -> None:
        sizes = None if source.kind == "kafka" or batch.holds(BRONZE) else files_of(lines)
        if sizes is None:
            batch.append(BRONZE, lines)
            return
        metadata = batch.metadata(BRONZE)
        first = listing_number(metadata.before) + 1 if metadata.before else 0
        seen = SeenFiles(files_at(checkpoint, lines.sparkSession), checkpoint)
        planned = (place_of(uri) for uri in seen.between(first, listing_number(metadata.end or "")))
        reading = check_plan(lines, planned, sizes)
        counted = Observation()
        rows = batch.append(BRONZE, lines.observe(counted, *counts(reading))).commit.rows_added
        check_read(reading, counted, rows)

    return write_batch
