"""Kafka topics as a source: their identity, retention and backlog, and a census of their offsets."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from oncelake.common.errors import SourceError
from oncelake.exactly_once.checkpoint import Checkpoint, sound_text
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files, lines_of
from oncelake.exactly_once.source import Backlog, IngestedFiles, LastCommit, Source, named
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.kafka.position import KafkaPosition, offsets_of


@dataclass(frozen=True)
class Topic:
    """The current state of a topic.

    Attributes:
        topic_id: its ID.
        earliest: the oldest offset of each partition.
        latest: the offset up to which each partition can be read, the last stable one: no open transaction is before
            it.
        written: the next offset of each partition, the high watermark; what is not named ends at its `latest`.
        epochs: the leader epoch of each partition; a partition can lose records only when it gets another one.
    """

    topic_id: str
    earliest: Mapping[str, int]
    latest: Mapping[str, int]
    written: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)

    @property
    def ends(self) -> Mapping[str, int]:
        """The next offset of each partition that Kafka will write."""
        return {**self.latest, **self.written}


# Describes the topics that are read now, by name.
Describe = Callable[[], Mapping[str, Topic]]


@dataclass(frozen=True)
class TopicLeftBehind:
    """A topic that a stage has read and reads no more: its ID, and the next offset of each partition."""

    topic_id: str
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class TopicIds:
    """The identity of topics, as commits record it.

    Attributes:
        ids: the ID of each topic that is read.
        former: the topics that were read before and are no more.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, TopicLeftBehind] = field(default_factory=dict)

    @classmethod
    def of(cls, recorded: Mapping[str, str]) -> Self | None:
        """Parse the identity that a commit recorded; None if it is of no topic."""
        if recorded.get("kind", "kafka") != "kafka":
            return None
        if "topics" not in recorded:
            return cls({recorded.get("topic", ""): recorded["topic_id"]} if "topic_id" in recorded else {})
        former = {
            name: TopicLeftBehind(entry["id"], entry["offsets"])
            for name, entry in json.loads(recorded.get("left", "{}")).items()
        }
        return cls(json.loads(recorded["topics"]), former)

    def to_source(self) -> Mapping[str, str]:
        """Return the identity as a commit records it; a single topic has the form that all commits had before."""
        if len(self.ids) == 1 and not self.former:
            ((topic, topic_id),) = self.ids.items()
            return {"kind": "kafka", "topic": topic, "topic_id": topic_id}
        former = {name: {"id": topic.topic_id, "offsets": dict(topic.offsets)} for name, topic in self.former.items()}
        texts = {"topics": dict(self.ids), **({"left": former} if former else {})}
        return {"kind": "kafka", **{key: json.dumps(value, separators=(",", ":")) for key, value in texts.items()}}

    @property
    def all_ids(self) -> Mapping[str, str]:
        """The ID of each topic that is read or was read, by its name."""
        return {**{name: topic.topic_id for name, topic in self.former.items()}, **self.ids}

    def names(self) -> Mapping[str, str]:
        """Return the names of all topics that are read or were read, by their IDs."""
        return {topic_id: name for name, topic_id in self.all_ids.items() if topic_id}


@dataclass(frozen=True)
class LastRecords:
    """What a comparison of the last row of each partition with the record at its offset found.

    Attributes:
        others: the partitions that have another record there, in words.
        uncompared: how many partitions were not compared, or only in part, by the reason.
    """

    others: tuple[str, ...] = ()
    uncompared: Mapping[str, int] = field(default_factory=dict)


# Compares the last row before these offsets, by topic and partition, with the topics: the topics as they are now, and
# the metadata of bronze's last batch.
CompareLast = Callable[[Mapping[str, Mapping[str, int]], Mapping[str, Topic], CommitMetadata], LastRecords]


