"""Start a real Kafka broker on this machine: one node, KRaft, from Maven artifacts."""

import os
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from oncelake.common.afterwards import kill_afterwards
from oncelake.common.errors import OncelakeError
from oncelake.common.spark.jars import resolve
from oncelake.common.spark.java import java_command
from oncelake.engine.configuration import BROKER
from oncelake.lab.demo.server import free_port, wait_until_it_answers, write_properties

KAFKA = (("org.apache.kafka", "kafka_2.13", "4.1.2"),)
# Ctrl-C, or a notebook's interrupt, must stop the work of this process, but not the broker.
_DEAF = ("sh", "-c", 'trap "" INT; exec "$0" "$@"')
# An error shows at most this many characters of the broker's output.
_SHOWN = 4000


class Broker:
    """A broker with its data in a directory, on free ports of 127.0.0.1; it ends with this process at the latest.

    Attributes:
        servers: the value of `bootstrap.servers` for clients.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.servers = f"127.0.0.1:{free_port()}"
        self._extra = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def make(self) -> None:
        """Create the broker's directory and start the broker.

        Raises:
            OncelakeError: the Java libraries could not be fetched, or the broker did not start.
        """
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
        if formatted.wait() != 0:
            raise OncelakeError(
                f"the Kafka broker's directory {self.directory} could not be formatted: {self._output()}"
            )
        self.start()

    def start(self) -> None:
        """Start or restart the broker, and wait until it answers."""
        self._process = self._java("kafka.Kafka", str(self.directory / "server.properties"))
        self._watch = kill_afterwards(self._process)
        wait_until_it_answers(self._process, self._ask, self._output)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Stop the broker with a signal to its process ID."""
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop the broker and remove its directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _ask(self) -> None:
        host, _, port = self.servers.partition(":")
        socket.create_connection((host, int(port)), timeout=1).close()

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = [java_command(), "-Xmx512m", "-cp", resolve(KAFKA, transitive=True), main, *arguments]
        log = os.open(self.directory / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            return subprocess.Popen([*_DEAF, *java], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        finally:
            os.close(log)

    def _output(self) -> str:
        return (self.directory / "log").read_text()[-_SHOWN:]


@dataclass(frozen=True)
class ExternalBroker:
    """A broker that this process did not start and does not stop."""

    servers: str

    def remove(self) -> None:
        """Do nothing: the broker continues to run."""


def open_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Broker | ExternalBroker:
    """Return the broker that ONCELAKE_BOOTSTRAP_SERVERS names, or start one.

    Args:
        directory: the directory of a broker that is started here.
        settings: its additional server settings.
    """
    named = os.environ.get(BROKER)
    if named:
        return ExternalBroker(named)
    broker = Broker(directory, settings)
    broker.make()
    return broker
