"""Read and write the position of a served table in the transaction that applies a batch.

`oncelake_position` has one row for each stage: the last batch's range and everything that a checkpoint is built from.
The row is locked before a batch is written, and updated before COMMIT. So the position and the rows change together,
and of two processes the second one sees what the first one has committed.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from oncelake.serving.sink import SinkBatch
from oncelake.serving.tables import POSITION

_C = POSITION.c


def recorded(connection: Connection, stage: str, *, lock: bool = False) -> SinkBatch | None:
    """Return a stage's last batch; None before the first batch.

    Its version follows from its number: a rebuild deletes the row, so the batches of a table begin with 0.
    The position comes from the columns, not from `offset_log`: a change to the columns with SQL takes effect.
    """
    query = select(POSITION).where(_C.stage == stage, _C.partition == 0)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        return None
    batch_id = int(row["batch_id"])  # a table that a user created may have a DECIMAL here
    return SinkBatch(
        stage=stage,
        version=batch_id + 1,
        query_id=row["query_id"],
        batch_id=batch_id,
        before=row["from_position"],
        after=row["to_position"],
        rows=int(row["batch_rows"]),
        total_rows=int(row["total_rows"]),
        source=str(row["source"]),
        offset_log=row["offset_log"],
        rules=row["rules"],
        run=row["run"],
        committed_ms=int(row["committed_at"].replace(tzinfo=UTC).timestamp() * 1000),
    )


def write(connection: Connection, batch: SinkBatch, *, first: bool) -> None:
    """Write a batch as the stage's position.

    Args:
        connection: a connection in the batch's transaction.
        batch: the batch.
        first: True if the stage has no position yet.
    """
    values: dict[str, Any] = {
        "source": batch.source,
        "from_position": batch.before,
        "to_position": batch.after,
        "query_id": batch.query_id,
        "batch_id": batch.batch_id,
        "batch_rows": batch.rows,
        "total_rows": batch.total_rows,
        "offset_log": batch.offset_log,
        "rules": batch.rules,
        "run": batch.run,
        "committed_at": datetime.fromtimestamp(batch.committed_ms / 1000, UTC).replace(tzinfo=None),
    }
    if first:
        connection.execute(insert(POSITION).values(stage=batch.stage, partition=0, **values))
        return
    connection.execute(update(POSITION).where(_C.stage == batch.stage, _C.partition == 0).values(**values))
