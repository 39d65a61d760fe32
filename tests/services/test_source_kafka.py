"""The promises of every kind of source, for a topic of a real broker."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import TopicPartition

from tests.support.broker import Broker
from tests.support.house import House
from tests.support.source_suite import SourceSuite, SourceWorld

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NUMBERS = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@dataclass
class KafkaWorld(SourceWorld):
    """A topic of two partitions; each piece of input goes to one of them, in turns.

    Attributes:
        sizes: the number of lines of each piece.
    """

    broker: Broker
    topic: str
    sizes: list[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.broker.make_topic(self.topic, partitions=2)

    @property
    def settings(self) -> list[str]:
        where = f"source.bootstrap_servers={self.broker.servers}"
        return ["source.kind=kafka", where, f"source.topic={self.topic}"]

    def add(self, *lines: bytes) -> int:
        self.broker.send(self.topic, lines, len(self.sizes) % 2)
        self.sizes.append(len(lines))
        return len(lines)

    def add_no_line(self) -> None:
        producer = Producer({"bootstrap.servers": self.broker.servers, "transactional.id": self.topic, "log_level": 0})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(self.topic, b"2017-07-30 14:09:08 ERROR aborted", partition=0)
        producer.flush()
        producer.abort_transaction()

    def lose(self) -> None:
        first = TopicPartition(self.topic, 0, self.sizes[0])
        self.broker.admin.delete_records([first])[TopicPartition(self.topic, 0)].result(30)

    def another(self) -> list[str]:
        other = f"{self.topic}-other"
        self.broker.make_topic(other, partitions=2)
        self.broker.send(other, [b"2017-07-30 14:09:08 ERROR another"])
        return [*self.settings, f"source.topic={other}"]


class TestKafka(SourceSuite):
    """The suite."""

    kind = "kafka"

    @pytest.fixture
    def world(self, house: House, broker: Broker) -> SourceWorld:
        return KafkaWorld(house, broker, f"suite-{next(NUMBERS)}", [])
