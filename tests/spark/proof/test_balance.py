"""A proof compares silver and quarantine with bronze, and names the table and the batch whose rows are missing."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, bronze_of
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.span import Span
from oncelake.proof.balance import balance
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA
from oncelake.silver.schema import SILVER as SILVER_SCHEMA
from oncelake.silver.schema import with_source
from tests.support.made_table import MadeTable, delta

pytestmark = pytest.mark.spark

Lake = tuple[MadeTable, MadeTable, MadeTable]


def rows(batch: int, offsets: Iterable[int], **changed: Any) -> list[dict[str, Any]]:
    origin = {"topic": "alog", "partition": 0, **changed}
    return [{"batch": batch, "offset": offset, **origin} for offset in offsets]


def lines(batch: int, count: int, file: str) -> list[dict[str, Any]]:
    return [{"batch": batch, "file": file}] * count


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make three batches of bronze; silver reads the first two in parts of a snapshot, and then the third."""
    root = tmp_path_factory.mktemp("lake")
    bronze = MadeTable(spark, root, BRONZE, BRONZE_SCHEMA)
    silver = MadeTable(spark, root, SILVER, SILVER_SCHEMA)
    quarantine = MadeTable(spark, root, QUARANTINE, QUARANTINE_SCHEMA)
    for batch, batch_rows in enumerate((rows(0, range(10)), rows(1, range(10, 20)), rows(2, range(20, 30)))):
        bronze.batch(batch, [*batch_rows, *lines(batch, 2, f"file:/logs/{batch}%20.log")], None, "{}")
    # the first part of the snapshot is a file of the second batch: rows 10 to 19
    silver.batch(0, [*rows(1, range(10, 18)), *lines(1, 2, "file:/logs/1%20.log")], None, delta(2, inside=True))
    quarantine.batch(0, rows(1, [18, 19]), None, delta(2, inside=True))
    part = [*rows(0, range(10)), *lines(0, 2, "file:/logs/0%20.log")]
    silver.batch(1, part, delta(2, inside=True), delta(3))
    silver.batch(2, [*rows(2, range(20, 29)), *lines(2, 1, "file:/logs/2%20.log")], delta(3), delta(4))
    quarantine.batch(2, [*rows(2, [29]), *lines(2, 1, "file:/logs/2%20.log")], delta(3), delta(4))
    return bronze, silver, quarantine


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    bronze, silver, quarantine = made
    return bronze.copied(tmp_path), silver.copied(tmp_path), quarantine.copied(tmp_path)


def proven(reader: TableRows, lake: Lake, after: int | None = None) -> tuple[bool, str]:
    bronze, silver, quarantine = (table.span(after) for table in lake)
    link = balance(reader, {None: bronze}, silver, quarantine)
    return link.holds, link.said


@pytest.mark.usefixtures("compiled_expressions")
def test_every_line_in_one_of_two_tables_holds(reader: TableRows, lake: Lake) -> None:
    said = "36 rows = 32 in silver.access_log + 4 in silver.quarantine, in 3 batches"
    assert proven(reader, lake) == (True, said)
    said = "12 rows = 10 in silver.access_log + 2 in silver.quarantine, in 1 batch"
    assert proven(reader, lake, after=1) == (True, said)


