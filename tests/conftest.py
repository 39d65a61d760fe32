"""Fixtures that tests share: one Spark session for the process, and lakes in temporary directories."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import crashing
from tests.support.house import CODE, House

# pytest explains a failed assertion only in test modules; the tests of this one are inherited
pytest.register_assert_rewrite("tests.support.source_suite")

# PySpark collects timestamps in the machine's zone; tests compare times in UTC.
os.environ["TZ"] = "UTC"
time.tzset()

# A shell starts what a script runs in the background with SIGINT ignored, and so would be all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share a slow fixture on one worker: a lake, or what their module starts or reads.

    Tests that start processes of their own go to any worker. Slow tests come first, so that no worker is left with one
    at the end.
    """
    items.sort(key=_cost)
    for item in items:
        assert isinstance(item, pytest.Function)
        marks = {mark.name for mark in item.iter_markers()}
        if "xdist_group" in marks or ("chain" in marks and "kafka" not in marks):
            continue
        group = "filled" if "filled" in item.fixturenames else item.module.__name__
        item.add_marker(pytest.mark.xdist_group(group))


def _cost(item: pytest.Item) -> int:
    """Return a test's rank in the order: first those that start servers and processes, last those that start none."""
    marks = {mark.name for mark in item.iter_markers()}
    return next(
        (place for place, name in enumerate(("notebook", "database", "kafka", "chain", "spark")) if name in marks), 5
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a pytest that does not let xdist write the groups into the IDs of the tests."""
    if session.config.getoption("loadgroup", default=False):
        grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
        assert all("@" in item.nodeid for item in grouped), "this pytest does not let xdist see the groups"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start the session that every test in this process uses, built the way the program builds it.

    Its file system crashes where a test asks for it; otherwise it is the program's own. Expressions are interpreted:
    for a few lines a batch, generating Java code takes three times as long. `compiled_expressions` changes that.
    """
    with crashing.session(tmp_path_factory.mktemp("spark") / "log") as session:
        session.conf.set(CODE, "NO_CODEGEN")
        yield session


@pytest.fixture
def compiled_expressions(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile expressions during a test, as in a user's session."""
    spark.conf.set(CODE, "FALLBACK")
    yield
    spark.conf.set(CODE, "NO_CODEGEN")


@pytest.fixture
def shipped_house(tmp_path: Path) -> House:
    """Return a directory of logs, a lake, and the shipped configuration for both."""
    return House(tmp_path)


@pytest.fixture
def house(shipped_house: House) -> House:
    """Return the same; directories whose tests run the chain many times replace it by a smaller one."""
    return shipped_house
