"""Spark puts every time into the same window as Python does, by the same data of the zones."""

from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError
from oncelake.gold import declaration_check
from oncelake.gold.declaration import GoldTable
from oncelake.gold.declaration_check import check
from oncelake.gold.transform import aggregate
from oncelake.gold.window import EPOCH, UNITS, Windowing, ZoneWindow, zone_difference
from oncelake.silver.schema import SILVER
from tests.support.zones import changes

pytestmark = pytest.mark.spark

ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "UTC"),
    *("Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "Africa/Casablanca", "Asia/Kathmandu"),
)
SHIFTS = (-timedelta(days=1), -timedelta(seconds=1), -timedelta(microseconds=1), timedelta(), timedelta(minutes=45))
DAYS = GoldTable(every="1 day", zone="Europe/Berlin", measures={"lines": "count"})


def test_spark_and_python_agree_at_every_change_of_the_clocks(spark: SparkSession) -> None:
    moments = {change for zone in ZONES for change in changes(ZoneInfo(zone), (1986, 2010, 2011, 2026))}
    times = sorted({moment + shift for moment in moments for shift in SHIFTS})
    frame = spark.createDataFrame([(time,) for time in times], "log_time timestamp")
    every: list[Windowing] = [ZoneWindow(unit, zone) for unit, zone in product(UNITS, ZONES)]
    starts = frame.select(
        F.unix_micros("log_time"), *(F.unix_micros(F.expr(window.sql)).alias(str(n)) for n, window in enumerate(every))
    )
    for micros, *found in starts.collect():
        time = EPOCH + timedelta(microseconds=micros)
        expected = [(window.start(time) - EPOCH) // timedelta(microseconds=1) for window in every]
        assert found == expected, time


def test_lines_of_days_with_23_and_25_hours_are_counted_in_them(spark: SparkSession) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [(begin + timedelta(hours=hour),) for hour in range(365 * 24)]
    silver = (
        spark.createDataFrame([], SILVER)
        .select("level", "message")
        .unionByName(spark.createDataFrame(hours, "log_time timestamp"), allowMissingColumns=True)
    )
    gold = aggregate(silver, DAYS)
    found = {row["log_time"].astimezone(UTC): row["lines"] for row in gold.collect()}
    assert found[datetime(2026, 3, 28, 23, tzinfo=UTC)] == 23
    assert found[datetime(2026, 10, 24, 22, tzinfo=UTC)] == 25
    assert sum(found.values()) == len(hours)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/New_York", "Australia/Lord_Howe"])
def test_data_of_a_zone_are_the_same_in_java_and_python(spark: SparkSession, zone: str) -> None:
    assert zone_difference(spark, zone) is None


def test_a_zone_whose_data_differ_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration_check, "zone_difference", lambda *_: "the data of Europe/Berlin differ")
    with pytest.raises(ConfigError, match=r"^gold\.days\.zone: the data of Europe/Berlin differ, .*pip install"):
        check(spark, "days", DAYS, SILVER)
