"""A small frame is collected whole, and a larger one not at all, however its bytes were counted before."""

import gzip
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark.collect import SmallBatches, can_collect

pytestmark = pytest.mark.spark

ENOUGH = SmallBatches(max_rows=1_000, max_bytes=1_000_000)


def several(spark: SparkSession, rows: int, partitions: int = 2) -> DataFrame:
    frame = spark.range(0, rows, numPartitions=partitions)
    return frame.select("id", F.col("id").cast("string").cast("binary").alias("text"))


def test_rows_of_every_type_are_those_that_spark_collects(spark: SparkSession) -> None:
    frame = spark.range(0, 9, numPartitions=3).select(
        F.timestamp_micros(F.col("id") - 5).alias("at"),
        F.when(F.col("id") % 3 > 0, F.col("id").cast("string")).alias("text"),
        F.expr("map('k', string(id), 'n', null)").alias("fields"),
        F.expr("array(named_struct('rule', 'a', 'value', string(id)))").alias("reasons"),
        F.expr("cast(id AS DECIMAL(38,0))").alias("total"),
        F.expr("date_add(date'1969-12-30', int(id))").alias("day"),
        F.expr("array(struct(string(id) AS key, binary(string(id)) AS value))").alias("headers"),
    )
    found = ENOUGH.collect(frame)
    assert found is not None
    assert found.rows.equals(frame.toArrow())
    assert found.frame().collect() == frame.collect()


def test_collected_rows_of_which_none_are_left_are_a_frame(spark: SparkSession) -> None:
    found = ENOUGH.collect(several(spark, 4))
    assert found is not None
    none = found.where(pyarrow.chunked_array([[False] * 4]))
    assert none.frame().schema == found.frame().schema
    assert none.frame().collect() == []


@pytest.mark.parametrize("partitions", [1, 2, 10])
def test_the_bound_of_rows_is_that_of_the_whole_frame(spark: SparkSession, partitions: int) -> None:
    def collected(rows: int, most: int) -> int | None:
        found = SmallBatches(most, 1_000_000).collect(several(spark, rows, partitions))
        return found.rows.num_rows if found is not None else None

    assert collected(100, 1_000) == 100
    assert collected(100, 99) is None
    assert collected(0, 1) == 0


def test_the_bound_of_bytes_holds_for_long_and_for_packed_lines(spark: SparkSession, tmp_path: Path) -> None:
    assert SmallBatches(1_000, 1_000).collect(several(spark, 100)) is None
    long = spark.range(1).select(F.repeat(F.lit("x"), 2_000_000).alias("text"))
    assert ENOUGH.collect(long) is None
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"0123456789\n" * 1_000_000))
    packed = spark.read.text(str(tmp_path))
    assert ENOUGH.seems_small(packed)
    stages = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("packed", "packed")
    assert ENOUGH.collect(packed) is None
    assert len(stages.getJobIdsForGroup("packed")) == 1


def test_a_frame_whose_files_are_large_is_not_tried(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"0123456789\n" * 200_000)
    assert not ENOUGH.seems_small(spark.read.text(str(tmp_path)))
    assert SmallBatches(1_000, 10_000_000).seems_small(spark.read.text(str(tmp_path)))


def test_the_tests_own_session_can_collect(spark: SparkSession) -> None:
    assert can_collect(spark)
