"""This is where a position in a Delta table is read: how far a stream that follows the table has come.

Source: org.apache.spark.sql.delta.sources.DeltaSourceOffset.
"""

import json
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class TablePosition:
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
    def parse(cls, at: str | None) -> Self | None:
        """Read a position as Spark writes it; None before the first, and for one of another kind of source.

        Raises:
            ValueError: it is no position.
        """
        value: Any = json.loads(at) if at else {}
        if not isinstance(value, dict):
            raise ValueError(f"{at} is no position")
        if "reservoirId" not in value:
            return None
        in_snapshot = bool(value.get("isStartingVersion", False))
        return cls(str(value["reservoirId"]), int(value["reservoirVersion"]), int(value["index"]), in_snapshot)

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


def is_whole(at: str | None) -> bool:
    """Tell whether a position of any source is not within a version of a table."""
    found = TablePosition.parse(at)
    return found is None or found.is_whole


def version_of(at: str | None) -> int:
    """Give the first version of a table that a position has not read whole; 0 before the first."""
    found = TablePosition.parse(at)
    return found.version if found else 0
