"""With --json, each line on stdout is an object that says when, how serious, and of what it is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from tests.support.house import House

HEADER = {"time", "level", "event"}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def objects(house: House, *arguments: str, expect: int = 0) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, [*arguments, "--json", *house.options])
    assert result.exit_code == expect, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("command", "key"), [("status", "stages"), ("doctor", "stages"), ("history", "spans"), ("alerts", "alerts")]
)
def test_a_result_has_the_header_of_every_line_and_its_warnings(house: House, command: str, key: str) -> None:
    (result,) = objects(house, command)
    assert result.keys() == {*HEADER, "command", "warnings", key}
    assert (result["event"], result["command"], result["level"]) == ("result", command, "info")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", result["time"])


def test_a_plan_of_a_new_lake_has_the_same_header_and_its_parts(house: House) -> None:
    (result,) = objects(house, "plan")
    parts = {"lake", "against", "changes", "stages", "refused", "commands", "unchecked", "sample"}
    assert result.keys() == {*HEADER, "command", "warnings", *parts}
    assert {stage["action"] for stage in result["stages"]} == {"build"}


def test_a_plan_that_is_refused_is_an_error(house: House) -> None:
    house.sets = ["openlineage.enabled=true", f"source.path={house.root / 'none'}"]
    (result,) = objects(house, "plan", expect=1)
    assert result["level"] == "error"
    assert result["refused"][-1].keys() == {"stage", "reason", "command", "alone"}
    assert any("there is no such directory" in refusal["reason"] for refusal in result["refused"])


def test_a_result_of_two_words_names_both(house: House) -> None:
    (result,) = objects(house, "alerts", "send")
    assert result["command"] == "alerts send"


def test_the_warnings_of_a_result_are_those_that_are_printed(house: House) -> None:
    house.sets = ["source.kind=tail"]
    (house.logs / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"0" * 40)
    (result,) = objects(house, "status")
    (warning,) = result["warnings"]
    assert warning.endswith("it is not read")
    assert result["stages"][0]["warnings"] == [warning]


def test_a_result_that_does_not_hold_is_an_error(house: House) -> None:
    log = house.lake / "bronze/access_log/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n{"add":{"path":"x","dataChange":true}}')
    result, *_ = objects(house, "doctor", expect=1)
    assert (result["command"], result["level"]) == ("doctor", "error")


def test_an_error_has_the_header_too(house: House) -> None:
    house.sets = ["source.pth=x"]
    (error,) = objects(house, "status", expect=2)
    assert error.keys() == {*HEADER, "error", "exit_code"}
    assert (error["event"], error["level"], error["exit_code"]) == ("error", "error", 2)
