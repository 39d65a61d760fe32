"""A prepared transformation gives for each batch what building it for the batch would give."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark import prepared
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.prepared import Prepared

pytestmark = pytest.mark.spark


def doubled(frame: DataFrame) -> DataFrame:
    built.append(frame)
    return frame.where("id > 1").groupBy((F.col("id") % 3).alias("rest")).agg(F.sum("id").alias("total"))


built: list[DataFrame] = []


@pytest.fixture(autouse=True)
def nothing_is_built() -> None:
    built.clear()


def test_each_batch_gets_its_own_rows_and_the_plan_is_built_once(spark: SparkSession) -> None:
    double = Prepared(doubled)
    for rows in (5, 0, 50):
        batch = spark.range(rows)
        assert sorted(double(batch).collect()) == sorted(doubled(batch).collect())
    assert len(built) == 1 + 3


def test_two_batches_can_be_joined_after_it(spark: SparkSession) -> None:
    double = Prepared(doubled)
    one, other = double(spark.range(5)), double(spark.range(50))
    assert one.join(other, "rest").count() == 3


def test_a_batch_with_other_columns_is_refused(spark: SparkSession) -> None:
    double = Prepared(doubled)
    double(spark.range(5))
    with pytest.raises(IllegalArgumentException, match="the batch has other columns"):
        double(spark.range(5).withColumn("more", F.lit(1)))


def test_without_the_compiled_class_it_is_built_for_each_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "has_class", lambda *_: False)
    double = Prepared(doubled)
    for _ in range(2):
        assert double(spark.range(5)).count() == 3
    assert len(built) == 2


def test_with_a_spark_that_lacks_what_the_class_calls_it_is_built_for_each_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def over(*frames: object) -> None:
        calls.append(frames)
        raise Py4JJavaError("an error occurred", jvm(spark).java.lang.NoSuchMethodError("ofRows"))

    other = SimpleNamespace(oncelake=SimpleNamespace(PreparedPlan=SimpleNamespace(over=over)))
    monkeypatch.setattr(prepared, "jvm", lambda _: other)
    double = Prepared(doubled)
    for _ in range(3):
        assert double(spark.range(5)).count() == 3
    assert (len(calls), len(built)) == (1, 1 + 3)
