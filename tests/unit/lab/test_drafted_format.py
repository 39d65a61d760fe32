"""A drafted format names the time, the level and the message that the lines have."""

import re
from typing import Any

import pytest
import yaml

from oncelake.lab.drafted_format import draft_format
from oncelake.silver.format import LogFormat

LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "a level after the time, and lines that follow": (
        "26/11/25 10:19:49 WARN Utils: Your hostname\n26/11/25 10:19:50 INFO X: y\n\tat z\n",
        {
            "time": ("yy/MM/dd HH:mm:ss",),
            "parts": ("26/11/25 10:19:49", "WARN", "Utils: Your hostname"),
            "record": True,
        },
    ),
    "brackets, fractions and other names of levels": (
        "[2026-11-25 10:00:00.123] [info] one\n[2026-11-25 10:00:00.5] [err] two\n",
        {"time": ("iso8601",), "parts": ("2026-11-25 10:00:00.123", "info", "one"), "levels": {"ERR": "ERROR"}},
    ),
    "a level before the time": (
        "SEVERE: 25-Nov-2026 10:00:00.123 [main] y\nINFO: 25-Nov-2026 10:00:01 [main] z\n",
        {
            "time": ("dd-MMM-yyyy HH:mm:ss", "dd-MMM-yyyy HH:mm:ss.SSS"),
            "parts": ("25-Nov-2026 10:00:00.123", "SEVERE", "[main] y"),
            "levels": {"SEVERE": "ERROR"},
        },
    ),
    "words that differ before the level": (
        "<26.11.2026 10:00:00> (till-1) Err: card refused\n<26.11.2026 10:00:01> (till-22) info: paid\n",
        {
            "time": ("dd.MM.yyyy HH:mm:ss",),
            "parts": ("26.11.2026 10:00:00", "Err", "card refused"),
            "levels": {"ERR": "ERROR"},
        },
    ),
    "no level": (
        "25.11.2026 10:00:00 user ann logged in\n",
        {"time": ("dd.MM.yyyy HH:mm:ss",), "parts": ("25.11.2026 10:00:00", None, "user ann logged in")},
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_a_draft_fits_the_lines_that_it_was_made_from(case: str) -> None:
    text, expected = LINES[case]
    drafted = LogFormat.model_validate(yaml.safe_load(draft_format(text.split("\n")) or ""))
    assert drafted.time == expected["time"]
    assert drafted.levels == expected.get("levels", {})
    pattern = (drafted.pattern or "").replace("(?<", "(?P<")
    match = re.fullmatch(pattern, text.split("\n", maxsplit=1)[0])
    assert match
    parts = match.groupdict()
    assert (parts["time"], parts.get("level"), parts["message"]) == expected["parts"]
    assert (drafted.default_level is None) == ("level" in parts)
    assert (drafted.record is not None) == expected.get("record", False)
    if drafted.record is not None:
        assert [bool(re.search(drafted.record.starts or "", line)) for line in text.split("\n")[:3]] == [
            True,
            True,
            False,
        ]


def test_the_keys_and_paths_of_json_lines_are_found() -> None:
    line = '{"meta": {"ts": "2026-11-25T10:00:00Z", "a level": "%s"}, "body": {"text": "a long text"}, "n": 1}'
    drafted = yaml.safe_load(draft_format([line % "warning", line % "info"]) or "")
    assert drafted["json"] == {"time": "$.meta.ts", "level": "$.meta['a level']", "message": "$.body.text"}
    assert (drafted["time"], drafted["levels"]) == ("iso8601", {"WARNING": "WARN"})
    assert LogFormat.model_validate(drafted)


@pytest.mark.parametrize("text", ["", "no time here", '{"a": 1}', "\n\n"])
def test_without_a_time_nothing_is_drafted(text: str) -> None:
    assert draft_format(text.split("\n")) is None
