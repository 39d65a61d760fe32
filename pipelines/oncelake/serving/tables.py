"""The contract of the serving database: the served tables, and `oncelake_position`.

A gold table without keys is served under its window's start as the primary key:
`error_log(log_time DATETIME PRIMARY KEY, log_count BIGINT)`. Keys can be null, too long for an index, or different
although a collation treats them as equal. So a table with keys has a first column `_key VARCHAR(64)`, the SHA-256
of window and keys, as its primary key. A log's texts are compared byte by byte (utf8mb4_bin).
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Dialect, MetaData, PrimaryKeyConstraint, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from oncelake.serving.sink import KEY, LOG_TIME, Kind, SinkColumn, SinkTable

# Keys of a column's `info`: whether it is a count, so never null and never below 0; how many bits its numbers have.
COUNTS, BITS = "counts", "bits"
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


class ExactNumeric(sa.TypeDecorator[Any]):
    """An exact decimal; SQLite, which has none, stores it as text."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type to use in the database."""
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else self.impl_instance)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Convert a value for the database."""
        return format(value, "f") if dialect.name == "sqlite" and value is not None else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Convert a value from the database."""
        return Decimal(value) if dialect.name == "sqlite" and value is not None else value


_MICROSECONDS = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
_LONG_BINARY = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
# ASCII only: IDs, names of tables, hashes. 191 characters fit into every index.
_NAME = sa.String(191)

POSITION = Table(
    "oncelake_position",
    MetaData(),
    Column("stage", _NAME, nullable=False, comment="the stage, such as serving.error_log"),
    Column("source", _NAME, nullable=False, comment="the table that the stage follows, and its ID"),
    Column("partition", sa.Integer, nullable=False, comment="0: a Delta table is one sequence of versions"),
    Column("from_position", _LONG_TEXT, comment="start of the last batch; null for the first batch"),
    Column("to_position", _LONG_TEXT, nullable=False, comment="end of the last batch, where the next one starts"),
    Column("query_id", _NAME, nullable=False, comment="the streaming query that owns the stage"),
    Column("batch_id", sa.BigInteger, nullable=False, comment="the last batch"),
    Column("batch_rows", sa.BigInteger, nullable=False, comment="source rows of the last batch"),
    Column("total_rows", sa.BigInteger, nullable=False, comment="source rows of all batches, including the last"),
    Column("offset_log", _LONG_TEXT, nullable=False, comment="Spark's file offsets/<batch_id>, used by recover"),
    Column("rules", _NAME, nullable=False, comment="short hash of the declaration that made the rows"),
    Column("run", _NAME, nullable=False, comment="ID of the run that wrote the batch"),
    Column("committed_at", _MICROSECONDS, nullable=False, comment="when the run wrote it, by its own clock, UTC"),
    PrimaryKeyConstraint("stage", "partition"),
    **_OPTIONS,
)

# The rows that the database cannot hold. Its key is the one of the served table, as text: a hash, or a time.
REFUSED = Table(
    "oncelake_refused",
    MetaData(),
    Column("stage", _NAME, nullable=False, comment="the stage, such as serving.error_log"),
    Column("row_key", sa.String(64), nullable=False, comment="the key of the row in the served table, as text"),
    Column("row_values", _LONG_TEXT, nullable=False, comment="start of the window, and the keys, as JSON"),
    Column("column_name", _NAME, nullable=False, comment="the column of the value that cannot be held"),
    Column("value_text", _LONG_TEXT, nullable=False, comment="the value as text, at most 1000 characters"),
    Column("reason", _LONG_TEXT, nullable=False, comment="why the value cannot be held"),
    Column("batch_id", sa.BigInteger, nullable=False, comment="the batch of the row"),
    PrimaryKeyConstraint("stage", "row_key"),
    **_OPTIONS,
)


def served_table(served: SinkTable) -> Table:
    """Return the form of a served table in a database."""
    key: list[Column[Any]] = [Column(KEY, sa.String(64), primary_key=True)] if served.key == KEY else []
    columns = [_column(column) for column in served.columns if column.name != KEY]
    table = Table(served.name, MetaData(), *key, *columns, **_OPTIONS)
    if served.key == LOG_TIME:
        table.append_constraint(PrimaryKeyConstraint(LOG_TIME))
    return table


def create_statements(tables: Iterable[Table], dialect: Dialect) -> list[str]:
    """Return the SQL that creates tables, one statement for each."""
    return [str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).strip() for table in tables]


def integer_range(column: Column[Any]) -> tuple[int, int]:
    """Return the smallest and the largest number that a column of whole numbers can get."""
    bits = column.info.get(BITS, 64 if isinstance(column.type, sa.BigInteger) else 32)
    return (0 if column.info.get(COUNTS) else -(2 ** (bits - 1))), 2 ** (bits - 1) - 1


def _column(column: SinkColumn) -> Column[Any]:
    if column.name == LOG_TIME:  # a window starts at a whole second
        return Column(LOG_TIME, sa.DateTime(), nullable=False)
    if column.kind == "decimal":
        return Column(column.name, ExactNumeric(column.precision, column.scale), info={COUNTS: False})
    bits = {BITS: column.bits} if column.kind == "integer" and column.bits < 64 else {}
    return Column(column.name, _TYPES[column.kind], info={COUNTS: column.never_null, **bits})


_TYPES: dict[Kind, TypeEngine[Any]] = {
    "integer": sa.BigInteger(),
    "float": sa.Double(),
    "boolean": sa.Boolean(),
    "text": _LONG_TEXT,
    "binary": _LONG_BINARY,
    "date": sa.Date(),
    "time": _MICROSECONDS,
}
