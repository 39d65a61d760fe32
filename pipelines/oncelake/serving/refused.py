"""Read and write `oncelake_refused`: the rows that the serving database cannot hold, each with its value and reason.

A refused row is in no served table: an older row of its key is deleted. In idempotent mode it leaves the table again
when its values can be held. In transactional mode it stays until a rebuild, as the counts of a batch are missing. There
a sum can also leave the range of its column when a batch is added: see `overflow`.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, inspect, select

from oncelake.common.errors import ConfigError
from oncelake.serving.sink import RefusedRow, Row, SinkBatch
from oncelake.serving.tables import REFUSED

_C = REFUSED.c
# Rows in one statement.
CHUNK = 500


def has_table(connection: Connection) -> bool:
    """Return True if the database has the table; `oncelake serving init` of older versions did not create it."""
    return inspect(connection).has_table(REFUSED.name)


def keys(connection: Connection, stage: str) -> frozenset[str]:
    """Return the keys, as text, of a stage's refused rows."""
    return frozenset(connection.execute(select(_C.row_key).where(_C.stage == stage)).scalars())


def forget(connection: Connection, stage: str) -> None:
    """Delete all refused rows of a stage."""
    connection.execute(delete(REFUSED).where(_C.stage == stage))


def write(
    connection: Connection, sql_table: Table, batch: SinkBatch, rows: Iterator[RefusedRow], before: frozenset[str]
) -> None:
    """Write the refused rows of a batch, and delete the older rows of their keys from the served table.

    Args:
        connection: a connection in the batch's transaction.
        sql_table: the served table.
        batch: the batch.
        rows: its refused rows.
        before: the keys of the rows that were refused before.

    Raises:
        ConfigError: there is no table for them.
    """
    key = sql_table.primary_key.columns[0]
    while part := list(islice(rows, CHUNK)):
        if not has_table(connection):
            raise ConfigError(f"{part[0]}. There is no table {REFUSED.name} for it. Run: oncelake serving init")
        query = select(key).where(key.in_([row.key for row in part if row.key is not None]))
        stored = list(connection.execute(query).scalars())
        if stored:
            connection.execute(delete(sql_table).where(key.in_(stored)))  # guard: refused-older-row-deleted
        _remove(connection, batch.stage, [row.key_text for row in part if row.key_text in before])
        connection.execute(insert(REFUSED), [_values(batch, row) for row in part])


def accepted(connection: Connection, stage: str, chunk: list[Row], before: frozenset[str], *, adds: bool) -> list[Row]:
    """Return the rows of a part that may be written, if some of their keys were refused before.

    Args:
        connection: a connection in the batch's transaction.
        stage: the stage.
        chunk: the rows.
        before: the keys of the rows that were refused before.
        adds: True if values are added to the stored ones, so that a refused row is never complete again.
    """
    if not before:
        return chunk
    if adds:
        return [row for row in chunk if str(row[0]) not in before]  # guard: refused-row-not-added-to
    _remove(connection, stage, [str(row[0]) for row in chunk if str(row[0]) in before])
    return chunk


def _remove(connection: Connection, stage: str, texts: list[str]) -> None:
    for part in _parts(texts):
        connection.execute(delete(REFUSED).where(_C.stage == stage, _C.row_key.in_(part)))


def _parts(texts: list[str]) -> Iterator[list[str]]:
    return (texts[at : at + CHUNK] for at in range(0, len(texts), CHUNK))


def _values(batch: SinkBatch, row: RefusedRow) -> dict[str, Any]:
    return {
        "stage": batch.stage,
        "row_key": row.key_text,
        "row_values": row.row,
        "column_name": row.column,
        "value_text": row.value,
        "reason": row.reason,
        "batch_id": batch.batch_id,
    }