@pytest.mark.parametrize(
    ("table", "edit", "named"),
    [
        (
            1,
            "DELETE FROM {} WHERE offset = 25",
            (
                "silver.access_log has 9 of the 10 rows that batch 2 wrote: 1 too few",
                "batch 2 of bronze.access_log, ingested at 2017-07-14 02:40:02.000: alog/0 has 10 rows in it, 8 in "
                "silver.access_log and 1 in silver.quarantine: 1 missing",
            ),
        ),
        (
            1,
            "DELETE FROM {} WHERE file LIKE '%2%20.log'",
            (
                "silver.access_log has 9 of the 10 rows that batch 2 wrote: 1 too few",
                "2 .log has 2 rows in it, 0 in silver.access_log and 1 in silver.quarantine: 1 missing",
            ),
        ),
        (
            1,
            "INSERT INTO {0} SELECT * FROM {0} WHERE offset = 3",
            (
                "silver.access_log has 23 of the 22 rows that batches 0 to 1 wrote: 1 too many",
                "alog/0 has 10 rows in it, 11 in silver.access_log and 0 in silver.quarantine: 1 too many",
            ),
        ),
        (
            2,
            "INSERT INTO {0} SELECT * FROM {0} WHERE offset = 29",
            (
                "silver.quarantine has 3 of the 2 rows that batch 2 wrote: 1 too many",
                "alog/0 has 10 rows in it, 9 in silver.access_log and 2 in silver.quarantine: 1 too many",
            ),
        ),
        (
            2,
            "DELETE FROM {} WHERE offset = 29",
            (
                "silver.quarantine has 1 of the 2 rows that batch 2 wrote: 1 too few",
                "alog/0 has 10 rows in it, 9 in silver.access_log and 0 in silver.quarantine: 1 missing",
            ),
        ),
        (
            1,
            "UPDATE {} SET ingested_at = timestamp_millis(1) WHERE offset = 25",
            (
                "silver.access_log has 9 of the 10 rows that batch 2 wrote: 1 too few",
                "no batch of bronze.access_log, ingested at 1970-01-01 00:00:00.001: alog/0 has 0 rows in it, 1 in",
            ),
        ),
    ],
)
def test_missing_and_surplus_rows_are_named(
    reader: TableRows, lake: Lake, table: int, edit: str, named: tuple[str, str]
) -> None:
    lake[table].edit(edit)
    holds, said = proven(reader, lake)
    assert not holds
    assert [name for name in named if name not in said] == [], said


@pytest.mark.usefixtures("compiled_expressions")
@pytest.mark.parametrize("offset", [24, 1_000])
def test_a_row_replaced_by_another_is_found(reader: TableRows, lake: Lake, offset: int) -> None:
    lake[1].edit(f"UPDATE {{}} SET offset = {offset} WHERE offset = 25")
    holds, said = proven(reader, lake)
    assert not holds
    assert said.endswith("but not with the same offsets")
    assert proven(reader, lake, after=1) == (False, said)


def test_a_commit_of_fewer_rows_than_bronze_wrote_is_named(reader: TableRows, lake: Lake) -> None:
    silver = lake[1]
    silver.commits[-1] = replace(silver.commits[-1], metrics={"numOutputRows": "8"})
    said = "versions 3 to 3 of bronze.access_log have 12 rows, silver.access_log recorded 8 and silver.quarantine 2"
    assert f"batch 2: {said}" in proven(reader, lake)[1]


def test_two_batches_with_the_same_time_hold(reader: TableRows, lake: Lake) -> None:
    bronze, silver, _ = lake
    bronze.batch(2, rows(2, range(30, 33)), None, "{}")  # the clock went back
    silver.batch(3, rows(2, range(30, 33)), delta(4), delta(5))
    holds, said = proven(reader, lake)
    assert holds, said


def replay(lake: Lake, recorded: int = 1) -> None:
    """Move a line from quarantine to silver, and record this number of lines in silver's commit."""
    _, silver, quarantine = lake
    silver.batch(2, rows(2, [29]), delta(3), delta(4))
    silver.commits.pop()
    silver.metadata(2, delta(3), delta(4), recorded, CommitKind.REPLAY)
    quarantine.edit("DELETE FROM {} WHERE offset = 29")


def test_a_replayed_line_is_counted_in_its_new_table(reader: TableRows, lake: Lake) -> None:
    replay(lake)
    said = "36 rows = 33 in silver.access_log + 3 in silver.quarantine, in 3 batches"
    assert proven(reader, lake) == (True, said)
    link = balance(reader, {None: lake[0].span(1)}, lake[1].span(1), lake[2].span(1))
    assert link.holds
    assert "To compare all, run: oncelake prove --full" in link.notes[0]
    lake[2].edit("INSERT INTO {0} SELECT * FROM {0} LIMIT 1")
    holds, said = proven(reader, lake)
    assert not holds
    assert "1 too many" in said


