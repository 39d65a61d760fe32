"""Read Kafka topics into bronze."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.transform import from_kafka
from oncelake.common.errors import ConfigError, SourceError
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import check_connector
from oncelake.common.tables import read
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.source import Source
from oncelake.sources.kafka import proof
from oncelake.sources.kafka.admin import NEVER_COMPACTED, cleanup_policies, describe, tell_group, topic_names
from oncelake.sources.kafka.offsets import Client
from oncelake.sources.kafka.position import KafkaPosition
from oncelake.sources.kafka.records import Offsets, compare, format_of, last_rows, read_records, unread
from oncelake.sources.kafka.source import (
    EXPIRED,
    CompareLast,
    KafkaSource,
    LastRecords,
    Topic,
    TopicIds,
    readable,
    refilled,
)
from oncelake.sources.kind import Publisher, SourceKind
from oncelake.sources.proof import Ingestion

# The longest wait for Kafka when a run ends: ten seconds after a stop is requested, the process may be killed.
_BRIEFLY = {"default.api.timeout.ms": "5000", "request.timeout.ms": "5000"}
# A comparison with the topic begins again this often if records expired meanwhile.
_EXPIRED_TRIES = 2


class KafkaKind(SourceKind):
    """One or more Kafka topics, named one by one or by a pattern."""

    positions = (KafkaPosition,)
    has_shared_parts = True

    @property
    def name(self) -> str:
        """The topics' names, or the pattern."""
        return self.settings.topic_pattern or ", ".join(self.settings.topics)

    @property
    def words(self) -> str:
        """The topics as text for messages."""
        if self.settings.topic_pattern is not None:
            return f"topics like {self.name}"
        return f"{'topic' if len(self.settings.topics) == 1 else 'topics'} {self.name}"

    @property
    def words_with_place(self) -> str:
        """The topics and their brokers as text for messages."""
        return f"{self.words} of Kafka at {self.settings.bootstrap_servers}"

    def overlaps(self, other: SourceKind) -> bool:
        """Return True if another source certainly reads one of the topics too.

        Of two patterns, only equal ones are compared here; the topics that they match are compared at each start.
        """
        if not isinstance(other, KafkaKind) or other.settings.bootstrap_servers != self.settings.bootstrap_servers:
            return False
        one, two = self.settings, other.settings
        same = one.topic_pattern is not None and one.topic_pattern == two.topic_pattern
        return (
            same
            or any(_seems_chosen(two, topic) for topic in one.topics)
            or any(_seems_chosen(one, topic) for topic in two.topics)
        )

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if the session cannot read Kafka, or the pattern is none."""
        check_connector(spark)
        if self.settings.topic_pattern is not None:
            _check_pattern(spark, f"{self.key}.topic_pattern", self.settings.topic_pattern)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the topics as a stream with bronze's columns."""
        reader = spark.readStream.format(format_of(spark))
        for key, value in kafka_client(self.settings).items():
            reader = reader.option(f"kafka.{key}", value)
        pattern = self.settings.topic_pattern
        chosen = ("subscribe", ",".join(self.settings.topics))
        if pattern is not None:
            chosen = ("subscribePattern", rf"\A(?:{pattern})\z")  # Spark would take a match within a name
        reader = (
            reader.option(*chosen)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", str(self.settings.max_offsets_per_batch))
        )
        return from_kafka(reader.load())

    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> KafkaSource:
        """Return the topics as a source that queries Kafka at most once."""
        single = self.settings.topic_pattern is None and len(self.settings.topics) == 1
        return KafkaSource(
            self.name,
            cache(lambda: self._describe(spark)),
            files,
            checkpoint,
            chooses=None if single else lambda topic: _chooses(spark, self.settings, topic),
            find=lambda topics: self.find(spark, topics),
            other_reader=lambda topic: self._other_reader(spark, topic),
        )

    def comparing(self, source: Source, at: str, versions: MaskVersions, known: dict[str, Any]) -> Source:
        """Return the source with access to bronze's rows.

        A partition can lose records only when it gets another leader epoch. So while the epochs are the same, one
        comparison is enough for all who hold `known`.
        """
        assert isinstance(source, KafkaSource)

        def compared(ends: Offsets, now: Mapping[str, Topic], metadata: CommitMetadata) -> LastRecords:
            epochs = {name: (topic.topic_id, topic.epochs) for name, topic in now.items()}
            is_known = all(topic.epochs.keys() == topic.latest.keys() for topic in now.values())
            if is_known and known.get(at, (None,))[0] == epochs:
                cached: LastRecords = known[at][1]
                return cached
            result = self._compare_last(lambda: read(versions.spark, at), now, versions)(ends, now, metadata)
            if is_known and not result.others:
                known[at] = (epochs, result)
            return result

        return replace(source, compare_last=compared)

    def find(self, spark: SparkSession | None, topics: Collection[str]) -> Mapping[str, Topic]:
        """Describe topics by name; those that Kafka does not have are left out."""
        assert spark is not None, "Kafka is queried through Spark's own client"
        client = kafka_client(self.settings)
        existing = set(topic_names(spark, client)) & set(topics)
        return describe(spark, client, sorted(existing)) if existing else {}

    def links(self, ingestion: Ingestion) -> Iterator[Link]:
        """Yield the links that account for each offset, and check the rows of bronze."""
        assert isinstance(ingestion.source, KafkaSource)
        client = kafka_client(self.settings)
        policies = partial(cleanup_policies, ingestion.spark, client)
        return proof.links(ingestion.source, ingestion, Client(ingestion.source.described, client, policies=policies))

    @classmethod
    def shared_parts(cls, recorded: Mapping[str, str]) -> Mapping[str, str]:
        """Return the names of the topics that are read or were read, by their IDs."""
        topics = TopicIds.of(recorded)
        return topics.names() if topics else {}

    def publisher(self, spark: SparkSession) -> Publisher | None:
        """Return what publishes the positions to the consumer group of the settings; None without one."""
        group = self.settings.group_id
        if group is None:
            return None
        client = {**_BRIEFLY, **kafka_client(self.settings)}

        def publish(at: str) -> None:
            position = KafkaPosition.parse(at)
            tell_group(spark, client, group, position.topics if position else {})

        return Publisher(f"consumer group {group}", publish)

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Return why a census is not possible: a topic has no files."""
        return "the source is a Kafka topic, which has no files; to check its offsets, run: oncelake prove"

    def lost(self, bronze: DataFrame, metadata: CommitMetadata | None, versions: MaskVersions) -> str | None:
        """Return the offsets that Kafka no longer holds, or a topic that was recreated; None if nothing is lost.

        A compacted topic may lack single records between the oldest and the newest; this is not detected.
        """
        now = self._describe(versions.spark)
        lost = _expired(bronze, self.words, now) or _recreated(metadata, now)
        ends = readable(metadata.end, None, now) if metadata and not lost else {}
        if lost or metadata is None or not any(ends.values()):
            return lost
        result = self._compare_last(lambda: bronze, now, versions)(ends, now, metadata)
        return refilled(result.others) if result.others else None  # guard: rebuild-topic-not-refilled

    def _compare_last(
        self, bronze: Callable[[], DataFrame], now: Mapping[str, Topic], versions: MaskVersions
    ) -> CompareLast:
        client = kafka_client(self.settings)
        compare = compare_last(bronze, client, versions)
        return again_if_expired(compare, partial(describe, versions.spark, client, sorted(now)))

    def _describe(self, spark: SparkSession | None) -> Mapping[str, Topic]:
        assert spark is not None, "Kafka is queried through Spark's own client"
        client, pattern = kafka_client(self.settings), self.settings.topic_pattern
        topics = self.settings.topics
        if pattern is not None:
            topics = tuple(name for name in topic_names(spark, client) if _chooses(spark, self.settings, name))
            if not topics:
                raise SourceError(
                    f"Kafka at {self.settings.bootstrap_servers} has no topic that matches {pattern!r}; create one, or "
                    f"set {self.key}.topic_pattern"
                )
        return describe(spark, client, topics)

    def _other_reader(self, spark: SparkSession | None, topic: str) -> str | None:
        """Return the name of another source that reads a topic of the same brokers."""
        for name, other in self.beside.items():
            same = other.kind == "kafka" and other.bootstrap_servers == self.settings.bootstrap_servers
            if same and _chooses(spark, other, topic):
                return f"sources.{name}"
        return None


def again_if_expired(compare: CompareLast, described: Callable[[], Mapping[str, Topic]]) -> CompareLast:
    """Return a comparison that begins again, a few times, if records expired while it read them.

    It raises SourceError if a topic was recreated meanwhile, or lost its end.

    Args:
        compare: the comparison.
        described: describes the topics as they are now.
    """

    def compared(ends: Offsets, now: Mapping[str, Topic], metadata: CommitMetadata) -> LastRecords:
        for _ in range(_EXPIRED_TRIES):
            try:
                return compare(ends, now, metadata)
            except Py4JJavaError:
                later = described()
                other = next((name for name in ends if _is_other(later[name], now[name], ends[name])), None)
                if other is not None:  # guard: topic-recreated-while-compared
                    raise SourceError(
                        f"topic {other} was recreated, or lost its end, while its records were read. See what to do "
                        "with: oncelake doctor"
                    ) from None
                if not any(
                    later[name].earliest[part] > now[name].earliest[part]
                    for name, parts in ends.items()
                    for part in parts
                ):
                    raise
                now = later
        return compare(ends, now, metadata)

    return compared


def _is_other(later: Topic, now: Topic, ends: Mapping[str, int]) -> bool:
    """Return True if a topic was recreated meanwhile, or no longer reaches the offsets up to which it is compared."""
    return later.topic_id != now.topic_id or any(later.latest.get(part, 0) < end for part, end in ends.items())


def compare_last(bronze: Callable[[], DataFrame], client: Mapping[str, str], versions: MaskVersions) -> CompareLast:
    """Return what compares the last rows of bronze with the topics.

    Args:
        bronze: reads the bronze table.
        client: the Kafka client's settings.
        versions: the versions of the rules that mask data.
    """
    spark = versions.spark

    def compared(ends: Offsets, now: Mapping[str, Topic], metadata: CommitMetadata) -> LastRecords:
        rows, places = last_rows(bronze(), ends, metadata.planned_ms)
        available = {
            topic: {part: at for part, at in parts.items() if at >= now[topic].earliest[part]}
            for topic, parts in places.items()
        }
        first = {topic: parts for topic, parts in available.items() if parts}
        partition_count, row_count = (sum(map(len, offsets.values())) for offsets in (ends, places))
        expired = row_count - sum(map(len, first.values()))
        uncompared = Counter[str]({EXPIRED: expired, "is not among bronze's last rows": partition_count - row_count})
        others: list[str] = []
        absent: list[tuple[str, str]] = []
        if first:
            end = {topic: {part: ends[topic][part] for part in parts} for topic, parts in first.items()}
            records = read_records(spark, client, first, end)
            if any(end[topic][part] > at + 1 for topic, parts in first.items() for part, at in parts.items()):
                others += [f"{place} is a record, and bronze has read none there" for place in unread(rows, records)]
            for comparison in compare(rows, records, versions, few=True):
                at = first.get(comparison.topic, {}).get(comparison.partition)
                place = f"{comparison.topic}/{comparison.partition}/{at}"
                if at is not None and comparison.absent:
                    absent.append((comparison.topic, place))
                elif comparison.differ:
                    others.append(f"{place} is another record than bronze has read there")
                elif comparison.partly:
                    uncompared[f"was compared only by its length and timestamp: {comparison.partly}"] += 1
        policies = cleanup_policies(spark, client, {topic for topic, _ in absent}) if absent else {}
        for topic, place in absent:
            if policies.get(topic) == NEVER_COMPACTED:
                others.append(f"{place} is no record, and bronze has read one there")
            else:
                uncompared["was removed by compaction, or its topic's cleanup.policy cannot be read"] += 1
        return LastRecords(tuple(others), {why: count for why, count in uncompared.items() if count})

    return compared


def _chooses(spark: SparkSession | None, settings: SourceSettings, topic: str) -> bool:
    """Return True if the settings choose a topic, as Spark reads them."""
    if settings.topic_pattern is None:
        return topic in settings.topics
    assert spark is not None, "Java's patterns are Spark's"
    return bool(jvm(spark).java.util.regex.Pattern.matches(settings.topic_pattern, topic))


def _seems_chosen(settings: SourceSettings, topic: str) -> bool:
    """Return True if the settings choose a topic, as far as this is known before Java starts."""
    if settings.topic_pattern is None:
        return topic in settings.topics
    try:
        return re.fullmatch(settings.topic_pattern, topic) is not None
    except re.error:
        return False


def _check_pattern(spark: SparkSession, key: str, pattern: str) -> None:
    try:
        jvm(spark).java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        why = str(error).splitlines()[0]
        raise ConfigError(f"{key}: {pattern!r} is no Java regular expression: {why}") from None


def kafka_client(source: SourceSettings) -> dict[str, str]:
    """Return the Kafka client's settings: the given ones, the brokers, and committed records only."""
    user_options = {key.removeprefix("kafka."): value for key, value in source.kafka.items()}
    assert source.bootstrap_servers is not None
    # guard: committed-records-only
    return {**user_options, "bootstrap.servers": source.bootstrap_servers, "isolation.level": "read_committed"}


