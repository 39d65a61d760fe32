"""Fixtures: lakes of one gold table, and a filled lake whose copies the tests of this directory damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.engine import preflight
from tests.support.house import House
from tests.support.lakes import Filled


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Return a directory of logs, and a lake whose one gold table is error_log."""
    return House.with_error_log(tmp_path)


@pytest.fixture(scope="session")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Fill a lake with three runs."""
    return Filled.by(spark, tmp_path_factory.mktemp("filled"))


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession) -> Iterator[Path]:
    """Accept the catalog in memory, which ends with the tests' Spark, and return the directory of its tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preflight, "check_catalog", lambda *_: None)
        yield Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
