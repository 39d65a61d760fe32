"""Read from the tables' commits what each batch did, and when.

Every commit of the chain names its batch and the range that it covers, and Delta adds the time. So this history needs
no store of its own. It cannot miss a batch or count one twice, and it survives no matter what fails. It reaches back as
far as Delta keeps the log: 30 days, unless a table's property sets another period.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from oncelake.common.lake import SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import Commit
from oncelake.exactly_once.positions import TablePosition, in_table, version_of

# The default number of commits to read per table.
LOOK = 500


@dataclass
class _Log:
    """The commits read from one table, oldest first, and the ingestion time of the oldest line in each."""

    commits: list[Commit]
    oldest_ms: dict[int, int] = field(default_factory=dict)

    def between(self, first: int, end: int) -> Iterator[Commit]:
        return (commit for commit in self.commits if first <= commit.version < end)

    def oldest_line_in(self, first: int, end: int) -> int | None:
        """Return when the oldest line of some versions was ingested; None if not all of the versions are known."""
        known = self.commits and self.commits[0].version <= max(first, 1)
        versions = (commit.version for commit in self.between(first, end))
        times = [self.oldest_ms[version] for version in versions if version in self.oldest_ms]
        return min(times, default=None) if known else None

    def waiting(self, version: int, at_ms: int) -> int:
        """Return the number of rows committed from a version on, up to a time."""
        later = (commit for commit in self.commits if commit.version >= version and commit.timestamp <= at_ms)
        return sum(commit.rows_added for commit in later if commit.changes_data)


def record(chain: Chain, look: int = LOOK) -> dict[str, list[CommittedBatch]]:
    """Return each stage's batches, oldest first, by the stage's name.

    Serving stages are excluded: a served table records only its last batch, in the database.

    Args:
        chain: the chain and where it is stored.
        look: how many commits to read per table, from the newest back.
    """
    logs: dict[Table, _Log] = {}
    records: dict[str, list[CommittedBatch]] = {}
    for stage in chain.stages:
        if not stage.writes:
            continue
        for table in stage.tables:
            newest_first = islice(chain.commit_log(table, at_one_moment=True).newest_first(), look)
            logs[table] = _Log([commit for commit, stands in newest_first if stands][::-1])
        named = chain.silver.named and stage.layer == SILVER.layer
        ids = {table: chain.commit_log(table).table_id() or "" for table in stage.reads if named}
        records[stage.name] = list(_batches(stage, logs, ids))
    return records


def _batches(stage: Stage, logs: Mapping[Table, _Log], ids: Mapping[Table, str | None]) -> Iterator[CommittedBatch]:
    first, *others = stage.tables
    commits = {
        (other.metadata.query_id, other.metadata.batch_id, str(table)): other
        for table in others
        for other in logs[table].commits
        if other.metadata and not other.metadata.carries
    }
    for commit in logs[first].commits:
        metadata = commit.metadata
        if metadata is None or metadata.carries:  # adds no new line, so it changes no freshness
            continue
        waiting, oldest = None, metadata.planned_ms
        if stage.reads:
            read = [_Read(logs.get(table), *_range(metadata, ids.get(table))) for table in stage.reads]
            oldest = _oldest([part.oldest for part in read if part.is_any or len(read) == 1])
            rows_left = [part.log.waiting(part.end, commit.timestamp) for part in read if part.log is not None]
            waiting = sum(rows_left) if len(rows_left) == len(read) else None
        if oldest >= 0:
            logs[first].oldest_ms[commit.version] = oldest
        rows = {str(first): commit.rows_changed}
        keys = ((str(table), (metadata.query_id, metadata.batch_id, str(table))) for table in others)
        written = {table: commits[key] for table, key in keys if key in commits}
        rows |= {table: other.rows_changed for table, other in written.items()}
        quality = [metadata.quality, *(other.metadata.quality for other in written.values() if other.metadata)]
        recorded = next(filter(None, quality), {})
        yield CommittedBatch(
            stage=stage.name,
            batch_id=metadata.batch_id,
            rows=rows,
            seconds=max(commit.timestamp - metadata.planned_ms, 0) / 1000,
            warned=tuple(recorded.get("warned", ())),
            refused=recorded.get("rules", {}),
            query_id=metadata.query_id,
            position=metadata.end,
            ended=commit.timestamp / 1000,
            freshness=(commit.timestamp - oldest) / 1000 if 0 <= oldest <= commit.timestamp else None,
            version=commit.version,
            planned_ms=metadata.planned_ms,
            waiting=waiting,
            refused_lines=recorded.get("lines", 0),
            lost=tuple(metadata.lost),
        )


@dataclass(frozen=True)
class _Read:
    """The versions of one table that a batch read, without `end`; `log` is None if the table's log was not read."""

    log: _Log | None
    begin: int
    end: int

    @property
    def is_any(self) -> bool:
        return self.begin < self.end

    @property
    def oldest(self) -> int | None:
        return self.log.oldest_line_in(self.begin, self.end) if self.log is not None else None


def _oldest(times: list[int | None]) -> int:
    """Return the earliest time; -1 if one is unknown, or there is none."""
    known = [at for at in times if at is not None]
    return min(known, default=-1) if len(known) == len(times) else -1


def _range(metadata: CommitMetadata, table_id: str | None) -> tuple[int, int]:
    """Return the first version that a batch read of a table, and the first one that it did not read at all.

    Args:
        metadata: the metadata of the batch.
        table_id: the table's ID; None for the only table that the stage reads.
    """
    if table_id is None:
        return version_of(metadata.before), _end(TablePosition.parse(metadata.end))
    start = in_table(metadata.before, table_id)
    return start.version if start else 0, _end(in_table(metadata.end, table_id))


def _end(position: TablePosition | None) -> int:
    return 0 if position is None else position.version + (not position.is_whole)
