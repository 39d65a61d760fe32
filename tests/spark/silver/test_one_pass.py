"""The job that writes silver's rows of a large batch also collects the refused lines, if they are few."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake import StageError
from oncelake.common.spark.few_rows import FewRows
from oncelake.engine import runner
from oncelake.quality.expectations import LengthBetween
from oncelake.quality.suite import Rule, Severity
from oncelake.silver import spark_split
from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.rules import Silver
from oncelake.silver.schema import QUARANTINE, SILVER
from oncelake.silver.transform import TimeLimits, breaks, broken_names, is_accepted, quarantined
from tests.support.bronze_rows import bronze_rows
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

GOOD = "2017-07-30 14:09:08 ERROR one"
LINES = [
    GOOD,
    "2017-07-30 14:09:59 NEWS two",
    "2057-07-30 14:09:59 INFO later",
    "broken",
    "",
    None,
    GOOD,
    "café \U0001f600",
]
REFUSED = len(LINES) - 2
MANY = 1_000_000


@pytest.fixture
def parsed(spark: SparkSession) -> DataFrame:
    return Silver({"access_log": load_parser("default", [FORMATS])}, TimeLimits()).parse(bronze_rows(spark, LINES))


def texts(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def without_refused(few: FewRows, parsed: DataFrame) -> DataFrame:
    return few.without(parsed, is_accepted(), broken_names(), QUARANTINE.fieldNames())


def test_the_rows_and_counts_are_those_of_other_passes(parsed: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    with FewRows(spark, MANY, MANY) as few:
        rest = without_refused(few, parsed).select(*SILVER.fieldNames())
        rest.write.format("delta").save(str(tmp_path / "silver"))
        taken = few.take(QUARANTINE)
    assert taken.rows is not None
    assert texts(taken.rows) == texts(quarantined(parsed))
    assert taken.rows.schema.simpleString() == QUARANTINE.simpleString()
    assert spark.read.format("delta").load(str(tmp_path / "silver")).count() == len(LINES) - REFUSED
    assert (taken.lines, taken.removed) == (len(LINES), REFUSED)
    assert taken.names == counted(parsed)


def counted(parsed: DataFrame, rules: Sequence[Rule] = ()) -> dict[str, int]:
    """Return how many rows broke each rule, as the pass that only counts says."""
    broken = breaks([load_parser("default", [FORMATS])], rules)
    (row,) = parsed.agg(*(F.count_if(condition).alias(name) for name, condition in broken.items())).collect()
    return {name: count for name, count in row.asDict().items() if count}


def test_a_line_that_breaks_several_rules_counts_for_each_once(spark: SparkSession) -> None:
    suite = [a_rule("over 3", "warning", 3), a_rule("over 4", "warning", 4), a_rule("over 6", "critical", 6)]
    texts_of = ["ERROR abc", "ERROR abcd", "ERROR abcde", "ERROR abcdefg", "NEWS abcdefg", "ERROR"]
    rows = bronze_rows(spark, [*(f"2017-07-30 14:09:08 {each}" for each in texts_of), "broken", None])
    parsed = Silver({"access_log": load_parser("default", [FORMATS])}, TimeLimits(), suite).parse(rows)
    with FewRows(spark, MANY, MANY) as few:
        assert without_refused(few, parsed).count() == 4
        taken = few.take(QUARANTINE)
    assert taken.names == counted(parsed, suite)
    assert taken.names == {"over 3": 3, "over 4": 2, "over 6": 1, "level": 1, "pattern": 1, "null_value": 1}


def a_rule(name: str, severity: Severity, longest: int) -> Rule:
    checked = LengthBetween(column="message", max_value=longest)
    return Rule(id=name, type="expect_column_value_lengths_to_be_between", severity=severity, expectation=checked)


@pytest.mark.parametrize(("rows", "size"), [(REFUSED - 1, MANY), (MANY, 100)], ids=["rows", "bytes"])
def test_more_rows_than_the_bound_are_counted_and_not_kept(
    parsed: DataFrame, spark: SparkSession, rows: int, size: int
) -> None:
    with FewRows(spark, rows, size) as few:
        assert without_refused(few, parsed).count() == len(LINES) - REFUSED
        taken = few.take(QUARANTINE)
    assert (taken.lines, taken.removed, taken.names, taken.rows) == (len(LINES), REFUSED, counted(parsed), None)


def test_a_task_that_runs_again_counts_and_keeps_once(parsed: DataFrame, spark: SparkSession) -> None:
    with FewRows(spark, MANY, MANY) as few:
        rest = without_refused(few, parsed)
        rest.count()
        rest.count()
        taken = few.take(QUARANTINE)
    assert (taken.lines, taken.removed, taken.names) == (len(LINES), REFUSED, counted(parsed))
    assert taken.rows is not None
    assert texts(taken.rows) == texts(quarantined(parsed))


def test_a_job_whose_rows_nobody_will_take_fails(parsed: DataFrame, spark: SparkSession) -> None:
    with FewRows(spark, MANY, MANY) as few:
        rest = without_refused(few, parsed)
    with pytest.raises((PySparkException, Py4JJavaError), match="do not run in the JVM that planned it"):
        rest.count()


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


@pytest.mark.parametrize(("bad", "expected"), [(0, []), (2, []), (3, ["quarantine"])], ids=["none", "few", "many"])
def test_a_large_batch_is_read_once_if_few_lines_are_refused(
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


def test_a_crash_between_both_tables_loses_no_refused_line(
    house: House, spark: SparkSession, passes: list[str]
) -> None:
    house.write("a.log", *lines(5, 2))
    step = f"silver/quarantine/_delta_log/{1:020}.json"
    with crashed(spark, step, before=True), pytest.raises((StageError, Py4JJavaError)):
        house.run(spark)
    house.run(spark)
    assert passes == ["quarantine"], "the job that collected the lines is gone"
    house.must_be(lines(5, 2))
    assert house.doubts(spark) == []


def test_a_job_that_kept_too_many_rows_costs_a_second_pass(
    house: House, spark: SparkSession, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = FewRows.take
    monkeypatch.setattr(FewRows, "take", lambda few, schema: replace(taken(few, schema), rows=None))
    house.write("a.log", *lines(5, 2))
    house.run(spark)
    assert passes == ["quarantine"]
    house.must_be(lines(5, 2))
