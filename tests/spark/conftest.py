"""The way that tests of transforms make bronze's rows."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.support.bronze_rows import BronzeOf, bronze_rows


@pytest.fixture(scope="session")
def bronze_of(spark: SparkSession) -> BronzeOf:
    """Return a function that makes bronze's rows of lines, numbered by offset and taken in at one time."""
    return partial(bronze_rows, spark)


@pytest.fixture(autouse=True)
def compiled_where_there_is_spark(request: pytest.FixtureRequest) -> None:
    """Test expressions as a user's Spark evaluates them."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("compiled_expressions")
