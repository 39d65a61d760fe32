"""This is where the source of a crash test is: made lines that come in while it runs, or the user's own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.kafka import kafka_client
from oncelake.bronze.sources.kafka_admin import delete_topic, make_topic
from oncelake.common.errors import SourceError
from oncelake.lab.demo.made_log import mixed_lines, put

# A portion makes so many batches of bronze.
BATCHES = 8
PARTITIONS = 3
_MADE = (
    "source.format=default",
    "silver.earliest=1970-01-01T00:00:00Z",  # the limits that the count by plain Python knows
    "silver.ahead=1 day",
    "quality.expectations=none",  # a suite of the user's is of other lines
)


class Feed(ABC):
    """What the chain reads while it is killed: the configured source as it is, unless lines are made for it."""

    # A Spark that is there for it.
    spark: SparkSession | None = None

    @property
    def sets(self) -> list[str]:
        """The settings that name it."""
        return []

    @property
    @abstractmethod
    def small(self) -> list[str]:
        """The settings that make its batches small, so that there are many steps to be killed after."""

    def more(self) -> None:  # noqa: B027 - nothing is fed where no lines are made
        """Give the chain its next portion."""

    def lines(self) -> Iterator[bytes] | None:
        """Give every line that was fed, None when they are not made here."""
        return None


@dataclass(frozen=True)
class OwnSource(Feed):
    """The configured source as it is; nothing is fed."""

    small_bytes: int

    @property
    def small(self) -> list[str]:
        """Take little in a batch."""
        return [f"source.max_bytes_per_batch={self.small_bytes}", "source.max_offsets_per_batch=1000"]


@dataclass
class Portions:
    """Made lines in equal portions; the same for a seed."""

    total: int
    count: int
    seed: int
    given: int = 0

    def next(self) -> list[bytes]:
        """Make the next portion."""
        below, number = self._until(self.given), self.given
        self.given += 1
        return mixed_lines(self._until(self.given) - below, seed=self.seed * 1_000_003 + number)

    def all(self) -> Iterator[bytes]:
        """Make every portion that was given once more."""
        again = Portions(self.total, self.count, self.seed)
        for _ in range(self.given):
            yield from again.next()

    @property
    def size(self) -> int:
        """How many lines a portion has."""
        return max(1, self.total // self.count)

    def _until(self, number: int) -> int:
        return self.total * min(number, self.count) // self.count


class Made(Feed):
    """Lines that are made, in portions."""

    portions: Portions

    def lines(self) -> Iterator[bytes]:
        """Give every line that was fed."""
        return self.portions.all()


@dataclass
class MadeFiles(Made):
    """A directory into which files are moved."""

    directory: Path
    portions: Portions

    @property
    def sets(self) -> list[str]:
        """Name the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return ["source.kind=files", f"source.path={self.directory}", *_MADE]

    @property
    def small(self) -> list[str]:
        """Take one file in a batch."""
        return ["source.max_bytes_per_batch=1"]

    def more(self) -> None:
        """Move a portion in, in files that are a batch each."""
        number, lines = self.portions.given, self.portions.next()
        for part in range(BATCHES):
            if rows := lines[part::BATCHES]:
                put(self.directory / f"made-{number:05d}-{part}.log", [row + b"\n" for row in rows])


@dataclass
class MadeTopic(Made):
    """A topic of its own on the configured broker."""

    spark: SparkSession = field(repr=False)
    source: SourceSettings = field(repr=False)
    topic: str
    portions: Portions

    @contextmanager
    def there(self) -> Iterator[None]:
        """Make the topic, and delete it at the end.

        Raises:
            SourceError: the broker cannot be reached or refuses.
        """
        client = kafka_client(self.source)
        make_topic(self.spark, client, self.topic, PARTITIONS)
        try:
            yield
        finally:
            try:
                delete_topic(self.spark, client, self.topic)
            except SourceError as error:
                raise SourceError(f"the topic {self.topic} could not be deleted: {error}") from None

    @property
    def sets(self) -> list[str]:
        """Name the topic."""
        return ["source.kind=kafka", f"source.topic={self.topic}", *_MADE]

    @property
    def small(self) -> list[str]:
        """Take a part of a portion in a batch."""
        return [f"source.max_offsets_per_batch={max(1, self.portions.size // BATCHES)}"]

    def more(self) -> None:
        """Send a portion to all partitions."""
        rows = [(number % PARTITIONS, bytearray(line)) for number, line in enumerate(self.portions.next())]
        if not rows:
            return
        writer = self.spark.createDataFrame(rows, "partition int, value binary").coalesce(1).write.format("kafka")
        for key, value in kafka_client(self.source).items():
            if key != "isolation.level":
                writer = writer.option(f"kafka.{key}", value)
        writer.option("topic", self.topic).save()