def _recreated(metadata: CommitMetadata | None, now: Mapping[str, Topic]) -> str | None:  # guard: rebuild-topic-same-id
    was = TopicIds.of(metadata.source) if metadata else None
    for name, topic_id in (was.ids if was else {}).items():
        if name in now and topic_id != now[name].topic_id:
            return f"topic {name} was recreated (its ID is {now[name].topic_id}, bronze's lines are of ID {topic_id})"
    return None


def _expired(bronze: DataFrame, words: str, now: Mapping[str, Topic]) -> str | None:  # guard: rebuild-topic-has-offsets
    gone = []
    ends = bronze.groupBy("topic", "partition").agg(F.min("offset").alias("oldest"), F.max("offset").alias("newest"))
    for row in ends.orderBy("topic", "partition").collect():
        name = row["topic"]
        if name is None:
            return f"bronze holds lines of files, but the source is {words}"
        held_from = now[name].earliest.get(str(row["partition"])) if name in now else None
        if held_from is None or row["oldest"] < held_from:
            last = row["newest"] if held_from is None else min(row["newest"], held_from - 1)
            gone.append(f"{name}/{row['partition']}/{row['oldest']} to {last}")
    if not gone:
        return None
    others = {row.partition("/")[0] for row in gone} - now.keys()
    note = f"; {words} does not include {', '.join(sorted(others))}" if others else ""
    return f"Kafka no longer holds {', '.join(gone)}{note}"
