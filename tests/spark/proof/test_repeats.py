"""A proof finds a dropped line that repeats nothing, and a line of silver that repeats another one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common.lake import BRONZE, DUPLICATES, QUARANTINE, SILVER
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.link import Link
from oncelake.proof.balance import balance
from oncelake.proof.repeats import repeats
from oncelake.silver.schema import DUPLICATES as DUPLICATES_SCHEMA
from oncelake.silver.schema import EVENT, TWIN
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA
from oncelake.silver.schema import SILVER as SILVER_SCHEMA
from tests.support.made_table import MadeTable, delta, taken

pytestmark = pytest.mark.spark

NOON = datetime(2017, 7, 14, 2, tzinfo=UTC)
MINUTE = 60_000_000
Lake = tuple[MadeTable, MadeTable, MadeTable, MadeTable]
# A user's columns, with the names that queries of a proof have used.
OWN = {"at": 7, "apart": 10**12, "us": 7, "taken": 7}


def line(batch: int, offset: int, at: int, key: bytes | None, window: int = MINUTE) -> dict[str, Any]:
    origin = {"batch": batch, "topic": "alog", "partition": 0, "offset": offset}
    event = {"log_time": NOON + timedelta(seconds=at), "event_key": key, "event_window": window}
    return {**origin, **event, **OWN}


def repeat(of: dict[str, Any], batch: int, offset: int, at: int) -> dict[str, Any]:
    ingested = datetime.fromtimestamp(taken(of["batch"]) / 1000, UTC)
    names = [field.name for field in TWIN.dataType]  # type: ignore[attr-defined]
    twin = tuple({**of, "ingested_at": ingested}.get(name) for name in names)
    return {**line(batch, offset, at, of["event_key"]), "twin": twin}


ONE, OTHER = line(0, 0, 0, b"a"), line(1, 2, 200, b"a")
KEPT = ([ONE, line(0, 1, 0, b"b")], [OTHER, line(1, 3, 0, None), line(1, 4, 0, None)])


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make two batches, each with repeats and a refused line."""
    root = tmp_path_factory.mktemp("lake")
    schema = StructType([*SILVER_SCHEMA.fields, *EVENT, *(StructField(name, LongType()) for name in OWN)])
    tables = [
        MadeTable(spark, root, table, columns)
        for table, columns in (
            (BRONZE, BRONZE_SCHEMA),
            (SILVER, schema),
            (QUARANTINE, QUARANTINE_SCHEMA),
            (DUPLICATES, DUPLICATES_SCHEMA),
        )
    ]
    bronze, silver, quarantine, duplicates = tables
    dropped = ([repeat(ONE, 0, 5, 60)], [repeat(OTHER, 1, 6, 140), repeat(ONE, 1, 7, -60)])
    for batch, (kept, gone) in enumerate(zip(KEPT, dropped, strict=True)):
        span = (delta(batch + 1) if batch else None), delta(batch + 2)
        refused = line(batch, 8 + batch, 0, None)
        bronze.batch(batch, [*kept, *gone, refused], None, "{}")
        silver.batch(batch, kept, *span)
        quarantine.batch(batch, [refused], *span)
        duplicates.batch(batch, gone, *span)
    return bronze, silver, quarantine, duplicates


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    bronze, silver, quarantine, duplicates = (table.copied(tmp_path) for table in made)
    return bronze, silver, quarantine, duplicates


def proven(reader: TableRows, lake: Lake, after: int | None = None) -> tuple[Link, Link]:
    bronze, silver, quarantine, duplicates = (table.span(after) for table in lake)
    return balance(reader, {None: bronze}, silver, quarantine, duplicates), repeats(
        reader, {None: bronze}, silver, duplicates
    )


def test_all_three_tables_together_hold_bronze_s_lines(reader: TableRows, made: Lake) -> None:
    both, of_repeats = proven(reader, made)
    three = "5 in silver.access_log + 2 in silver.quarantine + 3 in silver.duplicates"
    assert (both.holds, both.said) == (True, f"10 rows = {three}, in 2 batches")
    said = "3 repeats have their twins in silver.access_log; 3 lines with a key repeat no other"
    assert (of_repeats.holds, of_repeats.said) == (True, said)
    assert of_repeats.notes == ("2 lines have no key and are not compared",)
    both, of_repeats = proven(reader, made, after=0)
    assert both.holds
    assert of_repeats.said == "2 repeats have their twins in silver.access_log; 1 line with a key repeats no other"


@pytest.mark.parametrize(
    ("edit", "after", "named"),
    [
        ("UPDATE {} SET twin.offset = 9 WHERE offset = 7", None, "alog/0/7 has no twin"),
        ("UPDATE {} SET log_time = log_time + INTERVAL 1 SECOND WHERE offset = 5", None, "alog/0/5 has no twin"),
        ("UPDATE {} SET event_key = X'00' WHERE offset = 6", 0, "alog/0/6 has no twin"),
    ],
)
def test_a_dropped_line_without_a_twin_is_named(
    reader: TableRows, lake: Lake, edit: str, after: int | None, named: str
) -> None:
    lake[3].edit(edit)
    both, of_repeats = proven(reader, lake, after)
    assert both.holds
    assert (of_repeats.holds, of_repeats.said) == (False, f"silver.duplicates: {named}")


def test_a_dropped_line_that_is_gone_does_not_balance(reader: TableRows, lake: Lake) -> None:
    lake[3].edit("DELETE FROM {} WHERE offset = 6")
    both, _ = proven(reader, lake)
    assert not both.holds
    assert "silver.duplicates has 1 of the 2 rows that batch 1 wrote: 1 too few" in both.said


@pytest.mark.parametrize("after", [None, 0])
def test_two_lines_of_one_event_in_silver_are_named(reader: TableRows, lake: Lake, after: int | None) -> None:
    lake[1].edit("UPDATE {} SET log_time = log_time - INTERVAL 140 SECONDS WHERE offset = 2")
    lake[3].edit(
        "UPDATE {} SET twin.log_time = twin.log_time - INTERVAL 140 SECONDS, "
        "log_time = log_time - INTERVAL 140 SECONDS WHERE offset = 6"
    )
    _, of_repeats = proven(reader, lake, after)
    assert not of_repeats.holds
    assert of_repeats.said == "silver.access_log: alog/0/2 repeats a line that is there too"
