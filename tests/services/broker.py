"""A real Kafka broker for tests: one node, KRaft, from Maven artifacts, on free ports of 127.0.0.1."""

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipelines.jars import resolve
from pipelines.java import java_command
from tests.services.server import free_port, wait_until_it_answers, write_properties

KAFKA = (("org.apache.kafka", "kafka_2.13", "4.1.2"),)


class Broker:
    """A broker that lives in a directory; it is stopped by its own process id."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.servers = f"127.0.0.1:{free_port()}"
        self._extra = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        controller = f"127.0.0.1:{free_port()}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            **self._extra,
        }
        properties = write_properties(self.directory / "server.properties", settings)
        formatted = self._java("kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", str(properties))
        assert formatted.wait() == 0, self._said()
        self.start()
        return self

    def start(self) -> None:
        """Start the broker, or start it again, and wait until it answers."""
        self._process = self._java("kafka.Kafka", str(self.directory / "server.properties"))
        wait_until_it_answers(self._process, self._ask, self._said)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Stop the broker by its own process id."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def make_topic(self, name: str, partitions: int = 2, **config: str) -> None:
        """Make a topic and wait for it."""
        topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        self.admin.create_topics([topic])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([name])[name].result(30)
        while name in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.1)

    def send(self, topic: str, lines: Iterable[bytes | None], partition: int = 0) -> None:
        """Send lines to one partition and wait until all are there."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for line in lines:
            producer.produce(topic, line, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _ask(self) -> None:
        assert self.admin.list_topics(timeout=1).brokers

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [java_command(), "-Xmx512m", "-cp", resolve(KAFKA, transitive=True), main, *arguments]
        log = os.open(self.directory / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        finally:
            os.close(log)

    def _said(self) -> str:
        return (self.directory / "log").read_text()[-4000:]
