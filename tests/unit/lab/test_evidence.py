"""The evidence for a format counts lines and records, and shows what a person should look at."""

from datetime import UTC, datetime

import pytest

from oncelake.lab.evidence import Evidence, evidence
from oncelake.silver.parsing.format import load_format
from oncelake.silver.plain_reader import PlainReader
from tests.support.places import FORMATS

WRITTEN = datetime(2026, 11, 28, tzinfo=UTC)
JAVA = "2026-11-25 10:00:00,123 INFO [main] c.e.App - started\n"


def of(name: str, text: str) -> Evidence:
    return evidence(name, PlainReader(load_format(name, [FORMATS]), WRITTEN), text)


def test_the_lines_of_records_are_counted_too() -> None:
    reading = of("java", f"{JAVA}java.io.IOException: gone\n\tat c.e.Api\n{JAVA}")
    assert reading.counted == "2 records of 4 lines"
    assert (reading.to_dict()["lines"], reading.to_dict()["line_ends"]) == (2, 4)
    assert reading.warnings == []
    assert of("default", "2026-11-25 10:00:00 INFO x\n").counted == "1 line"


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: x",
        "\x1b[31mERROR\x1b[0m: x",
    ],
)
def test_a_line_that_a_record_swallows_is_shown(line: str) -> None:
    (warning,) = of("java", f"{JAVA}{line}\n{JAVA}{JAVA}").warnings
    assert warning.startswith("1 line of a record looks like a record of another kind, such as: ")


@pytest.mark.parametrize("line", ["\tat c.e.Api", "Caused by: ERROR x", "  10:00:02.123 x", "SELECT 1", "}", "a: b"])
def test_a_line_that_belongs_to_a_record_is_not_shown(line: str) -> None:
    assert of("java", f"{JAVA}{line}\n{JAVA}").warnings == []


def test_empty_messages_are_shown_with_where_the_texts_are() -> None:
    line = '{"time": "2026-11-25T10:00:00Z", "level": "info", "body": "user logged in"%s}\n'
    (warning,) = of("json", line % "").warnings
    assert warning == "the message is empty in 100.0 % of the lines; texts are in body"
    assert of("json", line % ', "message": "x"').warnings == []
