"""The upsert that writes rows into a served table: it replaces values, or adds to them.

The statement is for one row; the drivers send many rows with it at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Table, Text, case, collate, func, type_coerce
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql.dml import Delete, Insert

from oncelake.serving.sink import Kind, Merge, Row, SinkTable
from oncelake.serving.values import ADDED, DECIMALS


def replace(table: Table, backend: str) -> Insert:
    """Return the upsert that sets the measures of a row to gold's values."""
    return _upsert(
        table, backend, lambda _, new: new, [column.name for column in table.columns if not column.primary_key]
    )


def add(table: Table, served: SinkTable, backend: str) -> Insert:
    """Return the upsert that merges the measures of a batch into the stored ones."""
    merges = {
        column.name: _merge(column.merge, column.kind, backend) for column in served.columns if column.merge is not None
    }
    return _upsert(table, backend, lambda old, new: merges[old.name](old, new), list(merges))


def driver_sql(statement: Insert | Delete, names: Sequence[str], dialect: Dialect) -> tuple[str, Callable[[Row], Row]]:
    """Return a statement as the driver's SQL, and the function that converts a row for it.

    For a million rows this is faster than a dictionary for each row.

    Args:
        statement: the upsert of one row, or the deletion of one key.
        names: the columns of the rows, in the order of their values.
        dialect: the database's dialect.
    """
    compiled = statement.compile(dialect=dialect, column_keys=list(names))
    places = [list(names).index(name) for name in compiled.positiontup or ()]
    kinds = [statement.table.c[names[place]].type.dialect_impl(dialect) for place in places]
    changes = [(at, change) for at, kind in enumerate(kinds) if (change := kind.bind_processor(dialect))]
    same = places == list(range(len(names))) and not changes

    def convert(row: Row) -> Row:
        values = [row[place] for place in places]
        for at, change in changes:
            values[at] = change(values[at])
        return tuple(values)

    return str(compiled), (lambda row: row) if same else convert


# Returns a column's new value from the stored value and the batch's value.
Value = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]


def _upsert(table: Table, backend: str, value: Value, names: list[str]) -> Insert:
    if backend in ("mysql", "mariadb"):
        insert = mysql.insert(table)
        return insert.on_duplicate_key_update({name: value(table.c[name], insert.inserted[name]) for name in names})
    other = postgresql.insert(table) if backend == "postgresql" else sqlite.insert(table)
    key, new = [column.name for column in table.primary_key], other.excluded
    return other.on_conflict_do_update(
        index_elements=key, set_={name: value(table.c[name], new[name]) for name in names}
    )


def _merge(merge: Merge, kind: Kind, backend: str) -> Value:
    if kind != "decimal" or backend != "sqlite":
        return _MERGES[merge]
    if merge == "sum":
        return lambda old, new: func.coalesce(getattr(func, ADDED)(old, new), old, new)  # guard: sqlite-exact-sums
    # SQLite compares by the collation of the left side
    # guard: sqlite-decimal-extremes
    return lambda old, new: _MERGES[merge](old, collate(type_coerce(new, Text), DECIMALS))


def _extreme(old: ColumnElement[Any], new: ColumnElement[Any], better: ColumnElement[bool]) -> ColumnElement[Any]:
    return case((old.is_(None) | better, new), else_=old)


# The same rules as gold's MERGE; a sketch has no column in a database.
_MERGES: Mapping[Merge, Value] = {
    "count": lambda old, new: old + new,
    "sum": lambda old, new: func.coalesce(old + new, old, new),
    "least": lambda old, new: _extreme(old, new, new < old),
    "greatest": lambda old, new: _extreme(old, new, new > old),
}