@pytest.mark.parametrize("recorded", [0, 2])
def test_a_replay_that_recorded_a_wrong_number_of_lines_is_named(reader: TableRows, lake: Lake, recorded: int) -> None:
    replay(lake, recorded)
    holds, said = proven(reader, lake)
    assert not holds
    if recorded:
        assert said == "silver.access_log has 1 row that its batches did not write; replays moved 2"


def test_an_accepted_loss_holds_and_is_noted(reader: TableRows, lake: Lake) -> None:
    bronze, silver, quarantine = lake
    bronze.batch(3, rows(3, range(30, 40)), None, "{}")
    gone = bronze.commits.pop()  # its commit was cleaned up before silver read it
    silver.metadata(3, delta(4), delta(5), 0, CommitKind.LOSS)
    link = balance(reader, {None: bronze.span()}, silver.span(), quarantine.span())
    assert link.holds, link.said
    assert link.uncompared == (Uncompared(10, "10 lines of an accepted loss", 10, lasting=True),)
    bronze.commits.append(gone)
    assert not proven(reader, lake)[0]


def cut(table: MadeTable, after: int) -> Span:
    """Return the span of a table whose log begins after a batch; all rows are compared."""
    span = table.span(after)
    assert span.start
    return replace(span, includes_earlier=True)


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1, 2]], ids=["bronze", "silver", "quarantine", "all"])
def test_rows_whose_commits_are_gone_are_compared_by_their_origin(
    reader: TableRows, lake: Lake, gone: list[int]
) -> None:
    def weighed() -> Link:
        bronze, silver, quarantine = (
            cut(table, 1) if number in gone else table.span() for number, table in enumerate(lake)
        )
        return balance(reader, {None: bronze}, silver, quarantine)

    link = weighed()
    assert (link.holds, link.uncompared) == (True, ()), link.said
    assert link.said.startswith("36 rows = 32 in silver.access_log + 4 in silver.quarantine")
    lake[1].edit("DELETE FROM {} WHERE offset = 5")
    assert "alog/0 has 10 rows in it, 9 in silver.access_log and 0 in silver.quarantine: 1 missing" in weighed().said


@pytest.mark.parametrize(("silver", "parts"), [(1, 1), (None, 0)])
def test_a_batch_that_silver_never_read_is_a_number_only_if_its_loss_may_have_been_accepted(
    reader: TableRows, lake: Lake, silver: int | None, parts: int
) -> None:
    lake[1].edit("DELETE FROM {} WHERE offset < 10 OR file LIKE '%0%20.log'")
    one, other, third = lake
    link = balance(reader, {None: cut(one, 1)}, cut(other, 1) if silver else other.span(), cut(third, 1))
    assert (link.holds, len(link.uncompared)) == (bool(parts), parts)
    if parts:
        assert link.uncompared[0].lines == 12


@pytest.mark.parametrize(("app", "holds"), [(5, True), (4, False)])
def test_rows_of_two_sources_are_compared_source_by_source(
    spark: SparkSession, reader: TableRows, tmp_path: Path, app: int, holds: bool
) -> None:
    """Two clusters have a topic of one name, and one row of the second source is in silver as one of the first."""
    bronze, other = (MadeTable(spark, tmp_path, table, BRONZE_SCHEMA) for table in (BRONZE, bronze_of("app")))
    silver = MadeTable(spark, tmp_path, SILVER, with_source(SILVER_SCHEMA))
    quarantine = MadeTable(spark, tmp_path, QUARANTINE, with_source(QUARANTINE_SCHEMA))
    bronze.batch(0, rows(0, range(5)), None, "{}")
    other.batch(0, rows(0, range(5)), None, "{}")
    both = delta(2), delta(2).replace('"id"', '"app"')
    first = [*rows(0, range(5), source=None), *rows(0, range(app, 5), source="access_log")]
    silver.batch(0, [*first, *rows(0, range(app), source="app")], None, "\n".join(both))
    link = balance(reader, {"id": bronze.span(), "app": other.span()}, silver.span(), quarantine.span())
    assert link.name == "bronze.access_log + bronze.app → silver.access_log + silver.quarantine"
    assert link.holds is holds, link.said
    if not holds:
        assert "batch 0 of bronze.app, ingested at" in link.said
