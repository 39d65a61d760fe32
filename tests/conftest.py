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
    """Keep tests that share what is slow to start on one worker; one that starts processes goes to any."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "chain" not in marks or "kafka" in marks:
            kind = next((each for each in ("kafka", "spark") if each in marks), "plain")
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
