"""Read the text of a time without Spark, as `parsing.times` reads it with Spark.

It serves what is shown before a lake exists, the evidence for a draft and the choice of a format, and the raw lines of
the report and of a trace. Silver decides.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from oncelake.silver.parsing.times import FIRST_EPOCH, ISO8601, names_year, tokens
from oncelake.silver.parsing.zones import Meaning, clear

_NO_NAMES: Mapping[str, Sequence[Meaning]] = {}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Names of zones that mean one offset everywhere.
UTC_NAMES = frozenset({"Z", "UTC", "GMT", "UT", "UCT"})
_LONG_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?", re.ASCII)
# The digits before and after the point of the decimal that Spark reads a number as, and its unit in microseconds.
_EPOCHS: Mapping[str, tuple[int, int, Decimal]] = {
    "epoch_seconds": (12, 6, Decimal(1_000_000)),
    "epoch_millis": (15, 3, Decimal(1_000)),
    "epoch_micros": (18, 0, Decimal(1)),
    "epoch_nanos": (21, 0, Decimal("0.001")),
}
# The offsets that Java reads for each run of letters; `x` takes +00 for the whole offset.
_OFFSETS: Mapping[str, str] = {
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), r"[+-]\d{4}"),
    "X": r"Z|[+-]\d\d(?:\d\d)?",
    "XX": r"Z|[+-]\d{4}",
    "XXX": r"Z|[+-]\d\d:\d\d",
    "x": r"(?>\+00|[+-]\d\d(?:\d\d)?)",
    "xx": r"[+-]\d{4}",
    "xxx": r"[+-]\d\d:\d\d",
}
_ZONE_NAME = r"[A-Za-z][\w/+:-]*|[+-][\d:]+"
# Of the names that Java reads for the letters VV, those that this module reads as Java does.
_PLAIN_ZONE = re.compile(r"UTC|GMT|Z|[+-]\d\d:\d\d|[A-Z][A-Za-z]+/[A-Z][\w/+-]*", re.ASCII)
# What stands for the letter z: a name, or an offset in any form that silver reads.
_ZONE_TEXT = r"[A-Za-z]\S*|[+-]\d[\d:]*"
_SHORT_OFFSET = re.compile(r"[+-](?:\d\d?|\d{4}|\d{6}|\d\d?:\d\d(?::\d\d)?)", re.ASCII)


class NeedsSparkError(Exception):
    """Raised when only Spark can read a format's lines; the message says which part of it."""


class TimeReader:
    """Reads times by the patterns of a log format, the first that fits."""

    def __init__(self, patterns: tuple[str, ...], zone: str) -> None:
        """Translate the patterns.

        Raises:
            NeedsSparkError: a pattern has a letter that is not read here.
        """
        self._zone = _zone_of(zone)
        self._written: list[WrittenPattern] = []
        self._readers = [self._reader(pattern) for pattern in patterns]
        names_zones = any("z" in written.letters for written in self._written)
        self._known = clear(zone) if names_zones else _NO_NAMES

    def read(self, text: str, latest: datetime) -> datetime | None:
        """Return the instant of a time; None if no pattern reads it.

        Args:
            text: the time as the line has it.
            latest: the latest instant that a time without a year may mean.
        """
        return next((at for reader in self._readers if (at := reader(text, latest)) is not None), None)

    def _reader(self, pattern: str) -> Callable[[str, datetime], datetime | None]:
        if pattern == ISO8601:
            return lambda text, _: _iso8601(text, self._zone)
        if pattern in _EPOCHS:
            return lambda text, _: _epoch(text, *_EPOCHS[pattern])
        written = WrittenPattern.of(pattern)
        self._written.append(written)
        if names_year(pattern):
            return lambda text, _: written.read(text, self._zone, None, self._known)
        return lambda text, latest: self._nearest(written, text, latest)

    def is_zone_unclear(self, text: str) -> bool:
        """Return True if a time has the name of a zone that means several offsets, or none."""
        return any(written.is_zone_unclear(text, self._known) for written in self._written)

    def _nearest(self, written: "WrittenPattern", text: str, latest: datetime) -> datetime | None:
        if written.expression.fullmatch(text) is None:
            return None
        times = (written.read(text, self._zone, latest.year + ahead, self._known) for ahead in (1, 0, -1))
        earliest = latest - timedelta(days=366)
        return next((at for at in times if at is not None and earliest <= at <= latest), None)


