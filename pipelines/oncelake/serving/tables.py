"""The contract of the serving database: the served tables, and `oncelake_position`.

A gold table without keys is served under its window's start as the primary key:
`error_log(log_time DATETIME PRIMARY KEY, log_count BIGINT)`. Keys can be null, longer than an index takes, and
differ by what a collation calls equal; so a table with keys has a first column `_key VARCHAR(64)`, the SHA-256
of window and keys, as its primary key. A log's texts are compared byte by byte (utf8mb4_bin).
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyspark.sql.types as spark_types
import sqlalchemy as sa
from pyspark.sql.types import DataType, StructField, StructType
from sqlalchemy import Column, Dialect, MetaData, PrimaryKeyConstraint, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from oncelake.common.errors import ConfigError
from oncelake.gold.declaration import LOG_TIME, GoldTable

KEY = "_key"
# What a column's `info` says: it counts, so it is never null and never below 0; how many bits its numbers have.
COUNTS, BITS = "counts", "bits"
_BITS: dict[type[DataType], int] = {spark_types.ByteType: 8, spark_types.ShortType: 16, spark_types.IntegerType: 32}
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


class ExactNumeric(sa.TypeDecorator[Any]):
    """An exact decimal, also where the database has none: SQLite keeps it as text."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Give the type that the database has."""
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else self.impl_instance)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Write a value."""
        return format(value, "f") if dialect.name == "sqlite" and value is not None else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Read a value."""
        return Decimal(value) if dialect.name == "sqlite" and value is not None else value


_MICROSECONDS = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
_LONG_BINARY = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
# Ascii, as these are ids, names of tables and JSON of numbers; 191 characters fit into every index.
_NAME = sa.String(191)

POSITION = Table(
    "oncelake_position",
    MetaData(),
    Column("stage", _NAME, nullable=False, comment="the stage, as serving.error_log"),
    Column("source", _NAME, nullable=False, comment="the table that it follows, and that table's id"),
    Column("partition", sa.Integer, nullable=False, comment="0: a Delta table is one sequence of versions"),
    Column("from_position", _LONG_TEXT, comment="where the last batch began; null before the first"),
    Column("to_position", _LONG_TEXT, nullable=False, comment="where it ended, and the next one begins"),
    Column("query_id", _NAME, nullable=False, comment="the streaming query that owns the stage"),
    Column("batch_id", sa.BigInteger, nullable=False, comment="its last batch"),
    Column("batch_rows", sa.BigInteger, nullable=False, comment="source rows of that batch"),
    Column("total_rows", sa.BigInteger, nullable=False, comment="source rows of all batches, this one included"),
    Column("offset_log", _LONG_TEXT, nullable=False, comment="Spark's own offsets/<batch_id>, to recover from"),
    Column("rules", _NAME, nullable=False, comment="what the rows were made by, as a short hash"),
    Column("run", _NAME, nullable=False, comment="the start of the program that wrote it"),
    Column("committed_at", _MICROSECONDS, nullable=False, comment="when, by that program's clock, UTC"),
    PrimaryKeyConstraint("stage", "partition"),
    **_OPTIONS,
)


def served_table(name: str, declared: GoldTable, schema: StructType) -> Table:
    """Give the served form of a gold table: its columns without the hidden sketches.

    Args:
        name: the table's name.
        declared: what the gold table is declared as.
        schema: the gold table's columns and types.

    Raises:
        ConfigError: a column's type has no counterpart in a database.
    """
    fields = [schema[column] for column in (LOG_TIME, *declared.by, *declared.measures)]
    counts = {measure.name for measure in declared.parsed if measure.how.merge in ("count", "sketch")}
    columns = [_column(name, field, counts=field.name in counts) for field in fields]
    key: list[Column[Any]] = [Column(KEY, sa.String(64), primary_key=True)] if declared.by else []
    table = Table(name, MetaData(), *key, *columns, **_OPTIONS)
    if not declared.by:
        table.append_constraint(PrimaryKeyConstraint(LOG_TIME))
    return table


def create_statements(tables: Iterable[Table], dialect: Dialect) -> list[str]:
    """Give the SQL that makes tables, a statement each."""
    return [str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).strip() for table in tables]


def integer_range(column: Column[Any]) -> tuple[int, int]:
    """Return the least and the largest number that a column of whole numbers is given."""
    bits = column.info.get(BITS, 64 if isinstance(column.type, sa.BigInteger) else 32)
    return (0 if column.info.get(COUNTS) else -(2 ** (bits - 1))), 2 ** (bits - 1) - 1


def _column(table: str, field: StructField, *, counts: bool) -> Column[Any]:
    if field.name == LOG_TIME:  # a window's start is a whole second
        return Column(LOG_TIME, sa.DateTime(), nullable=False)
    kind = _type(field.dataType)
    if kind is None:
        raise ConfigError(
            f"gold.{table}: {field.name} is of type {field.dataType.simpleString()}, which a database table has no "
            "column for; declare a part of it, or leave the table out of serving.tables"
        )
    bits = {BITS: _BITS[type(field.dataType)]} if type(field.dataType) in _BITS else {}
    return Column(field.name, kind, info={COUNTS: counts, **bits})


def _type(kind: DataType) -> TypeEngine[Any] | None:
    if isinstance(kind, spark_types.DecimalType):
        return ExactNumeric(kind.precision, kind.scale)
    plain: tuple[tuple[type[DataType] | tuple[type[DataType], ...], TypeEngine[Any]], ...] = (
        (spark_types.IntegralType, sa.BigInteger()),
        ((spark_types.DoubleType, spark_types.FloatType), sa.Double()),
        (spark_types.BooleanType, sa.Boolean()),
        (spark_types.StringType, _LONG_TEXT),
        (spark_types.BinaryType, _LONG_BINARY),
        (spark_types.DateType, sa.Date()),
        (spark_types.TimestampType, _MICROSECONDS),
    )
    return next((column for spark, column in plain if isinstance(kind, spark)), None)
