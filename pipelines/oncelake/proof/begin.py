"""This is where a proof finds the commit after which it begins, reading a table's log newest first."""

from collections.abc import Callable

from oncelake.exactly_once.delta_log import Commit
from oncelake.exactly_once.positions import is_whole, same_position
from oncelake.proof.record import Proven

# Tells whether a commit of the chain, whose rows are still there, is the last one that is not to be read again.
Begin = Callable[[Commit], bool]


def from_record(proven: Proven | None, table_id: str | None) -> Begin:
    """Begin after the commit that an earlier proof of the same table ended with."""

    def begin(commit: Commit) -> bool:
        metadata = commit.metadata
        return (
            proven is not None
            and proven.table_id == table_id
            and metadata is not None
            and (commit.version, metadata.batch_id, metadata.query_id)
            == (proven.version, proven.batch_id, proven.query_id)
            and same_position(metadata.end, proven.end)
        )

    return begin


def from_beginning(commit: Commit) -> bool:
    """Begin with the table's first commit."""
    del commit
    return False


def from_time(since_ms: int) -> Begin:
    """Begin after the last commit that was made before a time."""
    return lambda commit: commit.timestamp < since_ms and commit.metadata is not None and is_whole(commit.metadata.end)


def from_batch(batch_id: int) -> Begin:
    """Begin after the last commit of a batch or an earlier one."""
    return lambda commit: commit.metadata is not None and commit.metadata.batch_id <= batch_id
