"""Positions in a source, as Spark writes them into `offsets/<batch id>`; each class reads its own JSON.

Sources: org.apache.spark.sql.delta.sources.DeltaSourceOffset, FileStreamSourceOffset, KafkaSourceOffset of Spark 4.0;
Auto Loader's offsets as Databricks writes them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from oncelake.common.wording import count_of


class SourcePosition(ABC):
    """How far a stage has read its source.

    Attributes:
        before_all: whether Spark records one before the first batch.
    """

    before_all: ClassVar[bool] = False

    @classmethod
    def parse(cls, at: str | None) -> Self | None:
        """Read a position as Spark writes it; None before the first, and for one of another kind than this class.

        Raises:
            ValueError: it is no position.
        """
        if not at:
            return None
        value: Any = json.loads(at)
        if not isinstance(value, dict):
            raise ValueError(f"{at} is no position")
        # a topic may have any name, so what is of no other kind is Kafka's
        known = (kind.of(value) for kind in SourcePosition.__subclasses__())
        found: SourcePosition = next(filter(None, known), KafkaPosition(value))
        return found if isinstance(found, cls) else None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that Spark's JSON is; None where it is not known by its keys to be of this kind."""
        del value
        return None

    @abstractmethod
    def numbers(self) -> dict[str, int]:
        """Return the next number to read of each part: a partition's offset, a table's version, a list of files."""

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each numbered partition; none in a source without partitions."""
        return {}

    def words(self, source: str) -> str | None:
        """Say where in a source the position is; None where its JSON says it best."""
        return f"offsets of {count_of(len(self.partitions()), 'partition')}" if self.partitions() else None


@dataclass(frozen=True)
class TablePosition(SourcePosition):
    """A position in a Delta table.

    Attributes:
        table_id: the table's id.
        version: the first version that is not yet read whole.
        index: the last file of that version that was read, below 0 when none was.
        in_snapshot: whether the stream still reads the table as it was at that version, before it follows changes.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Read Delta's."""
        if "reservoirId" not in value:
            return None
        version, in_snapshot = int(value["reservoirVersion"]), bool(value.get("isStartingVersion", False))
        return cls(str(value["reservoirId"]), version, int(value["index"]), in_snapshot)

    def words(self, source: str) -> str:
        """Name the version."""
        if self.is_whole:
            return f"version {self.version - 1} of {source}, read to its end"
        return f"within version {self.version} of {source}, at file {self.index + 1:,}"

    def numbers(self) -> dict[str, int]:
        """Return the first version that is not yet read whole."""
        return {"version": self.version}

    @property
    def is_whole(self) -> bool:
        """Whether it is between two versions; a big version, or a table's first snapshot, is read in parts."""
        return self.index == -1 and not self.in_snapshot

    @property
    def order(self) -> tuple[int, bool, int]:
        """What puts positions in one table in their order: a snapshot's come before those in the same version."""
        return self.version, not self.in_snapshot, self.index

    def has_read(self, version: int) -> bool:
        """Tell whether all that a version added is surely before it; within a snapshot nothing is sure."""
        return not self.in_snapshot and version < self.version

    def may_have_read(self, version: int) -> bool:
        """Tell whether something that a version added can be before it."""
        return version < self.version or (version == self.version and (self.index >= 0 or self.in_snapshot))


@dataclass(frozen=True)
class FilesPosition(SourcePosition):
    """A position in a directory.

    Attributes:
        entry: the last entry that was read of Spark's list of files, -1 before the first.
        beginning: the position before the first, as Spark spells it.
    """

    entry: int
    beginning: ClassVar[str] = '{"logOffset":-1}'

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Read that of Spark's file source."""
        return cls(int(value["logOffset"])) if "logOffset" in value else None

    def words(self, source: str) -> str:
        """Name the entry."""
        return f"entry {self.entry} of the query's list of files"

    def numbers(self) -> dict[str, int]:
        """Return the next entry of the list."""
        return {"list": self.entry + 1}


@dataclass(frozen=True)
class AutoLoaderPosition(SourcePosition):
    """A position in a directory that Auto Loader follows.

    Attributes:
        file: the number of the last file that was read.
    """

    file: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Read Auto Loader's."""
        return cls(int(value["seqNum"])) if "seqNum" in value else None

    def numbers(self) -> dict[str, int]:
        """Return the number of the next file."""
        return {"list": self.file + 1}


@dataclass(frozen=True)
class KafkaPosition(SourcePosition):
    """A position in a topic.

    Attributes:
        topics: the next offset of each partition, by topic.
    """

    topics: Mapping[str, Mapping[str, int]]
    before_all = True

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each partition of the topic."""
        return next(iter(self.topics.values()), {})

    def numbers(self) -> dict[str, int]:
        """Return the next offset of each partition, by `topic/partition`."""
        return {
            f"{topic}/{number}": int(next_) for topic, parts in self.topics.items() for number, next_ in parts.items()
        }

    def to_json(self) -> str:
        """Spell it as Spark does."""
        return json.dumps(self.topics, separators=(",", ":"))


def as_object(at: str | None) -> Any:
    """Return a position as the object that its JSON text is, for programs; None for none."""
    return None if at is None else json.loads(at)


def same_position(one: str | None, other: str | None) -> bool:
    """Tell whether two positions are equal; the order of keys in their JSON says nothing."""
    if one is None or other is None:
        return one is other
    return bool(json.loads(one) == json.loads(other))


def is_whole(at: str | None) -> bool:
    """Tell whether a position of any source is not within a version of a table."""
    found = TablePosition.parse(at)
    return found is None or found.is_whole


def version_of(at: str | None) -> int:
    """Give the first version of a table that a position has not read whole; 0 before the first."""
    found = TablePosition.parse(at)
    return found.version if found else 0


def offsets_of(at: str | None, topic: str) -> Mapping[str, int]:
    """Return the next offset of each partition of a topic; none before the first batch, and for another topic."""
    found = KafkaPosition.parse(at)
    return found.topics.get(topic, {}) if found else {}


def listing_number(at: str) -> int:
    """Return the entry of Spark's list of files that a position names.

    Raises:
        ValueError: it is no position in a directory.
    """
    found = FilesPosition.parse(at)
    if found is None:
        raise ValueError(f"{at} is no position in a directory")
    return found.entry
