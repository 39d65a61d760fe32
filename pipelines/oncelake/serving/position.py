"""Read and write the position of a served table in the transaction that applies a batch.

`oncelake_position` has one row for each stage: the last batch's range and everything that a checkpoint is built from.
The row is locked before a batch is written, and updated before COMMIT. So the position and the rows change together,
and of two processes the second one sees what the first one has committed.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from oncelake.common.errors import ReplayError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.positions import TablePosition, same_position
from oncelake.serving.tables import POSITION

_C = POSITION.c


def recorded(connection: Connection, stage: str, *, lock: bool = False) -> ChainCommit | None:
    """Return a stage's last batch as a commit of its table; None before the first batch.

    The position comes from the columns, not from `offset_log`: a change to the columns with SQL takes effect.
    """
    wanted = select(POSITION).where(_C.stage == stage, _C.partition == 0)
    row = connection.execute(wanted.with_for_update() if lock else wanted).mappings().first()
    if row is None:
        return None
    table, _, table_id = str(row["source"]).rpartition("@")
    metadata = CommitMetadata(
        stage=stage,
        table=stage,
        query_id=row["query_id"],
        batch_id=int(row["batch_id"]),  # a table that a user created may have a DECIMAL here
        before=row["from_position"],
        after="\n".join([*lines_of(row["offset_log"])[:2], row["to_position"]]),
        rows=int(row["total_rows"] - row["batch_rows"]),
        rules=row["rules"],
        run=row["run"],
        source={"kind": "delta", "table": table, "table_id": table_id},
    )
    at = int(row["committed_at"].replace(tzinfo=UTC).timestamp() * 1000)
    metrics = {"numOutputRows": str(row["batch_rows"])}
    return ChainCommit(metadata.batch_id, "UPSERT", {}, metrics, at, metadata, changes_data=True)


def write(connection: Connection, metadata: CommitMetadata, source: str, rows: int, *, first: bool) -> None:
    """Write a batch's range as the stage's position.

    Args:
        connection: a connection in the batch's transaction.
        metadata: the batch; its `rows` are the source rows of all earlier batches.
        source: the table that the stage follows.
        rows: the source rows of this batch.
        first: True if the stage has no position yet.
    """
    values: dict[str, Any] = {
        "source": f"{source}@{metadata.source.get('table_id', '')}",
        "from_position": metadata.before,
        "to_position": metadata.end,
        "query_id": metadata.query_id,
        "batch_id": metadata.batch_id,
        "batch_rows": rows,
        "total_rows": metadata.rows + rows,
        "offset_log": metadata.after,
        "rules": metadata.rules,
        "run": metadata.run,
        "committed_at": datetime.now(UTC).replace(tzinfo=None),
    }
    if first:
        connection.execute(insert(POSITION).values(stage=metadata.stage, partition=0, **values))
        return
    connection.execute(update(POSITION).where(_C.stage == metadata.stage, _C.partition == 0).values(**values))


def is_applied(metadata: CommitMetadata, last: CommitMetadata | None, place: str) -> bool:
    """Return True if the database has already applied a batch, False if the batch is the next one.

    Raises:
        ReplayError: the batch overlaps the recorded range, leaves a gap after it, or belongs to another query.
    """
    if last is None:
        if metadata.batch_id == 0:
            return False
        raise ReplayError(
            f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}, "
            f"but {place} has recorded no batch of this stage. "
            f"{_UNDONE}"
        )
    if metadata.covers_same(last):
        return True
    if (
        metadata.query_id == last.query_id
        and metadata.batch_id == last.batch_id + 1
        and same_position(metadata.before, last.end)
    ):
        return False
    raise ReplayError(
        f"batch {metadata.batch_id} of {metadata.stage} (query {metadata.query_id}) "
        f"covers {metadata.before} to {metadata.end}, but {place} "
        f"has recorded batch {last.batch_id} (query {last.query_id}) with {last.before} to {last.end}: "
        f"{_relation(metadata, last)}. {_UNDONE}"
    )


_UNDONE = "The whole batch was rolled back. To see the state, run: oncelake doctor"


def _relation(metadata: CommitMetadata, last: CommitMetadata) -> str:
    try:
        start, end = TablePosition.parse(metadata.before), TablePosition.parse(last.end)
    except (ValueError, KeyError):
        return "one of these positions cannot be read"
    if end is None or (start is not None and start.table_id != end.table_id):
        return "the two positions are in different tables"
    if start is None or start.order < end.order:
        return "the ranges overlap"
    if start.order == end.order:
        return "the batch's ID or query does not follow the recorded one"
    return "there is a gap between the two"
