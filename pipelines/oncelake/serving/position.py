"""This is where the position of a served table is read and written, in the transaction that applies a batch.

`oncelake_position` has one row a stage: the last batch's range and all that a checkpoint is made from. It is
locked before anything is written and updated before COMMIT, so it and the rows are of one moment, and of two
processes the second sees what the first has done.
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
    """Read a stage's last batch as a commit of its table; None before the first.

    The columns are the truth: a position that was changed in them counts, whatever `offset_log` says.
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
        batch_id=int(row["batch_id"]),  # a DECIMAL where somebody made the column
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
        connection: within the batch's transaction.
        metadata: the batch; its `rows` are those of all batches before.
        source: the table that the stage follows.
        rows: source rows of the batch.
        first: whether the stage has no position yet.
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
    """Tell whether the database holds a batch already; False when it is the next one.

    Raises:
        ReplayError: its range overlaps what is recorded, leaves a gap after it, or is of another query.
    """
    if last is None:
        if metadata.batch_id == 0:
            return False
        raise ReplayError(
            f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}, "
            f"and {place} has recorded no batch of it. "
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
        f"covers {metadata.before} to {metadata.end}; {place} "
        f"has recorded batch {last.batch_id} (query {last.query_id}) with {last.before} to {last.end}: "
        f"{_relation(metadata, last)}. {_UNDONE}"
    )


_UNDONE = "Everything of this batch was rolled back. See the state with: oncelake doctor"


def _relation(metadata: CommitMetadata, last: CommitMetadata) -> str:
    try:
        start, end = TablePosition.parse(metadata.before), TablePosition.parse(last.end)
    except (ValueError, KeyError):
        return "what is recorded is no position"
    if end is None or (start is not None and start.table_id != end.table_id):
        return "the two are of different tables"
    if start is None or start.order < end.order:
        return "the ranges overlap"
    return "the second does not follow the first" if start.order == end.order else "there is a gap between the two"
