"""What is read without Spark: offsets and escapes in the forms that silver reads; tests with Spark compare both."""

import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.plain_reader import PlainReader, bounded, logfmt_pairs
from oncelake.silver.transform import TimeLimits

# letters of a time pattern → the offsets that they read
OFFSETS = {
    "Z": {"+0100", "+0000"},
    "X": {"Z", "+01", "+0100", "+0000"},
    "XX": {"Z", "+0100", "+0000"},
    "XXX": {"Z", "+01:00"},
    "x": {"+01", "+0100"},
    "xx": {"+0100", "+0000"},
    "xxx": {"+01:00"},
}


@pytest.mark.parametrize("letters", OFFSETS)
def test_an_offset_is_read_by_the_letters_of_its_form_alone(letters: str) -> None:
    declared = {
        "pattern": "^(?<time>.*)(?<message>)$",
        "default_level": "INFO",
        "time": f"yyyy-MM-dd HH:mm:ss{letters}",
    }
    reader = PlainReader(LogFormat.model_validate(declared))
    texts = ["Z", "+01", "+0100", "+01:00", "+0000", "+1", "EST"]
    read = {text for text in texts if reader.read(f"2026-11-25 10:00:00{text}").log_time is not None}
    assert read == OFFSETS[letters]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a \u00e9", "a \u00e9"),
        (r"\x41", r"\x41"),
        (r"a\rb", "a\rb"),
        (r"C:\temp", "C:\temp"),
        (r"\q \n \"x\" \\", '\\q \n "x" \\'),
        ("plain", "plain"),
    ],
)
def test_a_quoted_value_has_the_escapes_of_json_or_four_of_them(written: str, text: str) -> None:
    assert logfmt_pairs(f'msg="{written}"') == {"msg": text}


def test_the_limits_are_around_the_ingestion_and_a_time_without_a_year_is_before_it() -> None:
    pattern = {"pattern": "^(?<time>.*)\\|(?<message>.*)$", "default_level": "INFO"}
    ingested_at = datetime(2020, 1, 1, tzinfo=UTC)
    limits = TimeLimits(ahead=timedelta(hours=1))
    reader = PlainReader(LogFormat.model_validate({**pattern, "time": "iso8601"}), None, limits, ingested_at)
    assert reader.read("2020-01-01T01:00:00Z|x").log_time == ingested_at + timedelta(hours=1)
    assert list(reader.read("2020-01-01T01:00:01Z|x").rules) == ["time_range"]
    reader = PlainReader(LogFormat.model_validate({**pattern, "time": "MM-dd HH:mm"}), None, limits, ingested_at)
    assert reader.read("11-25 10:00|x").log_time == datetime(2019, 11, 25, 10, tzinfo=UTC)


def test_a_timer_of_the_program_goes_on_with_its_handler() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 7)
    try:
        with bounded(30, "nothing"):
            assert signal.getitimer(signal.ITIMER_REAL)[1] == 0
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 7
        time.sleep(0.2)
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