@dataclass(frozen=True)
class WrittenPattern:
    """A datetime pattern as a regular expression, and the letter of each of its groups."""

    expression: re.Pattern[str]
    letters: tuple[str, ...]

    @staticmethod
    @cache
    def of(pattern: str) -> "WrittenPattern":
        """Translate a datetime pattern of Spark.

        Raises:
            NeedsSparkError: it has a letter that is not read here.
        """
        out, letters, depth = "", list[str](), 0
        for token in tokens(pattern):
            if len(token) > 1 and token[0] == "'":
                out += re.escape(token[1:-1].replace("''", "'") or "'")
            elif token[0].isascii() and token[0].isalpha():
                out += f"({_expression(token)})"
                letters.append(token[0])
            elif token == "[":
                out, depth = f"{out}(?:", depth + 1
            elif token == "]":
                out, depth = f"{out})?", depth - 1
            else:
                out += re.escape(token)
        if depth:
            raise NeedsSparkError(f"the time pattern {pattern}")
        return WrittenPattern(re.compile(out, re.ASCII | re.IGNORECASE), tuple(letters))

    def read(
        self, text: str, zone: tzinfo, year: int | None = None, known: Mapping[str, Sequence[Meaning]] = _NO_NAMES
    ) -> datetime | None:
        """Return the instant of a text; None if it does not fit, or does not exist.

        Args:
            text: the time.
            zone: the zone of a time without one.
            year: the year of a time without one.
            known: what the names of zones mean.
        """
        values = self._values(text)
        if values is None:
            return None
        try:
            at = _built(values, year)
            own = _zone_in(values, zone, known, at.year) if at is not None else None
            return None if at is None or own is None else at.replace(tzinfo=own).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def is_zone_unclear(self, text: str, known: Mapping[str, Sequence[Meaning]]) -> bool:
        """Return True if a text has the name of a zone that is not known to mean one offset in its year."""
        values = self._values(text)
        name = values.get("z", "") if values is not None else ""
        if values is None or not name[:1].isalpha() or "/" in name:
            return False
        try:
            at = _built(values, 2000)
        except (ValueError, OverflowError):
            return False
        return at is not None and _named(name, known, at.year) is None

    def _values(self, text: str) -> Mapping[str, str] | None:
        """Return the text of each letter; None if the text does not fit."""
        match = self.expression.fullmatch(text)
        if match is None:
            return None
        return {letter: part for letter, part in zip(self.letters, match.groups(), strict=True) if part is not None}


def _expression(token: str) -> str:
    letter, width = token[0], len(token)
    for letters, widths, expression in (
        ("yu", (2, 4), rf"\d{{{width}}}"),
        ("ML", (3,), "|".join(MONTHS)),
        ("ML", (4,), "|".join(_LONG_MONTHS)),
        ("MLdHhms", (2,), r"\d\d"),
        ("MLdHhms", (1,), r"\d{1,19}"),
        ("S", range(1, 10), rf"\d{{1,{width}}}"),
        ("a", (1,), "AM|PM"),
        ("XxZ", (1, 2, 3), _OFFSETS.get(token, "")),
        ("z", (1, 2, 3), _ZONE_TEXT),
        ("V", (2,), _ZONE_NAME),
    ):
        if letter in letters and width in widths:
            return expression
    raise NeedsSparkError(f"the letters {token} of a time pattern")


