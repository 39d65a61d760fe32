"""Bronze has the columns of the source, and every line unchanged."""

from datetime import datetime
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE
from oncelake.bronze.transform import from_files, from_kafka

pytestmark = pytest.mark.spark
NOW = datetime(2026, 11, 21, 12)
AT = datetime(2017, 7, 30, 14, 9, 8, 123000)


def at_a_known_time(frame: DataFrame) -> DataFrame:
    assert frame.where("ingested_at IS NULL").isEmpty()
    return frame.withColumn("ingested_at", F.lit(NOW))


def test_a_record_keeps_its_place_key_headers_and_bytes(spark: SparkSession) -> None:
    header = [("h", b"1"), ("h", b"\xff")]
    records = spark.createDataFrame(
        [(b"k", b"\xff line\r", "alog", 1, 7, AT, 0, header), (None, None, "alog", 0, 8, AT, 0, None)],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "timestampType int, headers array<struct<key:string,value:binary>>",
    )
    expected = spark.createDataFrame(
        [
            (b"\xff line\r", "alog", 1, 7, AT, b"k", header, None, None, None, NOW, None, None),
            (None, "alog", 0, 8, AT, None, None, None, None, None, NOW, None, None),
        ],
        BRONZE,
    )
    assert_df_equality(at_a_known_time(from_kafka(records)), expected, ignore_nullable=True, ignore_metadata=True)


def test_a_timestamp_is_kept_if_it_is_in_the_years_1_to_9999(spark: SparkSession) -> None:
    times = ["0001-01-01 00:00:00", "1969-12-31 23:59:59.999", "9999-12-31 23:59:59.999999", "+10000-01-01 00:00:00"]
    records = spark.createDataFrame(
        [(None, None, "alog", 0, at, text, None) for at, text in enumerate(times)],
        "key binary, value binary, topic string, partition int, offset bigint, text string, "
        "headers array<struct<key:string,value:binary>>",
    ).withColumn("timestamp", F.col("text").cast("timestamp"))
    kept = from_kafka(records).selectExpr("offset", "unix_micros(timestamp) AS t").orderBy("offset").collect()
    assert [row.t for row in kept] == [-62_135_596_800_000_000, -1000, 253_402_300_799_999_999, None]


def test_a_line_of_a_file_keeps_its_bytes_and_the_file(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\xff\xfe one\r\n\ntwo")
    modified = datetime.utcfromtimestamp(path.stat().st_mtime_ns // 1_000_000 / 1000)
    lines = spark.read.option("lineSep", "\n").text(str(tmp_path))
    expected = spark.createDataFrame(
        [
            (value, *(None,) * 6, f"file:{path}", modified, 12, NOW, None, None)
            for value in (b"\xff\xfe one\r", b"", b"two")
        ],
        BRONZE,
    )
    assert_df_equality(at_a_known_time(from_files(lines)), expected, ignore_nullable=True, ignore_metadata=True)
