"""This is where a Spark datetime pattern is checked before any line is parsed with it.

The letters: https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html
"""

import re
import zoneinfo

ISO8601, EPOCH_SECONDS, EPOCH_MILLIS = "iso8601", "epoch_seconds", "epoch_millis"
SPECIAL = frozenset({ISO8601, EPOCH_SECONDS, EPOCH_MILLIS})

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_KNOWN = frozenset("GyuDMLdahHkKmsSVzOXxZ")
_FORMAT_ONLY = frozenset("EFqQ")
_YEAR = frozenset("yu")
_ZONE = frozenset("VzOXxZ")
_NEVER_OPTIONAL = {
    letter: part
    for part, letters in {"year": _YEAR, "month": "ML", "day": "dD", "zone": _ZONE}.items()
    for letter in letters
}
_NUMBER = frozenset("DdhHkKmsS")
_OFFSET = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00")


def checked(pattern: str) -> str:
    """Give the pattern back if times can be parsed with it.

    Raises:
        ValueError: it has a letter that cannot be parsed, no date, or an optional part that must be there.
    """
    if pattern in SPECIAL:
        return pattern
    depth = 0
    for token in _tokens(pattern):
        depth += (token == "[") - (token == "]")
        _check(token, optional=depth > 0)
    if depth:
        raise ValueError("has a [ that is never closed, or a ] too many")
    letters = _letters(pattern)
    if not ((letters & set("ML") and "d" in letters) or "D" in letters):
        raise ValueError(f"names no month and day; use letters such as MM and dd, or one of {sorted(SPECIAL)}")
    return pattern


def names_year(pattern: str) -> bool:
    """Tell whether the times themselves carry the year."""
    return bool(_letters(pattern) & _YEAR)


def names_zone(pattern: str) -> bool:
    """Tell whether the times themselves carry their zone or offset."""
    return bool(_letters(pattern) & _ZONE)


def signed_year(pattern: str) -> str:
    """Give a Java regular expression that finds a time whose year has a sign.

    Java reads +999999999 as a year of four letters, and Spark throws on it, in try_to_timestamp too.
    """
    before = ""
    for token in _tokens(pattern):
        if token[0] in _YEAR:
            break
        before += _shape(token)
    return f"^{before}[+-]"


def checked_zone(zone: str) -> str:
    """Give the zone back if it is an IANA name or an offset such as +02:00.

    Raises:
        ValueError: it is neither.
    """
    known = zoneinfo.available_timezones()
    if zone == "UTC" or _OFFSET.fullmatch(zone) or zone in known or (not known and "/" in zone):
        return zone
    raise ValueError("must be a time zone such as Europe/Paris, UTC or +02:00")


def _tokens(pattern: str) -> list[str]:
    return [match[0] for match in _TOKEN.finditer(pattern)]


def _letters(pattern: str) -> set[str]:
    return {token[0] for token in _tokens(pattern) if token[0].isalpha() and token[0].isascii()}


def _check(token: str, *, optional: bool) -> None:
    letter = token[0]
    if token == "'":
        raise ValueError("has a quote ' that is never closed")
    if not (letter.isalpha() and letter.isascii()):
        return
    if letter in _FORMAT_ONLY:
        raise ValueError(f"has {token}, which Spark cannot parse; leave that part of the line out of the time group")
    if letter not in _KNOWN:
        raise ValueError(f"has {token}, which is no letter of a datetime pattern; quote text like 'T'")
    if letter in _YEAR and len(token) not in {2, 4}:
        raise ValueError(f"has {token}; write the year as yyyy or yy")
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
