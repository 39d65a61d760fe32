"""This is where the text of a time becomes an instant, the same whatever the session's zone.

Only try_ functions: with ANSI on, which is Spark's default, the others would stop the stream at one bad line.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.silver.datetime_pattern import (
    EPOCH_MILLIS,
    EPOCH_SECONDS,
    ISO8601,
    SPECIAL,
    names_year,
    names_zone,
    signed_year,
)

_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO_OFFSET = r"(?:Z|[+-]\d\d(?::?\d\d)?)$"
# February 29 comes every four years, but around a year such as 2100 after eight
_YEARS_BACK = 8
# Java takes minutes to read millions of digits as a number, and to round 1e-99999999.
_DIGITS = 1000
_FAR_EXPONENT = r"[eE][+-]?\d{4}"


def log_time(text: Column, patterns: tuple[str, ...], zone: str) -> Column:
    """Parse a time with the first pattern that fits; null if none does.

    Needs the columns of `with_latest` where a pattern names no year. A time that the zone skips (a DST gap)
    is moved on by the gap; one that comes twice is the first of the two.

    Args:
        text: the time as the line has it, string.
        patterns: Spark datetime patterns, or iso8601, epoch_seconds, epoch_millis.
        zone: the zone of times that name none.
    """
    return F.coalesce(*(_by(pattern, text, zone) for pattern in patterns))


def with_latest(frame: DataFrame, patterns: tuple[str, ...]) -> DataFrame:
    """Add, where a pattern needs it, the latest instant that a line may mean, a day after its origin; and its year."""
    if all(pattern in SPECIAL or names_year(pattern) for pattern in patterns):
        return frame
    origin = F.coalesce("timestamp", "file_modified", "ingested_at")
    frame = frame.withColumns({"latest": F.try_add(origin, F.lit(timedelta(days=1)))})
    # year() alone would take the session's zone
    day = F.date_from_unix_date(F.floor(F.unix_seconds("latest") / 86400).cast("int"))
    return frame.withColumns({"latest_year": F.year(day)})


def at_fixed_width(text: Column, zone: str, session: SparkSession | None = None) -> Column:
    """Parse a text that is shaped like 2017-07-30 14:09:08; faster than a datetime pattern.

    Args:
        text: the time.
        zone: its zone.
        session: whose own zone is UTC most often; a text in it need not name it, which is faster still.
    """
    if session is not None and zone == "UTC" == session.conf.get("spark.sql.session.timeZone"):
        return text.try_cast("timestamp")
    return F.concat(text, F.lit(_suffix(zone)[0])).try_cast("timestamp")


def _by(pattern: str, text: Column, zone: str) -> Column:
    if pattern == ISO8601:
        return _iso8601(text, zone)
    if pattern == EPOCH_SECONDS:
        return _epoch(text, digits=6)
    if pattern == EPOCH_MILLIS:
        return _epoch(text, digits=3)
    if names_year(pattern):
        return F.when(~text.rlike(signed_year(pattern)), _parsed(text, pattern, zone))
    return _nearest_year(text, pattern, zone)


def _parsed(text: Column, pattern: str, zone: str) -> Column:
    if names_zone(pattern):
        return F.try_to_timestamp(text, F.lit(pattern))
    value, letters = _suffix(zone)
    return F.try_to_timestamp(F.concat(text, F.lit(value)), F.lit(pattern + letters))


def _suffix(zone: str) -> tuple[str, str]:
    """Give what makes a text and its pattern name the zone; names are far slower to parse than offsets."""
    if zone == "UTC":
        return "Z", "X"
    return (zone, "XXX") if zone[0] in "+-" else (f" {zone}", " VV")


def _iso8601(text: Column, zone: str) -> Column:
    dotted = F.translate(text, ",", ".")
    return (
        F.when(text.rlike(_ISO + _ISO_OFFSET), dotted.try_cast("timestamp"))
        .when(text.rlike(_ISO + "$"), at_fixed_width(dotted, zone))
    )  # fmt: skip


def _epoch(text: Column, *, digits: int) -> Column:
    """Read a number of seconds (6 digits behind the point are microseconds) or milliseconds (3 digits).

    Eighteen digits are what a count of microseconds holds. So milliseconds since September 2001 are too
    big for seconds, and a format may list both. A text that is no time, by its length or its exponent, is not read.
    """
    is_near = (F.length(text) <= _DIGITS) & ~text.rlike(_FAR_EXPONENT)
    number = F.when(is_near, text).try_cast(f"decimal(18,{digits})")
    return F.timestamp_micros((number * F.lit(10**digits)).cast("bigint"))


def _nearest_year(text: Column, pattern: str, zone: str) -> Column:
    """Give a time without a year the last year in which it is not later than `latest`.

    That is nearly always the year of `latest`, the next where the zone is ahead of UTC, or the one before.
    """
    year, latest = F.col("latest_year"), F.col("latest")
    recent = (_in_year(text, pattern, zone, year + ahead) for ahead in (1, 0, -1))
    older = F.transform(
        F.sequence(F.lit(2), F.lit(_YEARS_BACK)), lambda back: _in_year(text, pattern, zone, year - back)
    )
    return F.coalesce(*(F.when(time <= latest, time) for time in recent), F.array_max(older))


def _in_year(text: Column, pattern: str, zone: str, year: Column) -> Column:
    dated = F.concat(F.when(year.between(1000, 9999), year.cast("string")), F.lit(" "), text)
    return _parsed(dated, f"yyyy {pattern}", zone)
