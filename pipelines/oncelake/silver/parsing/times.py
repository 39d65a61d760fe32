"""Parse the text of a time into an instant that does not depend on the session's zone, and check time patterns.

Only try_ functions are used: with ANSI on, which is Spark's default, the others would stop the stream at one bad line.
Source of the pattern letters: https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.silver.parsing.zones import Meaning, clear, unclear

ISO8601 = "iso8601"
# The power of ten that makes microseconds of a number in this unit
_EPOCHS = {"epoch_seconds": 6, "epoch_millis": 3, "epoch_micros": 0, "epoch_nanos": -3}
SPECIAL = frozenset({ISO8601, *_EPOCHS})
# 10^8 seconds. A smaller number in a line is how long something took, an uptime or a counter.
FIRST_EPOCH = datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC)

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_KNOWN = frozenset("GyuDMLdahHkKmsSVzOXxZ")
# What other languages of time patterns have, and what to write.
_OTHER_LANGUAGE = {
    "%": "a pattern has letters",
    "Y": "write the year as yyyy and the day as dd",
    "I": "write iso8601 in small letters, or a pattern",
}
_FORMAT_ONLY = frozenset("EFqQ")
_YEAR = frozenset("yu")
_ZONE = frozenset("VzOXxZ")
_NEVER_OPTIONAL = {
    letter: part
    for part, letters in {"year": _YEAR, "month": "ML", "day": "dD", "zone": _ZONE}.items()
    for letter in letters
}
_NUMBER = frozenset("DdhHkKmsS")
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO_OFFSET = r"(?:Z|[+-]\d\d(?::?\d\d)?)$"
# Kafka is younger. An earlier timestamp is a clock that was not set, or a number in another unit.
_FIRST_TIMESTAMP = datetime(2000, 1, 1, tzinfo=UTC)
# An offset as programs write it: hours, perhaps minutes, perhaps seconds. +123 can be read in two ways, so it is none.
_WRITTEN_OFFSET = r"\A[+-](?:\d\d?|\d{4}|\d{6}|\d\d?:\d\d(?::\d\d)?)\z"
_MARK = "\x1e"
# Java takes minutes to read millions of digits as a number, and to round 1e-99999999.
_DIGITS = 1000
_FAR_EXPONENT = r"[eE][+-]?\d{4}"


def log_time(text: Column, patterns: tuple[str, ...], zone: str) -> Column:
    """Parse the time of a line as `time_of` does, but no number as a time before `FIRST_EPOCH`.

    Args:
        text: the time as the line has it, string.
        patterns: as for `time_of`.
        zone: the zone of times without one.
    """
    return F.coalesce(*(_of_line(_by(pattern, text, zone), pattern) for pattern in patterns))


def _of_line(at: Column, pattern: str) -> Column:
    return F.when(at >= F.lit(FIRST_EPOCH), at) if pattern in _EPOCHS else at  # guard: uptime-is-no-time


def time_of(text: Column, patterns: tuple[str, ...], zone: str) -> Column:
    """Parse a time with the first pattern that fits; null if none fits.

    Needs the columns of `with_latest` if a pattern has no year. A time that the zone skips (a DST gap) is shifted
    forward by the gap. A time that occurs twice is read as the first of the two. An abbreviation of a zone that has
    several meanings is not a time, see `unclear_zone`.

    Args:
        text: the time as the line has it, string.
        patterns: Spark datetime patterns, iso8601, epoch_seconds, epoch_millis, epoch_micros or epoch_nanos.
        zone: the zone of times without one.
    """
    return F.coalesce(*(_by(pattern, text, zone) for pattern in patterns))


def with_latest(frame: DataFrame, patterns: tuple[str, ...], ahead: timedelta) -> DataFrame:
    """Add `latest` and `latest_year`, the latest instant that a line may mean and its year, if a pattern has no year.

    The latest instant is one day after the line's origin: the time of the line around it, `outer_time`, its Kafka
    timestamp, its file's time or its ingestion. A timestamp before 2000, or too far ahead, counts as none.

    Args:
        frame: bronze's rows.
        patterns: the patterns of the times.
        ahead: how much later than a line's ingestion its Kafka timestamp may be.
    """
    if all(pattern in SPECIAL or names_year(pattern) for pattern in patterns):
        return frame
    last = F.try_add(F.unix_micros("ingested_at"), F.lit(ahead // timedelta(microseconds=1)))
    is_possible = F.unix_micros("timestamp").between(F.lit(int(_FIRST_TIMESTAMP.timestamp()) * 10**6), last)
    outer = ["outer_time"] if "outer_time" in frame.columns else []
    # guard: possible-timestamp-for-year
    origin = F.coalesce(*outer, F.when(is_possible, F.col("timestamp")), "file_modified", "ingested_at")
    frame = frame.withColumns({"latest": F.try_add(origin, F.lit(timedelta(days=1)))})
    # year() alone would use the session's zone
    day = F.date_from_unix_date(F.floor(F.unix_seconds("latest") / 86400).cast("int"))
    return frame.withColumns({"latest_year": F.year(day)})


def at_fixed_width(text: Column, zone: str, session: SparkSession | None = None) -> Column:
    """Parse a text of the form 2017-07-30 14:09:08; this is faster than a datetime pattern.

    Args:
        text: the time.
        zone: its zone.
        session: the session; if both its own zone and `zone` are UTC, no zone is added to the text, which is faster.
    """
    if session is not None and zone == "UTC" == session.conf.get("spark.sql.session.timeZone"):
        return text.try_cast("timestamp")
    return F.concat(text, F.lit(_suffix(zone)[0])).try_cast("timestamp")


def checked(pattern: str) -> str:
    """Return the pattern if times can be parsed with it.

    Raises:
        ValueError: it has a letter that cannot be parsed, has no date, or makes a required part optional.
    """
    if pattern in SPECIAL:
        return pattern
    depth = 0
    for token in tokens(pattern):
        depth += (token == "[") - (token == "]")
        _check(token, optional=depth > 0)
    if depth:
        raise ValueError("has a [ that is never closed, or a ] too many")
    letters = _letters(pattern)
    if not ((letters & set("ML") and "d" in letters) or "D" in letters):
        raise ValueError(f"has no month and day; use letters such as MM and dd, or one of {sorted(SPECIAL)}")
    return pattern


def names_year(pattern: str) -> bool:
    """Return True if the pattern has a year."""
    return bool(_letters(pattern) & _YEAR)


def names_zone(pattern: str) -> bool:
    """Return True if the pattern has a zone or an offset."""
    return bool(_letters(pattern) & _ZONE)


def signed_year(pattern: str) -> str:
    """Return a Java regular expression that matches a time whose year has a sign.

    Java accepts +999999999 for the four letters yyyy, and Spark throws on it, even in try_to_timestamp.
    """
    before = ""
    for token in tokens(pattern):
        if token[0] in _YEAR:
            break
        before += _shape(token)
    return f"^{before}[+-]"


def tokens(pattern: str) -> list[str]:
    """Return the parts of a time pattern: runs of one letter, quoted texts, and single other characters."""
    return [match[0] for match in _TOKEN.finditer(pattern)]


def _letters(pattern: str) -> set[str]:
    return {token[0] for token in tokens(pattern) if token[0].isalpha() and token[0].isascii()}


def _check(token: str, *, optional: bool) -> None:
    letter = token[0]
    if letter in _OTHER_LANGUAGE:
        raise ValueError(f"has {token}; {_OTHER_LANGUAGE[letter]}, such as yyyy-MM-dd HH:mm:ss")
    if token == "'":
        raise ValueError("has a quote ' that is never closed")
    if not (letter.isalpha() and letter.isascii()):
        return
    if letter in _FORMAT_ONLY:
        raise ValueError(f"has {token}, which Spark cannot parse; keep that part of the line outside the time group")
    if letter not in _KNOWN:
        raise ValueError(f"has {token}, which is not a datetime pattern letter; quote text like 'T'")
    if letter in _YEAR and len(token) not in {2, 4}:
        raise ValueError(f"has {token}; write the year as yyyy or yy")
    if letter == "z" and len(token) > 3:
        raise ValueError(f"has {token}, the full name of a zone, which Java reads differently in each version; write z")
    if optional and letter in _NEVER_OPTIONAL:
        raise ValueError(f"has an optional {_NEVER_OPTIONAL[letter]} ({token} inside []); list two patterns instead")


def _shape(token: str) -> str:
    letter = token[0]
    if token in "[]":
        return ""
    if letter in _ZONE:
        return r"\S+"
    if letter in _NUMBER or (letter in "ML" and len(token) < 3):
        return r"\d+"
    if letter.isalpha() and letter.isascii():
        return r"\D+"
    return re.escape(token.strip("'") or "'")


def _by(pattern: str, text: Column, zone: str) -> Column:
    if pattern == ISO8601:
        return _iso8601(text, zone)
    if pattern in _EPOCHS:
        return _epoch(text, _EPOCHS[pattern])
    if names_year(pattern):
        return F.when(~text.rlike(signed_year(pattern)), _parsed(text, pattern, zone))
    return _nearest_year(text, pattern, zone)


def _parsed(text: Column, pattern: str, zone: str) -> Column:
    if _abbreviates(pattern):
        return _with_abbreviation(text, pattern, zone)
    if names_zone(pattern):
        return F.try_to_timestamp(text, F.lit(pattern))
    value, letters = _suffix(zone)
    return F.try_to_timestamp(F.concat(text, F.lit(value)), F.lit(pattern + letters))


def unclear_zone(text: Column, patterns: tuple[str, ...], zone: str) -> Column:
    """Return the abbreviation in a time that is no time for it, with what it may mean; null if there is none.

    Args:
        text: the time as the line has it.
        patterns: as for `log_time`.
        zone: the zone of times without one; it decides what an abbreviation means that it uses itself.
    """
    abbreviating = (pattern for pattern in patterns if pattern not in SPECIAL and _abbreviates(pattern))
    return F.coalesce(*(_unclear(text, pattern, zone) for pattern in abbreviating), F.lit(None).cast("string"))


def _unclear(text: Column, pattern: str, zone: str) -> Column:
    if not names_year(pattern):
        pattern, text = f"yyyy {pattern}", F.concat_ws(" ", "latest_year", text)
    several = {
        name: [(meaning, f"{name}: {', '.join(map(_meant, meaning.offsets.items()))}") for meaning in meanings]
        for name, meanings in unclear(zone).items()
    }

    def description(parts: _AroundZone) -> Column:
        unknown = F.concat(parts.zone, F.lit(": no zone uses it in "), parts.year)
        is_name = parts.zone.rlike("[A-Za-z]") & ~parts.zone.contains("/") & _offset(parts, zone).isNull()
        return F.when(is_name, F.coalesce(_of_year(several, parts), unknown))

    return _around_zone(text, pattern, description)


def _meant(offset: tuple[str, str]) -> str:
    return f"{offset[0].removesuffix(':00')} {offset[1]}"


def _abbreviates(pattern: str) -> bool:
    """Return True if the pattern has the abbreviation of a zone."""
    return "z" in _letters(pattern)


@dataclass(frozen=True)
class _AroundZone:
    """The text of a time before its zone, the zone, the text after it, and the year."""

    before: Column
    zone: Column
    after: Column
    year: Column


def _around_zone(text: Column, pattern: str, combine: Callable[[_AroundZone], Column]) -> Column:
    """Return what is made of the parts of a time around its zone; null if the time has another form.

    The parts are bound to a lambda's argument: Spark compiles a plan that has them a dozen times for seconds.
    """
    shapes, century = "", ""
    for token in tokens(pattern):
        if token[0] == "z":
            shapes += r")(?<zone>\S+)(?<after>"
        elif token[0] in _YEAR and "<year>" not in shapes:
            century = "20" if len(token) == 2 else ""
            shapes += r"(?<year>\d+)"
        else:
            shapes += {"[": "(?:", "]": ")?"}.get(token, _shape(token))
    whole = rf"\A(?<before>{shapes})\z"
    marked = F.regexp_replace(text, whole, _MARK.join(("${before}", "${zone}", "${after}", f"{century}${{year}}")))
    split_parts = F.array(F.when(text.rlike(whole), F.split(marked, _MARK)))
    return F.get(
        F.transform(split_parts, lambda parts: combine(_AroundZone(*(F.get(parts, F.lit(at)) for at in range(4))))),
        F.lit(0),
    )


def _with_abbreviation(text: Column, pattern: str, zone: str) -> Column:
    offset, name = (
        "".join(letters if token[0] == "z" else token for token in tokens(pattern)) for letters in ("XXXXX", "VV")
    )

    def instant(parts: _AroundZone) -> Column:
        with_offset = F.concat(parts.before, _offset(parts, zone), parts.after)
        by_name = F.try_to_timestamp(F.concat(parts.before, parts.zone, parts.after), F.lit(name))
        return F.when(parts.zone.contains("/"), by_name).otherwise(F.try_to_timestamp(with_offset, F.lit(offset)))

    return _around_zone(text, pattern, instant)


def _offset(parts: _AroundZone, zone: str) -> Column:
    """Return the offset that the zone of a time means, as +05:30:00; null if it is unclear."""
    digits = F.translate(parts.zone, "+-:", "")
    digits = F.rpad(F.when(F.length(digits) % 2 == 1, F.concat(F.lit("0"), digits)).otherwise(digits), 6, "0")
    written = F.concat_ws(":", *(F.substring(digits, at, 2) for at in (1, 3, 5)))
    by_name = {
        name: [(meaning, next(iter(meaning.offsets))) for meaning in meanings] for name, meanings in clear(zone).items()
    }
    is_written = parts.zone.rlike(_WRITTEN_OFFSET)
    return F.when(is_written, F.concat(F.substring(parts.zone, 1, 1), written)).otherwise(_of_year(by_name, parts))


def _of_year(texts: Mapping[str, Sequence[tuple[Meaning, str]]], parts: _AroundZone) -> Column:
    """Return the text for a zone's name and a year; null if there is none.

    The texts are one constant: a chain of conditions would take Spark seconds to compile.
    """
    years = {
        name: [{"f": meaning.first, "l": meaning.last, "t": text} for meaning, text in entries]
        for name, entries in texts.items()
    }
    known = F.from_json(F.lit(json.dumps(years)), "map<string,array<struct<f:int,l:int,t:string>>>")
    year = parts.year.try_cast("int")
    matching = F.filter(F.try_element_at(known, parts.zone), lambda meaning: year.between(meaning.f, meaning.l))
    return F.get(matching, F.lit(0)).t


def _suffix(zone: str) -> tuple[str, str]:
    """Return the suffixes that add the zone to a text and to its pattern; names parse far slower than offsets."""
    if zone == "UTC":
        return "Z", "X"
    return (zone, "XXX") if zone[0] in "+-" else (f" {zone}", " VV")


def _iso8601(text: Column, zone: str) -> Column:
    dotted = F.translate(text, ",", ".")
    return (
        F.when(text.rlike(_ISO + _ISO_OFFSET), dotted.try_cast("timestamp"))
        .when(text.rlike(_ISO + "$"), at_fixed_width(dotted, zone))
    )  # fmt: skip


def _epoch(text: Column, power: int) -> Column:
    """Parse a number of seconds, milliseconds, microseconds or nanoseconds; nanoseconds are cut off.

    A count of microseconds holds at most eighteen digits. So milliseconds since September 2001 are too large to be
    seconds, microseconds too large to be milliseconds, and so on: a format may list all of them.
    """
    fraction, below = max(power, 0), max(-power, 0)
    number = F.when(is_near(text), text).try_cast(f"decimal({18 + below},{fraction})")
    micros = F.floor(number / F.lit(10**below)) if below else number * F.lit(10**fraction)
    return F.timestamp_micros(micros.cast("bigint"))


def is_near(text: Column) -> Column:
    """Return True unless a number is too long, or its exponent too large, for Java to read it in good time."""
    return (F.length(text) <= _DIGITS) & ~text.rlike(_FAR_EXPONENT)


def _nearest_year(text: Column, pattern: str, zone: str) -> Column:
    """Parse a time without a year, in the last year in which it is not later than `latest`.

    That is the year of `latest`, the next year (if the zone is ahead of UTC) or the year before. A time that would be
    more than a year before the line's origin is none: February 29 of a year that has no such day.
    """
    year, latest = F.col("latest_year"), F.col("latest")
    earliest = F.try_subtract(latest, F.lit(timedelta(days=366)))  # latest is a day after the origin
    recent = (_in_year(text, pattern, zone, year + ahead) for ahead in (1, 0, -1))
    return F.coalesce(*(F.when(time.between(earliest, latest), time) for time in recent))


def _in_year(text: Column, pattern: str, zone: str, year: Column) -> Column:
    dated = F.concat(F.when(year.between(1000, 9999), year.cast("string")), F.lit(" "), text)
    return _parsed(dated, f"yyyy {pattern}", zone)
