"""A gold table's declaration is strict: every invalid name, window and key is refused in one clear line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pyspark.sql.types import StructType

from oncelake.common.models import one_line
from oncelake.gold.declaration import GoldTable, check_table_name, window_seconds
from oncelake.gold.measure import Measure
from oncelake.gold.transform import merge_into, same_group
from oncelake.gold.window import UNITS, Unit, ZoneWindow


def refusal(**declared: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        GoldTable.model_validate({"every": "1 minute", "measures": {"lines": "count"}, **declared})
    return one_line(refused.value)


def test_a_declaration_keeps_its_order() -> None:
    table = GoldTable.model_validate(
        {
            "where": "level = 'ERROR'",
            "every": "5 minutes",
            "by": {"thread": "fields['thread']", "level": "level"},
            "measures": {"select": "count", "last": "max(log_time)"},
        }
    )
    assert table.seconds == 300
    assert list(table.by) == ["thread", "level"]
    assert table.parsed == (Measure("select", "count"), Measure("last", "max", "log_time"))


@pytest.mark.parametrize(
    ("every", "seconds"),
    [
        ("1 second", 1),
        ("10 seconds", 10),
        ("1 minute", 60),
        ("2 HOURS", 7200),
        ("1  day", 86_400),
        ("1 week", 604_800),
    ],
)
def test_a_window_is_parsed_to_seconds(every: str, seconds: int) -> None:
    assert window_seconds(every) == seconds


@given(st.integers(1, 36_500), st.sampled_from(["second", "minute", "hour", "day"]), st.sampled_from(["", "s"]))
def test_every_window_up_to_the_longest_is_accepted(number: int, unit: str, plural: str) -> None:
    unit_seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[unit]
    assert window_seconds(f"{number} {unit}{plural}") == number * unit_seconds


@pytest.mark.parametrize(
    "every",
    [
        "",
        "minute",
        "0 minutes",
        "-1 minute",
        "1.5 hours",
        "1 minute 30 seconds",
        "36501 days",
        "9" * 5000 + " days",
        "٣ days",
    ],
)
def test_an_invalid_window_is_refused_with_the_accepted_form(every: str) -> None:
    assert refusal(every=every).startswith(
        "every: a window is '<n> second|minute|hour|day|week(s)', such as '1 minute'"
    )


@pytest.mark.parametrize("unit", ["year", "quarters"])
def test_a_window_of_a_year_is_refused_with_the_reason(unit: str) -> None:
    assert f"every: a {unit.rstrip('s')} has no fixed length; declare months" in refusal(every=f"1 {unit}")


@pytest.mark.parametrize("every", ["1 month", "2 months"])
def test_a_month_needs_a_zone(every: str) -> None:
    assert "a month has no fixed length; declare a zone for '1 month'" in refusal(every=every)


@pytest.mark.parametrize("unit", UNITS)
def test_a_window_in_a_zone_is_one_of_its_clocks(unit: Unit) -> None:
    table = GoldTable.model_validate({"every": f"1 {unit}", "zone": "Europe/Berlin", "measures": {"lines": "count"}})
    assert table.window == ZoneWindow(unit, "Europe/Berlin")


@pytest.mark.parametrize("every", ["2 days", "1 minute", "1 months"])
def test_other_windows_in_a_zone_are_refused(every: str) -> None:
    said = refusal(every=every, zone="Europe/Berlin")
    assert "in a zone, a window is one of 1 hour, 1 day, 1 week, 1 month" in said or "a month has no" in said


def test_an_unknown_zone_is_refused_with_the_nearest_one() -> None:
    said = refusal(every="1 day", zone="Europe/Berlyn")
    assert said.startswith("zone: there is no zone 'Europe/Berlyn'; did you mean Europe/Berlin?")


@pytest.mark.parametrize("name", ["Lines", "1st", "_sketch_x", "a-b", "a.b", "a`b", "", "ä", "a" * 64, "x\n"])
def test_a_name_that_other_readers_do_not_accept_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower case"):
        check_table_name(name)
    assert f"measures.{name}.[key]: " in refusal(measures={name: "count"})
    assert f"by.{name}.[key]: " in refusal(by={name: "level"})


def test_a_valid_table_name_is_returned() -> None:
    assert check_table_name("a" * 63) == "a" * 63


def test_log_time_is_refused_as_the_name_of_a_key_or_measure() -> None:
    assert "log_time is the column of the window's start; choose another name" in refusal(by={"log_time": "level"})
    assert "log_time is the column" in refusal(measures={"log_time": "count"})


def test_a_name_used_for_both_a_key_and_a_measure_is_refused() -> None:
    assert "level is both a key and a measure" in refusal(by={"level": "level"}, measures={"level": "count"})


def test_table_without_measures_is_refused() -> None:
    assert refusal(measures={}).startswith("measures: ")


def test_an_invalid_measure_is_refused_with_its_key_and_value() -> None:
    assert refusal(measures={"mean": "mode(partition)"}).startswith("measures.mean: mode is refused")
    assert refusal(measures={"mean": "mode(partition)"}).endswith(", not 'mode(partition)'")


def test_empty_expression_and_unknown_key_are_refused() -> None:
    assert refusal(where=" ").startswith("where: an expression over silver is needed")
    assert refusal(by={"level": ""}).startswith("by.level: an expression over silver is needed")
    assert refusal(having="x") == "having: there is no such setting"


TABLE = GoldTable(
    every="1 hour",
    by={"select": "level"},
    measures={
        "order": "count",
        "ms": "sum(partition)",
        "first_at": "min(log_time)",
        "hosts": "approx_distinct(file)",
    },
)


def test_merge_matches_null_keys_and_quotes_names() -> None:
    assert same_group(TABLE) == "gold.`log_time` <=> batch.`log_time` AND gold.`select` <=> batch.`select`"


def test_merge_sets_every_measure_and_no_key() -> None:
    sql = merge_into(TABLE, StructType(), (), "spark")
    assert sql is not None
    update = sql.update
    assert list(update) == [
        "order",
        "ms",
        "first_at",
        "hosts",
        "_sketch_hosts",
    ]
    assert update["order"] == "gold.`order` + batch.`order`"
