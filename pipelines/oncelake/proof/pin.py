"""This is where it is fixed, for each table, at which version and from which commit on it is proven.

A lake may be written while it is proven. The tables are fixed from the last one to the first, so that
what a table has read is surely in the version that is fixed for the one before.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.positions import is_whole, same_position
from oncelake.proof.begin import Begin
from oncelake.proof.record import Proven
from oncelake.proof.span import Span

# A commit, and whether its rows are still there.
Entry = tuple[Commit, bool]
# Tells whether a batch is there as a whole, also in the stage's other tables.
Until = Callable[[CommitMetadata], bool]


@dataclass(frozen=True)
class Pinned:
    """One table as it is proven.

    Attributes:
        entries: every commit after the start and up to the span's version, oldest first, each with whether
            its rows are still there.
        joins: whether nothing lies between what was proven before, or what is left of the log, and the span.
        gaps: what no proof covers any more, as its commits were cleaned away.
        notes: what is left out for now, and why.
        strange: see Standing.
    """

    table_id: str
    span: Span
    entries: tuple[Entry, ...]
    joins: bool
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    strange: str | None = None


def always(metadata: CommitMetadata) -> bool:
    """Take every batch for whole."""
    del metadata
    return True


@dataclass(frozen=True)
class Limits:
    """What limits the part of a table that is proven.

    Attributes:
        begin: where the proof begins.
        proven: what an earlier proof recorded of the table.
        newest: the newest version that may be read, None for the newest there is.
        until: tells which batches are there as a whole.
        why: why one may not be, in words.
    """

    begin: Begin
    proven: Proven | None = None
    newest: int | None = None
    until: Until = always
    why: str = ""


def pin(table: Table, path: str, commit_log: DeltaLog, limits: Limits) -> Pinned | None:
    """Fix a table at its newest version that is whole, as far as the limits let it; None when there is no table."""
    table_id = commit_log.table_id()
    if table_id is None:
        return None
    proven = limits.proven if limits.proven and limits.proven.table_id == table_id else None
    found, start = _read(commit_log, limits.begin, limits.newest, table_id)
    gaps: tuple[str, ...] = proven.gaps if proven else ()
    joins = start is None or (proven is not None and start.version <= proven.version)
    if start is None and found and found[0][0].version > 0:
        start, gaps = _after_clean_up(table, found, proven, table_id)
    entries, left_out = _cut([each for each in found if not start or each[0].version > start.version], limits.until)
    version = entries[-1][0].version if entries else (start.version if start else -1)
    standing = tuple(commit for commit, stands in entries if stands and commit.metadata)
    notes = (f"{_batches(left_out)} left out: {_why(left_out[-1], limits)}",) if left_out else ()
    strange = commit_log.standing().strange if start is None and not standing else None
    return Pinned(table_id, Span(table, path, version, standing, start), tuple(entries), joins, gaps, notes, strange)


def _read(commit_log: DeltaLog, begin: Begin, newest: int | None, table_id: str) -> tuple[list[Entry], Proven | None]:
    """Read back to where the proof begins, or to the log's first commit; give the commits oldest first."""
    found: list[Entry] = []
    for commit, stands in commit_log.newest_first():
        if newest is not None and commit.version > newest:
            continue
        if stands and commit.metadata and begin(commit):
            return found[::-1], Proven.up_to(table_id, commit)
        found.append((commit, stands))
    return found[::-1], None


def _after_clean_up(
    table: Table, found: list[Entry], proven: Proven | None, table_id: str
) -> tuple[Proven | None, tuple[str, ...]]:
    """Find the start in a log that no longer has its first commits, and say what is not covered."""
    chain = [commit for commit, stands in found if stands and commit.metadata]
    if proven and (not chain or _goes_on(proven, chain[0])):
        return proven, proven.gaps
    oldest = found[0][0].version
    gone = f"{table}: versions below {oldest} are gone from its log, and no earlier proof covers them"
    whole = next((each for each in chain if may_start(each)), None)
    if whole is None or whole.metadata is None:
        return None, (f"{gone}; no batch is left to follow",)
    start = Proven.ahead_of(table_id, whole)
    if proven and proven.version >= oldest - 1:
        return start, proven.gaps
    return start, (f"{gone}; followed from batch {whole.metadata.batch_id} on",)


def _goes_on(proven: Proven, first: Commit) -> bool:
    metadata = first.metadata
    return metadata is not None and same_position(metadata.end if metadata.carries else metadata.before, proven.end)


def may_start(commit: Commit) -> bool:
    """Tell whether a proof may begin before a commit: at a batch, and between two versions of what it reads."""
    return commit.metadata is not None and not commit.metadata.carries and is_whole(commit.metadata.before)


def _cut(entries: list[Entry], until: Until) -> tuple[list[Entry], list[Commit]]:
    """Cut a table after its last batch that is there as a whole; give what is left, and the batches left out."""
    chain = [commit for commit, stands in entries if stands and commit.metadata]
    kept = len(chain)
    while kept and not _is_complete(chain[kept - 1], until):
        kept -= 1
    if kept == len(chain):
        return entries, []
    return [each for each in entries if each[0].version < chain[kept].version], chain[kept:]


def _is_complete(commit: Commit, until: Until) -> bool:
    return commit.metadata is not None and is_whole(commit.metadata.end) and until(commit.metadata)


def _why(last: Commit, limits: Limits) -> str:
    if last.metadata is not None and not limits.until(last.metadata):
        return limits.why
    return "the first snapshot, or the big version, of what it reads is not yet read to its end; run on"


def _batches(commits: list[Commit]) -> str:
    ids = [commit.metadata.batch_id for commit in commits if commit.metadata]
    return f"batch {ids[0]} is" if len(ids) == 1 else f"batches {ids[0]} to {ids[-1]} are"
