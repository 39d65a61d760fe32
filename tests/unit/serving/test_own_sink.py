"""Batches go into a sink of a user's own: replays, gaps, other writers, waiting and errors are decided by oncelake."""

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import (
    ConfigError,
    LockedError,
    ReceiptError,
    ReplayError,
    TargetAwayError,
    TargetError,
)
from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.write import Written
from oncelake.serving.load import make_sink
from oncelake.serving.patience import NONE, Patience
from oncelake.serving.rows import Rows
from oncelake.serving.served import Served
from oncelake.serving.sink import SinkBatch
from tests.support.serving import ERRORS, MINUTES, SCHEMA, at, metadata, rows

BOTH = ["Together", "ByKey"]
OWN = "tests.support.sinks:"


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Served]:
    def served(name: str) -> Served:
        options = {"file": str(tmp_path / "own.db"), "says": str(tmp_path / "says"), "password": "secret-word"}
        sink = make_sink(f"{OWN}{name}", "error_log", options)
        return Served(Table("serving", "error_log"), ERRORS, "idempotent", Table("gold", "error_log"), sink)

    return served


@pytest.fixture(params=BOTH)
def table(make: Callable[[str], Served], request: pytest.FixtureRequest) -> Served:
    return make(request.param)


def apply(table: Served, counts: dict[datetime, int], batch: CommitMetadata, patience: Patience = NONE) -> Written:
    return table.apply(rows(counts), batch, patience, lambda: None)


def content(table: Served) -> dict[Any, int]:
    with table.snapshot(SCHEMA) as content:
        return {row[0]: row[1] for row in content.rows}


def test_batches_replace_values_and_a_replay_changes_nothing(table: Served) -> None:
    apply(table, {MINUTES[0]: 3, MINUTES[1]: 1}, metadata(0, None, 1))
    written = apply(table, {MINUTES[0]: 4}, metadata(1, 1, 3))
    assert (written.replayed, written.commit.rows_changed) == (False, 1)
    before = content(table), table.state()
    assert apply(table, {MINUTES[0]: 4}, metadata(1, 1, 3, run="another run")).replayed
    assert (content(table), table.state()) == before
    assert content(table) == {MINUTES[0]: 4, MINUTES[1]: 1}


def test_a_checkpoint_can_be_recovered_from_the_last_batch(table: Served) -> None:
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    state = table.state()
    assert state.metadata is not None
    assert (state.metadata.after, state.metadata.before) == (metadata(1, 1, 2).after, at(1))
    assert (state.metadata.rows, state.rows) == (1, 2)


@pytest.mark.parametrize(
    "late", [metadata(2, 1, 4), metadata(2, 3, 4), metadata(0, None, 1), metadata(2, 2, 4, query_id="x")]
)
def test_a_range_that_does_not_follow_is_refused_and_changes_nothing(table: Served, late: CommitMetadata) -> None:
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    before = content(table), table.state()
    with pytest.raises(ReplayError, match="has recorded batch 1"):
        apply(table, {MINUTES[0]: 9}, late)
    assert (content(table), table.state()) == before


