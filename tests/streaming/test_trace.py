"""A trace agrees with the tables: where a line is, in which batch, which rows count it, or why none does."""

import os
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common import table_rows
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import BRONZE
from oncelake.engine import open_lake
from oncelake.engine.runner import Run
from oncelake.lakehouse import Lakehouse
from oncelake.observe.progress import Progress
from oncelake.observe.trace.lineage import At, Lineage, TraceStep, lines
from tests.support.house import House, Recorder

pytestmark = pytest.mark.spark

TWICE = "2017-07-30 14:09:08 ERROR some message"
FIRST = [
    TWICE,
    "2017-07-30 14:10:00 INFO [bold red]markup[/] and [link=file:///x]more[/link]: a:b:c",
    "2017-07-30 14:10:01 WARN ünïcode \U0001f525 \u202e turned",
    "no line of the format: [red]",
    TWICE,
    "2017-07-30 14:10:02 INFO with a return\r",
    "",
    "2017-07-30 14:10:03 INFO \x1b[31mred\x1b[0m \x00 " + "x" * 500,
]


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Make a lake of two files, each of them a batch of bronze; silver reads both in one batch."""
    house = House(tmp_path_factory.mktemp("traced"))
    house.sets = ["source.max_bytes_per_batch=1"]
    house.write("app-1.log", *(line.encode() for line in FIRST))
    past = (house.logs / "app-1.log").stat().st_mtime - 60
    os.utime(house.logs / "app-1.log", (past, past))
    house.write("sub dir/b+é %20 1.log", b"2017-07-30 14:09:30 ERROR from b: c", b"2017-07-30 14:10:09 INFO \xff\xfe")
    house.run(spark)
    return house


def trace(house: House, spark: SparkSession, text: str) -> Lineage:
    return house.lakehouse(spark).trace(text)


def steps(way: Lineage) -> dict[str, TraceStep]:
    return {step.table: step for step in way.steps}


def at(way: Lineage) -> dict[str, str]:
    return {step.table: step.at.value for step in way.steps}


def test_a_counted_line_is_traced_into_every_gold_table(house: House, spark: SparkSession) -> None:
    way = trace(house, spark, f"app-1.log:{TWICE}")
    assert way.equal == 2
    assert way.holds
    assert at(way) == {
        "bronze.access_log": "there",
        "silver.access_log": "there",
        "gold.error_log": "counted",
        "gold.log_volume": "counted",
    }
    traced = steps(way)
    assert traced["silver.access_log"].row
    assert traced["silver.access_log"].row["message"] == "some message"
    assert traced["gold.error_log"].row == {"log_time": "2017-07-30T14:09:00.000000Z", "log_count": 3}
    assert traced["gold.log_volume"].row == {
        "log_time": "2017-07-30T14:09:00.000000Z",
        "level": "ERROR",
        "log_count": 3,
    }
    assert {step.commits[0].metadata.batch_id for step in way.steps if step.commits[0].metadata} == {0}
    assert [len(step.commits) for step in way.steps] == [1] * 4


def test_a_batch_of_bronze_is_traced_to_the_batch_of_silver_that_read_it(house: House, spark: SparkSession) -> None:
    way = trace(house, spark, "sub dir/b+é %20 1.log:2017-07-30 14:09:30 ERROR from b: c")
    assert way.holds
    assert [step.commits[0].version for step in way.steps] == [2, 1, 1, 1]
    assert [step.commits[0].metadata.batch_id for step in way.steps if step.commits[0].metadata] == [1, 0, 0, 0]


@pytest.mark.parametrize("file", ["b+é %20 1.log", "sub%20dir/b+é%20%2520%201.log", "{logs}/sub dir/b+é %20 1.log"])
def test_a_file_is_found_by_any_end_of_its_path_or_uri(house: House, spark: SparkSession, file: str) -> None:
    asked = f"{file.format(logs=house.logs)}:2017-07-30 14:09:30 ERROR from b: c"
    assert trace(house, spark, asked).holds


def test_the_trace_of_an_uncounted_line_names_the_condition_that_fails(house: House, spark: SparkSession) -> None:
    way = trace(house, spark, f"app-1.log:{FIRST[1]}")
    assert at(way)["gold.error_log"] == "left out"
    assert "level = 'ERROR'" in steps(way)["gold.error_log"].why
    assert at(way)["gold.log_volume"] == "counted"


@pytest.mark.parametrize(("line", "rule"), [(FIRST[3], "pattern"), ("", "blank")])
def test_the_trace_of_a_quarantined_line_has_its_reasons(
    house: House, spark: SparkSession, line: str, rule: str
) -> None:
    way = trace(house, spark, f"app-1.log:{line}")
    assert at(way) == {"bronze.access_log": "there", "silver.quarantine": "refused"}
    refused = steps(way)["silver.quarantine"]
    assert refused.row
    assert [reason["rule"] for reason in refused.row["reasons"]] == [rule]
    assert refused.commits[0].version == 1


def test_a_line_is_found_by_its_text_as_displayed(house: House, spark: SparkSession) -> None:
    way = trace(house, spark, f"app-1.log:{FIRST[5].rstrip()}")
    assert (way.line, way.holds) == (FIRST[5], True)


def test_control_characters_of_a_line_are_escaped(house: House, spark: SparkSession) -> None:
    said = "\n".join(lines(trace(house, spark, f"app-1.log:{FIRST[7]}")))
    assert all(mark.isprintable() or mark == "\n" for mark in said)
    assert r"\x1b[31mred\x1b[0m \x00 xxx" in said
    assert "characters)" in said
    turned = "\n".join(lines(trace(house, spark, f"app-1.log:{FIRST[2]}")))
    assert "ünïcode \U0001f525 \\u202e turned" in turned


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("app-1.log:2017 no such line", r"no line of file:\S+/app-1.log is '2017 no such line'; bronze has 8 lines"),
        ("app-1.log:3", r"app-1.log is '3'; bronze has 8 lines of it; name a line by its text, not by its number$"),
        (
            "p-1.log:x",
            r"no file path in bronze ends with .*; bronze has app-1.log, b\+é\S+; put the file before the line, "
            "as in 'app-1.log:LINE'",
        ),
        ("alog/0/7", "alog/0/7 is not in bronze; bronze has no line from Kafka"),
    ],
)
def test_a_missing_line_is_an_error_that_names_what_exists(
    house: House, spark: SparkSession, asked: str, said: str
) -> None:
    with pytest.raises(OncelakeError, match=said):
        trace(house, spark, asked)


def test_a_line_that_silver_has_not_read_is_waiting(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path)
    kafka(house, spark, 0, [TWICE.encode(), None])
    way = trace(house, spark, "alog.v-1/3/0")
    assert set(at(way).values()) == {"there", "not yet"}
    assert "silver has not read bronze.access_log yet (it has no batch yet)" in steps(way)["silver.access_log"].why


def test_an_offset_is_traced_and_an_error_names_the_existing_ones(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path)
    kafka(house, spark, 0, [TWICE.encode(), None, b"2017-07-30 14:10:00 INFO x"])
    silver_only(house, spark)
    assert at(trace(house, spark, "alog.v-1/3/0"))["silver.access_log"] == "there"
    assert at(trace(house, spark, "alog.v-1/3/1"))["silver.quarantine"] == "refused"
    with pytest.raises(OncelakeError, match=r"alog\.v-1/3/3 is not in bronze; bronze has alog\.v-1/3/0 to 2$"):
        trace(house, spark, "alog.v-1/3/3")
    kafka(house, spark, 2, [b"2017-07-30 14:10:00 INFO x"])
    way = trace(house, spark, "alog.v-1/3/2")
    assert at(way)["bronze.access_log"] == At.DOUBLED
    assert not way.holds


@pytest.mark.parametrize("asked", ["alog.v-1/3/0", "alog.v-1/3/1", "app-1.log:no such line", "x.log:"])
def test_a_record_is_traced_without_spark(
    spark: SparkSession, tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    kafka(house, spark, 0, [TWICE.encode(), None])
    silver_only(house, spark)
    with monkeypatch.context() as context:
        context.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))
        without, quarantined = told(house.lakehouse(), asked), house.lakehouse().quarantined()
    monkeypatch.setattr(
        table_rows, "find_spec", lambda name: None if name == "duckdb" else name
    )  # as if DuckDB were not installed
    assert told(house.lakehouse(spark), asked) == without
    assert house.lakehouse(spark).quarantined() == quarantined
    assert [(reason.rule, reason.samples) for reason in quarantined[1]] == [("null_value", ("alog.v-1/3/1",))]


def told(lake: Lakehouse, asked: str) -> dict[str, Any] | str:
    """Return the lineage, or the error."""
    try:
        return lake.trace(asked).to_dict()
    except OncelakeError as error:
        return str(error)


def test_a_file_is_traced_in_the_same_way_when_spark_reads_the_tables(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [f"app-1.log:{line}" for line in FIRST[:7]] + ["sub dir/b+é %20 1.log:2017-07-30 14:09:30 ERROR from b: c"]
    without = [told(house.lakehouse(spark), line) for line in asked]
    monkeypatch.setattr(table_rows, "find_spec", lambda name: None if name == "duckdb" else name)
    assert [told(house.lakehouse(spark), line) for line in asked] == without


def test_a_deleted_row_is_reported_as_missing(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write("a.log", TWICE.encode())
    house.run(spark)
    spark.sql(f"DELETE FROM delta.`{house.lake}/gold/error_log` WHERE log_count = 1").collect()
    spark.sql(f"ALTER TABLE delta.`{house.lake}/silver/access_log` UNSET TBLPROPERTIES ('delta.appendOnly')").collect()
    assert at(trace(house, spark, f"a.log:{TWICE}"))["gold.error_log"] == "missing"
    spark.sql(f"DELETE FROM delta.`{house.lake}/silver/access_log`").collect()
    way = trace(house, spark, f"a.log:{TWICE}")
    assert at(way)["silver.access_log"] == "missing"
    assert "oncelake prove" in steps(way)["silver.access_log"].why


def kafka(house: House, spark: SparkSession, first: int, values: list[bytes | None]) -> None:
    """Append records to bronze by hand, as if they came from a topic."""
    origin, now = ("alog.v-1", 3), datetime(2017, 8, 1, tzinfo=UTC)
    rows: list[tuple[Any, ...]] = [
        (value, *origin, first + number, now, *(None,) * 5, now, None, None) for number, value in enumerate(values)
    ]
    path = house.chain(spark).lake.at(BRONZE)
    spark.createDataFrame(rows, BRONZE_SCHEMA).write.format("delta").mode("append").save(path)


def silver_only(house: House, spark: SparkSession) -> None:
    """Run silver on what bronze holds; without a broker bronze's own query cannot run."""
    chain = house.chain(spark)
    silver = replace(chain, stages=(chain.stages[1],))
    Run(silver, spark, Progress(silver, Recorder([])), threading.Event()).once()
