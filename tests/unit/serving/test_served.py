"""A batch is applied to a database once: over SQLite, called directly."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from oncelake.common.errors import ConfigError, ReplayError, TargetAwayError, TargetError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.serving.database import Database, parse_url
from oncelake.serving.patience import NONE
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sink import SinkBatch
from oncelake.serving.sql import SqlSink
from tests.support.serving import (
    MINUTES,
    SCHEMA,
    apply,
    at,
    content,
    database,
    make_tables,
    metadata,
    rows,
    run_all,
    served,
)

MODES: list[Mode] = ["idempotent", "transactional"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'served.db'}"


@pytest.fixture(params=MODES)
def table(url: str, request: pytest.FixtureRequest) -> Served:
    make_tables(url)
    return served(url, request.param)


def test_batches_put_values_or_add_counts(table: Served) -> None:
    apply(table, {MINUTES[0]: 3, MINUTES[1]: 1}, metadata(0, None, 1))
    apply(table, {MINUTES[0]: 4}, metadata(1, 1, 3))
    added = {MINUTES[0]: 7, MINUTES[1]: 1}
    assert content(table) == ({**added, MINUTES[0]: 4} if table.mode == "idempotent" else added)


def test_a_repeated_batch_changes_nothing(table: Served) -> None:
    first = apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    before = content(table), table.state()
    again = apply(table, {MINUTES[0]: 3}, metadata(0, None, 1, run="another run"))
    assert (first.replayed, again.replayed) == (False, True)
    assert (content(table), table.state()) == before


@pytest.mark.parametrize(
    ("late", "why"),
    [
        (metadata(2, 1, 4), "the ranges overlap"),
        (metadata(2, 3, 4), "there is a gap between the two"),
        (metadata(2, 2, 4, query_id="another"), "another"),
        (metadata(0, None, 1), "the ranges overlap"),
        (metadata(3, 2, 4), "does not follow"),
        (metadata(1, 1, 3), "the ranges overlap"),
    ],
)
def test_a_range_that_does_not_follow_rolls_everything_back(table: Served, late: CommitMetadata, why: str) -> None:
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    before = content(table), table.state()
    with pytest.raises(ReplayError, match=why) as error:
        apply(table, {MINUTES[0]: 9, MINUTES[5]: 1}, late)
    assert all(str(each) in str(error.value) for each in (late.before, late.end, at(1), at(2)))
    assert (content(table), table.state()) == before


def test_a_batch_without_its_predecessors_is_refused(table: Served) -> None:
    with pytest.raises(ReplayError, match="has recorded no batch"):
        apply(table, {MINUTES[0]: 3}, metadata(4, 7, 8))
    assert content(table) == {}


def test_a_batch_that_fails_leaves_neither_rows_nor_position(table: Served) -> None:
    def fence() -> None:
        raise ReplayError("no longer mine")

    with pytest.raises(ReplayError, match="no longer mine"):
        table.apply(rows({MINUTES[0]: 3}), metadata(0, None, 1), NONE, fence)
    assert content(table) == {}
    assert table.state().last is None


def test_a_checkpoint_can_be_recovered_from_the_position_alone(table: Served) -> None:
    batch = metadata(0, None, 1)
    apply(table, {MINUTES[0]: 3}, batch)
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    state = table.state()
    assert state.metadata is not None
    assert state.metadata.after == metadata(1, 1, 2).after
    assert (state.metadata.before, state.metadata.rows, state.rows) == (at(1), 1, 2)
    assert list(table.newest_first()) == [(state.last, True)]


def test_a_position_changed_by_hand_is_used_as_it_is(table: Served) -> None:
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    run_all(database(table), [f"UPDATE oncelake_position SET to_position = '{at(7)}'"])
    assert table.state().metadata is not None
    assert table.state().metadata.end == at(7)  # type: ignore[union-attr]


def test_a_batch_that_was_overtaken_is_decided_again(table: Served, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes this batch between the look at the position and the transaction."""
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    before, others = table.sink.last(), [1]

    def last() -> SinkBatch | None:
        if others:
            others.clear()
            apply(served(url, table.mode), {MINUTES[0]: 4}, metadata(1, 1, 2))
            return before
        return SqlSink.last(sink)

    assert isinstance(table.sink, SqlSink)
    sink = table.sink
    monkeypatch.setattr(sink, "last", last)
    assert apply(table, {MINUTES[0]: 4}, metadata(1, 1, 2)).replayed
    assert content(table) == {MINUTES[0]: 4 if table.mode == "idempotent" else 7}


