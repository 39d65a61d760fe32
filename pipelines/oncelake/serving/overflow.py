"""Find the rows of a batch with which a sum in the database would leave the range of its column.

The range is that of gold's type in every database: a wider column of a table that you created does not hold more, and
SQLite stores a decimal as text and a large count as a float.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, Text, collate, or_, select, type_coerce

from oncelake.serving.refused import CHUNK
from oncelake.serving.sink import KEY, LONGEST, RefusedRow, Row, SinkColumn, SinkTable
from oncelake.serving.tables import integer_range
from oncelake.serving.values import DECIMALS, exact_sum, out_of_range

# What Spark's to_json writes for a float that JSON does not have.
_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# guard: overflowing-group-refused
def overflowing(connection: Connection, sql_table: Table, table: SinkTable, rows: list[Row]) -> Iterator[RefusedRow]:
    """Yield the rows that cannot be added to the stored ones, each with the sum that its column cannot hold.

    The database is asked only for rows that are so near to the end of a range that the batch could leave it.

    Args:
        connection: a connection in the batch's transaction.
        sql_table: the served table.
        table: its columns.
        rows: rows of the batch.
    """
    sums = [
        _Sum(place, column, sql_table.c[column.name])
        for place, column in enumerate(table.columns)
        if column.merge in ("count", "sum")
    ]
    near = [condition for column_sum in sums for condition in column_sum.near(rows, connection.dialect.name)]
    key = sql_table.primary_key.columns[0]
    for at in range(0, len(rows) if near else 0, CHUNK):
        part = {row[0]: row for row in rows[at : at + CHUNK]}
        query = select(key, *(column_sum.stored for column_sum in sums)).where(key.in_(list(part)), or_(*near))
        for row_key, *values in connection.execute(query).all():
            for column_sum, value in zip(sums, values, strict=True):
                total = column_sum.added(value, part[row_key])
                if total is not None and not column_sum.holds(total):
                    yield column_sum.refused(table, part[row_key], total)
                    break


@dataclass(frozen=True)
class _Sum:
    """A column whose values are added up."""

    place: int
    column: SinkColumn
    stored: Column[Any]

    @property
    def bounds(self) -> tuple[Decimal, Decimal]:
        """The smallest and the largest value."""
        if self.column.kind == "integer":
            low, high = integer_range(self.stored)
            return Decimal(low), Decimal(high)
        largest = Decimal((0, (9,) * self.column.precision, -self.column.scale))
        return largest.copy_negate(), largest

    def near(self, rows: list[Row], backend: str) -> Iterator[ColumnElement[bool]]:
        """Yield the conditions of a stored value with which one of the rows may leave the range."""
        added = [Decimal(row[self.place]) for row in rows if row[self.place] is not None]
        (low, high), least, most = self.bounds, min(added, default=0), max(added, default=0)
        if most > 0:
            yield self._compared(backend) > self._written(exact_sum(high, Decimal(most).copy_negate()), backend)
        if least < 0:
            yield self._compared(backend) < self._written(exact_sum(low, Decimal(least).copy_negate()), backend)

    def _compared(self, backend: str) -> ColumnElement[Any]:
        if self.column.kind == "decimal" and backend == "sqlite":
            return collate(type_coerce(self.stored, Text), DECIMALS)
        return self.stored

    def _written(self, bound: Decimal, backend: str) -> Any:
        if self.column.kind == "integer":
            return int(bound)
        return format(bound, "f") if backend == "sqlite" else bound

    def added(self, stored: Any, row: Row) -> Decimal | None:
        """Return the sum of a stored value and a row's; None if one of them has no value."""
        new = row[self.place]
        return None if stored is None or new is None else exact_sum(Decimal(stored), Decimal(new))

    def holds(self, total: Decimal) -> bool:
        """Return True if a sum is in the column's range."""
        low, high = self.bounds
        return low <= total <= high

    def refused(self, table: SinkTable, row: Row, total: Decimal) -> RefusedRow:
        """Return a row as a refused one, in the form of those that Spark finds."""
        keys = {
            column.name: _INFINITE.get(str(value), value) if isinstance(value, float) else value
            for column, value in zip(table.columns, row, strict=True)
            if column.merge is None and column.name != KEY and value is not None
        }
        text = json.dumps(keys, ensure_ascii=False, separators=(",", ":"), default=_in_json)
        kind = f"decimal({self.column.precision},{self.column.scale})" if self.column.kind == "decimal" else "bigint"
        return RefusedRow(row[0], str(row[0]), text[:LONGEST], self.column.name, format(total, "f"), out_of_range(kind))


def _in_json(value: object) -> str:
    """Return a value as Spark's to_json writes it."""
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='milliseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)
