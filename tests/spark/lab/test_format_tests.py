"""Lines that are kept beside a format show what a changed format reads otherwise."""

import json
import os
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app

pytestmark = pytest.mark.spark

FORMAT = """\
pattern: '^(?<time>\\S+ \\d+ \\S+) (?<level>\\w+) #(?<pid>\\d+) (?<message>.*)$'
time: MMM d HH:mm:ss
levels: {OOPS: ERROR}
record: {starts: '^\\w{3} \\d'}
columns: {pid: int}
"""
LINES = "Nov 5 10:00:00 INFO #1 one\nNov 5 10:00:01 OOPS #2 two\n  at x\nNov 5 10:00:01 LOUD #3 three\n"


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with a log, and a format of its own in `conf/formats`."""
    del spark
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/formats").mkdir(parents=True)
    (tmp_path / "conf/formats/own.yaml").write_text(FORMAT)
    (tmp_path / "conf/local.yaml").write_text("source: {path: logs}\nlake: {root: lake}\n")
    (tmp_path / "a.log").write_text(LINES)
    os.utime(tmp_path / "a.log", (1_700_000_000, 1_700_000_000))  # November 2023
    return tmp_path


def said(*arguments: str, expect: int = 0) -> str:
    result = CliRunner().invoke(app, ["format", *arguments])
    assert result.exit_code == expect, result.output
    assert "Traceback" not in result.output
    return result.output


def test_kept_lines_are_read_again_as_they_were(place: Path) -> None:
    told = said("try", "a.log", "own", "--save")
    assert told.splitlines()[-1] == (
        "conf/formats/tests/own.yaml keeps 3 lines; check them with: oncelake format test own"
    )
    kept = yaml.safe_load((place / "conf/formats/tests/own.yaml").read_text())
    assert [line["line"] for line in kept] == [
        "Nov 5 10:00:00 INFO #1 one",
        "Nov 5 10:00:01 OOPS #2 two\n  at x",
        "Nov 5 10:00:01 LOUD #3 three",
    ]
    assert kept[1] == {
        "line": "Nov 5 10:00:01 OOPS #2 two\n  at x",
        "written": "2023-11-14T22:13:20+00:00",
        "time": "2023-11-05T10:00:01+00:00",
        "level": "ERROR",
        "message": "two\n  at x",
        "fields": {"pid": "2"},
        "columns": {"pid": "2"},
    }
    assert kept[2]["refused"] == ["level"]
    assert said("test") == "own: 3 of 3 lines as kept\n"


def test_a_changed_format_fails_and_names_the_lines(place: Path) -> None:
    said("try", "a.log", "own", "--save")
    (place / "conf/formats/own.yaml").write_text(FORMAT.replace("OOPS: ERROR", "OOPS: WARN, LOUD: INFO"))
    told = said("test", "own", expect=1)
    assert told.splitlines()[:5] == [
        "own: 1 of 3 lines as kept",
        "  Nov 5 10:00:01 OOPS #2 two⏎  at x",
        "    level is 'WARN', not 'ERROR'",
        "  Nov 5 10:00:01 LOUD #3 three",
        "    it is read, not refused (level)",
    ]
    assert told.splitlines()[5].startswith("oncelake: 2 lines are read otherwise; ")
    output = json.loads(said("test", "own", "--json", expect=1).splitlines()[0])
    assert [line["line"] for line in output["changed"]["own"]] == [
        "Nov 5 10:00:01 OOPS #2 two\n  at x",
        "Nov 5 10:00:01 LOUD #3 three",
    ]
    said("try", "a.log", "own", "--save")
    assert said("test", "own") == "own: 3 of 3 lines as kept\n"


def test_a_person_can_edit_the_kept_lines(place: Path) -> None:
    (place / "conf/formats/tests").mkdir()
    (place / "conf/formats/tests/own.yaml").write_text(
        "- line: 'Nov 5 10:00:00 INFO #1 7'\n"
        "  written: 2023-11-14 22:13:20\n"
        "  time: 2023-11-05 10:00:00\n"
        "  level: INFO\n"
        "  message: 7\n"
        "  fields: {pid: 1}\n"
        "  columns: {pid: 1}\n"
    )
    assert said("test") == "own: 1 of 1 line as kept\n"


def test_without_kept_lines_the_way_to_keep_some_is_named(place: Path) -> None:
    assert "keep some: oncelake format try FILE own --save" in said("test", "own", expect=2)
    (place / "conf/formats/tests").mkdir()
    (place / "conf/formats/tests/own.yaml").write_text("- {line: x, levle: INFO}\n")
    assert "conf/formats/tests/own.yaml: levle" in said("test", "own", expect=2)


def test_a_trial_names_the_text_that_no_group_holds(place: Path) -> None:
    (place / "lax.yaml").write_text(FORMAT.replace("#(?<pid>\\d+)", "#\\d+").replace("columns: {pid: int}\n", ""))
    told = said("try", "a.log", "lax.yaml")
    assert "the pattern matches text that no group holds: '1' in 1 line, '2' in 1 line, '3' in 1 line" in told
    assert "no group holds" not in said("try", "a.log", "own")
