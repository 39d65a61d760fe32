"""If two writers could overwrite each other's commit, `doctor`, `run` and `maintain` say so, and why."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.lake import Lake
from oncelake.common.spark import compiled, internals, jars
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine import exclusive, open_lake, preflight
from oncelake.engine.runner import Run
from oncelake.exactly_once import lease
from oncelake.exactly_once.lease import Lease
from tests.support.house import House
from tests.support.own_jar import write_without


@pytest.fixture(autouse=True)
def compiled_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    for module in (preflight, internals):
        monkeypatch.setattr(module, "is_given", lambda: False)
    write_without()
    return compiled.jar()


def fail_to_compile(jar: Path) -> None:
    """Leave what a first use leaves that could not compile."""
    jar.unlink()
    jar.with_suffix(".failed").write_text("no space left")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path), str(tmp_path))


def said(lake: Lake, master: str = "local[2]", **conf: str) -> str:
    settings = SparkSettings(master=master, conf={key.replace("__", "."): value for key, value in conf.items()})
    return "".join(preflight.other_log_store(lake, settings))


def test_there_is_no_warning_with_our_log_store(lake: Lake) -> None:
    assert not said(lake)
    assert not said(Lake("s3a://bucket/lake", "s3a://bucket/lake"), "spark://head:7077")


def test_a_log_store_that_is_not_used_is_a_warning_with_the_reason(lake: Lake, compiled_jar: Path) -> None:
    assert "spark.conf.spark.driver.extraClassPath replaces" in said(lake, spark__driver__extraClassPath="/my.jar")
    assert "spark.conf.spark.hadoop.fs.file.impl replaces" in said(lake, spark__hadoop__fs__file__impl="my.Own")
    assert "with spark.master spark://head:7077" in said(lake, "spark://head:7077")
    fail_to_compile(compiled_jar)
    assert said(lake).startswith(f"{lake.root}: if two processes commit at the same moment")
    assert said(lake).endswith("is not compiled; run python -m oncelake.set_up")


def test_before_the_first_use_only_what_it_cannot_repair_is_a_warning(lake: Lake, compiled_jar: Path) -> None:
    compiled_jar.unlink()
    assert not said(lake)
    assert "spark.conf.spark.driver.extraClassPath replaces" in said(lake, spark__driver__extraClassPath="/my.jar")


def test_a_given_session_has_its_own_log_store(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "is_given", lambda: True)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert "oncelake did not start this Spark" in said(lake)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_the_lock_holder_records_a_disk_without_hard_links(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    assert "no hard links" not in lease.who(Path(lake.root))
    monkeypatch.setattr(os, "link", refuse)
    text = lease.who(Path(lake.root))
    assert text.startswith(f"process {os.getpid()} on ")
    (Path(lake.root) / lease.NAME).write_text(text)
    assert "has no hard links" in "".join(preflight.no_hard_links(lake))
    assert sorted(path.name for path in Path(lake.root).glob(".oncelake*")) == [lease.NAME]


def test_doctor_prints_the_warning_and_changes_nothing(tmp_path: Path, compiled_jar: Path) -> None:
    house = House(tmp_path / "house")
    assert "warning" not in CliRunner().invoke(app, ["doctor", *house.options]).output
    fail_to_compile(compiled_jar)
    house.lake.mkdir()
    (house.lake / lease.NAME).write_text("process 1 on here\nabc\nno hard links\n")
    before = house.lake.stat().st_mtime_ns
    told = CliRunner().invoke(app, ["doctor", "--json", *house.options])
    assert told.exit_code == 0
    assert told.output.count("oncelake: warning: ") == 3
    assert "Java classes could not be compiled (no space left)" in told.output
    assert '"warnings": ["' in told.output
    assert house.lake.stat().st_mtime_ns == before


@pytest.mark.parametrize("command", [["run", "--once"], ["maintain"]])
def test_a_writer_prints_the_warning_too(
    tmp_path: Path, compiled_jar: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    house = House(tmp_path / "house")
    house.write("a.log", b"one")
    fail_to_compile(compiled_jar)
    started: list[Mock] = []

    def start(*_: object, **__: object) -> nullcontext[Mock]:
        started.append(Mock())
        return nullcontext(started[-1])

    monkeypatch.setattr(open_lake, "spark_session", start)
    monkeypatch.setattr(preflight, "is_given", lambda: bool(started))  # our own session is not one that was given
    monkeypatch.setattr(exclusive, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(exclusive, "sole_writer", lambda *_: nullcontext(Lease()))
    monkeypatch.setattr(Run, "once", lambda _: None)
    told = CliRunner().invoke(app, [*command, *house.options])
    assert told.exit_code == 0, told.output
    assert told.output.count("oncelake: warning: ") == 1
    assert "run python -m oncelake.set_up" in told.output
