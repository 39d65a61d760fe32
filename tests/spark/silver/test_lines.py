"""The fast parser of the default format agrees with its regular expression on every line."""

from itertools import product
from random import Random

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame

from oncelake.silver.parsing.parts import DEFAULT_PATTERN, by_pattern, by_width
from tests.support.bronze_rows import BronzeOf

pytestmark = pytest.mark.spark

_TIMES = (
    "2017-07-30 14:09:08",
    "2017-7-30 14:09:08",
    " 2017-7-30 14:09:08",
    "2017-07-30T14:09:08",
    "2017-02-30 14:09:08",
    "2017-13-01 24:60:60",
    "0000-00-00 00:00:00",
    "+017-07-30 14:09:08",
    "2017-07-30  4:09:08",
    "٢٠١٧-07-30 14:09:08",
    "201é-07-30 14:09:08",
    "2017-07-30 14:09:0😀",
    "2017-07-30 14:09:08.5",
    "2017-07-30",
    "",
)
_LEVELS = ("ERROR", "error", "", " ", "E R", "É", "😀", "ERROR\t", "WARN\u2028", "INFO\x00", "x\n")
_MESSAGES = ("", " ", "  two", "m", "😀 ünï", "a\rb", "\n", "line\u2028sep\u0085", "\x00", "' OR 1=1 --<b>", "\r")
_JOINS = (" ", " ", " ", " ", "  ", "", "\t", "\u00a0", "\n")
_ALPHABET = "0123456789-: \t\r\n\x00ERaé😀\u2028"


def _lines(count: int, seed: int) -> list[str]:
    """Make lines that the format barely accepts or refuses: valid parts joined well and badly, then damaged."""
    random = Random(seed)
    lines = ["", " ", "\r", *(f"{time} {level} m" for time in _TIMES for level in _LEVELS)]
    while len(lines) < count:
        parts = (random.choice(_TIMES[:3] + _TIMES), random.choice(_LEVELS), random.choice(_MESSAGES))
        line = parts[0] + random.choice(_JOINS) + parts[1] + random.choice(_JOINS) + parts[2]
        if random.random() < 0.5:
            at = random.randrange(len(line) + 1)
            line = line[:at] + random.choice(_ALPHABET) + line[at + random.randrange(2) :]
        lines.append(line)
    return lines


def _comparable(frame: DataFrame) -> DataFrame:
    texts = [f"if(matched, {name}, null) AS {name}" for name in ("time_text", "level_text", "message")]
    return frame.selectExpr("offset", "matched", *texts)


def test_reading_by_width_equals_the_regular_expression(bronze_of: BronzeOf) -> None:
    lines = _lines(4000, seed=57)
    frame = bronze_of(lines).selectExpr("offset", "cast(value AS string) AS line").cache()
    by_regex = _comparable(by_pattern(frame, DEFAULT_PATTERN))
    assert 200 < by_regex.where("matched").count() < 3800
    assert_df_equality(_comparable(by_width(frame, "UTC")), by_regex, ignore_nullable=True)
    frame.unpersist()


def test_a_time_that_only_spark_accepts_does_not_match_by_width(bronze_of: BronzeOf) -> None:
    years, months, days = ("2017", "12017", "-2017", "+12017"), ("7", "07"), ("3", "30")
    clock, ends = (("4", "14"), ("9", "09"), ("8", "08", "")), ("", ".", ".5", ".50", "Z", " Z", "+1", " ")
    parts = product(years, months, days, (" ", "T", "  "), *clock, ends, (" ", ""))
    lines = [
        f"{year}-{month}-{day}{t}{hour}:{minute}:{second}{end}{gap}ERROR x"
        for year, month, day, t, hour, minute, second, end, gap in parts
    ]
    frame = bronze_of(lines).selectExpr("offset", "cast(value AS string) AS line").cache()
    by_regex = _comparable(by_pattern(frame, DEFAULT_PATTERN))
    assert by_regex.where("matched").count() == 4
    assert_df_equality(_comparable(by_width(frame, "UTC")), by_regex, ignore_nullable=True)
    frame.unpersist()
