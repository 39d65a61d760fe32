"""Compare the times of a batch's lines with their arrival: a wrong zone shows as times that cannot be right.

A line arrives at the timestamp of its Kafka record, or when its file was last written. No line is later than that. Of a
log that grows and of a topic, the newest lines arrive at once: times that are whole or half hours behind are those of
another zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.common.spark.rows import Collected
from oncelake.common.wording import count_of, duration
from oncelake.silver.parsing.events import EVENTS

if TYPE_CHECKING:
    import pyarrow

_MINUTE = 60 * 1_000_000
_HALF_HOUR = 30 * _MINUTE
# The clocks of two machines may differ by this much.
_TOLERANCE = 5 * _MINUTE
# A line that arrives at once is this far from whole half hours, at most.
_AT_ONCE = _MINUTE
# Zones are at most this many half hours apart, from -12:00 to +14:00.
_MOST_APART = 52
# This share of a batch's lines is behind by the same time, and at least this many are.
_MOST, _FEW = 0.9, 10
_NAME = "arrival "


@dataclass(frozen=True)
class Arrivals:
    """The lines of a batch whose times do not fit their arrival, in half hours of difference.

    Attributes:
        ahead: how many are later than their arrival.
        furthest: by how much at most, rounded up.
        behind: how many of those that arrive at once are whole half hours before it.
        least: the least of these differences, below zero.
        most: the largest of them.
    """

    ahead: int = 0
    furthest: int = 0
    behind: int = 0
    least: int = 0
    most: int = 0

    @staticmethod
    def has(name: str) -> bool:
        """Return True if a counted name is one of `name`."""
        return name.startswith(_NAME)

    @classmethod
    def of_names(cls, names: Mapping[str, int]) -> "Arrivals":
        """Return the lines from how many rows had each of `name`."""
        counts = {int(name.removeprefix(_NAME)): n for name, n in names.items() if cls.has(name)}
        ahead, behind = ({at: n for at, n in counts.items() if (at > 0) == is_ahead} for is_ahead in (True, False))
        return cls(
            sum(ahead.values()),
            max(ahead, default=0),
            sum(behind.values()),
            min(behind, default=0),
            max(behind, default=0),
        )

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "Arrivals":
        """Return the lines from the values of `aggregates`."""
        return cls(**{name: values.get(f"{_NAME}{name}") or 0 for name in cls.__dataclass_fields__})

    @classmethod
    def of_collected(cls, accepted: Collected) -> "Arrivals":
        """Return the lines among collected rows."""
        import pyarrow.compute as pc  # noqa: PLC0415 - a run that collects nothing need not have it

        rows = accepted.rows
        arrived = pc.coalesce(_micros(rows["timestamp"]), _micros(rows["file_modified"]))
        later = pc.subtract(_micros(_newest(rows)), arrived)
        ahead = pc.drop_null(later.filter(pc.greater(later, _TOLERANCE)))
        is_live = pc.or_(pc.is_valid(rows["timestamp"]), pc.is_valid(rows["file_id"]))
        live = pc.drop_null(later.filter(is_live)).to_pylist()
        behind = [at for at in map(_halves_behind, live) if at is not None]
        furthest = -(-(pc.max(ahead).as_py() or 0) // _HALF_HOUR)
        return cls(len(ahead), furthest, len(behind), min(behind, default=0), max(behind, default=0))

    def warning(self, accepted: int) -> str | None:
        """Return what is probably wrong; None if nothing is.

        Args:
            accepted: how many lines of the batch were accepted.
        """
        ask = "is source.zone the zone of the machine that wrote them?"
        if self.ahead:
            return (
                f"{count_of(self.ahead, 'line is', 'lines are')} later than the file or record that brought "
                f"{'it' if self.ahead == 1 else 'them'}, by up to {duration(self.furthest * 1800)}; {ask}"
            )
        if self.least == self.most and self.behind >= max(_FEW, _MOST * accepted):
            return (
                f"{count_of(self.behind, 'line is', 'lines are')} {duration(-self.least * 1800)} before the file or "
                f"record that brought them, and all by the same time; {ask}"
            )
        return None


def with_name(names: Column, accepted: Column, *, of_events: bool) -> Column:
    """Return the names to count for a parsed row, with another one if its time does not fit its arrival.

    Args:
        names: the other names; may be null.
        accepted: whether the row is accepted; others have no time.
        of_events: True if the rows are lines with events, of which the newest counts.
    """
    halves = _halves(accepted, of_events=of_events)
    name = F.array(F.concat(F.lit(_NAME), halves.cast("string")))
    none = F.array().cast("array<string>")
    return F.when(halves.isNull(), names).otherwise(F.concat(F.coalesce(names, none), name))


def aggregates(accepted: Column, *, of_events: bool) -> list[Column]:
    """Return the counters of `Arrivals`, for parsed rows of which a condition says whether they are accepted."""
    halves = _halves(accepted, of_events=of_events)
    behind = F.when(halves < 0, halves)
    counters = {
        "ahead": F.count_if(halves > 0),
        "furthest": F.max(F.when(halves > 0, halves)),
        "behind": F.count_if(halves < 0),
        "least": F.min(behind),
        "most": F.max(behind),
    }
    return [counter.alias(f"{_NAME}{name}") for name, counter in counters.items()]


def _halves(accepted: Column, *, of_events: bool) -> Column:
    """Return by how many half hours an accepted row is ahead, rounded up, or exactly behind; null if its time fits."""
    newest = F.array_max(F.col(EVENTS)["log_time"]) if of_events else F.col("log_time")
    later = F.unix_micros(newest) - F.unix_micros(F.coalesce("timestamp", "file_modified"))
    is_live = F.col("timestamp").isNotNull() | F.col("file_id").isNotNull()
    # each row computes this: most rows end at the first comparison, and no number becomes a decimal
    is_near = (later < -_AT_ONCE) & (later >= -_MOST_APART * _HALF_HOUR - _AT_ONCE)
    is_whole = F.pmod(later + _AT_ONCE, F.lit(_HALF_HOUR)) <= 2 * _AT_ONCE
    is_behind = is_near & is_live & is_whole
    halves = F.when(later > _TOLERANCE, _whole(later - 1) + 1).when(is_behind, _whole(later - _AT_ONCE))
    return F.when(accepted, halves)


def _whole(micros: Column) -> Column:
    """Return how many half hours a time has, without the part of one."""
    return F.call_function("div", micros, F.lit(_HALF_HOUR))


def _halves_behind(later: int) -> int | None:
    whole = round(later / _HALF_HOUR)
    return whole if -_MOST_APART <= whole < 0 and abs(later - whole * _HALF_HOUR) <= _AT_ONCE else None


def _newest(rows: "pyarrow.Table") -> "pyarrow.ChunkedArray":
    """Return the time of each row, or of its newest event."""
    import pyarrow  # noqa: PLC0415

    if EVENTS not in rows.column_names:
        return rows["log_time"]
    newest = [max((event["log_time"] for event in events), default=None) for events in rows[EVENTS].to_pylist()]
    return pyarrow.chunked_array([newest], pyarrow.timestamp("us", tz="UTC"))


def _micros(times: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    import pyarrow  # noqa: PLC0415

    return times.cast(pyarrow.timestamp("us", tz="UTC")).cast(pyarrow.int64())
