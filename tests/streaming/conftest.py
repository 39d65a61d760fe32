"""The lake that tests of this directory break in copies."""

import pytest
from pyspark.sql import SparkSession

from tests.support.lakes import Filled


@pytest.fixture(scope="session")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A lake that three runs have filled."""
    return Filled.by(spark, tmp_path_factory.mktemp("filled"))
