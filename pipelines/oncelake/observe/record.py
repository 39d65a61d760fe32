"""This is where it is read what each batch did, and when, from the commits of the tables themselves.

Every commit of the chain names its batch and the range that it covers, and Delta dates it. So the record of batches
needs no store of its own, cannot miss a batch or count one twice, and is there after whatever died. It reaches back as
far as Delta keeps the log: 30 days, unless a table's property says otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from oncelake.common.lake import Table
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.exactly_once.delta_log import Commit
from oncelake.exactly_once.positions import TablePosition, version_of

# How many commits of a table are read, unless told otherwise.
LOOK = 500


@dataclass(frozen=True)
class BatchRecord:
    """What one batch did.

    Attributes:
        stage: the stage's name.
        query_id: the streaming query's id.
        batch_id: the batch.
        version: the version of the stage's first table that it made.
        planned_ms: when Spark planned it, in milliseconds since 1970.
        committed_ms: when it was committed to the stage's first table.
        rows: per table, the rows that it appended, inserted or updated there.
        end: the source's position after it, as the checkpoint spells it.
        freshness: seconds from when the oldest line in it was taken in to its commit; None where the log of an
            earlier table no longer tells.
        waiting: rows of its input that were committed when it was and that it had not taken; None for bronze, whose
            source keeps no history.
        event: what the commit is: a batch, or a loss that was accepted.
        quality: what its metadata says of lines that broke a rule or a limit.
        lost: what it moved over, in words.
    """

    stage: str
    query_id: str
    batch_id: int
    version: int
    planned_ms: int
    committed_ms: int
    rows: Mapping[str, int]
    end: str | None
    freshness: float | None
    waiting: int | None
    event: str
    quality: Mapping[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it took from its plan to its commit."""
        return max(self.committed_ms - self.planned_ms, 0) / 1000

    @property
    def rate(self) -> float:
        """Rows per second."""
        return sum(self.rows.values()) / max(self.seconds, 0.001)


@dataclass
class _Log:
    """The commits of one table that are read, oldest first, and how old the oldest line in each is."""

    commits: list[Commit]
    oldest_ms: dict[int, int] = field(default_factory=dict)

    def between(self, first: int, end: int) -> Iterator[Commit]:
        return (commit for commit in self.commits if first <= commit.version < end)

    def taken_in(self, first: int, end: int) -> int | None:
        """Give when the oldest line of some versions was taken in; None where they are not all known."""
        known = self.commits and self.commits[0].version <= max(first, 1)
        times = [self.oldest_ms[each.version] for each in self.between(first, end) if each.version in self.oldest_ms]
        return min(times, default=None) if known else None

    def waiting(self, version: int, at_ms: int) -> int:
        """Count the rows that were committed from a version on, up to a time."""
        later = (each for each in self.commits if each.version >= version and each.timestamp <= at_ms)
        return sum(each.rows_added for each in later if each.changes_data)


def record(chain: Chain, look: int = LOOK) -> dict[str, list[BatchRecord]]:
    """Give each stage's batches, oldest first, by the stage's name.

    A served table keeps its last batch alone, in the database, so a stage that serves is not among them.

    Args:
        chain: the chain and where it lives.
        look: how many commits of each table are read, from the newest back.
    """
    logs: dict[Table, _Log] = {}
    found: dict[str, list[BatchRecord]] = {}
    for stage in chain.stages:
        if not stage.writes:
            continue
        for table in stage.tables:
            newest_first = islice(chain.commit_log(table, at_one_moment=True).newest_first(), look)
            logs[table] = _Log([commit for commit, stands in newest_first if stands][::-1])
        found[stage.name] = list(_batches(stage, logs))
    return found


def _batches(stage: Stage, logs: Mapping[Table, _Log]) -> Iterator[BatchRecord]:
    first, *others = stage.tables
    beside = {
        (each.metadata.query_id, each.metadata.batch_id, str(table)): each
        for table in others
        for each in logs[table].commits
        if each.metadata and not each.metadata.carries
    }
    for commit in logs[first].commits:
        metadata = commit.metadata
        if metadata is None or metadata.carries:  # moves no new line, so it makes none older
            continue
        begin, end, waiting, oldest = version_of(metadata.before), _end(metadata.end), None, metadata.planned_ms
        if stage.reads is not None:
            source = logs.get(stage.reads)  # not there where a part of the chain is looked at
            known = source.taken_in(begin, end) if source else None
            oldest = known if known is not None else -1
            waiting = source.waiting(end, commit.timestamp) if source else None
        if oldest >= 0:
            logs[first].oldest_ms[commit.version] = oldest
        rows = {str(first): commit.rows_changed}
        keys = ((str(table), (metadata.query_id, metadata.batch_id, str(table))) for table in others)
        written = {table: beside[key] for table, key in keys if key in beside}
        rows |= {table: each.rows_changed for table, each in written.items()}
        quality = [metadata.quality, *(each.metadata.quality for each in written.values() if each.metadata)]
        yield BatchRecord(
            stage=stage.name,
            query_id=metadata.query_id,
            batch_id=metadata.batch_id,
            version=commit.version,
            planned_ms=metadata.planned_ms,
            committed_ms=commit.timestamp,
            rows=rows,
            end=metadata.end,
            freshness=max(commit.timestamp - oldest, 0) / 1000 if oldest >= 0 else None,
            waiting=waiting,
            event=metadata.event.value,
            quality=next(filter(None, quality), {}),
            lost=tuple(metadata.lost),
        )


def _end(at: str | None) -> int:
    """Give the first version after all that a position has read, one that it has read in part included."""
    found = TablePosition.parse(at)
    return 0 if found is None else found.version + (not found.is_whole)
