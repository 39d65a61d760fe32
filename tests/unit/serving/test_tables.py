"""A served table that would lose or double rows is refused by name before anything is written: over SQLite."""

from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from oncelake.common.errors import ConfigError
from tests.support.serving import MINUTES, SCHEMA, apply, database, make_tables, metadata, served


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'served.db'}"


def test_a_unique_index_in_addition_to_the_key_is_refused(url: str) -> None:
    make_tables(url, "CREATE INDEX plain ON error_log (log_count)")
    table = served(url)
    table.check(SCHEMA)
    make_tables(url, "CREATE UNIQUE INDEX once ON error_log (log_count)")
    with pytest.raises(
        ConfigError, match="error_log in the serving database has a unique index once in addition to its key"
    ):
        table.check(SCHEMA)


def test_a_unique_index_on_the_positions_is_refused(url: str) -> None:
    make_tables(url, "CREATE UNIQUE INDEX once ON oncelake_position (query_id)")
    with pytest.raises(ConfigError, match="oncelake_position in the serving database has a unique index once"):
        served(url).check(SCHEMA)


def test_an_engine_without_transactions_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables(url)
    options = {"sqlite_engine": "MyISAM"}
    monkeypatch.setattr(SQLiteDialect, "get_table_options", lambda *_, **__: options, raising=False)
    with pytest.raises(ConfigError, match="engine MyISAM, which has no transactions"):
        served(url).check(SCHEMA)


def test_a_batch_does_not_look_for_a_table_that_was_there_before(url: str) -> None:
    served(url).make(SCHEMA)
    table, asked = served(url), []
    event.listen(database(table).engine, "before_cursor_execute", lambda *given: asked.append(str(given[2])))
    for number, minute in enumerate(MINUTES[:2]):
        asked.clear()
        apply(table, {minute: 1}, metadata(number, number or None, number + 1))
    assert [each for each in asked if "PRAGMA" in each] == []
