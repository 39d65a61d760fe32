"""An abbreviation of a time zone means one offset, or it is not used."""

import zoneinfo
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelake.silver.parsing.format import load_format
from oncelake.silver.parsing.zones import FIRST_YEAR, LAST_YEAR, Meaning, clear, unclear
from oncelake.silver.plain_reader import PlainReader
from tests.support.places import FORMATS

TABLE = (resources.files("tzdata.zoneinfo") / "zone1970.tab").read_text("utf-8")
ZONES = [line.split("\t")[2] for line in TABLE.splitlines() if not line.startswith("#")]


def offsets(known: Mapping[str, Sequence[Meaning]], name: str, year: int) -> set[str]:
    return {text for each in known.get(name, ()) if each.first <= year <= each.last for text in each.offsets}


@pytest.mark.parametrize(
    ("name", "year", "offset"),
    [
        ("UTC", 2026, "+00:00:00"),
        ("Z", 1980, "+00:00:00"),
        ("GMT", 2026, "+00:00:00"),
        ("CET", 2026, "+01:00:00"),
        ("CEST", 2026, "+02:00:00"),
        ("EST", 2026, "-05:00:00"),
        ("BST", 2026, "+01:00:00"),
        ("MSK", 2010, "+03:00:00"),
        ("MSK", 2012, "+04:00:00"),
        ("MSK", 2026, "+03:00:00"),
        ("JST", 2026, "+09:00:00"),
        ("NZDT", 2100, "+13:00:00"),
    ],
)
def test_an_abbreviation_on_whose_offset_all_zones_agree_means_it(name: str, year: int, offset: str) -> None:
    assert offsets(clear("UTC"), name, year) == {offset}
    assert offsets(unclear("UTC"), name, year) == set()


@pytest.mark.parametrize(
    ("name", "year", "several"),
    [
        ("IST", 2026, {"+01:00:00", "+02:00:00", "+05:30:00"}),
        ("CST", 2026, {"-06:00:00", "-05:00:00", "+08:00:00"}),
        ("PST", 2026, {"-08:00:00", "+08:00:00"}),
        ("BST", 1975, {"-11:00:00", "+01:00:00"}),
        ("MSK", 2014, {"+03:00:00", "+04:00:00"}),
    ],
)
def test_an_abbreviation_with_several_offsets_is_unclear(name: str, year: int, several: set[str]) -> None:
    assert offsets(unclear("UTC"), name, year) == several
    assert offsets(clear("UTC"), name, year) == set()


def test_syslog_takes_no_abbreviation_of_a_zone_for_a_host() -> None:
    reader = PlainReader(load_format("syslog", [FORMATS]))
    names = {*clear("UTC"), *unclear("UTC")}
    assert "CEST" in names
    taken = [name for name in names if not reader.read(f"Nov 25 10:00:01 {name} web1 app: m").rules]
    assert taken == []
    assert not reader.read("Nov 25 10:00:01 web1 app: m").rules


@pytest.mark.parametrize("name", ["GST", "ECT", "AMT", "LMT", "+03", "MET", "XYZ"])
def test_an_abbreviation_that_no_zone_uses_means_nothing(name: str) -> None:
    assert offsets(clear("UTC"), name, 2026) == offsets(unclear("UTC"), name, 2026) == set()


@pytest.mark.parametrize(
    ("zone", "name", "offset"),
    [
        ("Asia/Kolkata", "IST", "+05:30:00"),
        ("Europe/Dublin", "IST", "+01:00:00"),
        ("America/Chicago", "CST", "-06:00:00"),
        ("Asia/Shanghai", "CST", "+08:00:00"),
        ("America/Los_Angeles", "PST", "-08:00:00"),
        ("Asia/Manila", "PST", "+08:00:00"),
        ("Asia/Kolkata", "CET", "+01:00:00"),
    ],
)
def test_the_declared_zone_decides_what_it_uses_itself(zone: str, name: str, offset: str) -> None:
    assert offsets(clear(zone), name, 2026) == {offset}
    assert offsets(unclear(zone), name, 2026) == set()


@pytest.mark.parametrize("zone", ["+05:30", "Europe/Paris"])
def test_a_zone_that_does_not_use_an_abbreviation_does_not_decide_it(zone: str) -> None:
    assert offsets(unclear(zone), "IST", 2026) == {"+01:00:00", "+02:00:00", "+05:30:00"}


@given(st.sampled_from(ZONES), st.datetimes(datetime(FIRST_YEAR + 1, 1, 1), datetime(2099, 12, 31)))
def test_what_a_zone_calls_a_time_is_among_the_meanings(zone: str, moment: datetime) -> None:
    with (resources.files("tzdata.zoneinfo") / zone).open("rb") as file:
        local = moment.replace(tzinfo=UTC).astimezone(zoneinfo.ZoneInfo.from_file(file, zone))
    name, offset = local.tzname(), local.utcoffset()
    assert name is not None
    assert offset is not None
    if name.isalpha() and name != "LMT":
        known = offsets(clear("UTC"), name, local.year) | offsets(unclear("UTC"), name, local.year)
        sign, seconds = ("-", -offset) if offset < timedelta(0) else ("+", offset)
        hours, rest = divmod(int(seconds.total_seconds()), 3600)
        assert f"{sign}{hours:02}:{rest // 60:02}:{rest % 60:02}" in known


def test_the_years_end_where_java_still_counts() -> None:
    assert clear("UTC")["CET"][-1].last == LAST_YEAR
