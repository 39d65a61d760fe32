"""oncelake's own Spark, as the program starts it."""

import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def test_python_functions_run_in_the_python_of_the_program(spark: SparkSession) -> None:
    worker = F.udf(lambda _: sys.executable)
    assert {row.worker for row in spark.range(2).select(worker("id").alias("worker")).collect()} == {sys.executable}
