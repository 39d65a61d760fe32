"""Say which part of a table a proof covers, read its rows, and count them against what its commits recorded."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.proof.record import Proven

# Half of a hash's bits: of so many, two thousand million can be added up without overflow.
HALF = 0xFFFF_FFFF


@dataclass(frozen=True)
class Span:
    """The part of one table that a proof covers, at a version that later commits do not change.

    A start is never inside a snapshot or a version of the source, and neither is the end. The bronze span
    that `balance` gets is cut to what the silver span read: the bronze versions from the one at which
    silver's start stands up to the one before silver's end.

    Attributes:
        path: where the table is.
        version: the version that is read.
        commits: the chain's commits whose rows are still there, after the start, oldest first; recoveries,
            losses and replays among them.
        start: where an earlier proof ended, or what the proof is limited to begins; None from the beginning.
    """

    table: Table
    path: str
    version: int
    commits: tuple[ChainCommit, ...]
    start: Proven | None = None

    def noted(self) -> Iterator[tuple[ChainCommit, CommitMetadata]]:
        """Iterate over its commits and their metadata."""
        return ((commit, commit.metadata) for commit in self.commits)

    @property
    def whole(self) -> bool:
        """Whether it covers the table from its beginning."""
        return self.start is None

    def of(self, kind: CommitKind) -> tuple[ChainCommit, ...]:
        """Return the commits of a kind, such as those that hold batches of rows."""
        return tuple(commit for commit in self.commits if commit.metadata.event is kind)

    @property
    def losses(self) -> tuple[CommitMetadata, ...]:
        """The metadata of the losses that were accepted."""
        return tuple(commit.metadata for commit in self.of(CommitKind.LOSS))

    @property
    def before(self) -> str | None:
        """The source's position where it begins; None from the source's beginning."""
        if self.start is not None:
            return self.start.end
        return self.commits[0].metadata.before if self.commits else None

    @property
    def end(self) -> str | None:
        """The source's position where it ends; None when it holds nothing and nothing came before."""
        return self.commits[-1].metadata.end if self.commits else self.before

    @property
    def rows(self) -> int:
        """Rows that its commits put into the table."""
        return sum(each.rows_added for each in self.commits)

    @property
    def rows_in_all(self) -> int:
        """Rows that the chain put into the table, up to the span's end."""
        return (self.start.rows if self.start else 0) + self.rows

    def by_time(self) -> dict[int, list[ChainCommit]]:
        """Return its batches by when they were planned, in milliseconds: `ingested_at` of a bronze batch's rows."""
        found: dict[int, list[ChainCommit]] = {}
        for commit in self.of(CommitKind.BATCH):
            found.setdefault(commit.metadata.planned_ms, []).append(commit)
        return found


def taken() -> Column:
    """Return when a row was taken in, in milliseconds."""
    return F.unix_millis("ingested_at")


def rows_of(spark: SparkSession, span: Span, times: Collection[int] | None = None) -> DataFrame:
    """Read the rows of a span: all, or those that its batches took in.

    Args:
        spark: the session.
        span: which table, and up to which version.
        times: when the rows' bronze batches were planned, in milliseconds; the span's own unless given.
    """
    rows = read_version(spark, span.path, span.version)
    if span.whole:
        return rows
    chosen = [f"timestamp_millis({ms}L)" for ms in sorted(span.by_time() if times is None else times)]
    if not chosen:
        return rows.where(F.lit(False))
    # the bounds prune files by their statistics
    return rows.where(f"ingested_at BETWEEN {chosen[0]} AND {chosen[-1]} AND ingested_at IN ({', '.join(chosen)})")


def miscounted(span: Span, counts: Mapping[int | None, int]) -> list[str]:
    """Say per batch where the rows that are there differ from those that its commit recorded.

    Args:
        span: a span of bronze.
        counts: rows by when they were taken in, in milliseconds.
    """
    recorded = {ms: sum(each.rows_added for each in batches) for ms, batches in span.by_time().items()}
    names = batch_names(span)
    said = [
        f"{names[ms]}, taken in {clock(ms)}, wrote {count_of(rows, 'row')}, "
        f"{count_of(counts.get(ms, 0), 'is there', 'are there')}"
        for ms, rows in sorted(recorded.items())
        if counts.get(ms, 0) != rows
    ]
    unknown = {ms: rows for ms, rows in counts.items() if ms not in recorded and rows}
    # of batches whose commits are gone from the log
    earlier = span.commits[0].metadata.rows if span.commits and span.whole else 0
    if sum(unknown.values()) == earlier:
        return said
    for ms, rows in unknown.items():
        at = f"taken in {clock(ms)}"
        said.append(count_of(rows, f"row {at} is of no batch", f"rows {at} are of no batch"))
    return said


def batch_names(span: Span) -> dict[int, str]:
    """Name the batches by when they were planned."""
    ids = {ms: [str(each.metadata.batch_id) for each in batches] for ms, batches in span.by_time().items()}
    return {ms: f"batch {listed(each)}" for ms, each in ids.items()}


def clock(ms: int | None) -> str:
    """Write a time in milliseconds for people."""
    if ms is None:
        return "at no time"
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"
