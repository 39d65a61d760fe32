"""One Spark session for all tests that need one, and the way they make bronze's rows."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines import jars
from pipelines.bronze.schema import BRONZE

NOW = datetime(2017, 8, 1, 12)

BronzeOf = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a small local Spark with Delta."""
    settings = {
        "spark.driver.extraClassPath": jars.class_path(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder.appName("tests").master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


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
