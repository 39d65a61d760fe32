"""A query over a table gives the same rows with Spark and without it, and Spark reads what delta-rs cannot."""

import json
import math
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import COUNT_OF_LINE_ENDS
from oncelake.common import table_rows
from oncelake.common.table_rows import SparkNeededError, TableRows, plain_rows

pytestmark = pytest.mark.spark

PLANNED = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
SCHEMA = (
    "file string, value binary, topic string, partition int, `offset` bigint, ingested_at timestamp, at timestamp, "
    "day date, amount decimal(38,12), whole decimal(38,0), single float, double double, fields map<string,string>, "
    "reasons array<struct<rule:string,column:string>>, flag boolean"
)
ROWS = [
    (
        "file:/logs/a.log", b"one\xff\nmore", None, None, None, PLANNED,
        datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC),
        date(2020, 2, 29), Decimal("-900719925474.993127000000"), Decimal(10**37), 0.1, math.nan, {"a": None, "b": "x"},
        [("time", "log_time"), ("level", "level")], True,
    ),
    (
        None, None, "log", 3, 2**60, PLANNED + timedelta(days=1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        None, None, None, None, -math.inf, {}, [], None,
    ),
    (None, b"", "log", 3, 7, PLANNED, None, None, Decimal("0.000000000001"), Decimal(0), -0.0, 5.0, None, None, False),
]  # fmt: skip
QUERIES = [
    "SELECT * FROM {rows} t ORDER BY t.offset NULLS FIRST",
    "SELECT t.value FROM {rows} t WHERE t.value >= :low AND t.value < :high",
    "SELECT t.at FROM {rows} t WHERE t.at IS NOT DISTINCT FROM :at",
    "SELECT t.offset FROM {rows} t WHERE t.topic = :topic AND t.partition = :partition AND t.offset = :offset",
    "SELECT t.value FROM {rows} t WHERE t.value IS NOT DISTINCT FROM :nothing",
    "SELECT t.ingested_at, count(*) AS lines, count(DISTINCT t.topic) AS topics FROM {rows} t GROUP BY t.ingested_at "
    "ORDER BY t.ingested_at",
    "SELECT e.reason.rule AS rule, e.reason.column AS name, min(e.line) AS line FROM (SELECT explode(t.reasons) AS "
    "reason, struct(t.file, t.value, t.topic, t.partition, t.offset) AS line FROM {rows} t) e "
    "GROUP BY e.reason.rule, e.reason.column ORDER BY rule",
]
VALUES: dict[str, Any] = {
    "low": b"one",
    "high": b"onf",
    "at": datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC),
    "topic": "log",
    "partition": 3,
    "offset": 2**60,
    "nothing": None,
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a table of two data files, written by Spark, whose statistics of decimals and of NaN are not exact."""
    path = str(tmp_path_factory.mktemp("rows") / "table")
    for rows in (ROWS[:1], ROWS[1:]):
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").save(path)
    return path


class Everything(frozenset[str]):
    """A set that has each name."""

    def __contains__(self, name: object) -> bool:
        return True


def micros(at: datetime | None) -> int:
    assert at is not None
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def never() -> SparkSession:
    raise AssertionError("Spark is not needed")


def with_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> TableRows:
    monkeypatch.setattr(
        table_rows, "find_spec", lambda name: None if name == "duckdb" else name
    )  # as if DuckDB were not installed
    return TableRows(lambda: spark)


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_gives_the_same_rows_without_spark(
    spark: SparkSession, table: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = TableRows(never).query(text, table, **VALUES)
    by_spark = with_spark(spark, monkeypatch).query(text, table, **VALUES)
    names = [name for name in without.column_names if name != "line"]
    assert plain_rows(without.select(names)) == plain_rows(by_spark.select(names))
    assert without.num_rows
    if "line" in without.column_names:
        assert [list(map(str, part)) for part in without["line"].combine_chunks().flatten()] == [
            list(map(str, part)) for part in by_spark["line"].combine_chunks().flatten()
        ]


def test_a_query_that_fails_without_spark_is_answered_by_spark(spark: SparkSession, table: str) -> None:
    text = "SELECT crc32(t.value) AS sum FROM {rows} t WHERE t.value = :high"  # DuckDB has no such function
    assert TableRows(lambda: spark).query(text, table, high=b"").num_rows == 1
    assert TableRows(never).without_spark(text, {"rows": (table, None)}, high=b"") is None


def test_a_secret_value_is_not_asked_of_spark(table: str) -> None:
    for text in ("SELECT crc32(t.value) AS sum FROM {rows} t WHERE t.value = :high", "SELECT 1 AS one FROM {rows} t"):
        with pytest.raises(SparkNeededError):
            TableRows(never, with_spark="one" in text).query(text, table, secret=True, high=b"")


def test_a_number_of_rows_is_the_same_without_spark(spark: SparkSession, table: str) -> None:
    readers = (TableRows(never), TableRows(lambda: spark, with_spark=True))
    for condition, ends in (("TRUE", 1), ("topic IS NULL", 1), ("FALSE", 0)):
        assert [rows.total(COUNT_OF_LINE_ENDS, "value", (table, None), condition) for rows in readers] == [ends, ends]


def test_a_row_has_the_values_that_spark_writes_as_json(spark: SparkSession, table: str) -> None:
    text = "SELECT * FROM {rows} t ORDER BY t.offset NULLS FIRST"
    frame = spark.read.format("delta").load(table).orderBy("offset")
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    expected = [json.loads(row) for (row,) in frame.select(F.to_json(F.struct("*"), options)).collect()]
    assert plain_rows(TableRows(never).query(text, table)) == expected


def test_only_the_data_files_of_a_batch_are_opened_for_its_rows(table: str, spark: SparkSession) -> None:
    del spark
    rows, condition = TableRows(never), "t.ingested_at = :ingested_at"
    text = f"SELECT t.offset FROM {{rows}} t WHERE {condition}"
    later = PLANNED + timedelta(days=1)
    assert rows.query(text, table, ingested_at=later).to_pydict() == {"offset": [2**60]}
    parts = rows.by_file(condition, table, Everything(), ingested_at=PLANNED)
    assert sorted(part.num_rows for part in parts.values()) == [1, 1]


def test_only_the_data_files_of_a_period_are_opened(table: str, spark: SparkSession, tmp_path: Path) -> None:
    del spark
    path = tmp_path / "table"
    shutil.copytree(table, path)
    files = TableRows(never).files(str(path))
    assert files is not None
    (older,) = (file for file in files if file.times["at"][0] < 0)
    for file in files:
        if file is not older:
            (path / file.name).unlink()
    text = "SELECT t.offset FROM {rows} t WHERE t.at >= :begin AND t.at < :end"
    begin, end = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
    rows = TableRows(never).records(text, {"rows": (str(path), None)}, between=("at", begin, end), begin=begin, end=end)
    assert rows == [{"offset": 2**60}]


def test_the_log_tells_the_rows_the_sizes_and_the_seconds_of_data_files(table: str, spark: SparkSession) -> None:
    files = TableRows(never).files(table)
    assert files is not None
    assert sorted(file.rows or 0 for file in files) == [1, 2]
    assert all(file.size == (Path(table) / file.name).stat().st_size for file in files)
    # cut to milliseconds, before 1970 too
    assert sorted(file.times["at"] for file in files) == [(-1_000, -1_000), (micros(ROWS[0][6]) - 456,) * 2]
    assert {file.times["ingested_at"][0] for file in files} == {micros(PLANNED)}
    assert TableRows(lambda: spark, with_spark=True).files(table) is None


def test_the_rows_of_a_file_are_the_same_with_spark(
    table: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = TableRows(never).by_file("t.ingested_at = :ingested_at", table, Everything(), ingested_at=PLANNED)
    by_spark = with_spark(spark, monkeypatch).by_file(
        "t.ingested_at = :ingested_at", table, Everything(), ingested_at=PLANNED
    )
    assert without.keys() == by_spark.keys()
    some = sorted(without)[:1]
    assert sorted(TableRows(lambda: spark).by_file("true", table, some)) == some
    only_spark = "try_to_number('1', '9') = 1"
    assert TableRows(lambda: spark).by_file(only_spark, table, Everything()).keys() == without.keys()
    for name, part in without.items():
        assert plain_rows(part) == plain_rows(by_spark[name].select(part.column_names))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    ],
)
def test_a_table_that_delta_rs_does_not_read_whole_is_read_by_spark(
    spark: SparkSession, tmp_path: Path, statement: str
) -> None:
    path = str(tmp_path / "table")
    spark.range(3).coalesce(1).write.format("delta").save(path)
    spark.sql(statement.format(path))
    if "Mapping" in statement:
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO number")
    else:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    rows = TableRows(lambda: spark)
    assert rows.by_spark(path)
    assert rows.query("SELECT * FROM {rows} t ORDER BY 1", path).num_rows == (3 if "Mapping" in statement else 2)


def test_a_partitioned_table_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    # as delta-rs writes it, whose files lack the column
    deltalake.write_deltalake(path, pyarrow.table({"id": [0, 1, 2], "part": [0, 1, 0]}), partition_by=["part"])
    rows = TableRows(lambda: spark).query("SELECT t.part FROM {rows} t ORDER BY t.part", path)
    assert rows["part"].to_pylist() == [0, 0, 1]


def test_a_path_that_delta_rs_takes_for_another_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    asked, other = str(tmp_path / "a%20b"), str(tmp_path / "a b")
    for path, count in ((asked, 2), (other, 5)):
        spark.range(count).coalesce(1).write.format("delta").save(path)
    rows = TableRows(lambda: spark).query("SELECT count(*) AS lines FROM {rows} t", asked)
    assert rows["lines"].to_pylist() == [2]
