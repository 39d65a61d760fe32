"""A served table's column is accepted if it holds every value exactly, and otherwise refused by name."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from sqlalchemy import Column, types
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

from oncelake.common.errors import ConfigError
from oncelake.gold.declaration import GoldTable
from oncelake.serving.columns import Place, accepted, wrong_columns
from oncelake.serving.database import Database, parse_url
from oncelake.serving.rows import sink_table
from oncelake.serving.tables import POSITION, create_statements, served_table
from tests.support.serving import MINUTES, SCHEMA, apply, database, make_tables, metadata, run_all, served

WIDE = GoldTable.model_validate(
    {
        "every": "1 minute",
        "by": {"text": "message", "raw": "unhex(message)", "day": "current_date", "flag": "true"},
        "measures": {
            "n": "count",
            "total": "sum(a)",
            "small": "max(b)",
            "cents": "sum(c)",
            "half": "sum(d)",
            "last": "max(e)",
        },
    }
)
COLUMNS: dict[str, Any] = {
    "log_time": TimestampType(),
    "text": StringType(),
    "raw": BinaryType(),
    "day": DateType(),
    "flag": BooleanType(),
    "n": LongType(),
    "total": LongType(),
    "small": IntegerType(),
    "cents": DecimalType(20, 2),
    "half": DoubleType(),
    "last": TimestampType(),
}
TABLE = served_table(sink_table("wide", WIDE, StructType([StructField(name, kind) for name, kind in COLUMNS.items()])))
MARIADB, POSTGRES, SQLITE = Place("mariadb"), Place("postgresql"), Place("sqlite")
MB4 = {"charset": "utf8mb4"}

KINDS: list[tuple[Place, str, list[TypeEngine[Any]], list[TypeEngine[Any]]]] = [
    (MARIADB, "log_time", [mysql.DATETIME(), mysql.DATETIME(fsp=6)], [mysql.TIMESTAMP(), types.DATE(), mysql.YEAR()]),
    (MARIADB, "last", [mysql.DATETIME(fsp=6)], [mysql.DATETIME(), mysql.DATETIME(fsp=3), mysql.TIMESTAMP(fsp=6)]),
    (
        MARIADB,
        "n",
        [mysql.BIGINT(), mysql.BIGINT(unsigned=True), mysql.DECIMAL(19), mysql.DECIMAL(21, 2, unsigned=True)],
        [mysql.INTEGER(), mysql.INTEGER(unsigned=True), mysql.FLOAT(), mysql.DOUBLE(), mysql.DECIMAL(18)],
    ),
    (
        MARIADB,
        "total",
        [mysql.BIGINT(), mysql.DECIMAL(19)],
        [mysql.BIGINT(unsigned=True), mysql.DECIMAL(19, unsigned=True), mysql.DECIMAL(20, 2), mysql.VARCHAR(30)],
    ),
    (MARIADB, "small", [mysql.INTEGER(), mysql.BIGINT()], [mysql.MEDIUMINT(), mysql.INTEGER(unsigned=True)]),
    (
        MARIADB,
        "cents",
        [mysql.DECIMAL(20, 2), mysql.DECIMAL(30, 4)],
        [mysql.DECIMAL(20, 1), mysql.DECIMAL(20, 3), mysql.DECIMAL(20, 2, unsigned=True), mysql.DOUBLE()],
    ),
    (MARIADB, "half", [mysql.DOUBLE()], [mysql.FLOAT(), mysql.DOUBLE(10, 2), mysql.DOUBLE(unsigned=True)]),
    (
        MARIADB,
        "text",
        [mysql.LONGTEXT(), mysql.LONGTEXT(**MB4), mysql.LONGTEXT(collation="utf8mb4_general_ci")],
        [mysql.TEXT(), mysql.VARCHAR(200), mysql.LONGTEXT(charset="latin1"), mysql.LONGTEXT(collation="utf8mb3_bin")],
    ),
    (Place("mysql", "latin1"), "text", [mysql.LONGTEXT(**MB4)], [mysql.LONGTEXT()]),
    (MARIADB, "raw", [mysql.LONGBLOB()], [mysql.BLOB(), types.VARBINARY(99), mysql.LONGTEXT()]),
    (MARIADB, "day", [types.DATE()], [mysql.DATETIME(), mysql.VARCHAR(10)]),
    (MARIADB, "flag", [mysql.TINYINT(1), mysql.TINYINT(unsigned=True)], [mysql.BIT(1), mysql.CHAR(1)]),
    (
        MARIADB,
        "_key",
        [mysql.VARCHAR(64), mysql.VARCHAR(191), mysql.CHAR(64)],
        [mysql.VARCHAR(63), mysql.CHAR(63), mysql.CHAR(70), types.BINARY(64)],
    ),
    (
        POSTGRES,
        "log_time",
        [postgresql.TIMESTAMP(), postgresql.TIMESTAMP(precision=0)],
        [postgresql.TIMESTAMP(timezone=True), types.DATE()],
    ),
    (POSTGRES, "last", [postgresql.TIMESTAMP(precision=6)], [postgresql.TIMESTAMP(precision=3)]),
    (POSTGRES, "total", [types.BIGINT(), types.NUMERIC()], [types.INTEGER(), types.REAL(), types.NUMERIC(18, 0)]),
    (POSTGRES, "cents", [types.NUMERIC(), types.NUMERIC(20, 2)], [postgresql.MONEY(), types.NUMERIC(19, 2)]),
    (POSTGRES, "half", [types.DOUBLE_PRECISION()], [types.REAL(), types.NUMERIC()]),
    (POSTGRES, "text", [types.TEXT(), types.VARCHAR()], [types.VARCHAR(10), types.CHAR(64)]),
    (POSTGRES, "_key", [types.TEXT(), types.VARCHAR(64), types.CHAR(64)], [types.CHAR(65), types.UUID()]),
    (POSTGRES, "raw", [postgresql.BYTEA()], [types.TEXT()]),
    (POSTGRES, "flag", [types.BOOLEAN()], [types.INTEGER()]),
    (SQLITE, "log_time", [types.DATETIME(), types.TIMESTAMP(), types.TEXT()], [types.DATE(), types.INTEGER()]),
    (SQLITE, "n", [types.BIGINT(), types.INTEGER(), types.NUMERIC()], [types.FLOAT(), types.TEXT()]),
    (SQLITE, "cents", [types.TEXT()], [types.NUMERIC(20, 2), types.FLOAT()]),
    (SQLITE, "half", [types.REAL(), types.DOUBLE()], [types.TEXT()]),
    (SQLITE, "text", [types.TEXT(), types.VARCHAR(3)], [types.NUMERIC(), types.BLOB()]),
]


@pytest.mark.parametrize(("place", "name", "holding", "other"), KINDS, ids=lambda each: str(each)[:40])
def test_only_types_that_hold_every_value_are_accepted(
    place: Place, name: str, holding: list[TypeEngine[Any]], other: list[TypeEngine[Any]]
) -> None:
    column: Column[Any] = TABLE.c[name]
    words, holds = accepted(column, place)
    assert [kind for kind in holding if not holds(kind)] == []
    assert [kind for kind in other if holds(kind)] == []
    assert words


def test_the_tables_of_init_are_accepted(tmp_path: Path) -> None:
    database = Database(parse_url(f"sqlite:///{tmp_path / 'served.db'}"))
    run_all(database, create_statements([TABLE, POSITION], database.engine.dialect))
    assert database.transaction(lambda connection: wrong_columns(connection, TABLE)) == []
    assert database.transaction(lambda connection: wrong_columns(connection, POSITION)) == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("log_time DATE PRIMARY KEY, log_count BIGINT", "log_time is DATE, accepted: DATETIME, TEXT"),
        ("log_time DATETIME PRIMARY KEY, log_count FLOAT", "log_count is FLOAT, accepted: BIGINT"),
        ("log_time DATE PRIMARY KEY, log_count FLOAT", "log_time is DATE, .*; log_count is FLOAT, accepted: BIGINT"),
        ("log_time DATETIME PRIMARY KEY, log_count BIGINT, who TEXT NOT NULL", "who is NOT NULL without a default"),
        (
            "log_time DATETIME PRIMARY KEY, log_count BIGINT GENERATED ALWAYS AS (1) STORED",
            "log_count is generated by the database",
        ),
    ],
)
def test_an_unsuitable_column_is_refused_before_anything_is_written(tmp_path: Path, columns: str, said: str) -> None:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    make_tables(url, "DROP TABLE error_log", f"CREATE TABLE error_log ({columns})")
    table = served(url)
    with pytest.raises(ConfigError, match=rf"error_log .*{said}.*oncelake serving init.*rebuild serving\.error_log"):
        table.check(SCHEMA)
    # if the database did not answer the check of the run, its first batch checks it
    with pytest.raises(ConfigError, match=said):
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    assert table.state().last is None


def test_extra_columns_are_accepted_if_the_database_fills_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    more = "who TEXT, at TEXT NOT NULL DEFAULT 'x', twice BIGINT GENERATED ALWAYS AS (2 * log_count)"
    columns = f"log_time DATETIME PRIMARY KEY, log_count INTEGER NOT NULL, {more}"
    make_tables(url, "DROP TABLE error_log", f"CREATE TABLE error_log ({columns})")
    table = served(url)
    table.check(SCHEMA)
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    run_all(database(table), ["SELECT twice FROM error_log"])
