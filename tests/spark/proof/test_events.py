"""A proof finds each event that is not one row of silver, and each number of lines that the rows do not have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span
from oncelake.proof.balance import balance, rows_read
from oncelake.proof.events import events
from oncelake.silver.schema import EACH
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA
from oncelake.silver.schema import SILVER as SILVER_SCHEMA
from tests.support.made_table import MadeTable, delta

pytestmark = pytest.mark.spark

# a user's columns have names that queries of a proof have used
OF_EVENTS = StructType([*SILVER_SCHEMA.fields, *EACH, *(StructField(name, LongType()) for name in ("taken", "same"))])
Lake = tuple[MadeTable, MadeTable, MadeTable]


def record(batch: int, offset: int) -> dict[str, Any]:
    return {"batch": batch, "topic": "alog", "partition": 0, "offset": offset}


def line(batch: int) -> dict[str, Any]:
    return {"batch": batch, "file": f"file:/logs/{batch}.json"}


def of(origin: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    own = {"taken": 7, "same": 7}
    return [{**origin, "event_index": number, "event_count": count, **own} for number in range(count)]


def made_lake(spark: SparkSession, root: Path, lines: Mapping[str, int]) -> Lake:
    """Make two batches of four records and two lines of a file; of each, one record is in quarantine."""
    bronze = MadeTable(spark, root, BRONZE, BRONZE_SCHEMA)
    silver = MadeTable(spark, root, SILVER, OF_EVENTS)
    quarantine = MadeTable(spark, root, QUARANTINE, QUARANTINE_SCHEMA)
    for batch in (0, 1):
        origins = [record(batch, 10 * batch + number) for number in range(4)]
        before, end = delta(batch + 1) if batch else None, delta(batch + 2)
        bronze.batch(batch, [*origins, line(batch), line(batch)], None, "{}")
        rows = [*of(origins[0], 3), *of(origins[1], 1), origins[2], *of(line(batch), 2), *of(line(batch), 2)]
        counts = {"before": 5 * batch, "added": 5}
        silver.batch(batch, rows, before, end, {**counts, **lines} if batch else counts)
        quarantine.batch(batch, [origins[3]], before, end)
    return bronze, silver, quarantine


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return made_lake(spark, tmp_path_factory.mktemp("lake"), {})


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    bronze, silver, quarantine = made
    return bronze.copied(tmp_path), silver.copied(tmp_path), quarantine.copied(tmp_path)


def links(reader: TableRows, lake: Lake) -> tuple[Link, Link]:
    bronze, silver, quarantine = (table.span() for table in lake)
    spans: dict[str | None, Span] = {None: bronze}
    condition = rows_read(silver, spans, reader.columns(silver.path, silver.version)).condition
    return balance(reader, spans, silver, quarantine), events(reader, silver, condition)


def test_each_event_once_and_each_line_in_one_table_holds(reader: TableRows, lake: Lake) -> None:
    balanced, complete = links(reader, lake)
    said = "12 rows = 10 in silver.access_log + 2 in silver.quarantine, in 2 batches"
    assert (balanced.holds, balanced.said) == (True, said)
    assert (complete.holds, complete.said) == (True, "8 lines with events are 16 rows, one for each")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("DELETE FROM {} WHERE offset = 0 AND event_index = 1", "2 rows alog/0/0 with 3 events"),
        ("DELETE FROM {} WHERE offset = 0 AND event_index = 0", "2 rows alog/0/0 with 3 events"),
        ("INSERT INTO {0} SELECT * FROM {0} WHERE offset = 10 AND event_index = 2", "4 rows alog/0/10 with 3 events"),
        ("UPDATE {} SET event_index = 1 WHERE offset = 0 AND event_index = 2", "3 rows alog/0/0 with 3 events"),
        ("UPDATE {} SET event_index = 5 WHERE offset = 0 AND event_index = 2", "3 rows alog/0/0 with 3 events"),
        ("UPDATE {} SET event_index = NULL WHERE offset = 0 AND event_index = 2", "3 rows alog/0/0 with 3 events"),
        ("UPDATE {} SET event_count = 2 WHERE offset = 0", "3 rows alog/0/0 with 2 events"),
        ("UPDATE {} SET event_count = NULL WHERE offset = 0 AND event_index = 2", "alog/0/0"),
        ("UPDATE {} SET event_index = 0 WHERE file LIKE '%1.json' AND event_index = 1", "of lines in"),
        ("INSERT INTO {0} SELECT * FROM {0} WHERE file LIKE '%1.json' AND event_index = 1", "of lines in"),
    ],
    ids=[
        *("deleted", "first deleted", "doubled", "same number", "number beyond", "no number", "less counted"),
        *("not counted", "same number in a file", "doubled in a file"),
    ],
)
def test_an_event_that_is_not_one_row_is_named(reader: TableRows, lake: Lake, edit: str, named: str) -> None:
    lake[1].edit(edit)
    _, complete = links(reader, lake)
    assert not complete.holds
    assert named in complete.said


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("DELETE FROM {} WHERE offset = 0", "silver.access_log has 4 of the 5 rows that batch 0 wrote: 1 too few"),
        ("INSERT INTO {0} SELECT * FROM {0} WHERE offset = 10", "has 6 of the 5 rows that batch 1 wrote: 1 too many"),
        ("DELETE FROM {} WHERE offset = 0 AND event_index = 2", "has 8 of 9 rows of events that batch 0 recorded"),
    ],
    ids=["lost", "doubled", "fewer events"],
)
def test_a_line_that_is_lost_or_doubled_is_named(reader: TableRows, lake: Lake, edit: str, named: str) -> None:
    lake[1].edit(edit)
    if "event_index" in edit:  # a line whose events were made fewer in all its rows
        lake[1].edit("UPDATE {} SET event_count = 2 WHERE offset = 0")
    balanced, complete = links(reader, lake)
    assert not balanced.holds
    assert named in balanced.said
    assert complete.holds


def test_a_number_of_lines_in_a_commit_is_compared_with_the_rows(
    spark: SparkSession, reader: TableRows, tmp_path: Path
) -> None:
    balanced, _ = links(reader, made_lake(spark, tmp_path, {"added": 6}))
    assert not balanced.holds
    assert "silver.access_log has 5 of the 6 rows that batch 1 wrote: 1 too few" in balanced.said
