"""Ctrl-C ends every command with 130 and one line, while Spark starts and at work; a second one ends it at once."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
import typer
from pyspark.sql import SparkSession

from oncelake.cli.app import app
from oncelake.lab.demo.made_log import write_log
from tests.support.house import House, kill_group
from tests.support.processes import SMALL, newest, wait_for

pytestmark = pytest.mark.chain
# The commands that start Spark, as they are called on a lake.
WITH_SPARK = (
    "run --once",
    "prove --deep",
    "maintain",
    "recover",
    "rebuild silver",
    "quarantine replay",
    "validate",
    "serving init",
    "demo",
)
# They need no Spark for such a lake, and end within a second.
WITHOUT = {
    "status",
    "doctor",
    "history",
    "trace",
    "lines",
    "open",
    "plan",
    "report",
    "suggest",
    "schema",
    "init",
    "install-service",
    "census",
    "alerts",
    "format",
}
# Their processes have tests of their own: test_own_sink.py and test_crash_test.py.
ELSEWHERE = {"sink", "crash-test"}


def test_each_command_is_tried_here_or_needs_no_spark() -> None:
    commands: dict[str, object] = getattr(typer.main.get_command(app), "commands", {})
    assert {*commands} == {command.split()[0] for command in WITH_SPARK} | WITHOUT | ELSEWHERE


@pytest.fixture
def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let Spark's script start nothing and wait, as long as its input is open; return the file that it writes first."""
    script, begun = tmp_path / "home/bin/spark-submit", tmp_path / "begun"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\ntouch {begun}\nexec cat\n")
    script.chmod(0o755)
    (script.parents[1] / "jars").symlink_to(Path(pyspark.__file__).parent / "jars")  # a start looks for its compiler
    monkeypatch.setenv("SPARK_HOME", str(script.parent.parent))
    return begun


def press(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C: a terminal sends it to all processes of the command."""
    os.killpg(process.pid, signal.SIGINT)


def ends(process: subprocess.Popen[str], number: int = 130) -> str:
    said, _ = process.communicate(timeout=60)
    assert process.returncode == number, said
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.startswith("oncelake: ")]
    assert len(lines) == 1, said
    assert lines[0].startswith("oncelake: stopped"), said
    assert said.endswith(f"{lines[0]}\n")
    return lines[0]


@pytest.mark.parametrize("command", WITH_SPARK)
def test_ctrl_c_while_spark_starts(shipped_house: House, starting: Path, command: str) -> None:
    process = shipped_house.start(*shlex.split(command))
    wait_for(process, starting.exists)
    press(process)
    ends(process)


@pytest.fixture
def stuck(starting: Path, tmp_path: Path) -> Path:
    """Return the same for a Spark that does not end with the end of its input.

    A Ctrl-C in the moment of the start finds no Spark that it would wait for; the file is written a second later.
    """
    (tmp_path / "home/bin/spark-submit").write_text(f"#!/bin/sh\nsleep 1\ntouch {starting}\nexec sleep 60\n")
    return starting


@pytest.mark.parametrize("command", ["run --once", "prove --deep", "rebuild silver"])
def test_a_second_ctrl_c_ends_a_start_at_once(shipped_house: House, stuck: Path, command: str) -> None:
    process = shipped_house.start(*shlex.split(command))
    wait_for(process, stuck.exists)
    press(process)
    time.sleep(0.5)  # two that come together are one for the system
    began = time.monotonic()
    press(process)
    process.wait(30)
    assert time.monotonic() - began < 2
    assert process.returncode == -signal.SIGINT
    kill_group(process)


def begun(house: House) -> Callable[[], bool]:
    return lambda: newest(house.checkpoint("bronze") / "offsets") >= 0


def test_ctrl_c_ends_a_run_between_two_batches(house: House) -> None:
    house.sets = SMALL
    write_log(house.logs, 1_500)
    process = house.start("run", "--once")
    wait_for(process, begun(house))
    press(process)
    assert ends(process).endswith("stopped before all input was processed; the next run continues from there")


@pytest.fixture
def lake(house: House, spark: SparkSession) -> House:
    """Return a lake with lines in each table."""
    house.sets = SMALL
    write_log(house.logs, 1_500)
    house.write("more.log", b"broken")
    house.run(spark)
    return house


# What each command prints first when it is at work; nothing for those whose first line is their result.
AT_WORK = {
    "prove --deep": "holds: ",
    "rebuild silver": "silver: ",
    "maintain": "",
    "recover": "",
}
QUICK = ("prove --deep", "rebuild silver")


@pytest.mark.parametrize(
    "command", [command if command in QUICK else pytest.param(command, marks=pytest.mark.long) for command in AT_WORK]
)
def test_ctrl_c_at_work(lake: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    process = lake.start(*shlex.split(command))
    first = AT_WORK[command]
    if first:
        assert process.stdout is not None
        while first not in process.stdout.readline():
            assert process.poll() is None
    else:  # Spark writes its own directory when its context is there
        wait_for(process, lambda: any((tmp_path / "tmp").glob("blockmgr-*")))
    press(process)
    ends(process)
