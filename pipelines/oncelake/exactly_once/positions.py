"""The interface of a position in a source, as `offsets/<batch id>` has it, and the positions in Delta tables.

Each class parses its own JSON; `sources/registry.py` knows the classes of all sources.
Source: org.apache.spark.sql.delta.sources.DeltaSourceOffset.
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
        before_all: whether Spark records a position before the first batch.
        unit: what a position counts; None for files, and lists of files.
    """

    before_all: ClassVar[bool] = False
    unit: ClassVar[str | None] = None

    @classmethod
    def parse(cls, at: str | None) -> Self | None:
        """Parse a position that Spark wrote; None for no position, and for a position of another kind than this class.

        Raises:
            ValueError: the text is not JSON.
        """
        return cls.of(json.loads(at)) if at else None

    @classmethod
    @abstractmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is one of another kind."""

    @abstractmethod
    def numbers(self) -> dict[str, int]:
        """Return the next number to read in each part: a partition's offset, a table's version, a file list's entry."""

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each partition by its name; empty for a source without partitions."""
        return {}

    def in_parts_of(self, other: "SourcePosition") -> str | None:
        """Return the JSON of the position in the parts, such as topics, that another one has; None without parts."""
        return None

    def parts_beside(self, other: "SourcePosition | None") -> Mapping[str, int]:
        """Return the next number in each part of the source that another position lacks."""
        return {}

    def words(self, source: str) -> str | None:
        """Describe the position for a message; None if its JSON is the best description."""
        return f"offsets of {count_of(len(self.partitions()), 'partition')}" if self.partitions() else None


@dataclass(frozen=True)
class TablePosition(SourcePosition):
    """A position in a Delta table.

    Attributes:
        table_id: the table's ID.
        version: the first version that is not completely read.
        index: the last file of that version that was read; below 0 if none was.
        in_snapshot: whether the stream still reads the initial snapshot at that version, before it follows changes.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one in a Delta table."""
        if not isinstance(value, dict) or not {"reservoirId", "reservoirVersion"} <= value.keys():
            return None
        version, in_snapshot = int(value["reservoirVersion"]), bool(value.get("isStartingVersion", False))
        return cls(str(value["reservoirId"]), version, int(value["index"]), in_snapshot)

    def words(self, source: str) -> str:
        """Describe the version."""
        if self.is_whole:
            return f"version {self.version - 1} of {source}, read to its end"
        return f"within version {self.version} of {source}, at file {self.index + 1:,}"

    def numbers(self) -> dict[str, int]:
        """Return the first version that is not completely read."""
        return {"version": self.version}

    @property
    def is_whole(self) -> bool:
        """Return True if it is between two versions; a large version, or the initial snapshot, is read in parts."""
        return self.index == -1 and not self.in_snapshot

    @property
    def order(self) -> tuple[int, bool, int]:
        """The sort key of positions in one table: a snapshot's positions come before others in the same version."""
        return self.version, not self.in_snapshot, self.index

    def has_read(self, version: int) -> bool:
        """Return True if everything that a version added is certainly read; within a snapshot nothing is certain."""
        return not self.in_snapshot and version < self.version

    def may_have_read(self, version: int) -> bool:
        """Return True if something that a version added may already be read."""
        return version < self.version or (version == self.version and (self.index >= 0 or self.in_snapshot))


@dataclass(frozen=True)
class TablesPosition(SourcePosition):
    """A position in several Delta tables, written as a JSON array of their positions.

    A table that is not read yet has null, or no entry. Each entry names its table, so the order means nothing.

    Attributes:
        entries: the position in each table; None for a table that is not read yet.
    """

    entries: tuple[TablePosition | None, ...]

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one in several Delta tables."""
        if not isinstance(value, list):
            return None
        return cls(tuple(TablePosition.of(entry) if entry else None for entry in value))

    @property
    def tables(self) -> Mapping[str, TablePosition]:
        """Return the positions in the tables that are read, by table ID."""
        return {entry.table_id: entry for entry in self.entries if entry is not None}

    @property
    def is_whole(self) -> bool:
        """Return True if it is between two versions of every table."""
        return all(table.is_whole for table in self.tables.values())

    def numbers(self) -> dict[str, int]:
        """Return the first version that is not completely read, by the table's ID."""
        return {f"version of {table_id}": position.version for table_id, position in self.tables.items()}

    def words(self, source: str) -> str:
        """Describe the version of each table."""
        return "; ".join(position.words(f"table {table_id}") for table_id, position in self.tables.items())


def as_object(at: str | None) -> Any:
    """Return a position's JSON text as an object, for JSON output; None for no position."""
    return None if at is None else json.loads(at)


def same_position(one: str | None, other: str | None) -> bool:
    """Return True if two positions are equal; the order of their JSON keys does not matter.

    In several tables, neither the order of the tables matters, nor whether a table that is not read yet is listed.
    """
    if one is None or other is None:
        return one is other
    return bool(_comparable(one) == _comparable(other))


def _comparable(at: str) -> Any:
    value = json.loads(at)
    entries = value if isinstance(value, list) else [value]
    of_tables = all(entry is None or (isinstance(entry, dict) and "reservoirId" in entry) for entry in entries)
    # guard: positions-table-by-table
    return {entry["reservoirId"]: entry for entry in entries if entry is not None} if of_tables else value


def in_tables(at: str | None) -> Mapping[str, str]:
    """Return the position in each Delta table that a position reaches, as Spark spells it, by table ID."""
    value = json.loads(at) if at else []
    entries = value if isinstance(value, list) else [value]
    return {
        entry["reservoirId"]: json.dumps(entry, separators=(",", ":"))
        for entry in entries
        if entry is not None and "reservoirId" in entry
    }


def in_table(at: str | None, table_id: str | None) -> TablePosition | None:
    """Return the position in one Delta table; None if the position does not reach it."""
    return TablePosition.parse(in_tables(at).get(table_id or ""))


def is_whole(at: str | None) -> bool:
    """Return True unless the position is within a version of a table."""
    position = TablePosition.parse(at) or TablesPosition.parse(at)
    return position is None or position.is_whole


def version_of(at: str | None) -> int:
    """Return the first version of a table that a position has not completely read; 0 for no such position."""
    position = TablePosition.parse(at)
    return position.version if position else 0
