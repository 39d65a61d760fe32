"""Lines whose times do not fit their arrival are counted alike in every way that a batch is written."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE
from oncelake.common.spark.collect import SmallBatches
from oncelake.silver import arrival
from oncelake.silver.arrival import Arrivals
from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, is_accepted
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

ARRIVED = datetime(2026, 11, 25, 12)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
# how a line arrives, how much its time is after that, and whether it counts as ahead or behind by half hours
CASES: list[tuple[str, timedelta, tuple[int, int]]] = [
    ("file", 5 * MINUTE, (0, 0)),
    ("file", 6 * MINUTE, (1, 0)),
    ("file", 9 * HOUR, (18, 0)),
    ("file", -9 * HOUR, (0, 0)),
    ("tail", -9 * HOUR, (0, -18)),
    ("tail", -9 * HOUR - MINUTE, (0, -18)),
    ("tail", -9 * HOUR - 2 * MINUTE, (0, 0)),
    ("tail", -26 * HOUR - MINUTE, (0, -52)),
    ("tail", -26 * HOUR - 2 * MINUTE, (0, 0)),
    ("tail", -27 * HOUR, (0, 0)),
    ("tail", -30 * MINUTE, (0, -1)),
    ("tail", -29 * MINUTE, (0, -1)),
    ("tail", -31 * MINUTE, (0, -1)),
    ("tail", -28 * MINUTE, (0, 0)),
    ("tail", -MINUTE, (0, 0)),
    ("tail", 30 * MINUTE, (1, 0)),
    ("tail", 31 * MINUTE, (2, 0)),
    ("tail", timedelta(0), (0, 0)),
    ("kafka", 9 * HOUR + MINUTE, (19, 0)),
    ("kafka", -5 * HOUR - 30 * MINUTE + MINUTE, (0, -11)),
    ("neither", 9 * HOUR, (0, 0)),
]


def rows(spark: SparkSession, cases: list[tuple[str, timedelta]]) -> DataFrame:
    made = []
    for offset, (kind, later) in enumerate(cases):
        values = dict.fromkeys(BRONZE.fieldNames()) | {"ingested_at": ARRIVED, "offset": offset, "topic": "t"}
        values["value"] = f"{ARRIVED + later:%Y-%m-%d %H:%M:%S} ERROR x".encode()
        values |= {"timestamp": ARRIVED} if kind == "kafka" else {}
        values |= {"file": "f", "file_modified": ARRIVED} if kind in ("file", "tail") else {}
        values |= {"file_id": 1} if kind == "tail" else {}
        made.append(tuple(values[name] for name in BRONZE.fieldNames()))
    return spark.createDataFrame([*made, (b"broken", *made[0][1:])], BRONZE)


def found(spark: SparkSession, cases: list[tuple[str, timedelta]]) -> Arrivals:
    """Return what is found in a batch, the same in each way."""
    silver = Silver({"access_log": load_parser("default", [FORMATS])}, TimeLimits(ahead=timedelta(days=2)))
    parsed = silver.parse(rows(spark, cases))
    accepted = parsed.where(is_accepted())
    every = arrival.with_name(F.lit(None).cast("array<string>"), is_accepted(), of_events=False)
    names = Counter(name for row in parsed.select(every).collect() for name in row[0] or ())
    collected = SmallBatches(1_000, 10_000_000).collect(accepted)
    assert collected is not None
    (values,) = parsed.agg(*arrival.aggregates(is_accepted(), of_events=False)).collect()
    ways = {Arrivals.of_names(names), Arrivals.of_collected(collected), Arrivals.of_values(values.asDict())}
    (same,) = ways
    return same


@pytest.mark.parametrize(("kind", "later", "halves"), CASES)
def test_a_line_that_cannot_be_right_is_counted(
    spark: SparkSession, kind: str, later: timedelta, halves: tuple[int, int]
) -> None:
    ahead, behind = halves
    assert found(spark, [(kind, later)]) == Arrivals(int(ahead > 0), ahead, int(behind < 0), behind, behind)


def test_a_batch_is_counted_as_a_whole(spark: SparkSession) -> None:
    assert found(spark, [(kind, later) for kind, later, _ in CASES]) == Arrivals(5, 19, 7, -52, -1)


def test_a_warning_names_the_lines_the_time_and_the_setting() -> None:
    assert Arrivals().warning(100) is None
    assert Arrivals(ahead=1, furthest=1).warning(100) == (
        "1 line is later than the file or record that brought it, by up to 30 min; is source.zone the zone of the "
        "machine that wrote them?"
    )
    assert str(Arrivals(ahead=20, furthest=18).warning(20)).startswith("20 lines are later than the file or record")
    behind = Arrivals(behind=10, least=-11, most=-11)
    assert str(behind.warning(11)).startswith("10 lines are 5 h 30 min before the file or record that brought them")
    assert behind.warning(12) is None, "chance"
    assert Arrivals(behind=9, least=-11, most=-11).warning(9) is None, "too few"
    assert Arrivals(behind=20, least=-12, most=-11).warning(20) is None, "several differences"
