"""A suite is proposed from rows; it can be parsed, and holds for these rows."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common.lake import BRONZE, SILVER, Table
from oncelake.common.table_rows import TableRows
from oncelake.quality.split import at
from oncelake.quality.suggest import bronze_columns, silver_columns, suggest_bronze, suggest_silver
from oncelake.quality.suite import Suite, read_suite
from oncelake.quality.suite_check import check_suite
from oncelake.silver import schema

pytestmark = pytest.mark.spark
NOW = datetime(2026, 1, 1)


def suite_of(directory: Path, table: Table, expectations: list[dict[str, Any]]) -> Suite:
    path = directory / f"{table}.json"
    path.write_text(json.dumps({"name": str(table), "expectations": expectations}))
    return read_suite(path, table)


def test_a_suite_proposed_for_silver_is_valid_and_holds(spark: SparkSession, tmp_path: Path) -> None:
    levels = ("INFO", "ERROR")
    rows = [
        (NOW, levels[number % 2], "x" * (number % 7), {"thread": f"t-{number}", "code": str(number), "odd": None})
        for number in range(100)
    ]
    silver = spark.createDataFrame([(*row, "alog", 0, n, None, NOW, None) for n, row in enumerate(rows)], schema.SILVER)
    path = str(tmp_path / "silver")
    silver.write.format("delta").save(path)
    columns = [silver_columns(TableRows(lambda: spark, with_spark), path, 1_000) for with_spark in (False, True)]
    assert columns[0] == columns[1]
    suite = suite_of(tmp_path, SILVER, suggest_silver(columns[0]))
    check_suite(spark, suite, schema.SILVER)
    assert suite.ids == (
        "has_time",
        "not_be_null(level)",
        "be_in_set(level)",
        "not_be_null(message)",
        "lengths_to_be_between(message)",
        "not_be_null(fields.code)",
        "match_regex(fields.code)",
        "lengths_to_be_between(fields.code)",
        "not_be_null(fields.thread)",
        "match_regex(fields.thread)",
        "lengths_to_be_between(fields.thread)",
    )
    assert {rule.severity for rule in suite.rules} == {"warning"}
    kwargs = {name: each.kwargs for name, each in zip(suite.ids, suite.declared.expectations, strict=True)}
    assert kwargs["be_in_set(level)"]["value_set"] == ["ERROR", "INFO"]
    assert kwargs["match_regex(fields.code)"]["regex"] == "^-?[0-9]+$"
    assert kwargs["lengths_to_be_between(message)"] == {"column": "message", "max_value": 16}
    assert kwargs["lengths_to_be_between(fields.thread)"]["min_value"] == 1
    for rule in suite.rules:
        assert silver.where(rule.expectation.broken(at)).isEmpty(), rule.id


def test_only_the_time_rule_is_proposed_for_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([], schema.SILVER).write.format("delta").save(str(tmp_path))
    empty = silver_columns(TableRows(lambda: spark), str(tmp_path), 10)
    assert [each["meta"] for each in suggest_silver(empty)] == [{"rule": "has_time"}]


def test_bytes_that_are_not_utf_8_are_part_of_the_sample(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([(b"a\xff",), (None,)], "value BINARY").coalesce(1).write.format("delta").save(str(tmp_path))
    assert bronze_columns(TableRows(lambda: spark), str(tmp_path), 10) == {"value": ["a\ufffd", None]}


def test_a_suite_proposed_for_bronze_is_valid(spark: SparkSession, tmp_path: Path) -> None:
    found = suggest_bronze({"value": [f"2026-01-01 10:00:00 INFO line {number}" for number in range(50)]})
    suite = suite_of(tmp_path, BRONZE, found)
    check_suite(spark, suite, BRONZE_SCHEMA)
    assert suite.ids == ("not_be_null(value)", "lengths_to_be_between(value)")
