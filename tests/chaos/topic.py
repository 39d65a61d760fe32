"""A Kafka topic for operations, read back with a client of its own."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.cimpl import NewPartitions, TopicPartition

from tests.chaos.bronze import BronzeFiles, accepted_losses, rows_of
from tests.chaos.directory import Content, Listing
from tests.chaos.operations import made
from tests.chaos.steps import Step
from tests.chaos.world import World
from tests.support.broker import Broker

_NOTHING = b"<no value>"


@dataclass
class Topic(World):
    """A topic; a record is identified by the number of the topic with that name, its partition and its offset.

    Attributes:
        life: how often the topic was recreated.
        read: which of these topics bronze has read.
        is_recorded: True if bronze has committed a batch, which records the topic's ID.
        ever: every committed record that was ever seen, and whether bronze had read that topic by then.
        gave_up: the records that are lost by consent.
        pending: the producer of the open transaction.
        blind: the topics in which records were deleted during an open transaction, so that nobody knows if a reader
            would have seen them.
    """

    broker: Broker
    name: str
    partitions: int = 2
    life: int = 0
    read: int | None = None
    is_recorded: bool = False
    ever: dict[bytes, bool] = field(default_factory=dict)
    gave_up: set[bytes] = field(default_factory=set)
    pending: Producer | None = None
    blind: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.broker.make_topic(self.name, self.partitions)

    @property
    def sets(self) -> list[str]:
        """Return settings for small batches."""
        where = [f"source.bootstrap_servers={self.broker.servers}", f"source.topic={self.name}"]
        return ["source.kind=kafka", "source.max_offsets_per_batch=6", *where]

    def apply(self, step: Step) -> bool:
        """Apply an operation to the topic; return whether there was anything to apply it to."""
        try:
            return VERBS[step.verb](self, step) is not False
        except KafkaException:
            return False

    def look(self) -> Listing:
        """Read every committed record of the topic."""
        client = Consumer(
            {
                "bootstrap.servers": self.broker.servers,
                "group.id": "census",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        found: dict[bytes, Content] = {}
        try:
            client.assign([TopicPartition(self.name, number, -2) for number in range(self.partitions)])
            ended, until = set[int](), time.monotonic() + 30
            while len(ended) < self.partitions:
                assert time.monotonic() < until, f"{self.name} could not be read to its end"
                record = client.poll(0.5)
                if record is None:
                    continue
                partition, offset, error = record.partition(), record.offset(), record.error()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(partition)
                    continue
                assert offset is not None
                value = record.value()
                lines = (_NOTHING if value is None else value,)
                found[self._called(partition, offset)] = Content(0, 0, lines)
        finally:
            client.close()
        for part in found:
            self.ever.setdefault(part, self.read == self.life)
        return Listing(found, strange=(b"deleted unseen",) if self.life in self.blind else ())

    def held(self, table: Path) -> Mapping[bytes, BronzeFiles]:
        """Return what bronze holds of each record."""
        found: dict[bytes, BronzeFiles] = {}
        rows = rows_of(table, ["value", "partition", "offset"])
        commits = [*(table / "_delta_log").glob("*.json")]
        self.is_recorded = len(commits) > 1
        if not commits:
            self.read = None
        elif self.read is None or not self.is_recorded:
            self.read = self.life
        for row in rows:
            called = self._called(row["partition"], row["offset"], self.read)
            held = found.setdefault(called, BronzeFiles(stamps={(0, 0)}))
            held.lines[_NOTHING if row["value"] is None else row["value"]] += 1
        return found

    def accepted(self, table: Path) -> list[bytes]:
        """Return the records that are lost by consent."""
        found: list[bytes] = []
        for said in accepted_losses(table):
            for partition, first, last in re.findall(r"/(\d+)/(\d+)(?: to (\d+))?$", said):
                numbers = range(int(first), int(last or first) + 1)
                found += [self._called(int(partition), number, self.read) for number in numbers]
        self.gave_up = set(found)
        return found

    def lost(self, bronze: Mapping[bytes, BronzeFiles]) -> Iterable[bytes]:
        """Return the records that were committed after bronze's first run, and deleted before it could read them."""
        there = self.look().files
        after_first = {part for part, later in self.ever.items() if later}
        return sorted(after_first - there.keys() - bronze.keys() - self.gave_up)

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names the record's partition, or says that the topic is another one."""
        _, partition, _ = part.decode().split("/")
        return f"{self.name}/{partition}" in said or re.search(r" has (id|ID) |and [\d,]+ more", said) is not None

    def emptied(self, *, accepted: bool) -> None:
        """Record that bronze begins with the current topic; who accepts that gives up all of the one before it."""
        if accepted and self.read != self.life:
            self.ever.clear()
        self.read = self.life

    def remove(self) -> None:
        """Delete the topic."""
        self.abandon()
        with suppress(KafkaException):
            self.broker.delete_topic(self.name)

    def abandon(self) -> None:
        """Abort the transaction that is open."""
        producer, self.pending = self.pending, None
        if producer is not None:
            with suppress(KafkaException):
                producer.abort_transaction(30)

    def transaction(self) -> Producer:
        """Return a producer with an open transaction."""
        producer = Producer(
            {
                "bootstrap.servers": self.broker.servers,
                "transactional.id": f"{self.name}-{time.time_ns()}",
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def _called(self, partition: int, offset: int, life: int | None = None) -> bytes:
        return b"%d/%d/%d" % (self.life if life is None else life, partition, offset)


def _lines(step: Step) -> list[bytes]:
    return made(*step.numbers[1:3]).split(b"\n")[:-1]


def _send(topic: Topic, step: Step) -> None:
    topic.broker.send(topic.name, [*_lines(step), None], step.numbers[0] % topic.partitions)


def _put(topic: Topic, step: Step, producer: Producer) -> None:
    for line in _lines(step):
        producer.produce(topic.name, line, partition=step.numbers[0] % topic.partitions)
    producer.flush(30)


def _commit(topic: Topic, step: Step) -> None:
    producer = topic.transaction()
    _put(topic, step, producer)
    producer.commit_transaction(30)


def _abort(topic: Topic, step: Step) -> None:
    producer = topic.transaction()
    _put(topic, step, producer)
    producer.abort_transaction(30)


def _begin(topic: Topic, step: Step) -> bool:
    """Leave a transaction open: what follows it in its partition cannot be read yet."""
    if topic.pending is not None:
        return False
    topic.pending = topic.transaction()
    _put(topic, step, topic.pending)
    return True


def _end(topic: Topic, step: Step) -> bool | None:
    producer, topic.pending = topic.pending, None
    if producer is None:
        return False
    producer.commit_transaction(30) if step.numbers[0] else producer.abort_transaction(30)
    return None


def _add_partition(topic: Topic, step: Step) -> None:
    del step
    topic.broker.admin.create_partitions([NewPartitions(topic.name, topic.partitions + 1)])[topic.name].result(30)
    topic.partitions += 1


def _delete_records(topic: Topic, step: Step) -> None:
    """Delete the oldest records of a partition; 100 percent are all."""
    number = step.numbers[0] % topic.partitions
    topic.blind |= {topic.life} if topic.pending else set()
    parts = sorted(int(part.split(b"/")[2]) for part in topic.look().files if part.split(b"/")[1] == b"%d" % number)
    before = parts[len(parts) * step.numbers[1] // 100] if step.numbers[1] < 100 and parts else -1
    at = TopicPartition(topic.name, number, before)
    topic.broker.admin.delete_records([at])[at].result(30)


def _recreate(topic: Topic, step: Step) -> None:
    topic.abandon()
    topic.broker.delete_topic(topic.name)
    time.sleep(0.5)
    topic.partitions = step.numbers[0]
    topic.life += 1
    if not topic.is_recorded:
        topic.ever.clear()
    topic.broker.make_topic(topic.name, topic.partitions)


VERBS: dict[str, Callable[[Topic, Step], bool | None]] = {
    "send": _send,
    "commit": _commit,
    "abort": _abort,
    "begin": _begin,
    "end": _end,
    "add-partition": _add_partition,
    "delete-records": _delete_records,
    "recreate": _recreate,
}
