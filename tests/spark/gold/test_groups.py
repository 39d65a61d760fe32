"""The window and keys of rows are the same without Spark, for every declaration for which they are computed so."""

from datetime import UTC, datetime
from itertools import product

import pytest
from pyspark.sql import SparkSession

from oncelake.common.table_rows import plain_rows
from oncelake.gold.declaration import GoldTable
from oncelake.gold.groups import PlainGold
from oncelake.gold.transform import aggregate
from oncelake.silver.schema import SILVER

pytestmark = pytest.mark.spark

TIMES = [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 2, 28, 23, 59, 30, 1, tzinfo=UTC)]
ROWS = [
    (at, level, message, fields, None, None, None, "file:/a.log", TIMES[0], None)
    for at, level, message, fields in product(
        TIMES, ["ERROR", "error", None, "it's"], ["", "x "], [None, {}, {"k": "v"}, {"k": None}]
    )
]
WHERE = [
    None,
    "level = 'ERROR'",
    "level == 'ERROR' and message = 'x '",
    "level <> 'ERROR'",
    "level != 'ERROR' AND fields['k'] = 'v'",
    "level IN ('ERROR', 'error')",
    "level NOT IN ( 'ERROR' )",
    "fields['k'] IS NULL",
    "fields['k'] is not null",
    "topic IS NULL AND message = ''",
]
BY = [{}, {"level": "level"}, {"group": "fields['k']", "file": "file", "text": " message "}]
NEEDS_SPARK = [
    "level = 'it\\'s'",
    "level = 'a' OR level = 'b'",
    "level LIKE 'E%'",
    "upper(level) = 'ERROR'",
    "level = 1",
    "message = 'a AND b'",
    "(level = 'ERROR')",
    "level = 'ERROR' -- AND",
    "log_time = '2020'",
    "level = 'it''s'",
]


def declared(where: str | None = None, by: dict[str, str] | None = None, every: str = "5 minutes") -> GoldTable:
    return GoldTable(where=where, by=by or {}, every=every, measures={"lines": "count"})


@pytest.mark.parametrize("every", ["1 second", "7 minutes", "1 week"])
@pytest.mark.parametrize("by", BY)
def test_windows_and_keys_are_those_of_spark(spark: SparkSession, by: dict[str, str], every: str) -> None:
    frame = spark.createDataFrame(ROWS, SILVER)
    rows = plain_rows(frame.toArrow())
    for where in WHERE:
        table = declared(where, by, every)
        expected = aggregate(frame, table).toArrow().select(["log_time", *by])
        plain = PlainGold.of(table)
        assert plain is not None
        assert sorted(map(str, plain.groups(rows))) == sorted(map(str, plain_rows(expected))), where


@pytest.mark.parametrize("every", ["1 day", "1 month"])
def test_windows_of_a_zone_are_those_of_spark(spark: SparkSession, every: str) -> None:
    frame = spark.createDataFrame(ROWS, SILVER)
    table = GoldTable(every=every, zone="America/St_Johns", by={"level": "level"}, measures={"lines": "count"})
    plain = PlainGold.of(table)
    assert plain is not None
    expected = aggregate(frame, table).toArrow().select(["log_time", "level"])
    groups = plain.groups(plain_rows(frame.toArrow()))
    assert sorted(map(str, groups)) == sorted(map(str, plain_rows(expected)))


@pytest.mark.parametrize("where", NEEDS_SPARK)
def test_what_spark_alone_knows_is_left_to_it(where: str) -> None:
    assert PlainGold.of(declared(where)) is None
    assert PlainGold.of(declared(by={"key": f"CASE WHEN {where} THEN 1 END"})) is None
