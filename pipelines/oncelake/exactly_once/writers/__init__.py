"""The engines that change a table, behind one interface: Spark's Delta writer, and delta-rs in this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.commit import CommitMetadata

# The SQL of the engine that runs a MERGE: Spark, or DataFusion in delta-rs.
Dialect = Literal["spark", "datafusion"]
# Raises LockedError if something is no longer so.
Check = Callable[[], None]


@dataclass(frozen=True)
class MergeSql:
    """A MERGE in the SQL of one engine.

    Attributes:
        condition: matches a row of `batch` with its row of `gold`.
        update: column -> expression over `gold` and `batch`.
        windows: the first and last window of each range that the condition allows, in order; empty for all.
    """

    condition: str
    update: Mapping[str, str]
    windows: Sequence[tuple[datetime, datetime]] = ()


# Returns the MERGE in a dialect; None if the engine would not merge the values as Spark does.
MergeFor = Callable[[Dialect], MergeSql | None]


class TableChange(Protocol):
    """A change of a table by one engine. It can be tried again after a conflict; what it computed is kept."""

    def __call__(self, metadata: CommitMetadata, alone: Check, fence: Check) -> bool:
        """Try to commit the change with the batch's transaction and metadata.

        Args:
            metadata: the batch's commit metadata.
            alone: checks that no other run of the stage has written. The version that the change is made against is
                read before it: so every commit up to that version is checked, and one after it is a conflict.
            fence: checks that this process still holds the lake.

        Returns:
            False if the engine cannot change the table as it is now; then nothing was written.
        """


class Engine(Protocol):
    """What changes one table."""

    def append(self, rows: BatchRows) -> TableChange | None:
        """Return the change that appends rows; None if the engine cannot."""

    def merge(self, rows: BatchRows, sql: MergeFor) -> TableChange | None:
        """Return the change that merges rows (alias `batch`) into the table (alias `gold`); None if it cannot."""
