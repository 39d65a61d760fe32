"""What is read without Spark, for a draft and its evidence, is what silver reads with Spark."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.silver.parsing.format import LogFormat, format_names, load_format
from oncelake.silver.plain_reader import PlainReader
from oncelake.silver.plain_times import NeedsSparkError
from tests.support.places import FORMATS, ROOT
from tests.support.plain_reading import disagreement, examples

pytestmark = pytest.mark.spark

NAMES = format_names([FORMATS])
HELD_OUT = ROOT / "tests/spark/silver/held_out"
OFFSETS = [
    "Z",
    "z",
    "+01",
    "+0100",
    "+01:00",
    "-00:00",
    "+00",
    "+0000",
    "+00:00",
    "+0030",
    "+1",
    "+1900",
    "+0060",
    "EST",
]
# Quoted values of logfmt: texts of JSON, and others.
QUOTED = [
    r"a \u00e9",
    r"\x41",
    r"a\rb\b\f",
    r"C:\temp",
    r"\\n \n",
    r"\\\n",
    r"\q \n",
    r"\"x\"",
    r"\/",
    r"\u12",
    r"\ud83d\ude00",
    "a\tb\\n",
]
# What each shipped format gets besides the examples of all formats.
ODD = [
    "",
    " ",
    "\t",
    "x",
    "{",
    "{}",
    "[]",
    '{"time": 1}',
    "a=1",
    "=",
    "2026-02-30 10:00:00 INFO x",
    "\ufeff2026-11-25 x",
]
TIMES = {
    "yyyy-MM-dd HH:mm:ss": ["2026-11-25 10:00:00", "2026-1-25 10:00:00", "2026-11-25 24:00:00", "+2026-11-25 10:00:00"],
    "yy/MM/dd HH:mm:ss": ["26/11/25 10:00:00", "26/13/25 10:00:00", "2026/11/25 10:00:00"],
    "yyyyMMdd-H:m:s": ["20261125-1:2:3", "20261125-01:02:03", "20261125-1:2:60"],
    "MMM d HH:mm:ss": ["Nov 5 10:00:00", "Nov 25 10:00:00", "Nov  5 10:00:00", "nov 25 10:00:00", "Feb 29 10:00:00"],
    "MMM  d HH:mm:ss": ["Nov  5 10:00:00", "Nov 25 10:00:00"],
    "MM/dd/yyyy hh:mm:ss a": ["11/25/2026 12:00:00 AM", "11/25/2026 01:00:00 pm", "11/25/2026 13:00:00 PM"],
    "dd/MMM/yyyy:HH:mm:ss Z": ["25/Nov/2026:10:00:00 -0700", "25/Nov/2026:10:00:00 +0000"],
    "yyyy-MM-dd HH:mm:ss,SSS": ["2026-11-25 10:00:00,1", "2026-11-25 10:00:00,123", "2026-11-25 10:00:00,1234"],
    "yyyy-MM-dd HH:mm:ss XXX": ["2026-11-25 10:00:00 +01:00", "2026-11-25 10:00:00 Z"],
    "iso8601": ["2026-11-25T10:00:00Z", "2026-11-25 10:00:00.123456789+0530", "2026-11-25T10:00:00,5-03", "2026-11-25"],
    "epoch_seconds": [
        *("1501423748", "1501423748.1234567", "1.501423748E9", "-1", "1501423748000000", "x", "NaN"),
        *("12.5", "0", "99999999.9999995", "100000000"),
    ],
    "epoch_millis": ["1501423748123", "99999999999", "1501423748123.45", "1501423748.1"],
    "epoch_micros": ["1501423748123456", "1501423748123456.5"],
    "epoch_nanos": ["1501423748123456789", "1501423748123456499"],
}  # fmt: skip


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join([*lines, "\tat c.e.Api.get(Api.java:10)", ""]), encoding="utf-8")
    stamp = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
    os.utime(path, (stamp, stamp))
    return path


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_format_is_read_as_with_spark(
    spark: SparkSession, name: str, is_coloured: bool, tmp_path: Path
) -> None:
    log_format = load_format(name, [FORMATS])
    if is_coloured:
        log_format = log_format.model_copy(update={"strip_ansi": True})
    lines = [
        text
        for example in examples()
        for text in (example, f" {example}", f"{example} more", example[:-5], f"\x1b[1m{example}\x1b[0m")
    ]
    log = written(tmp_path / "a.log", [*lines, *ODD, *reversed(lines)])
    assert disagreement(log_format, log, spark) is None


@pytest.mark.parametrize("system", sorted(path.stem for path in HELD_OUT.glob("*.log")))
def test_a_format_of_ones_own_is_read_as_with_spark(spark: SparkSession, system: str, tmp_path: Path) -> None:
    log_format = load_format(str(HELD_OUT / f"{system}.yaml"), [])
    log = written(tmp_path / "a.log", (HELD_OUT / f"{system}.log").read_text().split("\n"))
    assert disagreement(log_format, log, spark) is None


@pytest.mark.parametrize("letters", ["Z", "ZZZ", "X", "XX", "XXX", "x", "xx", "xxx"])
def test_an_offset_is_read_as_with_spark(spark: SparkSession, letters: str, tmp_path: Path) -> None:
    declared = {"pattern": "^(?<time>.*)\\|(?<message>.*)$", "default_level": "INFO"}
    log_format = LogFormat.model_validate({**declared, "time": f"yyyy-MM-dd HH:mm:ss{letters}"})
    log = written(tmp_path / "a.log", [f"2026-11-25 10:00:00{offset}|x" for offset in OFFSETS])
    assert disagreement(log_format, log, spark) is None


def test_the_name_of_a_zone_is_read_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    declared = {"pattern": "^(?<time>.*)\\|(?<message>.*)$", "default_level": "INFO"}
    log_format = LogFormat.model_validate({**declared, "time": "yyyy-MM-dd HH:mm:ss VV"})
    zones = ["Europe/Paris", "UTC", "GMT", "Z", "+01:00", "-03:30", "Etc/GMT+3"]
    log = written(tmp_path / "a.log", [f"2026-11-25 10:00:00 {zone}|x" for zone in zones])
    assert disagreement(log_format, log, spark) is None


def test_the_escapes_of_a_value_are_read_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f'time=2026-11-25T10:00:00Z level=info msg="{text}" x="{text}"' for text in QUOTED]
    log = written(tmp_path / "a.log", lines)
    assert disagreement(load_format("logfmt", [FORMATS]), log, spark) is None


def test_half_of_a_character_is_read_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    texts = [r"a \ud800 b", r"\udc00", r"\ud83d\ude00"]
    lines = [
        f'{{"time": "2026-11-25T10:00:00Z", "level": "info", "message": "{text}", "x": "{text}"}}' for text in texts
    ]
    assert disagreement(load_format("json", [FORMATS]), written(tmp_path / "a.log", lines), spark) is None


@pytest.mark.parametrize("pattern", TIMES)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "-03:30"])
def test_a_time_is_read_as_with_spark(spark: SparkSession, pattern: str, zone: str, tmp_path: Path) -> None:
    declared = {"pattern": "^(?<time>.*)\\|(?<message>.*)$", "default_level": "INFO", "time": pattern, "zone": zone}
    log_format = LogFormat.model_validate(declared)
    texts = [*TIMES[pattern], *(text.replace("11", "03", 1).replace("25", "29") for text in TIMES[pattern])]
    log = written(tmp_path / "a.log", [f"{text}|x" for text in texts])
    assert disagreement(log_format, log, spark) is None


@pytest.mark.parametrize(
    "declared",
    [
        {"pattern": r"^(?<time>\p{Digit}+) (?<message>.*)$"},
        {"pattern": r"^(?<time>[0-9&&[^5]]+) (?<message>.*)$"},
        {"pattern": r"^(?<time>\d+) (?i)x(?<message>.*)$"},
        {"columns": {"n": {"type": "int", "from": "message", "misfit": "quarantine"}}},
        {"pattern": None, "json": {"time": "t", "level": "l", "message": "m"}, "each": "$.Records[*]"},
    ],
    ids=str,
)
def test_what_only_spark_reads_is_refused_here(declared: dict[str, object]) -> None:
    whole = {"pattern": "^(?<time>.*) (?<message>.*)$", "time": "iso8601", "default_level": "INFO", **declared}
    with pytest.raises(NeedsSparkError):
        PlainReader(LogFormat.model_validate(whole))


@pytest.mark.parametrize("zone", ["EST", "+03", "CET", "UTC+01:00", "europe/paris"])
def test_a_name_of_a_zone_that_only_spark_reads_is_refused_here(zone: str) -> None:
    declared = {"pattern": "^(?<time>.*)\\|(?<message>.*)$", "default_level": "INFO", "time": "yyyy-MM-dd HH:mm:ss VV"}
    with pytest.raises(NeedsSparkError, match=re.escape(zone)):
        PlainReader(LogFormat.model_validate(declared)).read(f"2026-11-25 10:00:00 {zone}|x")


def test_half_of_a_character_in_a_value_is_refused_here() -> None:
    with pytest.raises(NeedsSparkError, match="half of a character"):
        PlainReader(load_format("logfmt", [FORMATS])).read(r'time=2026-11-25T10:00:00Z level=info msg="\ud800"')
