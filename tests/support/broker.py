"""Start a real broker for tests, with each common operation in one call."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelake.lab.demo import broker


class Broker(broker.Broker):
    """A running broker, with its topics and records."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def make_topic(self, name: str, partitions: int = 2, **config: str) -> None:
        """Create a topic and wait until it exists."""
        topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        self.admin.create_topics([topic])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([name])[name].result(30)
        while name in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.1)

    def send(self, topic: str, lines: Iterable[bytes | None], partition: int = 0) -> None:
        """Send lines to one partition and wait until the broker has all of them."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for line in lines:
            producer.produce(topic, line, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0
