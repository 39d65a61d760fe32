"""A served table in SQLite is compared with gold row by row."""

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.serving.served import Served
from tests.support.serving import MINUTES, SCHEMA, apply, compare, database, make_tables, metadata, run_all, served

pytestmark = pytest.mark.spark

COUNTS = {MINUTES[0]: 3, MINUTES[1]: 1, MINUTES[4]: 2}


@pytest.fixture
def table(tmp_path: Path) -> Served:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    make_tables(url)
    table = served(url)
    apply(table, COUNTS, metadata(0, None, 1))
    return table


def gold(spark: SparkSession, counts: dict[datetime, int]) -> DataFrame:
    return spark.createDataFrame(list(counts.items()), SCHEMA)


def test_served_rows_that_equal_gold_hold(spark: SparkSession, table: Served) -> None:
    link = compare(table, gold(spark, COUNTS))
    assert link.holds, link.said
    assert link.said.startswith("3 rows, equal value by value")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE error_log SET log_count = 4 WHERE log_count = 3", "log_count is 4 in"),
        ("DELETE FROM error_log WHERE log_count = 1", "2026-01-01 00:01:00: is missing in"),
        ("INSERT INTO error_log VALUES ('2026-01-01 00:09:00.000000', 1)", "2026-01-01 00:09:00: is in"),
    ],
)
def test_a_served_row_that_differs_is_named(spark: SparkSession, table: Served, statement: str, said: str) -> None:
    run_all(database(table), [statement])
    link = compare(table, gold(spark, COUNTS))
    assert not link.holds
    assert said in link.said
