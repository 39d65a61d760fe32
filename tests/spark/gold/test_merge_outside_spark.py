"""delta-rs merges a small batch's counts to the same rows as Spark does, and what it would not is left to Spark."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from oncelake.common.explain import explain
from oncelake.common.spark.collect import SmallBatches
from oncelake.common.spark.rows import SparkRows
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers.local import LocalTable
from oncelake.gold.declaration import GoldTable
from oncelake.gold.schema import gold_schema
from oncelake.gold.transform import aggregate, merge_into, windows, windows_of
from oncelake.silver.schema import SILVER
from tests.support.memory import metadata

pytestmark = pytest.mark.spark

NOON = datetime(2017, 7, 30, 12, 0, tzinfo=UTC)
BIG = 9_223_372_036_854_775_807
OUTSIDE = GoldTable(
    every="1 hour",
    by={"select": "level", "even": "offset % 2 = 0", "day": "cast(log_time AS DATE)"},
    measures={
        "order": "count",
        "total": "sum(offset)",
        "exact": "sum(try_cast(fields['ms'] AS DECIMAL(28,9)))",
        "first_text": "min(message)",
        "last_text": "max(message)",
        "first_at": "min(log_time)",
        "last_at": "max(log_time)",
        "highest": "max(try_cast(fields['ms'] AS DECIMAL(20,3)))",
        "informed": "count where level = 'INFO'",
        "share": "rate where level = 'INFO'",
        "mean": "avg(offset)",
        "mean_ms": "avg(try_cast(fields['ms'] AS DECIMAL(28,9)))",
    },
)
LEFT_TO_SPARK = {
    "a sketch": {"measures": {"texts": "approx_distinct(message)"}},
    "a float": {"measures": {"lowest": "min(try_cast(fields['ms'] AS DOUBLE))"}},
    "a deviation": {"measures": {"spread": "stddev(try_cast(fields['ms'] AS DECIMAL(14,3)))"}},
    "buckets": {"measures": {"half": "percentile(offset, 0.5)"}},
    "an order": {"measures": {"newest": "last(message)"}},
    "a struct": {"measures": {"last": "max(struct(log_time, message))"}},
    "a float as a key": {"by": {"ratio": "try_cast(fields['ms'] AS DOUBLE)"}, "measures": {"lines": "count"}},
}


def made(rng: random.Random, rows: int) -> list[tuple[Any, ...]]:
    """Return rows of silver with few windows and keys, nulls everywhere and values at their limits."""

    def row() -> tuple[Any, ...]:
        at = NOON + timedelta(minutes=rng.choice([0, 59, 60, -720, 60 * 24 * 365]), microseconds=rng.randrange(9))
        ms = rng.choice([None, "x", "0.1", "-7.123456789", "1e18", "NaN", "-0.0"])
        message = rng.choice([None, "", "a", "B", "\u00e9", "\U0001f600", "\uffff", "a\0b"])
        level = rng.choice([None, "INFO", "WARN"])
        given: dict[str, Any] = {"log_time": at, "level": level, "message": message, "fields": {"ms": ms}}
        given["offset"] = rng.choice([None, 0, 1, BIG, -BIG])
        return tuple(given.get(name) for name in SILVER.names)

    return [row() for _ in range(rows)]


def writer(spark: SparkSession, path: Path, schema: StructType) -> TableWriter:
    spark.createDataFrame([], schema).write.format("delta").save(str(path))
    log = DeltaLog(LocalFiles(), str(path))
    return TableWriter(str(path), log, log.state(), every_batch=True, engines=[LocalTable(str(path))])


def folded(spark: SparkSession, tmp_path: Path, table: GoldTable, batches: list[DataFrame]) -> None:
    """Merge batches into three tables: by Spark, by delta-rs if it can, and by both in turn; expect the same rows."""
    schema = gold_schema(spark, table, SILVER)
    writers = {name: writer(spark, tmp_path / name, schema) for name in ("spark", "small", "in turn")}
    for number, batch in enumerate(batches):
        counts = aggregate(batch, table)
        found = SmallBatches(1_000, 10_000_000).collect(counts)
        assert found is not None
        by_spark = (SparkRows(counts), metadata(number), partial(merge_into, table, schema, windows(counts)))
        small = (found, metadata(number), partial(merge_into, table, schema, windows_of(found)))
        commits = [
            writers["spark"].merge(*by_spark),
            writers["small"].merge(*small),
            writers["in turn"].merge(*(by_spark if number % 2 else small)),
        ]
        assert len({commit.commit.rows_added for commit in commits}) == 1
        assert len({commit.commit.rows_changed for commit in commits}) == 1
    one, *others = (_comparable(spark.read.format("delta").load(str(tmp_path / name))) for name in writers)
    for other in others:
        assert_df_equality(
            one, other, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True, allow_nan_equality=True
        )


def _comparable(rows: DataFrame) -> DataFrame:
    """Return rows with the entries of each map in their order: rows with maps cannot be sorted."""
    maps = [field.name for field in rows.schema if isinstance(field.dataType, MapType)]
    return rows.withColumns({name: F.map_entries(name) for name in maps}) if maps else rows


def test_merges_outside_spark_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    batches = [spark.createDataFrame(made(rng, rows), SILVER) for rows in (30, 1, 0, 200, 60)]
    folded(spark, tmp_path, OUTSIDE, batches)
    schema = gold_schema(spark, OUTSIDE, SILVER)
    assert merge_into(OUTSIDE, schema, (), "datafusion") is not None
    log = Path(tmp_path / "small/_delta_log")
    assert all("delta-rs" in path.read_text() for path in sorted(log.glob("*.json"))[1:])


@pytest.mark.parametrize("declared", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK)
def test_values_that_only_spark_merges_have_no_other_merge(
    spark: SparkSession, declared: dict[str, dict[str, str]]
) -> None:
    table = GoldTable.model_validate({"every": "1 hour", **declared})
    assert merge_into(table, gold_schema(spark, table, SILVER), (), "datafusion") is None


def test_a_table_without_another_merge_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    every = [each for declared in LEFT_TO_SPARK.values() for each in declared["measures"].items()]
    keys = LEFT_TO_SPARK["a float as a key"]["by"]
    table = GoldTable.model_validate({"every": "1 hour", "by": keys, "measures": dict(every)})
    rng = random.Random(8)
    log_of_small = tmp_path / "small/_delta_log"
    folded(spark, tmp_path, table, [spark.createDataFrame(made(rng, rows), SILVER) for rows in (20, 20)])
    assert not any("delta-rs" in path.read_text() for path in log_of_small.glob("*.json"))


def test_more_windows_than_are_listed_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = GoldTable(every="1 second", measures={"lines": "count"})
    rows = [tuple({"log_time": NOON + timedelta(seconds=n)}.get(name) for name in SILVER.names) for n in range(150)]
    folded(spark, tmp_path, table, [spark.createDataFrame(rows, SILVER)] * 2)


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_sum_that_leaves_its_type_in_a_merge_is_an_error(spark: SparkSession, tmp_path: Path, sign: str) -> None:
    table = GoldTable(every="1 hour", measures={"total": "sum(try_cast(message AS DECIMAL(28,3)))"})
    schema, largest = gold_schema(spark, table, SILVER), Decimal(f"{sign}{'9' * 34}.999")
    into = writer(spark, tmp_path / "small", schema)

    def put(total: Decimal, number: int) -> None:
        found = SmallBatches(1_000, 10_000_000).collect(spark.createDataFrame([(NOON, total)], schema))
        assert found is not None
        into.merge(found, metadata(number), partial(merge_into, table, schema, windows_of(found)))

    put(largest, 0)
    with pytest.raises(Exception, match="to store in a Decimal128 of precision 37") as error:
        put(Decimal(f"{sign}0.001"), 1)
    assert "Declare the sum with fewer digits after the point" in explain(error.value)
    assert [row["total"] for row in spark.read.format("delta").load(str(tmp_path / "small")).collect()] == [largest]
