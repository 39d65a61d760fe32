"""Serving is right under every setting of a server that changes how text, quotes, zones, transactions or sizes work."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

from oncelake.common.errors import ConfigError, TargetError
from oncelake.common.lake import Table
from oncelake.gold.declaration import GoldTable
from oncelake.lab.demo.made_log import write_log
from oncelake.serving.patience import Patience
from oncelake.serving.rows import Rows
from oncelake.serving.served import Served
from oncelake.serving.sql import SqlSink
from tests.support.house import House
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.serving import metadata

pytestmark = pytest.mark.database

DECLARED = GoldTable.model_validate(
    {"every": "1 minute", "by": {"text": "message"}, "measures": {"n": "count", "last": "max(at)", "half": "max(x)"}}
)
COLUMNS = {"log_time": TimestampType(), "text": StringType(), "n": LongType(), "last": TimestampType()}
SCHEMA = StructType([StructField(name, kind) for name, kind in {**COLUMNS, "half": DoubleType()}.items()])
WHEN, AT = datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 2, 30, 1, 123456)
TEXTS = ["a", "a ", "A", "\\", "\\'", "'", '"', "it''s || 5", "🔌", "", "%s :x", "x" * 5000]
Row = tuple[Any, ...]

MARIADB = {
    "sql_mode": [
        *("'ANSI_QUOTES'", "'ANSI'", "'NO_BACKSLASH_ESCAPES'", "'PIPES_AS_CONCAT'", "'PAD_CHAR_TO_FULL_LENGTH'"),
        *("'NO_ZERO_DATE'", "'ORACLE'", "'MSSQL'", "'HIGH_NOT_PRECEDENCE,IGNORE_SPACE,REAL_AS_FLOAT'", "''"),
        *("'EMPTY_STRING_IS_NULL'", "'SIMULTANEOUS_ASSIGNMENT'", "'TIME_ROUND_FRACTIONAL,NO_UNSIGNED_SUBTRACTION'"),
    ],
    "completion_type": ["'CHAIN'", "'RELEASE'"],
    "sql_safe_updates": ["1"],
    "autocommit": ["0"],
    "tx_isolation": ["'SERIALIZABLE'", "'READ-UNCOMMITTED'", "'REPEATABLE-READ'"],
    "tx_read_only": ["1"],
    "time_zone": ["'+05:30'", "'-09:00'"],
    "sql_auto_is_null": ["1"],
    "sql_quote_show_create": ["0"],
    "sql_select_limit": ["1"],
    "sql_big_selects": ["0"],
    "max_sort_length": ["64"],
    "character_set_server": ["'latin1'"],
    "init_connect": ["'SET NAMES latin1'", "'SET autocommit=1'"],
    "idle_transaction_timeout": ["1"],
    "max_allowed_packet": ["1048576"],
}
POSTGRES = {
    "standard_conforming_strings": ["off"],
    "default_transaction_read_only": ["on"],
    "default_transaction_isolation": ["serializable"],
    "default_transaction_deferrable": ["on"],
    "DateStyle": ["'SQL, DMY'", "'Postgres, MDY'", "German"],
    "TimeZone": ["'Asia/Kolkata'", "'America/St_Johns'"],
    "extra_float_digits": ["-15", "0"],
    "bytea_output": ["escape"],
    "client_encoding": ["LATIN1", "SQL_ASCII"],
    "idle_in_transaction_session_timeout": ["1000"],
    "lock_timeout": ["1"],
}


@contextmanager
def global_setting(server: MariaDB, name: str, value: str) -> Iterator[None]:
    """Set a global variable of the server during the block."""
    ((before,),) = server.sql(f"SELECT @@GLOBAL.{name}")
    server.sql(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.sql(f"SET GLOBAL {name} = {before if isinstance(before, int) else repr(before or '')}")


def served(url: str) -> Served:
    sink = SqlSink("odd", {"url": url})
    return Served(Table("serving", "odd"), DECLARED, "idempotent", Table("gold", "odd"), sink)


def rows(count: int) -> list[Row]:
    return sorted((f"{at:064x}", WHEN, text, count, AT, 0.1 + 0.2) for at, text in enumerate(TEXTS))


def apply(table: Served, wanted: list[Row], number: int) -> None:
    given = Rows(("_key", *SCHEMA.names), len(wanted), 1, SCHEMA, lambda: iter(wanted))
    table.apply(given, metadata(number, number or None, number + 1), Patience(), lambda: None)


def stored(table: Served) -> list[Row]:
    with table.snapshot(SCHEMA) as content:
        return list(content.rows)


def must_serve(url: str, by: str | None = None) -> None:
    """Create the tables, write two batches, read them back, empty the table and serve it again."""
    served(url).make(SCHEMA)
    table = served(f"{url}?connect_timeout={by or 9}")  # other connections than those that made the tables
    table.check(SCHEMA)
    for number in range(2):
        apply(table, rows(number), number)
        assert stored(table) == rows(number)
    table.empty()
    assert stored(table) == []
    apply(table, rows(7), 0)
    assert stored(table) == rows(7)
    state = table.state().last
    assert state is not None
    assert state.metadata.batch_id == 0


def cases(settings: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in settings.items() for value in values]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"m{abs(hash(request.node.name)) % 10**12}"


@pytest.mark.parametrize(("setting", "value"), cases(MARIADB))
def test_serving_is_right_under_a_setting_of_mariadb(mariadb: MariaDB, name: str, setting: str, value: str) -> None:
    url = mariadb.make_database(name, rights="ALL")
    with global_setting(mariadb, setting, value):
        must_serve(url)


@pytest.mark.parametrize(("setting", "value"), cases(POSTGRES))
def test_serving_is_right_under_a_setting_of_postgres(
    postgres: PostgreSQL, name: str, setting: str, value: str
) -> None:
    url = postgres.make_database(name)
    postgres.sql(f"ALTER DATABASE {name} SET {setting} = {value}")
    must_serve(url)


@pytest.mark.parametrize("setting", ["'STATEMENT'", "'ROW'", "'MIXED'"])
def test_a_log_of_statements_is_set_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, setting: str
) -> None:
    with MariaDB(tmp_path_factory.mktemp("binlog"), "--log-bin", f"--binlog-format={setting.strip(chr(39))}") as server:
        url = server.make_database(name, rights="ALL")
        if setting == "'STATEMENT'":
            with pytest.raises(ConfigError, match="has binlog_format = STATEMENT, but oncelake needs ROW"):
                served(url).make(SCHEMA)
            server.sql(f"GRANT BINLOG ADMIN ON *.* TO '{name}'@'%'")
        must_serve(url)


def test_names_that_the_server_writes_in_lower_case_are_found(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with MariaDB(tmp_path_factory.mktemp("lower"), "--lower-case-table-names=1") as server:
        must_serve(server.make_database(name.upper(), rights="ALL"))


def test_a_small_packet_is_refused_by_name(mariadb: MariaDB, name: str) -> None:
    url = mariadb.make_database(name, rights="ALL")
    with (
        global_setting(mariadb, "max_allowed_packet", "65536"),
        pytest.raises(ConfigError, match="has max_allowed_packet = 65536, but oncelake needs at least 1048576"),
    ):
        served(url).make(SCHEMA)


def test_a_row_that_is_larger_than_a_packet_names_the_setting(mariadb: MariaDB, name: str) -> None:
    url = mariadb.make_database(name, rights="ALL")
    large = [("0" * 64, WHEN, "x" * 2_000_000, 1, AT, 0.5)]
    with global_setting(mariadb, "max_allowed_packet", "1048576"):
        table = served(url)
        table.make(SCHEMA)
        said: list[str] = []
        given = Rows(("_key", *SCHEMA.names), 1, 1, SCHEMA, lambda: iter(large))
        patience = Patience(60, say=said.append)
        with pytest.raises(TargetError, match=r"max_allowed_packet = 1048576\. Raise it on the server to 4194304"):
            table.apply(given, metadata(0, None, 1), patience, lambda: None)
        assert said == []
    with global_setting(mariadb, "max_allowed_packet", "8388608"):
        table = served(f"{url}?connect_timeout=9")
        apply(table, large, 0)
        assert stored(table) == large


@pytest.mark.parametrize(("encoding", "said"), [("LATIN1", "has server_encoding = LATIN1"), ("SQL_ASCII", None)])
def test_an_encoding_that_cannot_hold_every_text_is_refused(
    postgres: PostgreSQL, name: str, encoding: str, said: str | None
) -> None:
    url = postgres.make_database(name)
    postgres.sql(f"CREATE DATABASE {name}x ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    if said is None:
        must_serve(f"{url}x")
        return
    with pytest.raises(ConfigError, match=said):
        served(f"{url}x").make(SCHEMA)


@pytest.mark.spark
def test_every_command_works_under_all_settings_at_once(
    house: House, mariadb: MariaDB, spark: SparkSession, name: str
) -> None:
    house.sets.append(f"serving.url={mariadb.make_database(name, rights='ALL')}")
    write_log(house.logs, 60)
    modes = {"sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES'", "completion_type": "'CHAIN'", "sql_safe_updates": "1"}
    before = {mode: mariadb.sql(f"SELECT @@GLOBAL.{mode}")[0][0] for mode in modes}
    for variable, value in modes.items():
        mariadb.sql(f"SET GLOBAL {variable} = {value}")
    try:
        house.tell(spark, "serving", "init")
        house.run(spark)
        house.rebuild(spark, "serving")
        assert house.doubts(spark) == []
    finally:
        for variable, old in before.items():
            mariadb.sql(f"SET GLOBAL {variable} = {old if isinstance(old, int) else repr(old)}")
