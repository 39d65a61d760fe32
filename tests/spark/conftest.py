"""Fixtures: make bronze rows for tests of transforms."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.support.bronze_rows import BronzeOf, bronze_rows


@pytest.fixture(scope="session")
def bronze_of(spark: SparkSession) -> BronzeOf:
    """Return a function that makes bronze rows of lines, numbered by offset, all with one time of ingest."""
    return partial(bronze_rows, spark)


@pytest.fixture(autouse=True)
def compiled_where_there_is_spark(request: pytest.FixtureRequest) -> None:
    """Evaluate expressions as a user's Spark does, by compiling them."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("compiled_expressions")
