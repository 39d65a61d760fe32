"""The way that tests of transforms make bronze's rows."""

from collections.abc import Callable, Sequence
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.schema import BRONZE

NOW = datetime(2017, 8, 1, 12)

BronzeOf = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def bronze_of(spark: SparkSession) -> BronzeOf:
    """Give a function that makes bronze's rows of lines, numbered by offset and taken in at one time."""

    def make(lines: Sequence[bytes | str | None], ingested_at: datetime = NOW) -> DataFrame:
        values = [line.encode() if isinstance(line, str) else line for line in lines]
        origin = ("alog", 0)
        none = (None,) * 6
        rows = [(value, *origin, offset, *none, ingested_at) for offset, value in enumerate(values)]
        return spark.createDataFrame(rows, BRONZE)

    return make


@pytest.fixture(autouse=True)
def compiled_where_there_is_spark(request: pytest.FixtureRequest) -> None:
    """Test expressions as a user's Spark evaluates them."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("compiled_expressions")
