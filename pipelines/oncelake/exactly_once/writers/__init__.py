"""The interface of the engines that change a table, such as Spark's Delta writer, and delta-rs in this process.

`registry.py` lists them in the order in which they are tried.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, DeltaLog
from oncelake.exactly_once.files import TableFiles

if TYPE_CHECKING:
    from deltalake import DeltaTable

# The SQL of the engine that runs a MERGE: Spark, or DataFusion in delta-rs.
Dialect = Literal["spark", "datafusion"]
# Raises LockedError if something is no longer so.
Check = Callable[[], None]


class LogCheck(Protocol):
    """The same of the table's log."""

    def __call__(self, newest: int | None = None) -> int:
        """Check the commits since the last call; return the newest version that it has looked at.

        Args:
            newest: the version after which the commit is to be, or none: if it has been looked at, nothing is read.
        """


class TransactionHeldError(Exception):
    """Raised when a table holds a batch's transaction already, or a later one."""


class VersionTakenError(Exception):
    """Raised when another writer committed the version that this one was about to commit."""


# The first and the last window of each range; the ranges are in order and do not overlap.
Windows = Sequence[tuple[datetime, datetime]]


@dataclass(frozen=True)
class MergeSql:
    """A MERGE in the SQL of one engine.

    Attributes:
        condition: matches a row of `batch` with its row of `gold`.
        update: column -> expression over `gold` and `batch`.
        windows: those that the condition allows; empty for all.
    """

    condition: str
    update: Mapping[str, str]
    windows: Windows = ()


# Returns the MERGE in a dialect; None if the engine would not merge the values as Spark does.
MergeFor = Callable[[Dialect], MergeSql | None]


@dataclass(frozen=True)
class Access:
    """How a table's directory is reached.

    Attributes:
        files: its files, as this process reads and writes them.
        commit_log: its log, as the table's writer reads it.
        options: how delta-rs reaches it; empty on a local disk.
    """

    files: TableFiles
    commit_log: DeltaLog
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


class TableChange(Protocol):
    """A change of a table by one engine. It can be tried again after a conflict; what it computed is kept."""

    def __call__(self, metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
        """Try to commit the change with the batch's transaction and metadata.

        Args:
            metadata: the batch's commit metadata.
            alone: checks that no other run of the stage has written, and returns the newest version. The version that
                the change is made against is read before it: so every commit up to that version is checked, and one
                after it is a conflict.
            fence: checks that this process still holds the lake.

        Returns:
            False if the engine cannot change the table as it is now; then nothing was written.

        Raises:
            TransactionHeldError: the table holds the batch's transaction already: another run of the stage wrote it.
            VersionTakenError: another writer committed meanwhile, and nothing was written; the change is tried again.
        """


class Engine(Protocol):
    """What changes one table."""

    def append(self, rows: BatchRows) -> TableChange | None:
        """Return the change that appends rows; None if the engine cannot."""

    def merge(self, rows: BatchRows, sql: MergeFor) -> TableChange | None:
        """Return the change that merges rows (alias `batch`) into the table (alias `gold`); None if it cannot."""

    def opened_at(self, version: int) -> "DeltaTable | None":
        """Return the table as it has it open, if its newest version is this one; None if Spark has to read it."""

    def keep_up(self, commit: ChainCommit) -> None:
        """Do the table's upkeep that is due after a batch that this engine committed; nothing of it can fail."""
