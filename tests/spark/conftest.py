"""Fixtures: make bronze rows for tests of transforms."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.support.bronze_rows import BronzeOf, bronze_rows

# Here some tests of each module ask for `compiled_expressions` themselves; for all of them, compiling takes long.
INTERPRETED = ("proof",)


@pytest.fixture(scope="session")
def bronze_of(spark: SparkSession) -> BronzeOf:
    """Return a function that makes bronze rows of lines, numbered by offset, all with one time of ingest."""
    return partial(bronze_rows, spark)


@pytest.fixture(autouse=True)
def compiled_where_there_is_spark(request: pytest.FixtureRequest) -> None:
    """Evaluate expressions as a user's Spark does, by compiling them."""
    if "spark" in request.fixturenames and request.path.parent.name not in INTERPRETED:
        request.getfixturevalue("compiled_expressions")
