"""Windows of time: of a fixed length, or an hour, day, week or month of a zone with its summer time.

Every time is in one window, and windows follow each other without a gap. Where the clocks change, a day of a zone has
23 or 25 hours. Spark computes the windows of rows by Java's data of the zones, and this module those of single times
by Python's: `zone_difference` finds where these differ.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Literal, Protocol
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.exactly_once.link import Range, joined

Unit = Literal["hour", "day", "week", "month"]
UNITS: Sequence[Unit] = ("hour", "day", "week", "month")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR, _DAY, _SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
_FEW_DAYS = 4 * _DAY
_MICROSECOND = timedelta(microseconds=1)
# At most this many ranges of times are in one condition; the nearest ones are joined.
MOST_RANGES = 64
# The zones' data are compared in these years. What was before is settled, and what is later repeats.
_YEARS = (1970, 2038)


class Windowing(Protocol):
    """A rule by which times are put into windows."""

    @property
    def sql(self) -> str:
        """The start of the window of `log_time` in Spark SQL, in a session whose zone is UTC."""

    def start(self, at: datetime) -> datetime:
        """Return the start of the window that a time is in, UTC."""

    def end(self, start: datetime) -> datetime:
        """Return the start of the window that follows a window, by its start."""


@dataclass(frozen=True)
class FixedWindow:
    """Windows of a fixed length, aligned to 1970-01-01T00:00:00Z."""

    seconds: int

    @property
    def sql(self) -> str:
        """The start of the window in Spark SQL: `pmod` rounds down before 1970 too, `div` would round up."""
        micros = "unix_micros(log_time)"
        return f"timestamp_micros({micros} - pmod({micros}, {self.seconds * 1_000_000}L))"

    def start(self, at: datetime) -> datetime:
        """Return the start of the window that a time is in."""
        length = timedelta(seconds=self.seconds)
        return EPOCH + (at - EPOCH) // length * length

    def end(self, start: datetime) -> datetime:
        """Return the start of the next window."""
        return start + timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class ZoneWindow:
    """Windows of a zone: they begin where its clocks show a full hour, or midnight of a day, a Monday or a month.

    A midnight that the clocks skip is the moment at which they do so; of a midnight that they show twice, the first.
    Where they change within an hour, a new hour begins.
    """

    unit: Unit
    zone: str

    @property
    def sql(self) -> str:
        """The start of the window in Spark SQL."""
        local = f"from_utc_timestamp(log_time, '{self.zone}')"
        if self.unit == "hour":
            micros = "unix_micros(log_time)"
            full = f"{micros} - pmod(unix_micros({local}), 3600000000L)"
            if changes := _changes_within_hours(self.zone):
                known = ", ".join(f"{(at - EPOCH) // _SECOND}000000L" for at in changes)
                full = f"greatest({full}, array_max(filter(array({known}), change -> change <= {micros})))"
            return f"timestamp_micros({full})"
        here = f"date_trunc('{self.unit}', {local})"
        this, following = (
            f"to_utc_timestamp({midnight}, '{self.zone}')" for midnight in (here, f"{here} + INTERVAL 1 {self.unit}")
        )
        return f"if({following} <= log_time, {following}, {this})"

    def start(self, at: datetime) -> datetime:
        """Return the start of the window that a time is in."""
        local = at.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        if self.unit == "hour":
            full = at - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
            changes = _changes_within_hours(self.zone)
            place = bisect_right(changes, at)
            return max(full, changes[place - 1]) if place else full
        midnight = self._midnight(local)
        following = self._instant(self._next(midnight))
        return following if following <= at else self._instant(midnight)

    def end(self, start: datetime) -> datetime:
        """Return the start of the next window."""
        local = start.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        if self.unit == "hour":
            full = start + _HOUR - timedelta(minutes=local.minute, seconds=local.second)
            changes = _changes_within_hours(self.zone)
            place = bisect_right(changes, start)
            return min(full, changes[place]) if place < len(changes) else full
        following = self._next(self._midnight(local))
        while self._instant(following) <= start:  # the clocks skip it, or show it twice
            following = self._next(following)
        return self._instant(following)

    def _midnight(self, local: datetime) -> datetime:
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.unit == "week":
            return midnight - timedelta(days=midnight.weekday())
        return midnight.replace(day=1) if self.unit == "month" else midnight

    def _next(self, midnight: datetime) -> datetime:
        if self.unit == "month":
            return (midnight + timedelta(days=32)).replace(day=1)
        return midnight + (7 * _DAY if self.unit == "week" else _DAY)

    def _instant(self, midnight: datetime) -> datetime:
        return midnight.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)


def span_of(first: int, last: int, window: Windowing) -> Range:
    """Return the first and the last microsecond since 1970 of the windows of two such times.

    Raises:
        OverflowError: one of the windows is outside the years 1 to 9999.
    """
    start, newest = (window.start(EPOCH + timedelta(microseconds=micros)) for micros in (first, last))
    return (start - EPOCH) // _MICROSECOND, (window.end(newest) - EPOCH) // _MICROSECOND - 1


def in_ranges(column: str, ranges: Iterable[Range], unit: int = 1) -> str:
    """Return in SQL whether a time is in one of the ranges, which count in units of `unit` microseconds since 1970.

    Of many ranges, the nearest ones are joined.
    """
    conditions = [
        f"({column} >= timestamp_micros({first * unit}) AND {column} < timestamp_micros({(last + 1) * unit}))"
        for first, last in joined(sorted(ranges), MOST_RANGES)
    ]
    return f"({' OR '.join(conditions)})" if conditions else "FALSE"


@dataclass(frozen=True)
class _Change:
    """A change of a zone's clocks: the moment, and the offsets before and after it."""

    at: datetime
    before: timedelta
    after: timedelta


