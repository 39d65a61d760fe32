"""The job that writes silver's rows of a large batch also counts its lines; another one writes the refused lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake import StageError
from oncelake.engine import runner
from oncelake.quality.expectations import LengthBetween
from oncelake.quality.suite import Rule, Severity
from oncelake.silver import spark_split
from oncelake.silver.format import load_format
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, breaks, quarantined
from tests.support.bronze_rows import bronze_rows
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

GOOD = "2017-07-30 14:09:08 ERROR one"


def counted(parsed: DataFrame, rules: Sequence[Rule] = ()) -> dict[str, int]:
    """Return how many rows broke each rule, as the pass that only counts says."""
    broken = breaks([load_format("default", [FORMATS])], rules)
    (row,) = parsed.agg(*(F.count_if(condition).alias(name) for name, condition in broken.items())).collect()
    return {name: count for name, count in row.asDict().items() if count}


def test_a_line_that_breaks_several_rules_counts_for_each_once(spark: SparkSession) -> None:
    suite = [a_rule("over 3", "warning", 3), a_rule("over 4", "warning", 4), a_rule("over 6", "critical", 6)]
    texts_of = ["ERROR abc", "ERROR abcd", "ERROR abcde", "ERROR abcdefg", "NEWS abcdefg", "ERROR"]
    rows = bronze_rows(spark, [*(f"2017-07-30 14:09:08 {each}" for each in texts_of), "broken", None])
    parsed = Silver({"access_log": load_format("default", [FORMATS])}, TimeLimits(), suite).parse(rows)
    assert counted(parsed, suite) == {"over 3": 3, "over 4": 2, "over 6": 1, "level": 1, "pattern": 1, "null_value": 1}


def a_rule(name: str, severity: Severity, longest: int) -> Rule:
    checked = LengthBetween(column="message", max_value=longest)
    return Rule(id=name, type="expect_column_value_lengths_to_be_between", severity=severity, expectation=checked)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.with_error_log(tmp_path)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let batches of more than two rows be large; record the second passes over a batch."""
    monkeypatch.setattr(runner, "MAX_ROWS", 2)
    second: list[str] = []

    def quarantined_again(frame: DataFrame) -> DataFrame:
        second.append("quarantine")
        return quarantined(frame)

    with patch.object(spark_split, "quarantined", quarantined_again):
        yield second


def lines(good: int, bad: int) -> list[bytes]:
    return [*[GOOD.encode()] * good, *[f"broken {number}".encode() for number in range(bad)]]


def rows(house: House, table: str) -> Counter[str]:
    def shown(row: dict[str, Any]) -> str:
        return str({name: value for name, value in row.items() if not isinstance(value, datetime)})

    return Counter(map(shown, house.rows(table)))


@pytest.mark.parametrize(("bad", "expected"), [(0, []), (3, ["quarantine"])], ids=["none", "some"])
def test_a_large_batch_is_read_once_if_no_line_is_refused(
    house: House, spark: SparkSession, passes: list[str], bad: int, expected: list[str]
) -> None:
    house.write("a.log", *lines(5, bad))
    house.run(spark)
    assert passes == expected
    house.must_be(lines(5, bad))
    assert house.doubts(spark) == []
    once = rows(house, "silver/quarantine")
    house.sets.append("run.small_batch=0")
    house.rebuild(spark, "silver")
    assert rows(house, "silver/quarantine") == once


@pytest.mark.parametrize("small_batch", ["32MiB", "0"])
def test_a_start_removes_what_a_killed_process_staged(house: House, spark: SparkSession, small_batch: str) -> None:
    house.write("a.log", *lines(1, 0))
    house.run(spark)
    left = [house.table(name) / "_staged-left" for name in ("bronze/access_log", "silver/quarantine")]
    for each in left:
        (each / "_temporary").mkdir(parents=True)
    house.sets.append(f"run.small_batch={small_batch}")
    house.write("b.log", *lines(1, 0))
    house.run(spark)
    assert not any(each.exists() for each in left)


@pytest.mark.usefixtures("passes")
def test_a_crash_between_both_tables_loses_no_refused_line(house: House, spark: SparkSession) -> None:
    house.write("a.log", *lines(5, 2))
    step = f"silver/quarantine/_delta_log/{1:020}.json"
    with crashed(spark, step, before=True), pytest.raises((StageError, Py4JJavaError)):
        house.run(spark)
    house.run(spark)
    house.must_be(lines(5, 2))
    assert house.doubts(spark) == []
