"""What keeps Spark from starting is found before Java starts; test_starts.py has the rest of the causes."""

import os
import resource
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyspark
import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.spark import machine, session
from oncelake.common.spark.machine import ADDRESSES, FILES, THREADS, check_machine, low_limits
from oncelake.common.spark.session import spark_session
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine import open_lake
from tests.support.house import House


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


HEAP = 2 * 1024
# the kind, the limits in its unit, the words for it, and what raises it
LIMITS = {
    "threads": (resource.RLIMIT_NPROC, THREADS, "threads (ulimit -u)", f"ulimit -u {THREADS[1]}"),
    "files": (resource.RLIMIT_NOFILE, FILES, "open files (ulimit -n)", f"ulimit -n {FILES[1]}"),
    "addresses": (
        resource.RLIMIT_AS,
        ((HEAP + ADDRESSES[0]) * 1024, (HEAP + ADDRESSES[1]) * 1024),
        "KiB of addresses (ulimit -v)",
        "ulimit -v unlimited",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_refused_only_if_spark_cannot_start_and_warned_of_if_it_may_fail_later(
    limit: dict[int, int], name: str
) -> None:
    kind, (least, enough), what, command = LIMITS[name]
    settings, remedy = SparkSettings(driver_memory="2g"), f"raise the limit: {command}"
    unit = 1024 if "KiB" in what else 1
    limit[kind] = (least - 1) * unit
    with pytest.raises(ConfigError) as raised:
        check_machine(settings)
    assert f"may have {least - 1} {what}, and Spark needs {least} or more to start; {remedy}" in str(raised.value)
    for value in (least, enough - 1):
        limit[kind] = value * unit
        check_machine(settings)
        (warning,) = low_limits(settings)
        assert f"may have {value} {what}, and Spark may need up to {enough} later; {remedy}" in warning
    limit[kind] = enough * unit
    check_machine(settings)
    assert low_limits(settings) == []


def test_a_low_limit_is_warned_of_before_spark_starts(
    limit: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit[resource.RLIMIT_NPROC] = THREADS[0]
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(open_lake, "is_given", lambda: False)
    house = House(tmp_path)
    _ = house.lakehouse().spark
    assert [each for each in house.said if "ulimit -u" in each] == low_limits(SparkSettings())


def test_a_heap_in_the_last_variable_counts_for_the_limit_of_addresses(
    limit: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit[resource.RLIMIT_AS] = (512 + ADDRESSES[0]) * 2**20
    with pytest.raises(ConfigError, match="ulimit -v"):
        check_machine(SparkSettings(driver_memory="2g"))
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xmx512m")
    check_machine(SparkSettings(driver_memory="2g"))


def test_a_session_is_refused_before_java_is_looked_for(limit: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "is_given", lambda: False)
    monkeypatch.setattr(session, "refuse_connect", lambda: None)
    monkeypatch.setenv("JAVA_HOME", "/none")
    limit[resource.RLIMIT_NOFILE] = 32
    with pytest.raises(ConfigError, match="32 open files"), spark_session(SparkSettings(), verbose=False):
        pass


def test_without_a_place_for_temporary_files_the_places_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(ConfigError, match=r"No usable temporary directory found in \['/tmp', '/var/tmp'\].*set TMPDIR"):
        check_machine(SparkSettings())


def test_another_version_of_pyspark_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(ConfigError, match=r"imports PySpark 3\.5\.1 from /.*, and oncelake runs on PySpark 4\.0, "):
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


@pytest.mark.parametrize("library", ["commons-compiler", "janino"])
def test_a_spark_whose_compiler_is_missing_or_cut_is_refused(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spark-submit").touch()
    (tmp_path / "jars").mkdir()
    for name in ("commons-compiler", "janino"):
        (whole,) = (Path(pyspark.__file__).parent / "jars").glob(f"{name}-[0-9]*.jar")
        shutil.copy(whole, tmp_path / "jars")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    check_machine(SparkSettings())
    (jar,) = (tmp_path / "jars").glob(f"{library}-[0-9]*.jar")
    said = f"{library}, a part of Spark, is missing or broken in {tmp_path}/jars, .*; unset SPARK_HOME"
    jar.write_bytes(jar.read_bytes()[:1000])
    with pytest.raises(ConfigError, match=said):
        check_machine(SparkSettings())
    jar.unlink()
    with pytest.raises(ConfigError, match=said):
        check_machine(SparkSettings())