def _built(values: Mapping[str, str], year: int | None) -> datetime | None:
    """Return a local time; None if a part of it is missing."""
    written = values.get("y") or values.get("u")
    if written is not None:
        year = int(written) + (2000 if len(written) == 2 else 0)
    month, day = values.get("M") or values.get("L"), values.get("d")
    if year is None or month is None or day is None:
        return None
    number = int(month) if month.isdigit() else MONTHS.index(month[:3].title()) + 1
    hour = int(values.get("H", 0))
    if "h" in values:
        if not 1 <= int(values["h"]) <= 12 or "a" not in values:
            return None
        hour = int(values["h"]) % 12 + 12 * (values["a"].upper() == "PM")
    micros = int(values.get("S", "0").ljust(6, "0")[:6])
    return datetime(year, number, int(day), hour, int(values.get("m", 0)), int(values.get("s", 0)), micros)


def _zone_in(
    values: Mapping[str, str], zone: tzinfo, known: Mapping[str, Sequence[Meaning]], year: int
) -> tzinfo | None:
    written = next((values[letter] for letter in "XxZzV" if letter in values), None)
    if written is None:
        return zone
    if "z" in values:
        if _SHORT_OFFSET.fullmatch(written):
            return _short_offset(written)
        if "/" not in written:
            return _named(written, known, year)
    if "V" in values and not _PLAIN_ZONE.fullmatch(written):
        raise NeedsSparkError(f"the zone {written}")
    if _OFFSET.fullmatch(written):
        return offset_of(written)
    if written.upper() in UTC_NAMES:
        return UTC
    return _zone_of(written)


def _short_offset(text: str) -> timezone | None:
    digits = text[1:].replace(":", "")
    digits = (digits if len(digits) % 2 == 0 else f"0{digits}").ljust(6, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:]))
    if ahead > timedelta(hours=18) or int(digits[2:4]) > 59 or int(digits[4:]) > 59:
        return None
    return timezone(-ahead if text[0] == "-" else ahead)


def _named(name: str, known: Mapping[str, Sequence[Meaning]], year: int) -> timezone | None:
    """Return the offset that the name of a zone means in a year; None if it means several, or none."""
    offsets = (offset for era in known.get(name, ()) if era.first <= year <= era.last for offset in era.offsets)
    return next(map(_short_offset, offsets), None)


def offset_of(text: str) -> timezone | None:
    """Return the zone of an offset such as `Z`, `+02`, `+0200` or `+02:00`; None if it is none."""
    if text == "Z":
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    if ahead > timedelta(hours=18) or int(match[3] or 0) > 59:
        return None
    return timezone(-ahead if match[1] == "-" else ahead)


@cache
def _zone_of(zone: str) -> tzinfo:
    """Return a zone by its IANA name or its offset.

    Raises:
        NeedsSparkError: this machine's Python does not know it.
    """
    if (fixed := offset_of(zone)) is not None:
        return fixed
    try:
        return UTC if zone == "UTC" else ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise NeedsSparkError(f"the zone {zone}") from None


def _iso8601(text: str, zone: tzinfo) -> datetime | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    own = offset_of(match[8]) if match[8] else zone
    try:
        year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
        micros = int((match[7] or "0").ljust(6, "0")[:6])
        at = datetime(year, month, day, hour, minute, second, micros)
        return None if own is None else at.replace(tzinfo=own).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _epoch(text: str, before: int, after: int, unit: Decimal) -> datetime | None:
    try:
        number = Decimal(text.strip()).quantize(Decimal(1).scaleb(-after), ROUND_HALF_UP)
        if not number.is_finite() or abs(number) >= Decimal(10) ** before:
            return None
        at = EPOCH + timedelta(microseconds=int((number * unit).__floor__()))
        return at if at >= FIRST_EPOCH else None
    except (InvalidOperation, OverflowError, ValueError):
        return None
