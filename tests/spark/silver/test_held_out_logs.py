"""Logs of systems that no shipped format was made for: a format of at most ten lines parses each, as answered before.

In `held_out`, each system has a log as it writes it, a format, and the right answers: the lines by minute and level,
the lines that are refused, and the values of the typed columns in the order of the lines.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.transform import from_files, line_reader
from oncelake.quality.split import MARKS
from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.transform import TimeLimits, parse

pytestmark = pytest.mark.spark

HELD_OUT = Path(__file__).with_name("held_out")
SYSTEMS = sorted(path.name.removesuffix(".answers.yaml") for path in HELD_OUT.glob("*.answers.yaml"))


def text_of(value: object) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_format_of_at_most_ten_lines_parses_the_log_of_a_system(spark: SparkSession, system: str) -> None:
    path, answers = HELD_OUT / f"{system}.yaml", yaml.safe_load((HELD_OUT / f"{system}.answers.yaml").read_text())
    assert len(path.read_text().splitlines()) <= 10
    parser = load_parser(str(path), [])
    lines = from_files(
        line_reader(spark, spark.read, parser.record).load(str(HELD_OUT / f"{system}.log")), parser.record
    )
    parsed = parse(lines.coalesce(1), parser, TimeLimits())
    minute = F.date_format("log_time", "HH:mm").alias("minute")
    columns = [F.col(name).cast("string").alias(name) for name in parser.columns]
    rows: list[Any] = parsed.select(minute, "level", "reasons", MARKS, *columns).collect()
    good = [row for row in rows if not row["reasons"]]
    refused = Counter(reason["rule"] for row in rows for reason in row["reasons"])
    assert refused == answers["refused"]
    assert Counter(f"{row['minute']} {row['level']}" for row in good) == answers["lines"]
    assert Counter(mark for row in good for mark in row[MARKS] or ()) == answers.get("warned", {})
    assert answers["columns"]
    for name, values in answers["columns"].items():
        assert [row[name] for row in good] == [text_of(value) for value in values], name


def test_there_are_logs_of_six_systems() -> None:
    assert len(SYSTEMS) >= 6
