"""Say which part of a table a proof covers, read its rows, and count them against what its commits recorded."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.common.tables import read_version
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import Commit
from oncelake.proof.link import listed
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
    commits: tuple[Commit, ...]
    start: Proven | None = None

    def noted(self, kind: CommitKind | None = None) -> Iterator[tuple[Commit, CommitMetadata]]:
        """Iterate over its commits and their notes: all, or those of a kind."""
        for commit in self.commits:
            if commit.metadata is not None and kind in (None, commit.metadata.event):
                yield commit, commit.metadata

    @property
    def whole(self) -> bool:
        """Whether it covers the table from its beginning."""
        return self.start is None

    def of(self, kind: CommitKind) -> tuple[Commit, ...]:
        """Return the commits of a kind, such as those that hold batches of rows."""
        return tuple(commit for commit, _ in self.noted(kind))

    @property
    def losses(self) -> tuple[CommitMetadata, ...]:
        """The notes of the losses that were accepted."""
        return tuple(metadata for _, metadata in self.noted(CommitKind.LOSS))

    @property
    def before(self) -> str | None:
        """The source's position where it begins; None from the source's beginning."""
        if self.start is not None:
            return self.start.end
        first = self.commits[0].metadata if self.commits else None
        return first.before if first else None

    @property
    def end(self) -> str | None:
        """The source's position where it ends; None when it holds nothing and nothing came before."""
        last = self.commits[-1].metadata if self.commits else None
        return last.end if last else self.before

    @property
    def rows(self) -> int:
        """Rows that its commits put into the table."""
        return sum(each.rows_added for each in self.commits)

    @property
    def rows_in_all(self) -> int:
        """Rows that the chain put into the table, up to the span's end."""
        return (self.start.rows if self.start else 0) + self.rows

    def by_time(self) -> dict[int, list[Commit]]:
        """Return its batches by when they were planned, in milliseconds: `ingested_at` of a bronze batch's rows."""
        found: dict[int, list[Commit]] = {}
        for commit, metadata in self.noted(CommitKind.BATCH):
            found.setdefault(metadata.planned_ms, []).append(commit)
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
        f"{names[ms]}, taken in {clock(ms)}, wrote {rows:,} rows, {counts.get(ms, 0):,} are there"
        for ms, rows in sorted(recorded.items())
        if counts.get(ms, 0) != rows
    ]
    unknown = {ms: rows for ms, rows in counts.items() if ms not in recorded and rows}
    first = span.commits[0].metadata if span.commits else None
    earlier = first.rows if first is not None and span.whole else 0  # of batches whose commits are gone from the log
    if sum(unknown.values()) == earlier:
        return said
    return [*said, *(f"{rows:,} rows taken in {clock(ms)} are of no batch" for ms, rows in unknown.items())]


def batch_names(span: Span) -> dict[int, str]:
    """Name the batches by when they were planned."""
    ids = {ms: [str(each.metadata.batch_id) for each in found if each.metadata] for ms, found in span.by_time().items()}
    return {ms: f"batch {listed(each)}" for ms, each in ids.items()}


def clock(ms: int | None) -> str:
    """Write a time in milliseconds for people."""
    if ms is None:
        return "at no time"
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"
