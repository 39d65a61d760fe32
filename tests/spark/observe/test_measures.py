"""Measures of a gold table over time are those of all its lines, whatever their bins, groups and names."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.table_rows import TableRows
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.observe.report.measures import GoldRows
from oncelake.silver.schema import SILVER

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

START = datetime(2026, 11, 20, tzinfo=UTC)
# seven groups with 7, 6, … 1 lines each minute, of the users 1, 2, … of that minute; one key is null
LINES = [
    (minute, str(group) if group else None, user)
    for minute in (0, 1, 5)
    for group in range(7)
    for user in range(1, 8 - group)
]
# names that the collection itself could use
DECLARED = GoldTable(
    every="1 minute",
    by={"group": "fields['group']", "at": "fields['group']"},
    measures={
        "value": "count",
        "place": "sum(cast(fields['user'] as bigint))",
        "start": "max(cast(fields['user'] as double))",
        "least": "min(cast(fields['user'] as bigint))",
        "users": "approx_distinct(fields['user'])",
        "half": "percentile(cast(fields['user'] as double), 0.5)",
        "last": "max(log_time)",
    },
)


@pytest.fixture(params=["plain", "spark"])
def reader(spark: SparkSession, request: pytest.FixtureRequest) -> TableRows:
    """Return what answers queries without Spark where that is possible, and what has Spark read every table."""
    return TableRows(lambda: spark, with_spark=request.param == "spark")


def saved(gold: DataFrame, path: Path, reader: TableRows) -> GoldRows:
    """Write a gold table, and return its rows."""
    gold.coalesce(1).write.format("delta").save(str(path))
    return GoldRows(reader, str(path), {column.name: column.dataType for column in gold.schema}, DECLARED)


def test_the_groups_with_the_most_and_all_others_have_the_values_of_their_lines(
    spark: SparkSession, reader: TableRows, tmp_path: Path
) -> None:
    rows = [
        {
            "log_time": START + timedelta(minutes=minute),
            "level": "INFO",
            "fields": {"user": str(user)} | ({"group": group} if group else {}),
        }
        for minute, group, user in LINES
    ]
    gold = saved(aggregate(spark.createDataFrame(rows, SILVER), DECLARED), tmp_path / "gold", reader)
    by_measure = {facts.measure: facts for facts in gold.over_time("gold.t", DECLARED.parsed[:6])}
    first = int(START.timestamp())
    assert {(facts.seconds, facts.starts) for facts in by_measure.values()} == {(60, (first, first + 60, first + 300))}
    count, total, most, least, users, half = by_measure.values()
    names = ["(none) · (none)", *(f"{number} · {number}" for number in range(1, 5))]
    assert dict(count.groups) == {name: (7 - number,) * 3 for number, name in enumerate(names)}
    assert count.others == (3, 3, 3)
    assert dict(total.groups)[names[0]] == (28, 28, 28)
    assert total.others == (4, 4, 4)
    assert most.others == (2, 2, 2)
    assert least.others == (1, 1, 1)
    assert users.others == (2, 2, 2), "one user in two groups is one user"
    assert dict(half.groups)[names[0]] == pytest.approx((4, 4, 4), rel=0.01)
    assert half.others == pytest.approx((1, 1, 1), rel=0.01), "of the users 1, 2 and 1"
    assert (count.how, count.function) == ("count per 1 minute by group, at", "count")


def test_a_table_without_rows_has_no_measure_to_draw(spark: SparkSession, reader: TableRows, tmp_path: Path) -> None:
    gold = saved(aggregate(spark.createDataFrame([], SILVER), DECLARED), tmp_path / "gold", reader)
    assert list(gold.over_time("gold.t", DECLARED.parsed[:1])) == []
