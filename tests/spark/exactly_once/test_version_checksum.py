"""Spark takes the version checksums of small batches for its own, and needs no job for what they hold."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.house import House
from tests.support.spark_handles import java_session

pytestmark = pytest.mark.spark

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]


@pytest.fixture
def small(spark: SparkSession, tmp_path: Path) -> House:
    """Return a lake to which delta-rs committed two batches."""
    house = House(tmp_path)
    for name in ("a.log", "b.log"):
        house.write(name, *LINES)
        house.run(spark)
    return house


def snapshot(spark: SparkSession, table: Path) -> Any:
    log = jvm(spark).org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    return log.forTable(java_session(spark), str(table)).unsafeVolatileSnapshot()


def test_spark_counts_what_the_checksum_says(small: House, spark: SparkSession) -> None:
    for name in small.tables:
        found = snapshot(spark, small.table(name))
        assert found.version() == 2, name
        written, counted = found.checksumOpt().get(), found.computeChecksum()
        assert written.tableSizeBytes() == found.sizeInBytes() == counted.tableSizeBytes(), name
        assert written.numFiles() == found.numOfFiles(), name
        assert written.metadata().equals(found.metadata()), name
        assert written.protocol().equals(found.protocol()), name


def test_a_look_at_a_new_version_takes_no_job(small: House, spark: SparkSession) -> None:
    def jobs(name: str) -> int:
        spark.sparkContext.setJobGroup(name, name)
        assert snapshot(spark, small.table("gold/error_log")).metadata().schemaString()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(name))

    assert jobs("with the checksum") == 0
    for path in (small.table("gold/error_log") / "_delta_log").glob("*.crc"):
        path.unlink()
    assert jobs("without it") > 0


def test_spark_continues_after_small_batches(small: House, spark: SparkSession) -> None:
    small.sets = ["run.small_batch=0"]
    small.write("c.log", *LINES)
    small.run(spark)
    small.sets = []
    small.write("d.log", *LINES)
    small.run(spark)
    small.must_be(LINES * 4)
    assert snapshot(spark, small.table("gold/error_log")).checksumOpt().isDefined()
