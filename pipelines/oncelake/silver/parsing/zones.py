"""What the abbreviation of a time zone means: the offsets of all zones that use it in a year.

The answer comes from the tz database in the package tzdata, so it is the same on every machine. Java's own answer
differs from version to version, and of several zones it takes one without a word.
Source of the files' form: RFC 8536.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

# The first and the last year whose meanings are kept. Times before 1970 are not in the tz database as a whole.
FIRST_YEAR, LAST_YEAR = 1970, 2199
# How a POSIX rule names abbreviations, and how far west of Greenwich they are
_NAME = r"([A-Za-z]{3,}|<[^>]+>)"
_RULE = re.compile(rf"{_NAME}([+-]?\d+(?::\d\d(?::\d\d)?)?)(?:{_NAME}([+-]?\d+(?::\d\d(?::\d\d)?)?)?(?:,.*)?)?")
_LETTERS = re.compile(r"[A-Za-z]{1,6}")
_WELL_KNOWN = ("America/Chicago", "Asia/Shanghai", "Europe/Moscow", "Europe/Paris")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Meaning:
    """What an abbreviation means in some years.

    Attributes:
        first: the first of the years.
        last: the last one.
        offsets: each offset, such as +05:30:00, and a zone that uses the abbreviation for it.
    """

    first: int
    last: int
    offsets: Mapping[str, str]


# The offsets of an abbreviation in each year, and a zone that uses each.
_Years = dict[int, dict[int, str]]


@cache
def clear(zone: str) -> Mapping[str, Sequence[Meaning]]:
    """Return the abbreviations that mean one offset, and the years in which they do.

    An abbreviation means one offset in a year if all zones that use it in this year agree. Otherwise the given zone
    decides, if it uses the abbreviation for one offset only.

    Args:
        zone: an IANA name, UTC, or an offset such as +02:00, which uses no abbreviation.
    """
    known = _known(zone).items()
    return {name: _joined({year: one for year, one in years.items() if len(one) == 1}) for name, years in known}


@cache
def unclear(zone: str) -> Mapping[str, Sequence[Meaning]]:
    """Return the abbreviations that mean several offsets, and the years in which they do."""
    known = _known(zone).items()
    several = ((name, {year: offsets for year, offsets in years.items() if len(offsets) > 1}) for name, years in known)
    return {name: _joined(years) for name, years in several if years}


@cache
def _known(zone: str) -> Mapping[str, _Years]:
    """Return the offsets of each abbreviation in each year, where the given zone has decided what it can."""
    own = _used((zone,)) if zone != "UTC" and (_database() / zone).is_file() else {}
    result: dict[str, _Years] = {}
    for name, years in _used(_zones()).items():
        decided = own.get(name, {})
        result[name] = {
            year: offsets if len(offsets) == 1 else decided.get(year, offsets) for year, offsets in years.items()
        }
    always = {year: {0: "UTC"} for year in range(FIRST_YEAR, LAST_YEAR + 1)}
    return {**result, "UTC": always, "Z": always}


@cache
def _used(zones: tuple[str, ...]) -> Mapping[str, _Years]:
    used: dict[str, _Years] = defaultdict(lambda: defaultdict(dict))
    for zone in zones:
        for name, offset, first, last in _uses(zone):
            for year in range(max(first, FIRST_YEAR), min(last, LAST_YEAR) + 1):
                used[name][year].setdefault(offset, zone)
    return used


def _database() -> Traversable:
    return resources.files("tzdata.zoneinfo")


def _text(seconds: int) -> str:
    hours, remainder = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{remainder // 60:02}:{remainder % 60:02}"


@cache
def _zones() -> tuple[str, ...]:
    """Return the names of the zones that differ from each other; first those that most people know."""
    table = (_database() / "zone1970.tab").read_text("utf-8")
    names = sorted(line.split("\t")[2] for line in table.splitlines() if not line.startswith("#"))
    return (*_WELL_KNOWN, *(name for name in names if name not in _WELL_KNOWN))


def _joined(years: _Years) -> Sequence[Meaning]:
    """Return the meanings of years, where following years with the same offsets are one."""
    meanings: list[Meaning] = []
    for year, zones_by_offset in sorted(years.items()):
        offsets = {_text(seconds): zone for seconds, zone in sorted(zones_by_offset.items())}
        follows = bool(meanings) and meanings[-1].last == year - 1 and meanings[-1].offsets.keys() == offsets.keys()
        first = meanings.pop().first if follows else year
        meanings.append(Meaning(first, year, offsets))
    return meanings


def _uses(zone: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield the abbreviations of a zone: name, offset in seconds, and the first and last local year of its use."""
    content = (_database() / zone).read_bytes()
    # the second part of a file has times of 64 bits; its header has the same six counts as that of the first
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", content[20:44])
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", content[at + 20 : at + 44])
    at += 44
    moments = struct.unpack(f">{times}q", content[at : at + 8 * times])
    kinds = content[at + 8 * times : at + 9 * times]
    at += 9 * times
    of_type = [struct.unpack(">lbB", content[at + 6 * number : at + 6 * number + 6]) for number in range(types)]
    names = content[at + 6 * types : at + 6 * types + chars]
    rule = content[at + 6 * types + chars + leap * 12 + isstd + isut :].decode().strip()
    for number, begins in enumerate(moments):
        offset, _, place = of_type[kinds[number]]
        name = names[place : names.index(0, place)].decode()
        ends = moments[number + 1] - 1 if number + 1 < times else begins
        if _LETTERS.fullmatch(name) and name != "LMT":
            yield name, offset, _year(begins + offset), _year(ends + offset)
    since = _year(moments[-1]) if moments else FIRST_YEAR
    for name, offset in _of_rule(rule):
        yield name, offset, since, LAST_YEAR


def _of_rule(rule: str) -> Iterator[tuple[str, int]]:
    """Yield the abbreviations and offsets of the rule that holds after a zone's last change."""
    match = _RULE.fullmatch(rule)
    if match is None:
        return
    standard, west, summer, summer_west = match.groups()
    offset = -_seconds(west)
    summer_offset = -_seconds(summer_west) if summer_west else offset + 3600
    for name, seconds in ((standard, offset), (summer, summer_offset)):
        if name is not None and _LETTERS.fullmatch(name):
            yield name, seconds


def _seconds(text: str) -> int:
    hours, *smaller_units = text.lstrip("+-").split(":")
    parts = [int(hours), *map(int, smaller_units), 0, 0][:3]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return -seconds if text.startswith("-") else seconds


def _year(moment: int) -> int:
    return (_EPOCH + timedelta(seconds=min(max(moment, -(10**10)), 7 * 10**9))).year
