"""Split the parsed lines of a batch into silver's rows, repeats and refused lines, and count them: the interface.

`spark_split` does it for a batch that Spark computes, `local_split` for one that is collected in this process.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.errors import ReplayError, reason
from oncelake.common.lake import SILVER
from oncelake.common.spark.rows import BatchRows, Count, Counting
from oncelake.common.spark.valid_text import counts_of, marks_of
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.table_version import TableVersion
from oncelake.quality.gate import BatchCounts
from oncelake.silver.arrival import Arrivals
from oncelake.silver.rules import Silver

OwnCode = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Repeats:
    """The lines of a batch that repeat others, and those that do not.

    Attributes:
        before: silver as it was before the batch.
        unique: silver's rows.
        dropped: the rows of the table of repeats.
        count: the number of rows in `dropped`.
    """

    before: TableVersion
    unique: BatchRows
    dropped: BatchRows
    count: int

    @property
    def recorded(self) -> Mapping[str, int]:
        """The version and the count that silver's commit records."""
        return {"version": self.before.version, "dropped": self.count}


@dataclass
class Split(ABC):
    """The parsed lines of a batch.

    Attributes:
        frame: the parsed rows as a frame, which Spark parses whenever it is read.
        silver: the rules.
        batch: the batch.
        own: adds the columns of the user's own code to accepted rows, and marks; None without such code.
        before: silver as it was before the batch; None if repeats are kept.
        repeats: what repeats earlier lines; None if repeats are kept.
        arrivals: how the times of the accepted lines fit their arrival; None before they are counted.
    """

    frame: DataFrame
    silver: Silver
    batch: Batch
    own: OwnCode | None = None
    before: TableVersion | None = None
    repeats: Repeats | None = field(default=None, init=False)
    arrivals: Arrivals | None = field(default=None, init=False)
    _invalid: Counting | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.before is not None:
            # the rows that are kept are not those that the transform's plan was prepared for
            self.own = self.silver.transform.marked if self.silver.transform is not None else None

    @property
    def dropped(self) -> int:
        """The number of repeats that do not go to silver."""
        return self.repeats.count if self.repeats is not None else 0

    @property
    def counts_first(self) -> bool:
        """True if the lines are counted before silver is written: a limit can stop the batch, or no job writes it."""
        return self.silver.counts_first or self.repeats is not None or self.batch.holds(SILVER)

    @abstractmethod
    def opened(self) -> AbstractContextManager[None]:
        """Find the lines that repeat others, if they are dropped, and hold what the split keeps while it is used.

        Raises:
            ReplayError: the batch is half written, and the version of silver to compare it with is gone.
        """

    def accepted(self) -> BatchRows:
        """Return silver's rows.

        Raises:
            ReceiptError: the user's own code gave another number of rows than it got; nothing was written.
        """
        if self.own is None:
            return self._without_own_columns()
        completed = self._completed(self.own)
        marks = marks_of(completed.columns)
        self._invalid = completed.counting([_count_of(mark) for mark in marks])
        rows = self._invalid.rows
        return rows.select([name for name in rows.columns if name not in marks]) if marks else rows

    @abstractmethod
    def refused(self) -> BatchRows:
        """Return quarantine's rows."""

    @abstractmethod
    def counted(self) -> BatchCounts:
        """Count the lines: by a job of their own before silver's rows are written, or by the job that wrote them."""

    def made_valid(self, *, written: bool) -> Mapping[str, int]:
        """Return how many lines had a text of the user's own code that was made valid, by column.

        Args:
            written: True if this run has written silver's rows, so that their job has counted.
        """
        return counts_of(self._invalid.values(written=written)) if self._invalid is not None else {}

    @abstractmethod
    def _without_own_columns(self) -> BatchRows:
        """Return silver's rows without the columns of the user's own code."""

    @abstractmethod
    def _completed(self, own: OwnCode) -> BatchRows:
        """Return silver's rows with those columns, and marks."""


def _count_of(mark: str) -> Count:
    return Count(mark, partial(F.count_if, mark), lambda rows: sum(rows[mark].to_pylist()))


@contextmanager
def readable(before: TableVersion, batch: Batch) -> Iterator[None]:
    """Raise ReplayError in place of an error of Spark if silver as it was before a half-written batch is gone."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if not before.replayed:
            raise
        raise ReplayError(  # guard: repeats-version-still-there
            f"batch {batch.batch_id} is half written, and its lines must be compared with version {before.version} of "
            f"{SILVER}, which cannot be read any more: {reason(error)}. {rebuild_hint('silver')}"
        ) from error
