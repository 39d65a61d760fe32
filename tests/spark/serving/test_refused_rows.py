"""A row with a value that a database cannot hold is refused by name, and the rest of the table goes on: in SQLite."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, TargetError
from oncelake.gold import functions
from oncelake.gold.transform import aggregate
from oncelake.serving.settings import Mode
from oncelake.serving.table_setup import check_served, make
from tests.support.refused_rows import (
    DECLARED,
    FEW_DIGITS,
    must_refuse,
    must_refuse_sums,
    put,
    served,
    silver,
    stored,
)
from tests.support.serving import compare, database

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
def test_what_sqlite_cannot_hold_is_refused_and_the_rest_goes_on(
    tmp_path: Path, spark: SparkSession, mode: Mode
) -> None:
    must_refuse(spark, f"sqlite:///{tmp_path / 'served.db'}", "sqlite", mode)


def test_sums_that_their_column_cannot_hold_are_refused_and_counted_by_the_proof(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "DECIMAL_SUM_DIGITS", FEW_DIGITS)
    must_refuse_sums(spark, f"sqlite:///{tmp_path / 'served.db'}")


def test_a_row_that_can_be_held_again_leaves_the_refused_ones(tmp_path: Path, spark: SparkSession) -> None:
    table = served(f"sqlite:///{tmp_path / 'served.db'}")
    make(spark, [table])
    for number, text in enumerate(("NaN", "5")):
        gold = aggregate(silver(spark, {"x": [text]}), DECLARED)
        put(table, gold, number)
        assert compare(table, gold).said.startswith("0 rows" if text == "NaN" else "1 row, equal value by value")
    assert not compare(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED)).holds


def test_a_refused_row_that_somebody_deletes_or_adds_is_named_by_the_proof(tmp_path: Path, spark: SparkSession) -> None:
    table = served(f"sqlite:///{tmp_path / 'served.db'}")
    make(spark, [table])
    gold = aggregate(silver(spark, {"x": ["NaN"], "y": ["1"]}), DECLARED)
    put(table, gold, 0)
    assert compare(table, gold).holds
    for statement, said in (
        ("UPDATE oncelake_refused SET row_key = 'other'", "which gold.odd has not, or which can be held"),
        (
            "DELETE FROM oncelake_refused",
            "has top = NaN, which cannot be served: .*, and it is not in oncelake_refused",
        ),
    ):
        database(table).transaction(lambda connection, text=statement: connection.exec_driver_sql(text))  # type: ignore[misc]
        link = compare(table, gold)
        assert not link.holds
        assert re.search(said, link.said), link.said


def test_a_run_can_stop_instead_and_names_the_row(tmp_path: Path, spark: SparkSession) -> None:
    table = replace(served(f"sqlite:///{tmp_path / 'served.db'}"), unheld="stop")
    make(spark, [table])
    said = r'the row \{.*"logger":"x"\} has top = NaN, which cannot be served: the database has no NaN; 1 such row'
    with pytest.raises(TargetError, match=said):
        put(table, aggregate(silver(spark, {"x": ["NaN"], "y": ["1"]}), DECLARED), 0)
    assert stored(table) == []


def test_a_table_of_an_older_version_asks_for_serving_init(tmp_path: Path, spark: SparkSession) -> None:
    table = served(f"sqlite:///{tmp_path / 'served.db'}")
    make(spark, [table])
    database(table).transaction(lambda connection: connection.exec_driver_sql("DROP TABLE oncelake_refused"))
    check_served(spark, table)
    put(table, aggregate(silver(spark, {"x": ["1"]}), DECLARED), 0)
    with pytest.raises(ConfigError, match=r"has top = NaN.*no table oncelake_refused.*oncelake serving init"):
        put(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED), 1)
    make(spark, [table])
    put(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED), 1)
    assert stored(table) == []
