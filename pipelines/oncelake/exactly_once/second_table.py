"""This is where it is found which version of a stage's second table belongs to what its first one holds."""

from dataclasses import dataclass

from oncelake.common.errors import StateError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import Commit, CommitLog
from oncelake.exactly_once.positions import same_position


def rebuild_hint(stage: str) -> str:
    """Say what brings a stage back that no checkpoint can."""
    return f"What can be done: oncelake rebuild {stage}, which replays it from the start of what it reads"


@dataclass(frozen=True)
class SecondTable:
    """A table that only some batches write to, and what brings it to where the first table is.

    Attributes:
        target: the version to set it to, None when it is as it should be.
        batch_id: the last batch that it then holds.
        rows: the chain's rows that it then holds.
        is_ahead: whether it remembers a batch that the first table no longer has.
    """

    target: int | None
    batch_id: int | None
    rows: int
    is_ahead: bool

    @classmethod
    def of(cls, stage: str, first: CommitMetadata, name: str, commit_log: CommitLog) -> "SecondTable":
        """Find what belongs to the first table's last commit.

        Raises:
            StateError: a batch that it must hold is in none of its versions.
        """
        state = commit_log.state()
        ahead = any(_is_ahead(commit, first) for commit, _ in commit_log.newest_first())
        wanted = _wanted(first, name, commit_log)
        if wanted is None and first.beside.get(name) is not None:
            raise StateError(
                f"{stage}: {name} lacks batch {first.beside[name]}, and no version of it in its log has it. "
                f"{rebuild_hint(stage)}"
            )
        if wanted is None or wanted.metadata is None:
            return cls(_before_first(commit_log) if state.last else None, None, 0, ahead)
        target = None if state.last == wanted else wanted.version
        return cls(target, wanted.metadata.batch_id, wanted.rows_in_all, ahead)


def _is_ahead(commit: Commit, first: CommitMetadata) -> bool:
    """Return True if Delta remembers a later batch of the first table's query, and would skip it when it comes again.

    A later commit can hide it: a recovery that died before it committed to the first table.
    """
    metadata = commit.metadata
    return metadata is not None and metadata.query_id == first.query_id and metadata.batch_id > first.batch_id


def _wanted(first: CommitMetadata, name: str, commit_log: CommitLog) -> Commit | None:
    """Find the newest commit of a second table that belongs to what the first table holds."""
    for commit, _ in commit_log.newest_first():
        metadata = commit.metadata
        if metadata is None or metadata.batch_id > first.batch_id:
            continue
        if metadata.batch_id == first.batch_id:
            if same_position(metadata.end, first.end) and metadata.replay == first.replay:
                return commit
        elif metadata.batch_id == first.beside.get(name):
            return commit
    return None


def _before_first(commit_log: CommitLog) -> int | None:
    """Give the version before the chain's first commit."""
    versions = [commit.version for commit, _ in commit_log.newest_first() if commit.metadata is not None]
    return min(versions) - 1 if versions and min(versions) > 0 else None
