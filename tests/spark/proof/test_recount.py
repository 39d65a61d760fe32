"""A proof counts gold again from silver, and names each row that differs, with both values."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import SILVER, Table
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.gold.declaration import GoldTable
from oncelake.gold.schema import gold_schema
from oncelake.gold.transform import aggregate
from oncelake.proof.recount import recount
from oncelake.silver.schema import SILVER as SCHEMA
from tests.support.made_table import MadeTable, delta, frame

pytestmark = pytest.mark.spark

NOON = datetime(2017, 7, 30, 12, tzinfo=UTC)
DECLARED = GoldTable(
    where="level = 'ERROR'",
    every="1 minute",
    by={"host": "fields['host']"},
    measures={
        "log_count": "count",
        "lines": "sum(length(message))",
        "last": "max(log_time)",
        "lowest": "min(try_cast(message AS DOUBLE))",
        "messages": "approx_distinct(message)",
        "newest": "max(struct(log_time, message))",
        "short": "rate where length(message) < 2",
        "most": "percentile(length(message), 0.9)",
    },
)


def line(batch: int, minute: int, message: str = "x", **changed: Any) -> dict[str, Any]:
    values = {"log_time": NOON + timedelta(minutes=minute), "level": "ERROR", "message": message}
    return {"batch": batch, **values, "fields": {"host": "one"}, **changed}


@pytest.fixture(params=["plain", "spark"])
def reader(spark: SparkSession, request: pytest.FixtureRequest) -> TableRows:
    """Let Spark count again what it alone can, and say what differs."""
    return TableRows(lambda: spark, with_spark=request.param == "spark")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[MadeTable, MadeTable]:
    """Make silver of two batches, and the gold of both; only the first touches minute 5."""
    root = tmp_path_factory.mktemp("lake")
    silver = MadeTable(spark, root, SILVER, SCHEMA)
    gold = MadeTable(spark, root, Table("gold", "error_log"), gold_schema(spark, DECLARED, SCHEMA))
    first = [line(0, 0), line(0, 0, "NaN"), line(0, 5), line(0, 1, fields={}), line(0, 2, level="INFO")]
    second = [line(1, 1, fields=None), line(1, 2, "y\x1b[31m" + "long" * 50), line(1, 2), line(1, 60)]
    silver.batch(0, first, None, delta(2))
    silver.batch(1, second, delta(2), delta(3))
    gold.batch(0, aggregate(frame(spark, SCHEMA, [*first, *second]), DECLARED), None, delta(2))
    gold.metadata(1, delta(2), delta(3), 0)
    return silver, gold


@pytest.fixture
def lake(made: tuple[MadeTable, MadeTable], tmp_path: Path) -> tuple[MadeTable, MadeTable]:
    silver, gold = made
    return silver.copied(tmp_path), gold.copied(tmp_path)


def proven(reader: TableRows, lake: tuple[MadeTable, MadeTable], after: int | None = None) -> tuple[bool, str]:
    silver, gold = lake
    link = recount(reader, silver.path, DeltaLog(LocalFiles(), silver.path), gold.span(after), DECLARED)
    return link.holds, link.said


def test_gold_behind_the_log_of_silver_is_a_number(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    silver, gold = lake
    silver.edit("INSERT INTO {0} SELECT * FROM {0} LIMIT 1")
    log = DeltaLog(LocalFiles(), silver.path)
    for version in range(3):
        (Path(silver.path) / f"_delta_log/{version:020d}.json").unlink()
    link = recount(reader, silver.path, log, gold.span(), DECLARED)
    assert link.holds
    assert link.said.startswith(
        "NOT compared: gold.error_log has read silver.access_log up to version 2, which is gone"
    )
    assert len(link.uncompared) == 1


@pytest.mark.usefixtures("compiled_expressions")
def test_gold_that_equals_the_recount_holds(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    assert proven(reader, lake) == (True, "5 rows = 8 lines counted again")
    holds, said = proven(reader, lake, after=0)
    assert holds, said
    assert said == "3 rows of the changed windows = 5 lines counted again"


def test_silver_that_gold_has_not_read_is_left_out(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    lake[0].batch(2, [line(2, 0)], delta(3), delta(4))
    assert proven(reader, lake) == (True, "5 rows = 8 lines counted again")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            "UPDATE {} SET log_count = 3 WHERE log_time = '2017-07-30 12:00:00'",
            "2017-07-30 12:00:00, host 'one': log_count is 3, silver has 2",
        ),
        (
            "UPDATE {} SET messages = 9 WHERE host IS NULL",
            "2017-07-30 12:01:00, host null: messages is 9, silver has 1",
        ),
        (
            "UPDATE {} SET lowest = NULL WHERE log_time = '2017-07-30 12:00:00'",
            "2017-07-30 12:00:00, host 'one': lowest is null, silver has NaN",
        ),
        (
            "DELETE FROM {} WHERE log_time = '2017-07-30 12:05:00'",
            "2017-07-30 12:05:00, host 'one': is missing in gold, but silver has 1 line",
        ),
        (
            "DELETE FROM {} WHERE host IS NULL",
            "2017-07-30 12:01:00, host null: is missing in gold, but silver has 2 lines",
        ),
        (
            "UPDATE {} SET host = 'two\\n' WHERE log_time = '2017-07-30 12:05:00'",
            "2017-07-30 12:05:00, host 'one': is missing in gold, but silver has 1 line; "
            "2017-07-30 12:05:00, host 'two\\n': is in gold, but silver has no such line",
        ),
        (
            "INSERT INTO {0} SELECT * FROM {0} WHERE host IS NULL",
            "2017-07-30 12:01:00, host null: is in gold 2 times",
        ),
        (
            "UPDATE {} SET _count_short = 2, _lines_short = 2 WHERE log_time = '2017-07-30 12:05:00'",
            "2017-07-30 12:05:00, host 'one': _count_short is 2, silver has 1, _lines_short is 2, silver has 1",
        ),
        (
            "UPDATE {} SET _buckets_most = map(40000, 2L) WHERE log_time = '2017-07-30 12:05:00'",
            "2017-07-30 12:05:00, host 'one': _buckets_most is '[{40000, 2}]', silver has '[{40000, 1}]'",
        ),
    ],
)
def test_gold_that_differs_is_named(reader: TableRows, lake: tuple[MadeTable, MadeTable], edit: str, said: str) -> None:
    lake[1].edit(edit)
    assert proven(reader, lake) == (False, said)


@pytest.mark.usefixtures("compiled_expressions")
def test_a_window_with_later_batches_is_recounted_completely(
    reader: TableRows, lake: tuple[MadeTable, MadeTable]
) -> None:
    lake[1].edit("UPDATE {} SET log_count = 1 WHERE host IS NULL")
    assert proven(reader, lake, after=0)[0] is False


def test_a_window_without_later_batches_is_not_recounted(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    lake[1].edit("DELETE FROM {} WHERE log_time = '2017-07-30 12:05:00'")
    assert proven(reader, lake, after=0)[0] is True


PLAIN = GoldTable(
    where="level = 'ERROR' AND fields['host'] IS NOT NULL",
    every="1 minute",
    by={"text": "message", "order": "fields['host']"},
    measures={"log_count": "count", "last": "max(log_time)", "first": "min(message)"},
)
FAR = [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)]


def plain_lake(
    spark: SparkSession, root: Path, rows: DataFrame, declared: GoldTable = PLAIN
) -> tuple[MadeTable, MadeTable]:
    """Make silver of some rows, and its gold by a declaration that needs no Spark."""
    silver = MadeTable(spark, root, SILVER, SCHEMA)
    gold = MadeTable(spark, root, Table("gold", "plain"), gold_schema(spark, declared, SCHEMA))
    silver.batch(0, rows, None, delta(2))
    gold.batch(0, aggregate(rows, declared), None, delta(2))
    return silver, gold


def plainly(reader: TableRows, lake: tuple[MadeTable, MadeTable], declared: GoldTable = PLAIN) -> tuple[bool, str]:
    silver, gold = lake
    link = recount(reader, silver.path, DeltaLog(LocalFiles(), silver.path), gold.span(), declared)
    return link.holds, link.said


def test_a_plain_table_is_counted_again_without_spark(spark: SparkSession, reader: TableRows, tmp_path: Path) -> None:
    rows = [line(0, 0), line(0, 0), line(0, 1, level="INFO"), line(0, 1, fields={}), line(0, 3, "é\0'")]
    rows += [line(0, 0, log_time=at) for at in FAR]
    lake = plain_lake(spark, tmp_path, frame(spark, SCHEMA, rows))
    answers = reader if reader.with_spark else TableRows(lambda: pytest.fail("Spark is not needed"))
    assert plainly(answers, lake) == (True, "4 rows = 5 lines counted again")
    lake[1].edit("UPDATE {} SET log_count = 3 WHERE text = 'x' AND log_time = '2017-07-30 12:00:00'")
    said = "2017-07-30 12:00:00, text 'x', order 'one': log_count is 3, silver has 2"
    assert plainly(reader, lake) == (False, said)
    lake[1].edit("DELETE FROM {} WHERE log_time < '1970-01-01'")
    assert plainly(reader, lake)[1].startswith("1969-12-31 23:59:00, text 'x', order 'one': is missing in gold")


def test_a_text_that_is_not_utf_8_is_counted_again_as_gold_has_it(
    spark: SparkSession, reader: TableRows, tmp_path: Path
) -> None:
    rows = frame(spark, SCHEMA, [line(0, 0)]).withColumn("message", F.expr("CAST(X'61FF' AS STRING)"))
    declared = PLAIN.model_copy(update={"measures": {"log_count": "count"}})
    lake = plain_lake(spark, tmp_path, rows, declared)
    assert plainly(reader, lake, declared) == (True, "1 row = 1 line counted again")


def test_text_from_a_log_is_shortened_and_escaped(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    lake[1].edit("UPDATE {} SET newest = NULL WHERE log_time = '2017-07-30 12:02:00'")
    said = proven(reader, lake)[1]
    assert "newest is null, silver has '{2017-07-30 12:02:00" in said
    assert "\x1b" not in said
    assert len(said) < 200


def test_a_table_without_a_batch_must_be_empty(reader: TableRows, lake: tuple[MadeTable, MadeTable]) -> None:
    lake[1].commits.clear()
    assert proven(reader, lake) == (False, "5 rows, and no batch that wrote them")
