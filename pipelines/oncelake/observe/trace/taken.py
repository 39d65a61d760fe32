"""This is where it is found which commit of a table took a line in, by the positions that commits carry."""

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import unquote

from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.positions import TablePosition


def taken_at(commit_log: DeltaLog, ingested_at: datetime) -> list[Commit]:
    """Give bronze's commit of the batch that was planned at a time; none when it is no longer in the log."""
    millis = round(ingested_at.timestamp() * 1000)
    return [each for each in _batches(commit_log) if each.metadata and each.metadata.planned_ms == millis][:1]


def taken_from(commit_log: DeltaLog, table_id: str | None, version: int) -> list[Commit]:
    """Give the commits that can have taken in what one version of the table before added, oldest first.

    It is one commit, unless a large version or first snapshot was taken in by several batches.
    """
    found: list[Commit] = []
    for commit in _batches(commit_log):
        assert commit.metadata is not None
        start, end = _of(commit.metadata.before, table_id), _of(commit.metadata.end, table_id)
        if end is None or not end.may_have_read(version):
            break
        if start is None or not start.has_read(version):
            found.insert(0, commit)
    return found


def replays_after(commit_log: DeltaLog, version: int) -> tuple[Commit, ...]:
    """Give the commits after a version that moved rows to a table from its stage's second one, oldest first."""
    found: list[Commit] = []
    for commit, stands in commit_log.newest_first():
        if commit.version <= version:
            break
        if stands and commit.metadata is not None and commit.metadata.event is CommitKind.REPLAY:
            found.insert(0, commit)
    return tuple(found)


def added(commit_log: DeltaLog, commit: Commit) -> set[str]:
    """Give the names of the data files that a commit added."""
    return {unquote(path).rsplit("/", 1)[-1] for path in commit_log.files_added(commit.version)}


def is_behind(commit_log: DeltaLog, table_id: str | None, version: int) -> bool:
    """Tell whether a stage has not yet read all that a version of the table before added."""
    metadata = commit_log.state().metadata
    at = _of(metadata.end, table_id) if metadata else None
    return at is None or not at.has_read(version)


def planned_at(commit: Commit) -> datetime:
    """Give the time at which a commit's batch was planned."""
    assert commit.metadata is not None
    return commit.metadata.planned


def _batches(commit_log: DeltaLog) -> Iterator[Commit]:
    """Give the commits, newest first, that carry a range of their own and whose rows are still there."""
    for commit, stands in commit_log.newest_first():
        if stands and commit.metadata is not None and not commit.metadata.carries:
            yield commit


def _of(position: str | None, table_id: str | None) -> TablePosition | None:
    at = TablePosition.parse(position)
    return at if at and at.table_id == table_id else None
