"""Windows of a zone follow its clocks: days of 23 and 25 hours, weeks from Monday, months; each time is in one."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from oncelake.gold.window import UNITS, FixedWindow, Unit, Windowing, ZoneWindow
from tests.support.zones import changes

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("unit", "time", "start", "end"),
    [
        ("day", "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
        ("day", "2026-10-25T23:59:59.999999+01:00", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
        ("hour", "2026-10-25T02:59+02:00", "2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"),
        ("hour", "2026-10-25T02:59+01:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"),
        ("hour", "2026-03-29T01:30+01:00", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"),
        ("week", "2026-10-25T12:00+01:00", "2026-10-19T00:00+02:00", "2026-10-26T00:00+01:00"),
        ("month", "2026-12-31T23:30+01:00", "2026-12-01T00:00+01:00", "2027-01-01T00:00+01:00"),
        ("month", "1969-10-01T00:00+01:00", "1969-10-01T00:00+01:00", "1969-11-01T00:00+01:00"),
    ],
)
def test_a_window_is_what_the_clocks_of_the_zone_show(unit: Unit, time: str, start: str, end: str) -> None:
    window = ZoneWindow(unit, BERLIN)
    assert (window.start(at(time)), window.end(at(start))) == (at(start), at(end))


@pytest.mark.parametrize(
    ("zone", "unit", "time", "start", "end"),
    [
        # the clocks skip midnight
        ("America/Sao_Paulo", "day", "2018-11-04T12:00-02:00", "2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"),
        # they go back from midnight, so the day before has the hour twice
        ("America/Sao_Paulo", "day", "2018-02-17T23:30-03:00", "2018-02-17T00:00-02:00", "2018-02-18T00:00-03:00"),
        # they go back from 00:01 to 23:01: the first midnight begins the day
        ("America/St_Johns", "day", "2010-11-06T23:30-03:30", "2010-11-07T00:00-02:30", "2010-11-08T00:00-03:30"),
        # a whole day is skipped
        ("Pacific/Apia", "day", "2011-12-29T12:00-10:00", "2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00"),
        # they go back by half an hour, so an hour begins there
        ("Australia/Lord_Howe", "hour", "2026-04-05T01:45+10:30", "2026-04-05T01:30+10:30", "2026-04-05T02:00+10:30"),
        ("Asia/Kolkata", "hour", "2026-04-05T01:45+05:30", "2026-04-05T01:00+05:30", "2026-04-05T02:00+05:30"),
    ],
)
def test_a_window_begins_once_where_the_clocks_skip_or_repeat_its_start(
    zone: str, unit: Unit, time: str, start: str, end: str
) -> None:
    window = ZoneWindow(unit, zone)
    assert (window.start(at(time)), window.end(at(start))) == (at(start), at(end))


@pytest.mark.parametrize("unit", UNITS)
def test_every_time_is_in_one_window_of_every_zone(unit: Unit) -> None:
    for zone in sorted(available_timezones()):
        window: Windowing = ZoneWindow(unit, zone)
        for change in changes(ZoneInfo(zone), [2011]):
            for shift in (-3601, -1, 0, 1, 1800, 3600, 86_400):
                time = change + timedelta(seconds=shift)
                start = window.start(time)
                end = window.end(start)
                assert start <= time < end, (zone, time)
                assert window.start(start) == start, (zone, time)
                assert window.start(end - timedelta(microseconds=1)) == start, (zone, time)
                assert window.start(end) == end, (zone, time)


def test_a_fixed_window_begins_at_a_multiple_of_its_length() -> None:
    window = FixedWindow(604_800)
    assert window.start(at("1969-12-31T00:00+00:00")) == at("1969-12-25T00:00+00:00")
    assert window.end(at("1970-01-01T00:00+00:00")) == at("1970-01-08T00:00+00:00")