@cache
def _changes(zone: str) -> Sequence[_Change]:
    return tuple(_found(ZoneInfo(zone)))


def _found(zone: ZoneInfo) -> Iterator[_Change]:
    """Yield the changes of a zone in the compared years; no zone has changed its clocks twice within few days."""
    begin, end = (datetime(year, 1, 1, tzinfo=UTC) for year in _YEARS)
    times = [begin + number * _FEW_DAYS for number in range((end - begin) // _FEW_DAYS + 1)]
    for (time, old), (_, new) in pairwise((time, _offset(zone, time)) for time in times):
        if old != new:
            yield _Change(time + _seconds_before(zone, time, old) * _SECOND, old, new)


def _seconds_before(zone: ZoneInfo, time: datetime, old: timedelta) -> int:
    """Return after how many seconds, from a time on, a zone no longer has an offset."""

    def is_over(second: int) -> bool:
        return _offset(zone, time + second * _SECOND) != old

    return bisect_left(range(_FEW_DAYS // _SECOND), x=True, key=is_over)


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


@cache
def _changes_within_hours(zone: str) -> Sequence[datetime]:
    """Return the moments at which a zone's clocks change within an hour, or by a part of one."""
    return tuple(
        change.at
        for change in _changes(zone)
        if (change.after - change.before) % _HOUR or (change.at - EPOCH + change.before) % _HOUR
    )


def zone_difference(spark: SparkSession, zone: str) -> str | None:
    """Return where Java's and Python's data of a zone differ, in words; None if they do not."""
    if not jvm(spark).java.time.ZoneId.getAvailableZoneIds().contains(zone):
        return f"Java's data have no {zone}"
    python = [(change.at, change.after) for change in _changes(zone)]
    java = list(_java_changes(spark, zone))
    if java == python:
        return None
    at = min(set(java) ^ set(python))[0]
    return f"Java's and Python's data of {zone} differ at {at:%Y-%m-%dT%H:%M:%SZ}"


def _java_changes(spark: SparkSession, zone: str) -> Iterator[tuple[datetime, timedelta]]:
    """Yield the changes of a zone in Java's data, with the offset after each."""
    time = jvm(spark).java.time
    rules, (begin, end) = time.ZoneId.of(zone).getRules(), (datetime(year, 1, 1, tzinfo=UTC) for year in _YEARS)
    change = rules.nextTransition(time.Instant.ofEpochSecond((begin - EPOCH) // _SECOND))
    while change is not None and (at := EPOCH + timedelta(seconds=change.toEpochSecond())) < end:
        if change.getOffsetAfter() != change.getOffsetBefore():
            yield at, timedelta(seconds=change.getOffsetAfter().getTotalSeconds())
        change = rules.nextTransition(change.getInstant())
