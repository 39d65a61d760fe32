"""A table's state is read before its next batch needs it; if that fails, nothing else is affected."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.engine.backpressure import Prefetch
from tests.support.house import until
from tests.support.spark_handles import java_session

pytestmark = pytest.mark.spark


def is_looked_up(spark: SparkSession, path: Path) -> bool:
    log = jvm(spark).org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), str(path))
    return bool(log.unsafeVolatileSnapshot().stateReconstructionTriggered())


def lookers() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


def test_prefetch_reads_the_state_of_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "table"))
    assert not is_looked_up(spark, tmp_path / "table")
    ahead = Prefetch(spark)
    ahead(str(tmp_path / "table"))
    until(lambda: is_looked_up(spark, tmp_path / "table"))
    assert is_looked_up(spark, tmp_path / "table")
    before = lookers()
    ahead.end()
    until(lambda: lookers() == before - 1)
    assert lookers() == before - 1


def test_a_failed_prefetch_affects_nothing_but_later_ones(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "table"))
    before = lookers()
    ahead = Prefetch(spark)
    ahead("no://such/place")
    ahead(str(tmp_path / "table"))
    ahead.end()
    until(lambda: lookers() == before)
    assert lookers() == before
    assert not is_looked_up(spark, tmp_path / "table")
