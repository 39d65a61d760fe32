"""The errors of a database driver are classified in one place, however they arrive: without a server."""

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import psycopg
import pymysql
import pytest
from pyspark.sql import DataFrame
from sqlalchemy import Connection, event
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError, IntegrityError

from oncelake.common.errors import TargetAwayError, TargetError
from oncelake.serving.database import Database, parse_url
from oncelake.serving.patience import LOSSES, NONE, Patience
from oncelake.serving.rows import Rows
from oncelake.serving.trouble import Trouble, advice, judge, of_the_driver
from tests.support.serving import (
    MINUTES,
    SCHEMA,
    apply,
    compare,
    content,
    database,
    make_tables,
    metadata,
    rows,
    served,
)

DIALECTS: dict[str, Any] = {
    "mysql": mysql.dialect(dbapi=pymysql),
    "postgresql": postgresql.dialect(dbapi=psycopg),
}
UPSERT = "INSERT INTO error_log VALUES (%s, %s) ON DUPLICATE KEY UPDATE log_count = 1"


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    make_tables(url)
    return url


def state(kind: type[psycopg.Error], code: str | None, said: str = "no") -> psycopg.Error:
    error = kind(said)
    error.sqlstate = code
    return error


MYSQL = [
    (1040, "Too many connections", Trouble.AWAY),
    (1053, "Server shutdown in progress", Trouble.AWAY),
    (1290, "running with the --read-only option so it cannot execute this statement", Trouble.AWAY),
    (1836, "Running in read-only mode", Trouble.AWAY),
    (3032, "The server is currently in offline mode", Trouble.AWAY),
    (1047, "WSREP has not yet prepared node for application use", Trouble.AWAY),
    (9001, "Max connect timeout reached while reaching hostgroup 0", Trouble.AWAY),
    (2003, "Can't connect to MySQL server", Trouble.AWAY),
    (2013, "Lost connection to MySQL server during query", Trouble.LOST),
    (2006, "MySQL server has gone away", Trouble.LOST),
    (4031, "The client was disconnected by the server because of inactivity", Trouble.LOST),
    (1927, "Connection was killed", Trouble.LOST),
    (1969, "Query execution was interrupted (max_statement_time exceeded)", Trouble.LOST),
    (3024, "Query execution was interrupted, maximum statement execution time exceeded", Trouble.LOST),
    (1213, "Deadlock found when trying to get lock", Trouble.CLASH),
    (1205, "Lock wait timeout exceeded", Trouble.CLASH),
    (1142, "INSERT command denied to user", Trouble.MISTAKE),
    (1129, "Host is blocked because of many connection errors", Trouble.MISTAKE),
    (1406, "Data too long for column", Trouble.MISTAKE),
]
POSTGRES = [
    ("53300", Trouble.AWAY),
    ("57P01", Trouble.AWAY),
    ("57P03", Trouble.AWAY),
    ("25006", Trouble.AWAY),
    ("57014", Trouble.LOST),
    ("25P03", Trouble.LOST),
    ("08006", Trouble.LOST),
    (None, Trouble.LOST),
    ("40001", Trouble.CLASH),
    ("55P03", Trouble.CLASH),
    ("42501", Trouble.MISTAKE),
    ("22003", Trouble.MISTAKE),
]


def wrapped(error: Exception, statement: str | None = UPSERT) -> DBAPIError:
    return DBAPIError(statement, None, error)


@pytest.mark.parametrize(("code", "said", "trouble"), MYSQL)
def test_errors_of_mysql_and_mariadb_are_classified(code: int, said: str, trouble: Trouble) -> None:
    error = wrapped(pymysql.err.OperationalError(code, said))
    assert judge(error, "mysql") is judge(error, "mariadb") is trouble
    assert trouble not in (Trouble.MISTAKE, Trouble.LOST) or advice(error)
    unasked = judge(wrapped(pymysql.err.OperationalError(code, said), None), "mysql")
    assert unasked is (Trouble.AWAY if trouble is Trouble.LOST else trouble)


@pytest.mark.parametrize(("code", "trouble"), POSTGRES)
def test_errors_of_postgresql_are_classified(code: str | None, trouble: Trouble) -> None:
    assert judge(wrapped(state(psycopg.OperationalError, code)), "postgresql") is trouble


