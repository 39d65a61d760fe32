"""Commit rows to a table by one engine, without the checks that a stage makes before and after it."""

from oncelake.common.spark.rows import Rows
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.write import no_fence
from oncelake.exactly_once.writers import Change, Engine


def append_by(engine: Engine, rows: Rows, metadata: CommitMetadata) -> None:
    """Append rows as one batch."""
    commit(engine.append(rows), metadata)


def commit(change: Change | None, metadata: CommitMetadata) -> None:
    """Make a change that the engine can make."""
    assert change is not None
    assert change(metadata, no_fence, no_fence)
