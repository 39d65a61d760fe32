"""A query that waits for its next trigger looks for input when it is woken."""

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.spark.wake import Wake, can_wake

pytestmark = pytest.mark.spark


def test_a_woken_query_reads_at_once_and_can_be_stopped_while_it_waits(spark: SparkSession, tmp_path: Path) -> None:
    assert can_wake(spark)
    spark.range(1).write.format("delta").save(str(tmp_path / "table"))
    seen: list[int] = []

    def write(batch: DataFrame, _: int) -> None:
        seen.append(batch.count())

    reader = spark.readStream.format("delta").load(str(tmp_path / "table"))
    writer = reader.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(write)
    query = writer.trigger(processingTime="1 hour").start()
    try:
        wake = Wake(spark, query)
        for rows in (1, 2, 3):
            until = time.monotonic() + 60
            while len(seen) < rows:
                wake()
                assert time.monotonic() < until, seen
                time.sleep(0.1)
            spark.range(rows + 1).write.format("delta").mode("append").save(str(tmp_path / "table"))
    finally:
        began = time.monotonic()
        query.stop()
    assert time.monotonic() - began < 30
    assert seen == [1, 2, 3]
    assert query.exception() is None


@pytest.mark.parametrize("executor", ["oncelake.Missing", "java.lang.Object", "com.codahale.metrics.Meter"])
def test_no_query_is_woken_if_the_class_of_spark_lacks_a_clock_of_this_type(spark: SparkSession, executor: str) -> None:
    """The last class has a private field of this name, of another type."""
    assert not can_wake(spark, executor)
