"""Rows of bronze are compared with the records at their offsets, in every part; the last ones are found by bounds."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.transform import from_kafka
from oncelake.sources.kafka.records import RecordComparison, compare, last_rows, unread

pytestmark = pytest.mark.spark

AT = datetime(2017, 7, 30, 14, 9, 8, 123000)
PLANNED = datetime(2026, 11, 21, 12)
RECORD = (b"k", b"value", "alog", 0, 7, AT, [("h", b"1"), ("h", None)])
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)


def records(spark: SparkSession, *rows: Sequence[Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in rows], COLUMNS)


def found(spark: SparkSession, row: Sequence[Any], *now: Sequence[Any]) -> RecordComparison:
    versions = MaskVersions(lambda: spark, lambda _: None)
    (result,) = compare(from_kafka(records(spark, row)), records(spark, *now), versions, few=True)
    return result


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (0, b"other"),
        (0, None),
        (1, b"Value"),
        (1, None),
        (5, AT + timedelta(milliseconds=1)),
        (5, None),
        (6, [("h", b"1")]),
        (6, [("h", b"1"), ("h", b"")]),
        (6, None),
    ],
)
def test_each_part_of_a_record_is_compared(spark: SparkSession, part: int, other: object) -> None:
    changed = [*RECORD]
    changed[part] = other
    assert (found(spark, RECORD, RECORD).differ, found(spark, RECORD, RECORD).absent) == (0, 0)
    result = found(spark, RECORD, changed)
    assert (result.rows, result.differ, result.absent, result.first) == (1, 1, 0, 7)


def test_a_null_is_no_empty_text_and_moves_to_no_other_part(spark: SparkSession) -> None:
    swapped = [b"value", b"k", *RECORD[2:]]
    assert found(spark, [None, b"k", *RECORD[2:]], [b"k", None, *RECORD[2:]]).differ == 1
    assert found(spark, [b"", *RECORD[1:]], [None, *RECORD[1:]]).differ == 1
    assert found(spark, RECORD, swapped).differ == 1


def test_a_row_without_a_record_is_absent(spark: SparkSession) -> None:
    result = found(spark, RECORD, [*RECORD[:4], 8, *RECORD[5:]])
    assert (result.rows, result.differ, result.absent, result.first_absent) == (1, 0, 1, 7)


def test_a_record_without_a_row_is_named(spark: SparkSession) -> None:
    rows = from_kafka(records(spark, RECORD))
    now = records(spark, RECORD, [*RECORD[:4], 9, *RECORD[5:]], [*RECORD[:4], 8, *RECORD[5:]])
    assert unread(rows, now) == ["alog/0/8"]


def test_the_last_row_of_each_partition_is_found(spark: SparkSession) -> None:
    def row(topic: str, partition: int, offset: int, hours: int) -> tuple[Any, ...]:
        return topic, partition, offset, PLANNED - timedelta(hours=hours)

    held = [row("alog", 0, at, 0) for at in (0, 1, 2)]
    held += [row("alog", 1, 5, 1), row("alog", 1, 4, 1), row("web", 0, 90, 2), row("web", 1, 3, 3)]
    bronze = spark.createDataFrame(held, "topic string, partition int, offset bigint, ingested_at timestamp")
    end = {"alog": {"0": 4, "1": 6}, "web": {"0": 9_000, "1": 1_000_000}}
    rows, offsets = last_rows(bronze, end, int(PLANNED.replace(tzinfo=UTC).timestamp() * 1000))
    assert offsets == {"alog": {"0": 2, "1": 5}, "web": {"0": 90}}
    found = rows.orderBy("topic", "partition").select(F.concat_ws("/", "topic", "partition", "offset")).collect()
    assert [each[0] for each in found] == ["alog/0/2", "alog/1/5", "web/0/90"]
