"""The proof names a position in the database that cannot be right, before it compares a row: over SQLite."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.link import Link
from oncelake.proof.served import ServedProof
from oncelake.serving.served import Served
from tests.support.memory import MemoryFiles, commit
from tests.support.memory import metadata as note_of
from tests.support.serving import MINUTES, TABLE_ID, apply, at, database, make_tables, metadata, run_all, served

# the silver table of the test: an empty version, then three batches of ten rows
BATCHES, ROWS = 3, 10


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    make_tables(url)
    return url


def filled(url: str, rows: int = BATCHES * ROWS) -> Served:
    """Serve all of silver in one batch, which records this many rows."""
    table = served(url, "transactional")
    apply(table, {MINUTES[0]: 3}, metadata(0, None, BATCHES + 1))
    run_all(database(table), [f"UPDATE oncelake_position SET batch_rows = {rows}, total_rows = {rows}"])
    return table


def position(table: Served, batches: int = BATCHES) -> Link:
    """Prove the position of a table that follows silver."""
    files = MemoryFiles()
    commit(files, "silver", 0, operation="CREATE TABLE")
    for batch in range(batches):
        commit(files, "silver", batch + 1, note_of(batch))
    files.texts[f"silver/_delta_log/{batches:020d}.crc"] = f'{{"metadata":{{"id":"{TABLE_ID}"}}}}'
    chain: Any = SimpleNamespace(commit_log=lambda _: DeltaLog(files, "silver"))
    spark: Any = None
    return next(ServedProof(chain, spark, table).links())


def test_a_correct_position_holds(url: str) -> None:
    link = position(filled(url))
    assert link.holds, link.said


@pytest.mark.parametrize(
    ("before", "end", "said"),
    [
        (None, at(4).replace(TABLE_ID, "another"), f"it is of table another, but silver.access_log is {TABLE_ID}"),
        (None, at(9), "it is at version 9, but silver.access_log ends at 3"),
        (at(3), at(2), "back to"),
        (at(4), at(4), "batch 0 ends where it begins"),
    ],
)
def test_an_impossible_position_is_named(url: str, before: str | None, end: str, said: str) -> None:
    table = filled(url)
    start = "NULL" if before is None else f"'{before}'"
    run_all(database(table), [f"UPDATE oncelake_position SET from_position = {start}, to_position = '{end}'"])
    link = position(table)
    assert not link.holds
    assert said in link.said


@pytest.mark.parametrize(("end", "waiting"), [(BATCHES + 1, 0), (BATCHES, ROWS), (BATCHES - 1, 2 * ROWS)])
def test_lines_that_are_not_served_yet_are_a_number(url: str, end: int, waiting: int) -> None:
    table = served(url, "transactional")
    apply(table, {MINUTES[0]: 3}, metadata(0, None, end))
    rows = BATCHES * ROWS - waiting
    run_all(database(table), [f"UPDATE oncelake_position SET batch_rows = {rows}, total_rows = {rows}"])
    link = position(table)
    assert link.holds, link.said
    assert [(part.lines, part.waits) for part in link.uncompared] == ([(waiting, True)] if waiting else [])


@pytest.mark.parametrize("emptied", [False, True])
def test_a_table_without_a_batch_does_not_hold_while_there_are_lines_to_serve(url: str, *, emptied: bool) -> None:
    """A rebuild empties the table, and the first batch after it may fail for good."""
    table = served(url, "transactional")
    if emptied:
        table = filled(url)
        table.empty()
    link = position(table)
    assert not link.holds
    assert "has no batch of it: 30 lines that wait for serving.error_log. Run: oncelake run" in link.said


def test_a_table_without_a_batch_holds_if_there_is_nothing_to_serve(url: str) -> None:
    link = position(served(url, "transactional"), batches=0)
    assert link.holds, link.said


@pytest.mark.parametrize("rows", [29, 31])
def test_missing_and_repeated_rows_are_counted(url: str, rows: int) -> None:
    link = position(filled(url, rows))
    assert not link.holds
    assert link.said == f"{rows} rows were read in all batches, but silver.access_log has 30 up to the position"