def test_counts_are_not_added_to_rows_of_another_writer(url: str) -> None:
    make_tables(url, "INSERT INTO error_log VALUES ('2026-01-01 00:00:00.000000', 1)")
    table = served(url, "transactional")
    with pytest.raises(ReplayError, match=r"oncelake rebuild serving\.error_log"):
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    table.empty()
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    assert content(table) == {MINUTES[0]: 3}


def test_counts_of_another_declaration_are_not_added(table: Served) -> None:
    first, second = metadata(0, None, 2), replace(metadata(1, 2, 4), rules="of another declaration")
    apply(table, {MINUTES[0]: 3}, first)
    if table.mode == "idempotent":  # the rows are gold's, whatever made them
        apply(table, {MINUTES[0]: 2}, second)
        assert content(table) == {MINUTES[0]: 2}
        return
    with pytest.raises(ConfigError, match=r"holds counts by another declaration .* oncelake rebuild serving.error_log"):
        apply(table, {MINUTES[0]: 2}, second)
    assert content(table) == {MINUTES[0]: 3}
    table.empty()
    apply(table, {MINUTES[0]: 2}, replace(metadata(0, None, 4), rules="of another declaration"))
    assert content(table) == {MINUTES[0]: 2}


def test_missing_or_wrong_tables_are_named(url: str) -> None:
    table = served(url)
    with pytest.raises(ConfigError, match=r"no table oncelake_position .*oncelake serving init"):
        table.check(SCHEMA)
    with pytest.raises(TargetError, match="oncelake serving init"):
        apply(table, {}, metadata(0, None, 1))
    make_tables(url, "DROP TABLE error_log", "CREATE TABLE error_log (log_time DATETIME, log_count BIGINT)")
    with pytest.raises(ConfigError, match="primary key"):
        table.check(SCHEMA)
    run_all(database(table), ["DROP TABLE error_log", "CREATE TABLE error_log (log_time DATETIME PRIMARY KEY)"])
    with pytest.raises(ConfigError, match="no column log_count"):
        table.check(SCHEMA)


def test_a_database_locked_for_too_long_is_unavailable(url: str) -> None:
    make_tables(url)
    quick, other = served(f"{url}?timeout=0.1"), Database(parse_url(url))

    def work(connection: Connection) -> None:
        del connection
        with pytest.raises(TargetAwayError, match="locked"):
            apply(quick, {MINUTES[0]: 3}, metadata(0, None, 1))

    other.transaction(work)


@pytest.mark.parametrize(
    "url",
    ["mysql://", "nonsense", "oracle://u:secret-word@h/d", "mysql://u:secret-word@h", "sqlite://", "://secret-word"],
)
def test_a_wrong_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"SQLAlchemy URL|accepted: mysql|names no database") as error:
        parse_url(url)
    assert "secret-word" not in str(error.value)


def test_a_database_never_shows_its_password() -> None:
    database = Database(parse_url("mysql://user:secret-word@localhost:3307/alog?ssl_ca=/x"))
    assert str(database) == "mysql localhost:3307/alog"
    assert "secret-word" not in repr(database) + repr(served("mysql://user:secret-word@localhost/alog"))


def test_times_are_written_as_utc_to_the_second(url: str) -> None:
    make_tables(url)
    table = served(url)
    apply(table, {datetime(2026, 3, 29, 2, 30): 1}, metadata(0, None, 1))
    assert content(table) == {datetime(2026, 3, 29, 2, 30): 1}