@pytest.mark.parametrize(
    ("backend", "error"),
    [
        ("mysql", pymysql.err.InternalError("Packet sequence number wrong - got 1 expected 2")),
        ("mysql", pymysql.err.InterfaceError(0, "")),
        ("mysql", pymysql.err.Error("Already closed")),
        ("mysql", pymysql.err.OperationalError(2013, "Lost connection")),
        ("postgresql", psycopg.InterfaceError("the connection is closed")),
        ("postgresql", psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly")),
    ],
)
def test_an_unwrapped_error_of_sqlalchemy_means_unavailable(backend: str, error: Exception) -> None:
    found = of_the_driver(error, DIALECTS[backend])
    assert found is not None
    assert judge(found, backend) is Trouble.AWAY


@pytest.mark.parametrize(
    "error", [struct.error("unpack requires 4 bytes"), AttributeError("settimeout"), OSError(9, "Bad file descriptor")]
)
def test_an_error_of_python_counts_only_if_the_driver_raised_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("pymysql.connections.socket.create_connection", broken)
    monkeypatch.setattr("pymysql.connections.Connection._force_close", broken)
    caught: Exception | None = None
    try:
        pymysql.connect(host="127.0.0.1", port=1)
    except (struct.error, AttributeError, OSError) as passed_on:
        caught = passed_on
    assert caught is error
    found = of_the_driver(caught, DIALECTS["mysql"])
    assert found is not None
    assert judge(found, "mysql") is Trouble.AWAY
    assert of_the_driver(type(error)(*error.args), DIALECTS["mysql"]) is None, "it may be of Spark"


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "No such file"), psycopg.OperationalError('permission denied for database "x"')]
)
def test_a_permanent_error_does_not_mean_unavailable(error: Exception) -> None:
    assert judge(DBAPIError(None, None, error, connection_invalidated=True), "postgresql") is Trouble.MISTAKE


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (pymysql.err.IntegrityError(1062, "Duplicate entry 'serving.error_log-0' for key 'PRIMARY'"), Trouble.CLASH),
        (pymysql.err.IntegrityError(1048, "Column 'run' cannot be null"), Trouble.MISTAKE),
        (pymysql.err.IntegrityError(4025, "CONSTRAINT `short` failed"), Trouble.MISTAKE),
    ],
)
def test_only_a_duplicate_first_position_is_retried(error: Exception, trouble: Trouble) -> None:
    assert judge(IntegrityError("INSERT INTO oncelake_position (stage)", None, error), "mysql") is trouble
    assert judge(IntegrityError("UPDATE oncelake_position SET run = 1", None, error), "mysql") is Trouble.MISTAKE


def test_an_unwrapped_error_is_retried_on_a_new_connection(url: str) -> None:
    database, seen = Database(parse_url(url)), list[Any]()

    def work(connection: Connection) -> int:
        seen.append(connection.connection.dbapi_connection)
        if len(seen) == 1:
            raise database.engine.dialect.loaded_dbapi.OperationalError("database is locked")
        if len(seen) == 2:
            raise gone(connection)
        return len(seen)

    assert Patience(20).keep_trying(lambda: database.transaction(work)) == 3
    assert seen[2] is not seen[1]


def test_an_unwrapped_error_of_a_snapshot_means_unavailable(url: str) -> None:
    database = Database(parse_url(url))

    def work(_: Connection) -> None:
        raise database.engine.dialect.loaded_dbapi.OperationalError("disk I/O error")

    with pytest.raises(TargetAwayError, match="is unavailable: disk I/O error"):
        database.snapshot(work)


def gone(connection: Connection, statement: str = UPSERT) -> DBAPIError:
    del connection
    return DBAPIError(statement, None, Exception("gone"), connection_invalidated=True)


def test_repeated_losses_at_one_statement_end_in_an_error_with_advice(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.001)
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(1)
        if len(tries) <= 2 * LOSSES:
            raise gone(connection)

    database = Database(parse_url(url))
    with pytest.raises(TargetError, match=f"gone, {LOSSES} times in a row at the same statement") as error:
        Patience(None).keep_trying(lambda: database.transaction(work))
    assert (len(tries), isinstance(error.value, TargetAwayError)) == (LOSSES, False)


