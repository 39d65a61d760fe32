"""Gold table declarations: `GoldTable` is one entry of `gold` in conf, checked as far as possible without Spark."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, model_validator

from oncelake.common.models import Strict, later
from oncelake.common.wording import did_you_mean, shown
from oncelake.gold.measure import Measure, parse_measure
from oncelake.gold.window import UNITS, FixedWindow, Unit, Windowing, ZoneWindow

LOG_TIME = "log_time"

_UNITS: Mapping[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_ZONE_UNITS: Mapping[str, Unit] = {f"1 {unit}": unit for unit in UNITS}
_MONTH = 30 * _UNITS["day"]
LONGEST = 36_500 * _UNITS["day"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_EVERY = re.compile(r"([0-9]+)\s+([a-z]+?)s?", re.IGNORECASE)


def check_table_name(name: str) -> str:
    """Return a gold table's name, or raise ValueError; it is also the name of a directory and of a MySQL table."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{shown(name)} is not a valid name: use a letter, then up to 62 letters, digits or _, all lower case"
        )
    return name


def _check_column_name(name: str) -> str:
    """Return the name of a key or a measure, or raise ValueError."""
    if name == LOG_TIME:
        raise ValueError(f"{LOG_TIME} is the column of the window's start; choose another name")
    return check_table_name(name)


def window_seconds(every: str) -> int:
    """Return the length in seconds of a window such as `5 minutes`.

    Raises:
        ValueError: it is not a number of seconds, minutes, hours, days or weeks, is out of range, or its unit has no
            fixed length, as a month has only with a zone.
    """
    accepted = f"a window is '<n> {'|'.join(_UNITS)}(s)', such as '1 minute'"
    match = _EVERY.fullmatch(every.strip())
    number, unit = match.groups() if match else ("0", "")
    if unit.lower() == "month":
        raise ValueError("a month has no fixed length; declare a zone for '1 month', such as zone: UTC")
    if unit.lower() in ("quarter", "year"):
        raise ValueError(f"a {unit.lower()} has no fixed length; declare months and add them up when reading")
    seconds = int(number[:20]) * _UNITS.get(unit.lower(), 0)
    if not 1 <= seconds <= LONGEST:
        raise ValueError(f"{accepted}, at least 1 second and at most 36500 days")
    return seconds


def _check_every(every: str) -> str:
    if every.strip() != "1 month":
        window_seconds(every)
    return every


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _check_zone(zone: str) -> str:
    if zone not in _zones():
        raise ValueError(f"there is no zone {shown(zone)}{did_you_mean(zone, _zones())}")
    return zone


def _check_expression(text: str) -> str:
    if not text.strip():
        raise ValueError("an expression over silver is needed, such as level or fields['thread']")
    return text


def _check_measure(text: str) -> str:
    parse_measure("", text)
    return text


Name = Annotated[str, AfterValidator(_check_column_name)]
Expression = Annotated[str, AfterValidator(_check_expression)]


class GoldTable(Strict):
    """A gold table: the lines of silver that meet `where`, grouped by windows of `every` and keys, with `measures`.

    Windows are aligned to 1970-01-01T00:00:00Z, so a week starts on a Thursday. With `zone`, they are hours, days,
    weeks from Monday or months of that zone's clocks.
    """

    where: Expression | None = None
    every: Annotated[str, AfterValidator(_check_every)]
    zone: Annotated[str, AfterValidator(_check_zone)] | None = later(None)
    by: dict[Name, Expression] = Field(default_factory=dict)
    measures: dict[Name, Annotated[str, AfterValidator(_check_measure)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> "GoldTable":
        twice = sorted(self.by.keys() & self.measures.keys())
        if twice:
            raise ValueError(f"{', '.join(twice)} is both a key and a measure; each column needs its own name")
        return self

    @model_validator(mode="after")
    def _window_has_a_form(self) -> "GoldTable":
        if self.zone is None:
            window_seconds(self.every)
        elif self.every.strip() not in _ZONE_UNITS:
            raise ValueError(
                f"every: in a zone, a window is one of {', '.join(_ZONE_UNITS)}, not {shown(self.every)}; "
                "other windows have no zone"
            )
        return self

    @property
    def seconds(self) -> int:
        """The window's length in seconds; in a zone, the usual one."""
        return _MONTH if self.every.strip() == "1 month" else window_seconds(self.every)

    @property
    def window(self) -> Windowing:
        """The rule by which times are put into windows."""
        if self.zone is None:
            return FixedWindow(self.seconds)
        return ZoneWindow(_ZONE_UNITS[self.every.strip()], self.zone)

    @property
    def parsed(self) -> tuple[Measure, ...]:
        """The measures in declared order; percentiles of the same values are shown from the parts of one of them.

        It is the one whose name comes first in the alphabet, so the columns do not depend on the order in the file.
        """
        first: dict[str, str] = {}
        for name, text in sorted(self.measures.items()):
            measure = parse_measure(name, text)
            if measure.function == "percentile":
                first.setdefault(measure.argument, name)
        measures = (parse_measure(name, text) for name, text in self.measures.items())
        return tuple(
            replace(measure, kept_as=first[measure.argument]) if measure.function == "percentile" else measure
            for measure in measures
        )


def quoted(name: str) -> str:
    """Quote a column's name for SQL; a declared name contains no backtick."""
    return f"`{name}`"
