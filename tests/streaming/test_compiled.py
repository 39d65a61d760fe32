"""Later batches use the code that Spark generated and compiled for the first batch."""

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.house import House

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled_expressions")]


def compiled(spark: SparkSession) -> int:
    """Return how many classes Spark has compiled so far."""
    metrics = jvm(spark).org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_later_batches_of_all_stages_compile_no_code(house: House, spark: SparkSession) -> None:
    counts = [compiled(spark)]
    for number in range(4):
        house.write(f"{number}.log", *(f"2017-07-30 14:0{number}:08 ERROR {index}".encode() for index in range(20)))
        assert len(house.run(spark)) == 3
        counts.append(compiled(spark))
    assert counts[-1] - counts[-2] < 20
