"""Lakes of one gold table, and the lake that tests of this directory break in copies."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House
from tests.support.lakes import Filled


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A directory of logs, and a lake whose one gold table is error_log."""
    return House.with_error_log(tmp_path)


@pytest.fixture(scope="session")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A lake that three runs have filled."""
    return Filled.by(spark, tmp_path_factory.mktemp("filled"))
