"""The job that writes silver's rows of a large batch also collects the refused lines, if they are few."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from oncelake import StageError
from oncelake.common.spark.few_rows import FewRows
from oncelake.engine import runner
from oncelake.silver import stream
from oncelake.silver.format import load_format
from oncelake.silver.schema import QUARANTINE, SILVER
from oncelake.silver.stream import Silver
from oncelake.silver.transform import TimeLimits, is_accepted, quarantined
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
    return Silver({"access_log": load_format("default", [FORMATS])}, TimeLimits()).parse(bronze_rows(spark, LINES))


def texts(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def test_the_rows_are_those_of_a_second_pass(parsed: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    counts = Observation()
    observed = parsed.observe(counts, F.count_if(~is_accepted()).alias("refused"))
    with FewRows(spark, MANY, MANY) as few:
        rest = few.without(observed, is_accepted(), QUARANTINE.fieldNames()).select(*SILVER.fieldNames())
        rest.write.format("delta").save(str(tmp_path / "silver"))
        taken = few.take(counts.get["refused"], QUARANTINE)
    assert taken is not None
    assert texts(taken) == texts(quarantined(parsed))
    assert taken.schema.simpleString() == QUARANTINE.simpleString()
    assert spark.read.format("delta").load(str(tmp_path / "silver")).count() == len(LINES) - REFUSED


@pytest.mark.parametrize(("rows", "size"), [(REFUSED - 1, MANY), (MANY, 100)], ids=["rows", "bytes"])
def test_more_rows_than_the_bound_are_not_kept(parsed: DataFrame, spark: SparkSession, rows: int, size: int) -> None:
    with FewRows(spark, rows, size) as few:
        assert few.without(parsed, is_accepted(), QUARANTINE.fieldNames()).count() == len(LINES) - REFUSED
        assert few.take(REFUSED, QUARANTINE) is None


def test_another_number_of_rows_than_was_counted_is_not_used(parsed: DataFrame, spark: SparkSession) -> None:
    with FewRows(spark, MANY, MANY) as few:
        rest = few.without(parsed, is_accepted(), QUARANTINE.fieldNames())
        rest.count()
        rest.count()  # as a task that is tried again
        assert few.take(REFUSED, QUARANTINE) is None
    with FewRows(spark, MANY, MANY) as few:
        few.without(parsed, is_accepted(), QUARANTINE.fieldNames()).count()
    assert few.take(REFUSED, QUARANTINE) is None, "the rows are gone after the block"


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

    with patch.object(stream, "quarantined", quarantined_again):
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
    monkeypatch.setattr(FewRows, "take", lambda *_: None)
    house.write("a.log", *lines(5, 2))
    house.run(spark)
    assert passes == ["quarantine"]
    house.must_be(lines(5, 2))
