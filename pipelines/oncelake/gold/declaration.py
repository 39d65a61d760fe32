"""Gold table declarations: `GoldTable` is one entry of `gold` in conf, checked as far as possible without Spark."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from oncelake.common.models import Strict
from oncelake.common.wording import shown
from oncelake.gold.measure import Measure, parse_measure

LOG_TIME = "log_time"
# A declared name starts with a letter, so it cannot clash with a hidden column.
SKETCH_PREFIX = "_sketch_"

_UNITS: Mapping[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
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
            fixed length.
    """
    accepted = f"a window is '<n> {'|'.join(_UNITS)}(s)', such as '1 minute'"
    match = _EVERY.fullmatch(every.strip())
    number, unit = match.groups() if match else ("0", "")
    if unit.lower() in ("month", "quarter", "year"):
        raise ValueError(f"a {unit.lower()} has no fixed length; declare days and add them up when reading: {accepted}")
    seconds = int(number[:20]) * _UNITS.get(unit.lower(), 0)
    if not 1 <= seconds <= LONGEST:
        raise ValueError(f"{accepted}, at least 1 second and at most 36500 days")
    return seconds


def _check_every(every: str) -> str:
    window_seconds(every)
    return every


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

    Windows are aligned to 1970-01-01T00:00:00Z, so a week starts on a Thursday.
    """

    where: Expression | None = None
    every: Annotated[str, AfterValidator(_check_every)]
    by: dict[Name, Expression] = Field(default_factory=dict)
    measures: dict[Name, Annotated[str, AfterValidator(_check_measure)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> "GoldTable":
        twice = sorted(self.by.keys() & self.measures.keys())
        if twice:
            raise ValueError(f"{', '.join(twice)} is both a key and a measure; each column needs its own name")
        return self

    @property
    def seconds(self) -> int:
        """The window's length in seconds."""
        return window_seconds(self.every)

    @property
    def parsed(self) -> tuple[Measure, ...]:
        """The measures in declared order."""
        return tuple(parse_measure(name, text) for name, text in self.measures.items())


def sketch_column(measure: Measure) -> str:
    """Return the name of the hidden column with the mergeable sketch of an approx_distinct."""
    return f"{SKETCH_PREFIX}{measure.name}"


def quoted(name: str) -> str:
    """Quote a column's name for SQL; a declared name contains no backtick."""
    return f"`{name}`"