def test_losses_at_different_statements_are_retried(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.001)
    tries: list[int] = []

    def work(connection: Connection) -> int:
        tries.append(1)
        if len(tries) < 3 * LOSSES:
            raise gone(connection, f"SELECT {len(tries) // 2}")
        return len(tries)

    database = Database(parse_url(url))
    assert Patience(None).keep_trying(lambda: database.transaction(work)) == 3 * LOSSES


def slow(pauses: list[float]) -> Iterator[tuple[datetime, int]]:
    for minute, pause in zip(MINUTES, pauses, strict=False):
        time.sleep(pause)
        yield minute, 1


def slow_rows(pauses: list[float]) -> Rows:
    return Rows(("log_time", "log_count"), len(pauses), 1, SCHEMA, lambda: slow(pauses))


def test_the_connection_is_kept_alive_while_rows_are_not_ready(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelake.serving.rows.KEEP_ALIVE", 0.05)
    monkeypatch.setattr("oncelake.serving.rows.CHUNK", 1)
    table, asked = served(url), list[str]()

    @event.listens_for(database(table).engine, "before_cursor_execute")
    def note_down(_: Connection, __: object, statement: str, *___: object) -> None:
        asked.append("upsert" if "error_log" in statement and "INSERT" in statement else statement)

    table.apply(slow_rows([0.3, 0, 0.3]), metadata(0, None, 1), NONE, lambda: None)
    first, last = asked.index("upsert"), len(asked) - asked[::-1].index("upsert")
    assert asked[:first].count("SELECT 1") >= 2, "before the first rows"
    assert asked[first:last].count("SELECT 1") >= 2, "between two"
    assert len(content(table)) == 3


def test_a_proof_keeps_its_snapshot_alive_while_spark_computes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def slowly(*_: object, **__: object) -> Iterator[Rows]:
        time.sleep(0.3)
        yield rows({MINUTES[0]: 1})

    monkeypatch.setattr("oncelake.serving.rows.KEEP_ALIVE", 0.05)
    monkeypatch.setattr("oncelake.proof.served.computed_rows", slowly)
    table, asked, gold = served(url), list[str](), cast(DataFrame, object())
    apply(table, {MINUTES[0]: 1}, metadata(0, None, 1))
    event.listen(database(table).engine, "before_cursor_execute", _keep(asked))
    assert compare(table, gold).holds
    assert asked.count("SELECT 1") >= 2


def test_available_rows_send_no_keep_alive(url: str) -> None:
    table, asked = served(url), list[str]()
    event.listen(database(table).engine, "before_cursor_execute", _keep(asked))
    apply(table, {MINUTES[0]: 1}, metadata(0, None, 1))
    assert "SELECT 1" not in asked


def _keep(asked: list[str]) -> Callable[..., None]:
    return lambda _, __, statement, *___: asked.append(statement)


def test_a_connection_lost_while_rows_are_computed_restarts_the_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.rows.KEEP_ALIVE", 0.05)
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.001)
    table, lost = served(url, "transactional"), list[int]()

    @event.listens_for(database(table).engine, "before_cursor_execute")
    def lose(connection: Connection, _: object, statement: str, *__: object) -> None:
        if statement == "SELECT 1" and len(lost) < 3:
            lost.append(1)
            raise gone(connection, statement)

    table.apply(slow_rows([0.2, 0.2]), metadata(0, None, 1), Patience(None), lambda: None)
    assert (len(lost), sum(content(table).values())) == (3, 2)


def test_more_stages_than_pool_connections_are_served_concurrently(url: str) -> None:
    database = Database(parse_url(url))

    def nested(depth: int) -> Callable[[Connection], int]:
        return lambda _: 1 + database.snapshot(nested(depth - 1)) if depth else 0

    assert database.snapshot(nested(20)) == 20


def test_an_error_of_spark_is_not_an_error_of_the_database(url: str) -> None:
    def broken() -> Iterator[tuple[Any, ...]]:
        raise ConnectionResetError(104, "Connection reset by peer")
        yield

    table = served(url)
    with pytest.raises(ConnectionResetError):
        table.apply(Rows(("log_time", "log_count"), 1, 1, SCHEMA, broken), metadata(0, None, 1), NONE, lambda: None)
    table.apply(rows({MINUTES[0]: 1}), metadata(0, None, 1), NONE, lambda: None)
    assert len(content(table)) == 1
