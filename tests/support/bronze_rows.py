"""Make bronze rows of lines, for tests of transforms."""

from collections.abc import Callable, Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.schema import BRONZE

NOW = datetime(2017, 8, 1, 12)

BronzeOf = Callable[..., DataFrame]


def bronze_rows(spark: SparkSession, lines: Sequence[bytes | str | None], ingested_at: datetime = NOW) -> DataFrame:
    """Return bronze rows of lines, numbered by offset, all with one time of ingest."""
    values = [line.encode() if isinstance(line, str) else line for line in lines]
    origin = ("alog", 0)
    none = (None,) * 6
    rows = [(value, *origin, offset, *none, ingested_at, None, None) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, BRONZE)
