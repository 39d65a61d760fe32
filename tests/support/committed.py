"""Commit rows to a table by one engine, without the checks that a stage makes before and after it."""

from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.write import no_fence
from oncelake.exactly_once.writers import Engine, TableChange


def append_by(engine: Engine, rows: BatchRows, metadata: CommitMetadata) -> None:
    """Append rows as one batch."""
    commit(engine.append(rows), metadata)


def commit(change: TableChange | None, metadata: CommitMetadata) -> None:
    """Make a change that the engine can make."""
    assert change is not None
    assert change(metadata, lambda *_: 0, no_fence)
