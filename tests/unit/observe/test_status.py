"""`status` and `doctor` name a commit in the future, and never show it as a fresh one."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.observe.record import record
from tests.support.house import House
from tests.support.timed_commits import put

NAMED = "the clock went back, or another machine's clock is ahead"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make a lake whose bronze has committed an hour ahead of this clock, and whose silver a minute ago."""
    house, now = House(tmp_path), round(time.time() * 1000)
    for version in (0, 1):
        put(house, "bronze/access_log", version, now + 3_600_000, batch=version)
        put(house, "silver/access_log", version, now - 60_000, batch=version, first=version, end=version + 1)
    return house


def say(house: House, *command: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, [*command, *house.options])
    return result.stdout, result.stderr


def test_status_says_that_a_commit_is_in_the_future(house: House) -> None:
    said, warned = say(house, "status")
    (bronze,) = (line for line in said.splitlines() if line.startswith("bronze"))
    assert bronze.endswith(" in the future")
    assert "ago" not in bronze
    assert f" s in the future; {NAMED}" in warned
    assert "silver: the last commit" not in warned


def test_doctor_names_a_commit_in_the_future(house: House) -> None:
    said, warned = say(house, "doctor")
    assert f" s in the future; {NAMED}" in said + warned


def test_the_freshness_of_a_commit_in_the_future_is_no_number_of_a_fresh_one(house: House) -> None:
    rows = {row["stage"]: row for row in json.loads(say(house, "status", "--json")[0])["stages"]}
    assert -3601 < rows["bronze"]["freshness_seconds"] < -3500
    assert 59 < rows["silver"]["freshness_seconds"] < 120
    (warning,) = rows["bronze"]["warnings"]
    assert warning.startswith("bronze: the last commit is 3,")


def test_the_freshness_of_a_batch_is_unknown_if_the_clock_went_back_during_it(house: House) -> None:
    put(house, "bronze/access_log", 2, 1000, planned=5000)
    assert record(house.chain(), 100)["bronze"][-1].freshness is None