@dataclass(frozen=True)
class KafkaSource(Source):
    """One or more Kafka topics. A position is the next offset of each partition of each topic.

    A topic that the settings no longer choose leaves the position, because Spark refuses a position in a topic that
    it does not read. Its place is kept in the identity that each commit records, so it can come back.

    Attributes:
        name: the topics or the pattern, as configured.
        describe: describes the topics that the settings choose and that Kafka has.
        last: returns the last commit of bronze.
        chooses: returns True if the settings choose a topic of this name; None if `name` is the only topic.
        find: describes topics by name, as they are at this moment; those that Kafka does not have are left out.
        other_reader: returns the name of another source that reads a topic, too; None without one.
        compare_last: compares the last rows of bronze with the topics.
    """

    name: str
    describe: Describe
    files: Files
    checkpoint: str
    last: LastCommit = lambda: None
    chooses: Callable[[str], bool] | None = None
    find: Callable[[Collection[str]], Mapping[str, Topic]] = lambda _: {}
    other_reader: Callable[[str], str | None] = lambda _: None
    compare_last: CompareLast = lambda *_: LastRecords()

    def after(self, last: LastCommit) -> "KafkaSource":
        """Return the source with access to bronze's last commit."""
        return replace(self, last=last)

    def identity(self) -> Mapping[str, str]:
        """Return the topics' names and IDs, and the places in those that are left; a recreated topic has another ID."""
        now = self.describe()
        return TopicIds({name: topic.topic_id for name, topic in now.items()}, dict(self._former(now))).to_source()

    def identity_at(self, at: str | None, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the identity with the topics that began to match the pattern during the run.

        Raises:
            SourceError: such a topic was read before and recreated, or another source reads it too.
        """
        position, topics = KafkaPosition.parse(at), TopicIds.of(known) or TopicIds()
        new = [name for name in (position.topics if position else {}) if name not in topics.ids]
        if not new:
            return known
        for name in new:
            if name in topics.former:  # guard: matched-topic-is-new
                raise SourceError(
                    f"topic {name} was read before, was gone, and is there again; nothing of this batch was written. "
                    "See the stage's state with: oncelake doctor"
                )
            other = self.other_reader(name)
            if other is not None:  # guard: matched-topic-has-one-source
                raise SourceError(
                    f"{other} chooses topic {name} as well, so its lines would count twice; change one of the patterns"
                )
        described = self.find(new)
        gone = [name for name in new if name not in described]
        if gone:
            raise SourceError(f"topic {gone[0]} is gone before a batch of it was read; start again")
        return replace(topics, ids={**topics.ids, **{name: described[name].topic_id for name in new}}).to_source()

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the records after a position; before the first batch, all records that Kafka holds."""
        now, moved = self.describe(), self.continues(at)
        count = readable = 0
        for name, topic in now.items():
            offsets = {**topic.earliest, **offsets_of(moved, name)}
            # guard: backlog-includes-open-transaction
            count += sum(max(0, end - offsets[part]) for part, end in topic.ends.items())
            readable += sum(max(0, end - offsets[part]) for part, end in topic.latest.items())
        return Backlog(count, "records", behind=count - readable)

    def first_position(self) -> str | None:
        """Return the offsets where the query first started, from Spark's own record; None without a record."""
        lines = lines_of(sound_text(self.files, f"{self.checkpoint}/sources/0/0"))
        return lines[-1] if lines and lines[-1].endswith("}") else None

    def ends(self) -> Mapping[str, int]:
        """Return the next offset that Kafka will write, by `topic/partition`."""
        # guard: end-includes-open-transaction
        return KafkaPosition({name: topic.ends for name, topic in self.describe().items()}).numbers()

    def exhausted(self, at: str) -> bool:
        """Return True if every partition is read to its end, and no transaction is open there."""
        position = KafkaPosition.parse(at)
        return position is not None and position.numbers() == self.ends()

    def replays_alone(self, at: str) -> bool:
        """Return True if partitions or topics were added since the position.

        With `availableNow` Spark fixes the partitions at the start, and then rejects a batch that was planned without
        the new ones (KafkaMicroBatchStream.planInputPartitions).
        """
        position = KafkaPosition.parse(at)
        return position is None or position.numbers().keys() != self.ends().keys()

    def damage(self, checkpoint: Checkpoint) -> str | None:  # guard: first-start-offsets-kept
        """Return what is wrong with Spark's record of the first offsets: it is missing, or of another topic.

        Without the record Spark would look up the earliest offsets again. A start that is killed before it plans a
        batch leaves only the record, and later starts would begin there; `trouble` says if they are gone by then.
        """
        first = self.first_position()
        if checkpoint.open_batch == 0 and first is None:
            return "sources/0/0, which holds the start of batch 0, is missing"
        if first is None or checkpoint.planned is not None:
            return None
        if self.moved(first) is not None:
            return f"sources/0/0 holds a start in other topics than {self.name}"
        other = self._unfit(first, None, {})  # guard: recorded-first-offsets-exist
        why = other.seen if other else self._oldest_before(first)
        return f"sources/0/0 holds a start that is no longer valid: {why}" if why else None

    def _oldest_before(self, first: str) -> str | None:  # guard: recreated-topic-read-from-start
        """Return the first partition that holds records before its first start, which was at its oldest record."""
        for name, topic in self.describe().items():
            for partition, offset in offsets_of(first, name).items():
                if topic.earliest.get(partition, offset) < offset:
                    oldest = topic.earliest[partition]
                    return f"{name}/{partition} began at {offset} and begins at {oldest} now: it is another topic"
        return None

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Return Spark's record of the offsets where the query first started."""
        return {"sources/0/0": f"\0v1\n{first}"} if first else {}

    def moved(self, start: str | None) -> str | None:
        """Return the position without the topics that the settings no longer choose, and with those that join late.

        A topic that was read before continues at its place. Any other topic starts at the oldest record that Kafka
        holds; Spark does that by itself if this is offset 0, and fails otherwise.
        """
        at = KafkaPosition.parse(start)
        chosen = [name for name in at.topics if self._is_chosen(name)] if at else []
        if at is None or not chosen or (self.chooses is None and len(at.topics) == 1):
            return None
        former, joining = self._recorded().former, dict[str, Mapping[str, int]]()
        for name, topic in self.describe().items():
            if name in former and name not in at.topics:  # guard: returning-topic-continues
                joining[name] = former[name].offsets
            elif name not in at.topics and any(topic.earliest.values()):
                joining[name] = topic.earliest
        if len(chosen) == len(at.topics) and not joining:
            return None
        return KafkaPosition({**at.of_topics(chosen).topics, **joining}).to_json()

    def continues(self, at: str | None) -> str | None:
        """Return the position that a stage continues from if its last batch ended at a position."""
        return self.moved(at) or at

    def described(self, topic: str) -> Topic | None:
        """Describe a topic that is read or was read before; None if Kafka does not have it."""
        now = self.describe()
        return now[topic] if topic in now else self.find([topic]).get(topic)

    def former_topics(self) -> list[str]:
        """Return the topics that bronze has read and the settings no longer choose."""
        return [name for name, _ in self._former(self.describe()) if not self._is_chosen(name)]

    def vanished(self, at: str | None) -> list[str]:
        """Return the topics that the settings choose and that Kafka no longer has, in words, up to a position."""
        return _vanished_words(self._vanished(KafkaPosition.parse(at), None))

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis if a topic was recreated or refilled, is gone, or does not hold the position."""
        diagnosis = self._unfit(start, end, recorded)
        if diagnosis is not None:
            return diagnosis
        others = self.last_records().others  # guard: last-topic-record-unchanged
        if others:
            return Diagnosis(State.SOURCE_REPLACED, refilled(others))
        return self._trimmed(self.continues(start or (self.first_position() if end else None)), self.describe())

    def last_records(self) -> LastRecords:
        """Compare the last record that bronze has of each partition with the record that the topic has at its offset.

        A log that lost its end, for example in an unclean election, gets other records at the same offsets. Bronze has
        read up to there, so the new records would never be read.
        """
        metadata = self.last()
        now = self.describe()
        read = readable(self.continues(metadata.end), self.first_position(), now) if metadata else {}
        ends = {
            name: {part: at for part, at in parts.items() if at > now[name].earliest[part]}
            for name, parts in read.items()
        }
        ends = {name: parts for name, parts in ends.items() if parts}
        result = self.compare_last(ends, now, metadata) if metadata and ends else LastRecords()
        expired = sum(map(len, read.values())) - sum(map(len, ends.values()))
        return replace(result, uncompared={**result.uncompared, EXPIRED: result.uncompared.get(EXPIRED, 0) + expired})

    def _unfit(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        now, topics = self.describe(), TopicIds.of(recorded)
        if topics is None:
            ids = ", ".join(topic.topic_id for topic in now.values())
            # guard: topic-after-another-kind
            seen = f"topic {self.name} has ID {ids}, lines were read from {named(recorded)}"
            return Diagnosis(State.SOURCE_REPLACED, seen)
        # guard: returning-topic-same-id
        was = topics.all_ids
        for name, topic in now.items():
            if (was.get(name) or topic.topic_id) != topic.topic_id:  # guard: topic-id-unchanged
                seen = f"topic {name} has ID {topic.topic_id}, lines were read from {was[name]}"
                return Diagnosis(State.SOURCE_REPLACED, seen)
        text = start or (self.first_position() if end else None)
        at = KafkaPosition.parse(text)
        if at and at.topics and not any(map(self._is_chosen, at.topics)):  # guard: topic-name-in-position
            seen = f"positions are of topic {', '.join(at.topics)}, the source is {self.name}"
            return Diagnosis(State.SOURCE_REPLACED, seen)
        vanished = self._vanished(at, KafkaPosition.parse(end))
        if vanished:
            return Diagnosis(State.SOURCE_TRIMMED, "; ".join(_vanished_words(vanished)))
        moved = self.continues(text)
        beyond = (
            self._beyond(name, {**offsets_of(moved, name), **offsets_of(end, name)}, topic)
            for name, topic in now.items()
        )
        return next(filter(None, beyond), None)

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Move every partition to the oldest record that Kafka still holds, and leave the topics that are gone."""
        now, at = self.describe(), self.continues(start)
        vanished = self._vanished(KafkaPosition.parse(start), KafkaPosition.parse(end))
        lost = [f"what topic {name} held after {read or 'its beginning'}" for name, read in vanished.items()]
        moved = {}
        for name, topic in now.items():
            offsets = _next_offsets(at, name, topic)
            lost += _gone(name, offsets, topic)
            moved[name] = {part: max(offset, topic.earliest[part]) for part, offset in offsets.items()}
        return (KafkaPosition(moved).to_json(), lost) if lost else None

    def _recorded(self) -> TopicIds:
        metadata = self.last()
        return (TopicIds.of(metadata.source) if metadata else None) or TopicIds()

    def _former(self, now: Collection[str]) -> Iterator[tuple[str, TopicLeftBehind]]:
        """Yield the topics that bronze has read and does not read now, with their places."""
        metadata, topics = self.last(), self._recorded()
        at = KafkaPosition.parse(metadata.end) if metadata else None
        places = {
            name: TopicLeftBehind(topics.ids.get(name, ""), offsets)
            for name, offsets in (at.topics if at else {}).items()
        }
        return ((name, former) for name, former in {**topics.former, **places}.items() if name not in now)

    def _is_chosen(self, topic: str) -> bool:
        return topic == self.name if self.chooses is None else self.chooses(topic)

    # guard: chosen-topic-exists
    def _vanished(self, start: KafkaPosition | None, end: KafkaPosition | None) -> dict[str, str]:
        """Return the topics that the settings choose and Kafka no longer has, and how far each was read, in words."""
        now, read = self.describe(), start.topics if start else {}
        topics = {**(end.topics if end else {}), **read}
        gone = [name for name in topics if name not in now and self._is_chosen(name)]
        places = {name: KafkaPosition({name: read.get(name, {})}).numbers() for name in gone}
        return {name: ", ".join(f"{part}/{at}" for part, at in offsets.items()) for name, offsets in places.items()}

    def _beyond(self, name: str, offsets: Mapping[str, int], now: Topic) -> Diagnosis | None:
        for partition, offset in offsets.items():
            if partition not in now.latest:  # guard: topic-has-all-partitions
                return Diagnosis(State.SOURCE_REPLACED, f"partition {partition} of {name} is gone")
            if offset > now.latest[partition]:  # guard: topic-reaches-position
                seen = f"{name}/{partition} ends at {now.latest[partition]}, the stage has read up to {offset}"
                return Diagnosis(State.SOURCE_REPLACED, seen)
        return None

    def _trimmed(self, at: str | None, now: Mapping[str, Topic]) -> Diagnosis | None:  # guard: topic-holds-next-input
        gone = [
            missing for name, topic in now.items() for missing in _gone(name, _next_offsets(at, name, topic), topic)
        ]
        return Diagnosis(State.SOURCE_TRIMMED, f"offsets {', '.join(gone)} are gone") if gone else None


def _vanished_words(vanished: Mapping[str, str]) -> list[str]:
    return [f"topic {name} is gone, which was read up to {read or 'no offset'}" for name, read in vanished.items()]


def _gone(name: str, offsets: Mapping[str, int], now: Topic) -> list[str]:
    return [
        f"{name}/{partition}/{offset} to {now.earliest[partition] - 1}"
        for partition, offset in offsets.items()
        if offset < now.earliest[partition]
    ]


# Why a last record is not compared.
EXPIRED = "has expired"


def refilled(others: Collection[str]) -> str:
    """Return in words that topics lost the end of their logs, and have other records there now."""
    return (
        f"{', '.join(others)}: the topic lost the end of its log and has other records there, which no run would read"
    )


def readable(at: str | None, first: str | None, now: Mapping[str, Topic]) -> dict[str, dict[str, int]]:
    """Return the positions in the partitions that Kafka has and bronze has read something of, by topic.

    Args:
        at: bronze's position.
        first: the position before the first batch; None if unknown.
        now: the topics as they are now.
    """
    return {
        name: {
            part: offset
            for part, offset in offsets_of(at, name).items()
            if offsets_of(first, name).get(part, 0) < offset <= topic.latest.get(part, -1)
        }
        for name, topic in now.items()
    }


def _next_offsets(at: str | None, topic: str, now: Topic) -> Mapping[str, int]:
    """Return the next offset that a query reads from each partition; empty before its first start.

    A partition that the position does not name was added later, and Spark reads it from offset 0. The query fails if
    the oldest record is a later one (KafkaOffsetReader, "Added partition … starts from … instead of 0").
    """
    if at is None:
        return {}
    return {**dict.fromkeys(now.latest, 0), **offsets_of(at, topic)}  # guard: added-partition-from-start


@dataclass(frozen=True)
class PartitionCensus:
    """The offsets of one partition, each in one of five ranges: read, lost, waiting, behind or beyond.

    Attributes:
        read: every offset below it was read, or its loss was accepted.
        oldest: the oldest offset that Kafka holds.
        end: the offset up to which Kafka lets it be read.
        first: the offset where the query began; offsets below it expired before the first run.
        written: the next offset that Kafka will write; 0 if it is not known.
    """

    partition: str
    read: int
    oldest: int
    end: int
    first: int = 0
    written: int = 0

    @property
    def lost(self) -> range:
        """The offsets that expired before bronze read them."""
        return range(self.read, max(self.read, self.oldest))

    @property
    def waiting(self) -> range:
        """The offsets that the next run reads."""
        return range(self.lost.stop, max(self.lost.stop, self.end))

    @property
    def behind(self) -> range:  # guard: open-transaction-waits
        """The offsets of an open transaction, and those after them: no run reads them before it ends."""
        return range(self.waiting.stop, max(self.waiting.stop, self.written))

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
    begun = _next_offsets(first, topic, now)
    known: Mapping[str, int] = _next_offsets(at, topic, now) or now.earliest
    return [
        PartitionCensus(
            partition,
            read=read,
            oldest=now.earliest.get(partition, 0),
            end=now.latest.get(partition, 0),
            first=now.earliest.get(partition, 0) if at is None else begun.get(partition, 0),
            written=now.written.get(partition, 0),
        )
        for partition, read in sorted(known.items(), key=lambda entry: int(entry[0]))
    ]
