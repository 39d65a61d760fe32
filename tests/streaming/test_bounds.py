"""Bounds of data files hide no row: of lakes that are written now, and of older ones after `maintain`."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oncelake.exactly_once.bounds import bounded_files
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

TOP = "-900719925474.993127"
LINES = [
    f"2017-07-30 14:09:08 ERROR {value}".encode() for value in (TOP, "1", "NaN", "-0.0", "0.0", "9007199254740993", "x")
]
MEASURES = {"lines": "count", "top": "min(try_cast(message as decimal(38,12)))", "most": "max(share)"}
HIGH: dict[str, Any] = {"where": "share > 100", "every": "1 hour", "by": {"level": "level"}, "measures": MEASURES}
ALL: dict[str, Any] = {"every": "1 hour", "by": {"share": "share"}, "measures": MEASURES}
CODE = "def add(rows):\n    return rows.withColumn('share', rows.message.try_cast('double'))\n"
TABLES = ("silver/access_log", "gold/high", "gold/all")


@pytest.fixture
def ran(house: House, spark: SparkSession, small_batch: str) -> House:
    """Run a lake with NaN and large decimals."""
    (house.conf.parent / "own_code.py").write_text(CODE)
    gold = [f"gold.{name}={json.dumps(table)}" for name, table in (("high", HIGH), ("all", ALL))]
    house.sets += ["silver.transform=own_code:add", f"run.small_batch={small_batch}", *gold]
    for number, line in enumerate(LINES):
        house.write(f"{number}.log", line)
    house.run(spark)
    return house


def faults(house: House, spark: SparkSession) -> list[str]:
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    return [f"{link.name}: {link.said}" for link in links if not link.holds]


def found(house: House, spark: SparkSession) -> tuple[int, ...]:
    """Count the rows that filters find in Spark."""
    path = house.table("gold/all")
    silver = spark.read.format("delta").load(str(house.table("silver/access_log")))
    gold = spark.read.format("delta").load(str(path))
    return (
        gold.where(f"top = {TOP}").count(),
        DeltaTable(path).to_pyarrow_table(filters=[("top", "=", Decimal(TOP))]).num_rows,
        silver.where("share > 1e300").count(),
        silver.where("share = double('NaN')").count(),
    )


def bounded(house: House) -> list[str]:
    paths = {table: str(house.table(table)) for table in TABLES}
    return [table for table, path in paths.items() if any(bounded_files(DeltaTable(path), path))]


def spoil(house: House, spark: SparkSession) -> None:
    """Write the tables again as delta-rs does by itself, which an older oncelake did."""
    for table in TABLES:
        path = house.table(table)
        if table.startswith("gold"):
            spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('delta.dataSkippingStatsColumns')")
        DeltaTable(path).optimize.z_order(["log_time"])


@each_writer
def test_a_lake_has_only_exact_bounds_and_a_nan_is_counted(ran: House, spark: SparkSession) -> None:
    assert bounded(ran) == []
    assert found(ran, spark) == (1, 1, 1, 1)
    assert [(row["lines"], str(row["most"])) for row in ran.rows("gold/high")] == [(2, "nan")]
    shares = {str(row["share"]): row["lines"] for row in ran.rows("gold/all")}
    assert (shares["0.0"], shares["nan"], shares["None"]) == (2, 1, 1)
    assert faults(ran, spark) == []


@pytest.mark.parametrize("small_batch", ["1 MiB"])
def test_wrong_bounds_are_found_and_repaired(ran: House, spark: SparkSession) -> None:
    spoil(ran, spark)
    assert bounded(ran) == list(TABLES)
    by_spark, _, *of_nan = found(ran, spark)  # pyarrow reads this bound in another way
    assert (by_spark, *of_nan) == (0, 0, 0)
    assert ran.doubts(spark) == []  # the recount does not believe them
    (fault,) = faults(ran, spark)
    assert fault.startswith("bounds of silver.access_log: ")
    assert fault.endswith(
        "a value of share outside of its bounds. Readers that look for it skip the file. Run: oncelake maintain"
    )
    said = ran.tell(spark, "maintain")
    assert said.count("bounds were repaired in") == len(TABLES)
    assert found(ran, spark) == (1, 1, 1, 1)
    assert faults(ran, spark) == []
    assert bounded(ran) == []
    assert ran.tell(spark, "maintain").count("no batch since the last maintenance") == len(ran.tables)


@pytest.mark.parametrize("small_batch", ["1 MiB"])
def test_a_gold_table_of_an_older_lake_gets_exact_bounds_at_its_next_batch(ran: House, spark: SparkSession) -> None:
    spoil(ran, spark)
    ran.write("more.log", LINES[0].replace(b"14:09", b"20:09"))
    ran.run(spark)
    actions = Path(ran.table("gold/all"), "_delta_log").glob("*.json")
    newest = sorted(actions)[-1].read_text()
    (stats,) = (json.loads(line)["add"]["stats"] for line in newest.splitlines() if line.startswith('{"add"'))
    assert [*json.loads(stats)["minValues"]] == ["log_time"]
