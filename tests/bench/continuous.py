"""Start a continuous run for a benchmark, feed it, and observe from outside what it counts and uses."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import deltalake
import psutil
import pyarrow.compute as pc
import pymysql
from confluent_kafka import Producer

from tests.bench.programs.oncelake import serving_init
from tests.support.broker import Broker
from tests.support.mariadb import MariaDB

Kind = Literal["files", "kafka", "tail"]
# A growing log is renamed after this many calls.
ROTATED = 50
TOPIC, PARTITIONS, DATABASE = "alog", 2, "bench"


class Source(Protocol):
    """A source of lines, and the settings that name it."""

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the settings of a run that reads this source."""

    def send(self, lines: Sequence[str]) -> float:
        """Add lines, and return the time at which they were handed over."""


@dataclass
class Files:
    """A directory; each call adds one file."""

    logs: Path
    number: int = 0

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True)

    @property
    def sets(self) -> tuple[str, ...]:
        return (f"source.path={self.logs}",)

    def send(self, lines: Sequence[str]) -> float:
        partial = self.logs.parent / "partial"
        partial.write_text("".join(f"{line}\n" for line in lines))
        self.number += 1
        at = time.monotonic()
        partial.rename(self.logs / f"{self.number:08d}.log")
        return at


@dataclass
class GrowingLog:
    """A log that each call appends to, and that is rotated by renaming."""

    logs: Path
    number: int = 0

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True)

    @property
    def sets(self) -> tuple[str, ...]:
        return ("source.kind=tail", f"source.path={self.logs}")

    def send(self, lines: Sequence[str]) -> float:
        log = self.logs / "app.log"
        self.number += 1
        if self.number % ROTATED == 0:
            log.rename(self.logs / f"app.log.{self.number}")
        text = "".join(f"{line}\n" for line in lines)
        at = time.monotonic()
        with log.open("a") as file:
            file.write(text)
        return at


@dataclass
class Topic:
    """A Kafka topic of two partitions; each call returns when the broker has all lines."""

    servers: str
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0})

    @property
    def sets(self) -> tuple[str, ...]:
        return ("source.kind=kafka", f"source.bootstrap_servers={self.servers}", f"source.topic={TOPIC}")

    def send(self, lines: Sequence[str]) -> float:
        at = time.monotonic()
        for number, line in enumerate(lines):
            self.producer.produce(TOPIC, line, partition=number % PARTITIONS)
        if self.producer.flush(60):
            raise RuntimeError("the broker did not accept all lines within a minute")
        return at


@contextmanager
def source(kind: Kind, root: Path) -> Iterator[Source]:
    """Yield an empty source; for Kafka, start a broker."""
    if kind != "kafka":
        yield Files(root / "logs") if kind == "files" else GrowingLog(root / "logs")
        return
    with Broker(root / "kafka") as broker:
        broker.make_topic(TOPIC, PARTITIONS)
        yield Topic(broker.servers)


class Counter(Protocol):
    """A table of counts, observed from outside."""

    def look(self) -> tuple[int, float] | None:
        """Return the sum of the counts and the time of the look; None if nothing has changed."""


@dataclass
class Gold:
    """A gold table, read by delta-rs version by version."""

    path: Path
    version: int = -1

    def look(self) -> tuple[int, float] | None:
        if not (self.path / "_delta_log" / f"{self.version + 1:020d}.json").exists():
            return None
        seen = time.monotonic()
        self.version += 1
        table = deltalake.DeltaTable(self.path, version=self.version).to_pyarrow_table(columns=["log_count"])
        return int(pc.sum(table["log_count"]).as_py() or 0), seen


@dataclass
class Served:
    """The served table in MySQL, read with SQL.

    Attributes:
        sets: the settings of a run that serves this database.
    """

    sets: tuple[str, ...]
    connection: Any
    count: int = 0

    def look(self) -> tuple[int, float] | None:
        seen = time.monotonic()
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT COALESCE(SUM(log_count), 0) FROM error_log")
            count = int(cursor.fetchone()[0])
        if count == self.count:
            return None
        self.count = count
        return count, seen


@contextmanager
def served(root: Path, *sets: str) -> Iterator[Served]:
    """Start a MariaDB server, create the served table, and yield it.

    Args:
        root: the directory for the server.
        sets: the other settings of the run.
    """
    with MariaDB(root / "mariadb") as server:
        url = server.make_database(DATABASE)
        init = serving_init(*sets, f"serving.url={server.owner_url(DATABASE)}")
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", database=DATABASE, autocommit=True
        )
        with connection:
            yield Served((f"serving.url={url}",), connection)


@dataclass
class Program:
    """A running program: its Python, and the JVM that it started."""

    process: subprocess.Popen[bytes]
    output: Path

    def check(self) -> None:
        """Raise RuntimeError with the program's output if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the program ended by itself: {self.output.read_text()}")

    @property
    def java(self) -> psutil.Process:
        """Return the JVM's process."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        return next(each for each in started if each.name() == "java")

    def seconds(self) -> dict[str, float]:
        """Return the processor time used so far, by Python with all else that it started, and by Java."""
        python = psutil.Process(self.process.pid)
        used = {"python": 0.0, "java": 0.0}
        for each in (python, *python.children(recursive=True)):
            times = each.cpu_times()
            mine = times.user + times.system + times.children_user + times.children_system
            used["java" if each.name() == "java" else "python"] += mine
        return used

    def memory(self) -> dict[str, int]:
        """Return the resident memory of Python and of Java, in MB."""
        pids = {"python": psutil.Process(self.process.pid), "java": self.java}
        return {name: each.memory_info().rss // 1_000_000 for name, each in pids.items()}

    def threads(self) -> dict[tuple[str, int, str], float]:
        """Return the processor time used so far by each thread: the key is program, thread ID and name."""
        used = {}
        for program, each in (("python", psutil.Process(self.process.pid)), ("java", self.java)):
            for thread in each.threads():
                name = Path(f"/proc/{each.pid}/task/{thread.id}/comm")
                if name.exists():
                    used[program, thread.id, name.read_text().strip()] = thread.user_time + thread.system_time
        return used

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(120)
        finally:
            self.process.kill()


def start(command: Sequence[str], root: Path) -> Program:
    """Start a program that runs until it is stopped; use it in a `with` block, which stops it."""
    output = root / "output"
    with output.open("w") as file:
        return Program(subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL), output)
