"""The part of a table that a proof covers: read its rows, and compare their count with the commit metadata."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.proven import ProvenTable

# Half of a hash's bits: two billion values of 32 bits can be summed without overflow.
HALF = 0xFFFF_FFFF


@dataclass(frozen=True)
class Span:
    """The part of one table that a proof covers, at a fixed version that later commits do not change.

    Start and end are never inside a snapshot or a version of the source. The bronze span that `balance` gets is
    cut to what the silver span read: from the bronze version at silver's start to the one before silver's end.

    Attributes:
        path: the path of the table.
        version: the version that is read.
        commits: the chain's commits after the start whose rows still exist, oldest first; they include
            recoveries, losses and replays.
        start: the point where an earlier proof ended, where a limited proof begins, or where the log begins; None for
            the beginning.
        includes_earlier: True if the rows before the start are compared too, by their origin: their commits are gone
            from the log.
        later: the planning times of batches after the span, in milliseconds, if the version at its end cannot be read.
    """

    table: Table
    path: str
    version: int
    commits: tuple[ChainCommit, ...]
    start: ProvenTable | None = None
    includes_earlier: bool = False
    later: frozenset[int] = frozenset()

    def noted(self) -> Iterator[tuple[ChainCommit, CommitMetadata]]:
        """Yield the span's commits with their metadata."""
        return ((commit, commit.metadata) for commit in self.commits)

    @property
    def whole(self) -> bool:
        """True if the span's rows are all rows of the table."""
        return self.start is None or self.includes_earlier

    @property
    def complete(self) -> bool:
        """True if the span has every commit of the table."""
        return self.start is None

    @property
    def rows_before(self) -> int:
        """Rows that the chain wrote to the table before the span's first commit."""
        if self.start is not None:
            return self.start.rows
        return self.commits[0].metadata.rows if self.commits else 0

    def of(self, kind: CommitKind) -> tuple[ChainCommit, ...]:
        """Return the commits of one kind, such as batches or replays."""
        return tuple(commit for commit in self.commits if commit.metadata.event is kind)

    @property
    def losses(self) -> tuple[CommitMetadata, ...]:
        """The metadata of the accepted losses."""
        return tuple(commit.metadata for commit in self.of(CommitKind.LOSS))

    @property
    def before(self) -> str | None:
        """The source position where the span begins; None for the source's beginning."""
        if self.start is not None:
            return self.start.end
        return self.commits[0].metadata.before if self.commits else None

    @property
    def end(self) -> str | None:
        """The source position where the span ends; None if there is no batch in or before the span."""
        return self.commits[-1].metadata.end if self.commits else self.before

    @property
    def rows(self) -> int:
        """Rows that the span's commits wrote to the table."""
        return sum(commit.rows_added for commit in self.commits)

    @property
    def lines_before(self) -> int:
        """The lines that the rows before the span come from."""
        if self.start is not None:
            return self.start.lines_in_all
        return self.commits[0].metadata.lines_before if self.commits else 0

    @property
    def lines_in_all(self) -> int:
        """The lines that the rows of the table come from, up to the span's end."""
        return self.lines_before + sum(commit.lines_added for commit in self.commits)

    @property
    def rows_in_all(self) -> int:
        """Rows that the chain wrote to the table, up to the span's end."""
        return self.rows_before + self.rows

    def up_to(self, end: int) -> "Span":
        """Return the span without the batches that wrote a version or a later one; its rows are read at its version."""
        commits = tuple(commit for commit in self.commits if commit.version < end)
        later = replace(self, commits=self.commits[len(commits) :]).by_time()
        return replace(self, commits=commits, later=frozenset(later))

    def by_time(self) -> dict[int, list[ChainCommit]]:
        """Return the span's batches by planning time in milliseconds: the `ingested_at` of a bronze batch's rows."""
        batches: dict[int, list[ChainCommit]] = {}
        for commit in self.of(CommitKind.BATCH):
            batches.setdefault(commit.metadata.planned_ms, []).append(commit)
        return batches


# A row's ingestion time in milliseconds, in SQL.
INGESTED_MS = "unix_millis(ingested_at)"


def ingested_ms() -> Column:
    """Return the column of a row's ingestion time, in milliseconds."""
    return F.expr(INGESTED_MS)


def rows_of(spark: SparkSession, span: Span, times: Collection[int] | None = None) -> DataFrame:
    """Read the rows of a span: all rows up to its end if the span is whole, else those of its batches.

    Args:
        spark: the session.
        span: the table, and the version to read.
        times: the planning times of the rows' bronze batches, in milliseconds; default: those of the span.
    """
    return read_version(spark, span.path, span.version).where(rows_in(span, times))


def rows_in(span: Span, times: Collection[int] | None = None) -> str:
    """Return in SQL which rows `rows_of` reads, for Spark and without it."""
    if span.whole:
        return f"{INGESTED_MS} NOT IN ({', '.join(map(str, sorted(span.later)))})" if span.later else "TRUE"
    chosen = sorted(span.by_time() if times is None else times)
    if not chosen:
        return "FALSE"
    # BETWEEN lets Delta skip files by their statistics; DuckDB hands several times on to Arrow only with pytz
    between = f"ingested_at BETWEEN timestamp_millis({chosen[0]}) AND timestamp_millis({chosen[-1]})"
    return f"{between} AND {INGESTED_MS} IN ({', '.join(map(str, chosen))})"


def miscounted(span: Span, counts: Mapping[int | None, int]) -> list[str]:
    """Return the batches whose row count in the table differs from the count in their commit, in words.

    Args:
        span: a span of bronze.
        counts: rows by ingestion time in milliseconds.
    """
    recorded = {ms: sum(batch.rows_added for batch in batches) for ms, batches in span.by_time().items()}
    names = batch_names(span)
    faults = [
        f"{names[ms]}, ingested at {clock(ms)}, wrote {count_of(rows, 'row')}, "
        f"{count_of(counts.get(ms, 0), 'is in the table', 'are in the table')}"
        for ms, rows in sorted(recorded.items())
        if counts.get(ms, 0) != rows  # guard: bronze-rows-as-recorded
    ]
    unknown = {ms: rows for ms, rows in counts.items() if ms not in recorded and rows}
    # rows of batches whose commits are gone from the log
    if sum(unknown.values()) == (span.rows_before if span.whole else 0):
        return faults
    for ms, rows in unknown.items():
        at = f"ingested at {clock(ms)}"
        # guard: bronze-rows-of-batches
        faults.append(count_of(rows, f"row {at} belongs to no batch", f"rows {at} belong to no batch"))
    return faults


def batch_names(span: Span) -> dict[int, str]:
    """Return the batches' names by their planning time."""
    ids = {ms: [str(batch.metadata.batch_id) for batch in batches] for ms, batches in span.by_time().items()}
    return {ms: f"batch {listed(numbers)}" for ms, numbers in ids.items()}


def clock(ms: int | None) -> str:
    """Return a time in milliseconds as readable text."""
    if ms is None:
        return "an unknown time"
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"