def test_a_process_that_lost_the_lake_writes_no_further_part(table: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelake.serving.rows.CHUNK", 1)
    seen: list[int] = []

    def fence() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise LockedError("no longer mine")

    with pytest.raises(LockedError, match="no longer mine"):
        table.apply(rows({MINUTES[0]: 3, MINUTES[1]: 4}), metadata(0, None, 1), NONE, fence)
    assert table.state().last is None
    assert MINUTES[1] not in content(table)


def test_the_lock_is_checked_after_the_last_row(table: Served) -> None:
    seen: list[int] = []

    def fence() -> None:
        seen.append(1)
        if len(seen) == 3:  # before the rows, with their only part, after them
            raise LockedError("no longer mine")

    with pytest.raises(LockedError, match="no longer mine"):
        table.apply(rows({MINUTES[0]: 3}), metadata(0, None, 1), NONE, fence)
    assert table.state().last is None


def test_a_rebuild_keeps_the_version_growing(table: Served) -> None:
    for number in range(3):
        apply(table, {MINUTES[number]: 1}, metadata(number, number or None, number + 1))
    before = table.sink.last()
    table.empty()
    assert (content(table), table.state().last) == ({}, None)
    table.empty()
    apply(table, {MINUTES[5]: 1}, metadata(0, None, 1, query_id="new"))
    after = table.sink.last()
    assert before is not None
    assert after is not None
    assert after.version > before.version
    assert content(table) == {MINUTES[5]: 1}


def test_a_writer_that_another_one_overtook_decides_again(table: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one writes the same batch between the look and the write: this one finds a replay."""
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    write = table.sink.write
    others: list[int] = []

    def late(*arguments: Any) -> None:
        if not others:
            others.append(1)
            write(*arguments)
        write(*arguments)

    monkeypatch.setattr(table.sink, "write", late)
    assert apply(table, {MINUTES[0]: 4}, metadata(1, 1, 2)).replayed
    assert content(table) == {MINUTES[0]: 4}


def test_a_sink_that_refuses_a_batch_for_nothing_is_an_error(table: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.sink, "last", lambda: None)
    table_of_two = {MINUTES[0]: 4}
    table.sink.empty(SinkBatch(table.stage, 7))
    with pytest.raises(TargetError, match="its last batch is the same as before"):
        apply(table, table_of_two, metadata(0, None, 1))


def test_a_batch_that_was_not_stored_fails_at_once(make: Callable[[str], Served]) -> None:
    with pytest.raises(ReceiptError, match=r"was given batch 0 .* but the last batch that it stores is none"):
        apply(make("StoresNothing"), {MINUTES[0]: 3}, metadata(0, None, 1))


def test_a_sink_that_leaves_rows_out_fails(make: Callable[[str], Served]) -> None:
    with pytest.raises(ReceiptError, match="returned from batch 0 before it took all of its rows"):
        apply(make("Careless"), {MINUTES[0]: 3}, metadata(0, None, 1))


def test_a_sink_that_is_not_emptied_fails(table: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    monkeypatch.setattr(table.sink, "empty", lambda _: None)
    with pytest.raises(ReceiptError, match=r"was emptied, but the last batch that it stores is batch 0"):
        table.empty()


@pytest.mark.parametrize(
    ("says", "kind", "said"),
    [
        ("broken", TargetError, "tests.support.sinks:Refusing: LookupError: no table. Fix the sink, then start again"),
        ("leaky", ConfigError, "refused: <password>"),
        (
            "away",
            TargetAwayError,
            "sinks:Refusing is unavailable: no route with <password>. Nothing is lost or",
        ),
    ],
)
def test_an_error_of_a_sink_is_one_line_without_secrets(
    make: Callable[[str], Served], tmp_path: Path, says: str, kind: type[Exception], said: str
) -> None:
    (tmp_path / "says").write_text(says)
    table = make("Refusing")
    for ask in (table.state, table.empty, lambda: apply(table, {}, metadata(0, None, 1))):
        with pytest.raises(kind) as error:
            ask()
        assert said in str(error.value)
        assert "\n" not in str(error.value)
        assert "secret-word" not in str(error.value)


def test_a_batch_waits_for_a_sink_that_is_away(
    make: Callable[[str], Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.01)
    said: list[str] = []
    (tmp_path / "says").write_text("away")
    table = make("Refusing")
    with pytest.raises(TargetAwayError, match=r"is unavailable \(waited 1 s\)"):
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1), Patience(1, say=said.append))
    threading.Timer(0.3, (tmp_path / "says").unlink).start()
    assert not apply(table, {MINUTES[0]: 3}, metadata(0, None, 1), Patience(60, say=said.append)).replayed
    assert content(table) == {MINUTES[0]: 3}
    assert "no route with <password>; the batch waits" in said[0]


def test_a_last_batch_that_is_none_of_ours_is_named(table: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.sink, "last", lambda: "batch 7")
    with pytest.raises(TargetError, match=r"TypeError: last\(\) returned str, not a SinkBatch"):
        table.state()


def test_an_error_of_the_rows_is_not_one_of_the_sink(table: Served) -> None:
    def broken() -> Any:
        raise ConnectionResetError(104, "Spark is gone")
        yield

    with pytest.raises(ConnectionResetError):
        table.apply(Rows(("log_time", "log_count"), 1, 1, SCHEMA, broken), metadata(0, None, 1), NONE, lambda: None)


def test_a_batch_is_text_and_back_also_with_fields_of_a_later_version() -> None:
    batch = SinkBatch(
        "serving.error_log", 3, "q", 2, at(1), at(2), 5, 9, "gold.error_log@x", "v1\n{}\né", "r", "run", 7
    )
    assert SinkBatch.from_json(batch.to_json()) == batch
    assert SinkBatch.from_json(batch.to_json()[:-1] + ',"later":1}') == batch
    with pytest.raises(ValueError, match="not a batch"):
        SinkBatch.from_json("[]")
