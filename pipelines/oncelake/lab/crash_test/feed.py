"""The source of a crash test: lines that are generated while it runs, or the user's own source."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import SourceError
from oncelake.lab.demo.made_log import mixed_lines, put
from oncelake.sources.kafka.admin import delete_topic, make_topic
from oncelake.sources.kafka.kind import kafka_client

# One portion becomes this many batches of bronze.
BATCHES = 8
PARTITIONS = 3
_MADE = (
    "source.format=default",
    "silver.earliest=1970-01-01T00:00:00Z",  # the count in plain Python uses these limits
    "silver.ahead=1 day",
    "quality.expectations=none",  # a user's suite is for other lines
)


class Feed(ABC):
    """The input of the chain during the kills: generated lines, or the configured source unchanged."""

    # The session that the feed uses, if any.
    spark: SparkSession | None = None

    @property
    def sets(self) -> list[str]:
        """Return the settings that select this source."""
        return []

    @property
    @abstractmethod
    def small(self) -> list[str]:
        """Return the settings for small batches, so that there are many steps to kill after."""

    def more(self) -> None:  # noqa: B027 - without generated lines there is nothing to add
        """Add the next portion to the source."""

    def lines(self) -> Iterator[bytes] | None:
        """Return every line that was added; None if lines are not generated."""
        return None


@dataclass(frozen=True)
class OwnSource(Feed):
    """The configured source, unchanged; no lines are added."""

    small_bytes: int

    @property
    def small(self) -> list[str]:
        """Return the settings for small batches."""
        return [f"source.max_bytes_per_batch={self.small_bytes}", "source.max_offsets_per_batch=1000"]


@dataclass
class Portions:
    """Generated lines in equal portions; the same seed generates the same lines."""

    total: int
    count: int
    seed: int
    index: int = 0

    def next(self) -> list[bytes]:
        """Return the next portion."""
        below, number = self._until(self.index), self.index
        self.index += 1
        return mixed_lines(self._until(self.index) - below, seed=self.seed * 1_000_003 + number)

    def all(self) -> Iterator[bytes]:
        """Yield the lines of all portions returned so far, generated again."""
        again = Portions(self.total, self.count, self.seed)
        for _ in range(self.index):
            yield from again.next()

    @property
    def size(self) -> int:
        """Return the number of lines in a portion."""
        return max(1, self.total // self.count)

    def _until(self, number: int) -> int:
        return self.total * min(number, self.count) // self.count


class GeneratedFeed(Feed):
    """Generated lines, in portions."""

    portions: Portions

    def lines(self) -> Iterator[bytes]:
        """Return every line that was added."""
        return self.portions.all()


@dataclass
class MadeFiles(GeneratedFeed):
    """A directory that receives files of generated lines."""

    directory: Path
    portions: Portions

    @property
    def sets(self) -> list[str]:
        """Create the directory, and return the settings that select it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return ["source.kind=files", f"source.path={self.directory}", *_MADE]

    @property
    def small(self) -> list[str]:
        """Return the settings for one file per batch."""
        return ["source.max_bytes_per_batch=1"]

    def more(self) -> None:
        """Add a portion as several files; each file is one batch."""
        number, lines = self.portions.index, self.portions.next()
        for part in range(BATCHES):
            if rows := lines[part::BATCHES]:
                put(self.directory / f"made-{number:05d}-{part}.log", [row + b"\n" for row in rows])


@dataclass
class MadeTopic(GeneratedFeed):
    """A separate topic on the configured broker."""

    spark: SparkSession = field(repr=False)
    source: SourceSettings = field(repr=False)
    topic: str
    portions: Portions

    @contextmanager
    def created(self) -> Iterator[None]:
        """Create the topic, and delete it at the end.

        Raises:
            SourceError: the broker cannot be reached, or rejects the request.
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
        """Return the settings that select the topic."""
        no_pattern = ["source.topic_pattern="] if self.source.topic_pattern is not None else []
        return ["source.kind=kafka", f"source.topic={self.topic}", *no_pattern, *_MADE]

    @property
    def small(self) -> list[str]:
        """Return the settings for a part of a portion per batch."""
        return [f"source.max_offsets_per_batch={max(1, self.portions.size // BATCHES)}"]

    def more(self) -> None:
        """Send a portion, spread over all partitions."""
        rows = [(number % PARTITIONS, bytearray(line)) for number, line in enumerate(self.portions.next())]
        if not rows:
            return
        writer = self.spark.createDataFrame(rows, "partition int, value binary").coalesce(1).write.format("kafka")
        for key, value in kafka_client(self.source).items():
            if key != "isolation.level":
                writer = writer.option(f"kafka.{key}", value)
        writer.option("topic", self.topic).save()
