"""What keeps Spark from starting is found before Java starts; test_starts.py has the rest of the causes."""

import os
import resource
import tempfile
from typing import Any

import pyspark
import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.spark import machine, session
from oncelake.common.spark.machine import check_machine
from oncelake.common.spark.session import spark_session
from oncelake.common.spark.settings import SparkSettings


def test_this_machine_is_accepted() -> None:
    check_machine(SparkSettings())


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the limits of a process of a plain user, which a test may set."""
    limits: dict[int, int] = {}
    plain = resource.getrlimit
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind],) * 2 if kind in limits else plain(kind))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machine, "check_user", lambda: None)
    return limits


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (
            "RLIMIT_NPROC",
            399,
            "may have 399 threads (ulimit -u), and Spark needs 400 or more; raise the limit: ulimit -u",
        ),
        ("RLIMIT_NOFILE", 511, "may have 511 open files (ulimit -n), and Spark needs 512 or more; raise the limit"),
        ("RLIMIT_AS", 5 * 2**30 - 1024, "5242879 KiB of addresses (ulimit -v), and Spark needs 5242880 or more"),
    ],
)
def test_a_limit_is_refused_with_its_value_and_what_is_needed(
    limit: dict[int, int], kind: str, value: int, said: str
) -> None:
    limit[getattr(resource, kind)] = value
    with pytest.raises(ConfigError) as raised:
        check_machine(SparkSettings(driver_memory="2g"))
    assert said in str(raised.value)
    limit[getattr(resource, kind)] = value + 1024
    check_machine(SparkSettings(driver_memory="2g"))


def test_a_session_is_refused_before_java_is_looked_for(limit: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "is_given", lambda: False)
    monkeypatch.setattr(session, "refuse_connect", lambda: None)
    monkeypatch.setenv("JAVA_HOME", "/none")
    limit[resource.RLIMIT_NOFILE] = 256
    with pytest.raises(ConfigError, match="256 open files"), spark_session(SparkSettings(), verbose=False):
        pass


def test_without_a_place_for_temporary_files_the_places_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(ConfigError, match=r"No usable temporary directory found in \['/tmp', '/var/tmp'\].*set TMPDIR"):
        check_machine(SparkSettings())


def test_another_version_of_pyspark_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(ConfigError, match=r"imports PySpark 3\.5\.1 from /.*, and oncelake needs PySpark 4\.0"):
        check_machine(SparkSettings())


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ("-Xmx449m", "-Xmx449m"),
        ("-Xmx4g -Xmx300M", "-Xmx300M"),
        ("-Xmx314572800", "-Xmx314572800"),
        ("-XX:MaxHeapSize=300m", "-XX:MaxHeapSize=300m"),
        ("-Xmx450m", ""),
        ("-Xmx300m -Xmx1g", ""),
        ("-XX:MaxHeapSize=1g", ""),
        ("-Da=-Xmx300m", ""),
        ("-Da=b", ""),
    ],
)
def test_a_heap_in_the_last_variable_is_refused_only_if_spark_refuses_it(
    monkeypatch: pytest.MonkeyPatch, given: str, refused: str
) -> None:
    monkeypatch.setenv("_JAVA_OPTIONS", given)
    if not refused:
        check_machine(SparkSettings(driver_memory="2g"))
        return
    with pytest.raises(ConfigError) as raised:
        check_machine(SparkSettings(driver_memory="2g"))
    assert f"_JAVA_OPTIONS has {refused}, which overrides spark.driver_memory, and Spark needs a heap" in str(
        raised.value
    )
