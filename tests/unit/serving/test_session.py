"""A session with the database gets the settings that it needs before anything else, or is refused by their name."""

from collections.abc import Callable
from typing import Any, Self

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine

from oncelake.common.errors import ConfigError
from oncelake.serving.session import prepare

FOUND = {
    "max_allowed_packet": "16777216",
    "log_bin": "ON",
    "binlog_format": "STATEMENT",
    "sql_mode": "ANSI_QUOTES",
    "completion_type": "CHAIN",
    "sql_safe_updates": "ON",
    "sql_big_selects": "ON",
    "time_zone": "+00:00",
}


class Session:
    """A connection and its cursor: it records statements, and refuses those that contain a text."""

    def __init__(self, refused: str = "", error: Callable[[], Exception] = Exception, **found: str) -> None:
        self.said: list[str] = []
        self.found = {**FOUND, **found}
        self.refused, self.error = refused, error
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Self:
        return self

    def execute(self, statement: str) -> None:
        self.said.append(statement)
        if self.refused and self.refused in statement and statement.startswith("SET"):
            raise self.error()

    def fetchall(self) -> list[tuple[str, str]]:
        return list(self.found.items())

    def fetchone(self) -> tuple[str]:
        return ("UTF8" if "server_encoding" in self.said[-1] else "on",)

    def commit(self) -> None:
        self.said.append("COMMIT")

    def close(self) -> None:
        self.closed = True


def connect(session: Session, url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connect as SQLAlchemy does, and return the statements."""
    engine = create_engine(url)
    monkeypatch.setattr(engine.dialect, "connect", lambda *_, **__: session)
    prepare(engine, engine.dialect.name)
    dialect: Any = engine.dialect
    (listener,) = dialect.dispatch.do_connect
    listener(dialect, None, [], {})
    return session.said


MYSQL, POSTGRES = "mysql+pymysql://h/d", "postgresql+psycopg://h/d"


def test_settings_that_differ_are_set_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, asked, *made, end = connect(Session(), MYSQL, monkeypatch)
    assert limit.startswith("SET SESSION sql_select_limit")  # it would cut the answer to the next one
    assert asked.startswith("SHOW SESSION VARIABLES")
    assert [each.split(" = ")[0].split()[-1] for each in made] == [
        *("sql_mode", "completion_type", "binlog_format", "sql_safe_updates")
    ]
    assert "ANSI" not in made[0]
    assert end == "COMMIT"


@pytest.mark.parametrize(("log", "form"), [("OFF", "STATEMENT"), ("ON", "ROW"), ("ON", "MIXED")])
def test_a_log_of_statements_matters_only_if_it_is_written(
    log: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = connect(Session(log_bin=log, binlog_format=form), MYSQL, monkeypatch)
    assert not [each for each in said if each.startswith("SET") and "binlog_format" in each]


def test_a_setting_that_a_user_may_not_change_is_refused_by_name_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(
        "binlog_format", lambda: pymysql.err.OperationalError(1227, "Access denied; you need BINLOG ADMIN")
    )
    said = r"has binlog_format = STATEMENT, but oncelake needs ROW.*you need BINLOG ADMIN"
    with pytest.raises(ConfigError, match=said):
        connect(session, MYSQL, monkeypatch)
    assert session.closed


def test_another_error_passes_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("time", lambda: pymysql.err.OperationalError(2013, "Lost connection"), time_zone="SYSTEM")
    with pytest.raises(pymysql.err.OperationalError):
        connect(session, MYSQL, monkeypatch)
    assert session.closed


def test_a_packet_that_is_too_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="has max_allowed_packet = 65536, but oncelake needs at least 1048576"):
        connect(Session(max_allowed_packet="65536"), MYSQL, monkeypatch)


def test_settings_of_postgres_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    said = connect(Session(), POSTGRES, monkeypatch)
    assert said[0] == "SET SESSION client_encoding = 'UTF8'"
    assert "SET SESSION default_transaction_read_only = 'off'" in said
    assert "SET SESSION extra_float_digits = '1'" in said


def test_a_setting_that_postgres_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("row_security", lambda: psycopg.errors.InsufficientPrivilege("permission denied"))
    with pytest.raises(ConfigError, match=r"has row_security = on, but oncelake needs off.*permission denied"):
        connect(session, POSTGRES, monkeypatch)
