"""A Spark session of another program is used as it is, left unchanged, and refused if the guarantee fails on it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from oncelake.common.spark import jars
from oncelake.common.spark.runtime import DELTA_ON
from oncelake.common.spark.versions import installed
from tests.support.given import LINES, ODD, Given, delta
from tests.support.house import House

pytestmark = pytest.mark.chain

OTHER_DELTA = (("io.delta", "delta-spark_2.13", "4.0.0"), ("io.delta", "delta-storage", "4.0.0"))


def without(word: str) -> str:
    return os.pathsep.join(jar for jar in delta().split(os.pathsep) if word not in Path(jar).name)


@pytest.mark.long  # test_wheel.py also runs the chain in a given session
def test_the_chain_runs_beside_a_given_session_and_leaves_it_unchanged(house: House) -> None:
    house.write("a.log", *LINES)
    given = Given(delta())
    (_, said), after = given.calls(house, ["run", "--once", *house.options], ["prove", *house.options])
    assert after["one"] == "1"
    assert {key: after[key] for key in ODD} == ODD
    house.must_be(LINES)
    assert "holds" in said


NO_DELTA = f"this session has no Delta Lake: start it with --packages {':'.join(installed().delta)}"
OLD_DELTA = "this session's Delta Lake is 4.0.0; 4.4.0 or later is needed"


@pytest.mark.parametrize(
    ("classes", "confs", "said"),
    [
        pytest.param("", {}, NO_DELTA, id="no Delta", marks=pytest.mark.long),
        pytest.param("delta", {}, "it is not switched on: spark.sql.extensions is unset", id="Delta not switched on"),
        pytest.param("other", DELTA_ON, OLD_DELTA, id="another Delta", marks=pytest.mark.long),
    ],
)
def test_a_session_without_the_right_delta_is_refused_in_one_line(
    house: House, classes: str, confs: Mapping[str, str], said: str
) -> None:
    house.write("a.log", *LINES)
    class_path = {"": "", "delta": delta(), "other": jars.resolve(OTHER_DELTA, transitive=False)}[classes]
    assert said in one_line(Given(class_path, confs), house, "run", "--once")
    assert not house.lake.exists()


@pytest.mark.long  # a session for one line; the refusals above stay in make test
def test_a_setting_that_the_session_cannot_apply_is_refused_in_one_line(house: House) -> None:
    house.write("a.log", *LINES)
    kafka = ["source.kind=kafka", "source.bootstrap_servers=127.0.0.1:9"]
    memory = ["spark.conf.spark.executor.memory=3g"]
    said = refused_lines(Given(without("kafka"), DELTA_ON), house, kafka, memory)
    assert "this session has no Kafka connector: start it with --packages org.apache.spark:spark-sql-kafka" in said[0]
    assert "spark.conf.spark.executor.memory cannot be set on a Spark that is already running" in said[1]
    assert not house.lake.exists()


def one_line(given: Given, house: House, *arguments: str) -> str:
    """Return the one line with which a program is refused."""
    said, after = given.call(house, *arguments, expect=2)
    assert after["one"] == "1"
    return line_of(said)


def refused_lines(given: Given, house: House, *sets: list[str]) -> list[str]:
    """Return the one line with which each run in one session is refused, one run for each list of settings."""
    runs = [["run", "--once", *house.options, *(part for flag in flags for part in ("--set", flag))] for flags in sets]
    said, after = given.calls(house, *runs, expect=2)
    assert after["one"] == "1"
    return [line_of(text) for text in said]


def line_of(said: str) -> str:
    (line,) = [candidate for candidate in said.splitlines() if candidate.startswith("oncelake: ")]
    return line


def refused(house: House, env: Mapping[str, str]) -> str:
    """Return the error of a run that is refused before Spark is started."""
    house.write("a.log", *LINES)
    done = subprocess.run(
        [sys.executable, "-m", "oncelake", "run", "--once", *house.options],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"SPARK_REMOTE": "sc://127.0.0.1:15002"}, "uses Spark Connect (SPARK_REMOTE is set)"),
        ({"DATABRICKS_RUNTIME_VERSION": "client.4.2"}, "(DATABRICKS_RUNTIME_VERSION is client.4.2)"),
    ],
)
def test_spark_connect_is_refused_before_anything_is_started(house: House, env: dict[str, str], said: str) -> None:
    assert said in refused(house, env)


@pytest.mark.long  # a session for one line; the refusals above stay in make test
def test_an_old_databricks_runtime_is_refused(house: House) -> None:
    house.write("a.log", *LINES)
    said = one_line(Given(delta(), databricks="16.4"), house, "run", "--once")
    assert "this is Databricks runtime 16.4; use 17.3 LTS or later" in said
