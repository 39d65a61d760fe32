"""What tests share: one Spark for the process, and lakes in temporary directories."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.session import build, java_output_to
from pipelines.settings import SparkSettings
from tests.house import House

# PySpark gives a collected timestamp in the machine's own zone; what tests compare is written in UTC.
os.environ["TZ"] = "UTC"
time.tzset()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each kind of test on one worker: one Spark session for all, and one process under test at a time."""
    for item in items:
        alone = item.get_closest_marker("chain") or item.get_closest_marker("kafka")
        kind = "processes" if alone else "session" if item.get_closest_marker("spark") else "plain"
        item.add_marker(pytest.mark.xdist_group(kind))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that every test in this process uses, built the way the program builds it."""
    with java_output_to(tmp_path_factory.mktemp("spark") / "log"):
        session = build(SparkSettings(master="local[2]", driver_memory="4g"), app="oncelake-tests")
    yield session
    session.stop()


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A directory of logs, a lake, and the shipped configuration over both."""
    return House(tmp_path)
