"""A Kafka topic as a source: its identity, retention and backlog, and a census of its offsets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelake.exactly_once.checkpoint import Checkpoint, sound_text
from oncelake.exactly_once.files import Files, lines_of
from oncelake.exactly_once.positions import KafkaPosition, offsets_of
from oncelake.exactly_once.source import Backlog, IngestedFiles, Source, named
from oncelake.exactly_once.state import Diagnosis, State


@dataclass(frozen=True)
class Topic:
    """The current state of a topic: its ID, and per partition the oldest offset and the next one."""

    topic_id: str
    earliest: Mapping[str, int]
    latest: Mapping[str, int]


@dataclass(frozen=True)
class KafkaSource(Source):
    """A Kafka topic. A position is the next offset of each partition."""

    topic: str
    describe: Callable[[], Topic]
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Return the topic's name and ID; Kafka gives a recreated topic another ID."""
        return {"kind": "kafka", "topic": self.topic, "topic_id": self.describe().topic_id}

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the records after a position; before the first batch, all records that Kafka holds."""
        now, offsets = self.describe(), offsets_of(at, self.topic)
        count = sum(max(0, end - int(offsets.get(part, now.earliest[part]))) for part, end in now.latest.items())
        return Backlog(count, "records")

    def first_position(self) -> str | None:
        """Return the offsets where the query first started, from Spark's own record; None without a record."""
        lines = lines_of(sound_text(self.files, f"{self.checkpoint}/sources/0/0"))
        return lines[-1] if lines and lines[-1].endswith("}") else None

    def ends(self) -> Mapping[str, int]:
        """Return the end of each partition: the next offset that Kafka will write."""
        return self.describe().latest

    def exhausted(self, at: str) -> bool:
        """Return True if every partition is read to its end."""
        return dict(offsets_of(at, self.topic)) == dict(self.describe().latest)

    def replays_alone(self, at: str) -> bool:
        """Return True if partitions were added since the position.

        With `availableNow` Spark fixes the partitions at the start, and then rejects a batch that was planned without
        the new ones (KafkaMicroBatchStream.planInputPartitions).
        """
        return set(offsets_of(at, self.topic)) != set(self.describe().latest)

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Return what is wrong with Spark's record of the first offsets: it is missing, or Kafka no longer holds them.

        Without the record Spark would look up the earliest offsets again. A start that is killed before it plans a
        batch leaves only the record, and later starts would begin there.
        """
        first = self.first_position()
        if checkpoint.open_batch == 0 and first is None:
            return "sources/0/0, which holds the start of batch 0, is missing"
        gone = self.trouble(first, None, {}) if first and checkpoint.planned is None else None
        return f"sources/0/0 holds a start that is no longer valid: {gone.seen}" if gone else None

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Return Spark's record of the offsets where the query first started."""
        return {"sources/0/0": f"\0v1\n{first}"} if first else {}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis if the topic was recreated, ends before the position, or no longer holds the position."""
        now = self.describe()
        was = recorded.get("topic_id") if recorded.get("kind", "kafka") == "kafka" else named(recorded)
        if was and was != now.topic_id:
            return Diagnosis(
                State.SOURCE_REPLACED, f"topic {self.topic} has ID {now.topic_id}, lines were read from {was}"
            )
        text = start or (self.first_position() if end else None)
        at = KafkaPosition.parse(text)
        if at and at.topics and set(at.topics) != {self.topic}:
            was = ", ".join(at.topics)
            return Diagnosis(State.SOURCE_REPLACED, f"positions are of topic {was}, the source is {self.topic}")
        beyond = self._beyond({**offsets_of(text, self.topic), **offsets_of(end, self.topic)}, now)
        return beyond or self._trimmed(next_offsets(text, self.topic, now), now)

    def _beyond(self, offsets: Mapping[str, int], now: Topic) -> Diagnosis | None:
        for partition, offset in offsets.items():
            if partition not in now.latest:
                return Diagnosis(State.SOURCE_REPLACED, f"partition {partition} of {self.topic} is gone")
            if offset > now.latest[partition]:
                seen = f"{self.topic}/{partition} ends at {now.latest[partition]}, the stage has read up to {offset}"
                return Diagnosis(State.SOURCE_REPLACED, seen)
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Move every partition to the oldest record that Kafka still holds."""
        del end  # Spark plans the batch again
        now = self.describe()
        offsets = next_offsets(start or self.first_position(), self.topic, now)
        lost = self._gone(offsets, now)
        if not lost:
            return None
        moved = {part: max(offset, now.earliest[part]) for part, offset in offsets.items()}
        return KafkaPosition({self.topic: moved}).to_json(), lost

    def _trimmed(self, offsets: Mapping[str, int], now: Topic) -> Diagnosis | None:
        gone = self._gone(offsets, now)
        return Diagnosis(State.SOURCE_TRIMMED, f"offsets {', '.join(gone)} are gone") if gone else None

    def _gone(self, offsets: Mapping[str, int], now: Topic) -> list[str]:
        return [
            f"{self.topic}/{partition}/{offset} to {now.earliest[partition] - 1}"
            for partition, offset in offsets.items()
            if offset < now.earliest[partition]
        ]


def next_offsets(at: str | None, topic: str, now: Topic) -> Mapping[str, int]:
    """Return the next offset that a query reads from each partition; empty before its first start.

    A partition that the position does not name was added later, and Spark reads it from offset 0. The query fails if
    the oldest record is a later one (KafkaOffsetReader, "Added partition … starts from … instead of 0").
    """
    if at is None:
        return {}
    return {**dict.fromkeys(now.latest, 0), **offsets_of(at, topic)}


@dataclass(frozen=True)
class PartitionCensus:
    """The offsets of one partition, each in one of four ranges: read, lost, waiting or beyond.

    Attributes:
        read: every offset below it was read, or its loss was accepted.
        oldest: the oldest offset that Kafka holds.
        end: the offset after the newest committed record.
        first: the offset where the query began; offsets below it expired before the first run.
    """

    partition: str
    read: int
    oldest: int
    end: int
    first: int = 0

    @property
    def lost(self) -> range:
        """The offsets that expired before bronze read them."""
        return range(self.read, max(self.read, self.oldest))

    @property
    def waiting(self) -> range:
        """The offsets that the next run reads."""
        return range(self.lost.stop, max(self.lost.stop, self.end))

    @property
    def beyond(self) -> range:
        """The offsets that bronze has read and the partition never had: bronze read them from another topic."""
        return range(self.end, max(self.end, self.read))


def census(topic: str, at: str | None, now: Topic, first: str | None = None) -> list[PartitionCensus]:
    """Return a census of the topic's offsets, per partition.

    Args:
        topic: the topic's name.
        at: bronze's position; None before the first batch, when no offset is lost, only expired.
        now: the current state of the topic.
        first: the position before the first batch; None if unknown.
    """
    begun = next_offsets(first, topic, now)
    known: Mapping[str, int] = next_offsets(at, topic, now) or now.earliest
    return [
        PartitionCensus(
            partition,
            read=read,
            oldest=now.earliest.get(partition, 0),
            end=now.latest.get(partition, 0),
            first=now.earliest.get(partition, 0) if at is None else begun.get(partition, 0),
        )
        for partition, read in sorted(known.items(), key=lambda each: int(each[0]))
    ]
