"""Fixture: each reader of tables, as a proof gives the same answer by both."""

import pytest
from pyspark.sql import SparkSession

from oncelake.common.table_rows import TableRows


@pytest.fixture(params=["plain", "spark"])
def reader(spark: SparkSession, request: pytest.FixtureRequest) -> TableRows:
    """Return what answers queries without Spark, and what has Spark read every table."""
    return TableRows(lambda: spark, with_spark=True) if request.param == "spark" else TableRows(_no_spark)


def _no_spark() -> SparkSession:
    raise AssertionError("Spark is asked for")
