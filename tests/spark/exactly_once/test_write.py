"""A write that is repeated with the same metadata changes nothing: the table has its transaction."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.exactly_once.writers import MergeSql
from oncelake.exactly_once.writers import spark as write
from tests.support.memory import metadata

pytestmark = pytest.mark.spark


@pytest.fixture
def three(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, 1), (2, 1), (3, 1)], "key bigint, counted bigint")


def test_a_repeated_append_with_the_same_transaction_is_skipped(
    spark: SparkSession, three: DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    for _ in range(2):
        write.append(three, path, metadata(0))
    assert spark.read.format("delta").load(path).count() == 3
    write.append(three, path, metadata(1))
    assert spark.read.format("delta").load(path).count() == 6


def test_a_repeated_merge_with_the_same_transaction_is_skipped(
    spark: SparkSession, three: DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    three.write.format("delta").save(path)
    sql = MergeSql("gold.key = batch.key", {"counted": "gold.counted + batch.counted"})
    for _ in range(2):
        write.merge(three, path, metadata(0), sql)
    assert _counted(spark, path) == [2, 2, 2]
    write.merge(three, path, metadata(1), sql)
    assert _counted(spark, path) == [3, 3, 3]


def _counted(spark: SparkSession, path: str) -> list[int]:
    return [row["counted"] for row in spark.read.format("delta").load(path).collect()]
