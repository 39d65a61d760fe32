"""Read a Kafka topic into bronze."""

from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.kafka_admin import describe
from oncelake.bronze.sources.kind import SourceKind
from oncelake.bronze.transform import from_kafka
from oncelake.common.spark.runtime import check_connector
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.kafka_source import KafkaSource, Topic


class KafkaKind(SourceKind):
    """A Kafka topic."""

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.settings.topic

    @property
    def words(self) -> str:
        """The topic as text for messages."""
        return f"topic {self.settings.topic}"

    @property
    def words_with_place(self) -> str:
        """The topic and its brokers as text for messages."""
        return f"{self.words} of Kafka at {self.settings.bootstrap_servers}"

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if the session cannot read Kafka."""
        check_connector(spark)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the topic as a stream with bronze's columns."""
        reader = spark.readStream.format("kafka")
        for key, value in kafka_client(self.settings).items():
            reader = reader.option(f"kafka.{key}", value)
        reader = (
            reader.option("subscribe", self.settings.topic)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", str(self.settings.max_offsets_per_batch))
        )
        return from_kafka(reader.load())

    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> KafkaSource:
        """Return the topic as a source that queries Kafka at most once."""
        return KafkaSource(self.settings.topic, cache(lambda: self._describe(spark)), files, checkpoint)

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Return why a census is not possible: a topic has no files."""
        return "the source is a Kafka topic, which has no files; to check its offsets, run: oncelake prove"

    def lost(self, bronze: DataFrame, metadata: CommitMetadata | None, versions: MaskVersions) -> str | None:
        """Return the offsets that Kafka no longer holds, or the topic if it was recreated; None if nothing is lost.

        A compacted topic may lack single records between the oldest and the newest; this is not detected.
        """
        now, topic = self._describe(versions.spark), self.settings.topic
        return _expired(bronze, topic, now) or _made_anew(metadata, topic, now)

    def _describe(self, spark: SparkSession | None) -> Topic:
        assert spark is not None, "Kafka is queried through Spark's own client"
        return describe(spark, kafka_client(self.settings), self.settings.topic)


def kafka_client(source: SourceSettings) -> dict[str, str]:
    """Return the Kafka client's settings: the given ones, the brokers, and committed records only."""
    given = {key.removeprefix("kafka."): value for key, value in source.kafka.items()}
    assert source.bootstrap_servers is not None
    return {**given, "bootstrap.servers": source.bootstrap_servers, "isolation.level": "read_committed"}


def _made_anew(metadata: CommitMetadata | None, topic: str, now: Topic) -> str | None:
    was = metadata.source.get("topic_id") if metadata else None
    if not was or was == now.topic_id:
        return None
    return f"topic {topic} was recreated (its ID is {now.topic_id}, bronze's lines are of ID {was})"


def _expired(bronze: DataFrame, topic: str, now: Topic) -> str | None:
    gone = []
    ends = bronze.groupBy("topic", "partition").agg(F.min("offset").alias("oldest"), F.max("offset").alias("newest"))
    for row in ends.collect():
        if row["topic"] is None:
            return f"bronze holds lines of files, but the source is topic {topic}"
        held_from = now.earliest.get(str(row["partition"])) if row["topic"] == topic else None
        if held_from is None or row["oldest"] < held_from:
            last = row["newest"] if held_from is None else min(row["newest"], held_from - 1)
            gone.append(f"{row['topic']}/{row['partition']}/{row['oldest']} to {last}")
    return f"Kafka no longer holds {', '.join(gone)}" if gone else None
