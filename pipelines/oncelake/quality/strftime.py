"""Python's strptime as a Spark expression: true if strptime could parse a text.

Source: the regular expressions of CPython 3.11's Lib/_strptime.py, in Java's syntax. Python takes the first match of
its regular expression and then rejects a text with unmatched characters; an atomic group does the same.
"""

import re
import sys
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NAMED = {"A": _DAYS, "a": tuple(name[:3] for name in _DAYS), "B": _MONTHS, "b": tuple(name[:3] for name in _MONTHS)}
_DIGIT = r"\p{Nd}"


@cache
def _space() -> str:
    return "".join(chr(code) for code in range(sys.maxunicode + 1) if re.fullmatch(r"\s", chr(code)))


# The regular expression of each directive, without its group.
_PARTS = {
    "d": rf"3[0-1]|[1-2]{_DIGIT}|0[1-9]|[1-9]| [1-9]",
    "f": "[0-9]{1,6}",
    "H": rf"2[0-3]|[0-1]{_DIGIT}|{_DIGIT}",
    "I": "1[0-2]|0[1-9]|[1-9]",
    "M": rf"[0-5]{_DIGIT}|{_DIGIT}",
    "m": "1[0-2]|0[1-9]|[1-9]",
    "S": rf"6[0-1]|[0-5]{_DIGIT}|{_DIGIT}",
    "y": rf"{_DIGIT}{_DIGIT}",
    "Y": rf"{_DIGIT}{{4}}",
    **{directive: "|".join(sorted(names, key=len, reverse=True)) for directive, names in _NAMED.items()},
    "p": "am|pm",
}


# Directives that mean the same; Python uses the later one when a format has two of them.
_SAME = ("Yy", "mBb", "Aa")


def check_strftime(form: str) -> None:
    """Refuse a format that strptime does not accept, or that has a directive without a Spark equivalent.

    Raises:
        ValueError: the format is refused; the message names the reason.
    """
    try:
        now = datetime.now(UTC)
        datetime.strptime(now.strftime(form), form)
    except (ValueError, re.error) as error:
        raise ValueError(f"is not a format that Python's strptime accepts ({error})") from None
    names = _directives(form)
    unknown = [f"%{name}" for name in names if name not in _PARTS]
    if unknown:
        raise ValueError(
            f"has {', '.join(unknown)}, which the stream cannot check; accepted: "
            f"{', '.join(f'%{part}' for part in _PARTS)}"
        )
    for same in _SAME:
        twice = [f"%{name}" for name in names if name in same]
        if len(twice) > 1:
            raise ValueError(f"has {' and '.join(twice)}, which mean the same; remove one")


def parses(value: Column, form: str) -> Column:
    """Return True if strptime can parse a text: the text fits the format, and its day and second exist."""
    pattern, names = rf"(?iu)\A(?>{_pattern(form)})\z", _directives(form)

    def text(name: str) -> Column:
        return F.regexp_extract(value, pattern, names.index(name) + 1)

    # Python looks names up in lower case; its case-insensitive regular expression also matches other characters
    name_checks = (F.lower(text(name)).isin(list(_NAMED[name])) for name in names if name in _NAMED)
    checks = [value.rlike(pattern), *name_checks]
    if "S" in names:  # the regular expression accepts leap seconds, a datetime does not
        checks.append(_number(text("S")) <= 59)
    if "d" in names:
        checks.append(_day_exists(names, text))
    elif "Y" in names:
        checks.append(_number(text("Y")) > 0)
    return reduce(lambda one, other: one & other, (F.coalesce(check, F.lit(False)) for check in checks))


def _directives(form: str) -> list[str]:
    return [directive for directive in re.findall("%(.)", form) if directive != "%"]


def _pattern(form: str) -> str:
    """Return the format as a regular expression with one group for each directive."""
    parts = re.split(r"(%.)", re.sub(r"\s+", " ", form))
    return "".join(_part(part) for part in parts)


def _part(part: str) -> str:
    if part == "%%":
        return "%"
    if part.startswith("%"):
        return f"({_PARTS[part[1]]})"
    return "".join(f"[{_space()}]+" if character == " " else re.escape(character) for character in part)


def _number(text: Column) -> Column:
    """Return a directive's number; Python accepts the digits of every script."""
    return F.translate(F.trim(text), *_digits()).try_cast("int")


def _day_exists(names: list[str], text: Callable[[str], Column]) -> Column:
    if "Y" in names:
        year = _number(text("Y"))
    elif "y" in names:
        short = _number(text("y"))
        year = F.when(short <= 68, short + 2000).otherwise(short + 1900)
    else:
        year = F.lit(1900)
    first = F.make_date(year, _month(names, text), F.lit(1))
    return (year > 0) & (_number(text("d")) <= F.dayofmonth(F.last_day(first)))


def _month(names: list[str], text: Callable[[str], Column]) -> Column:
    for directive in set(names) & {"B", "b"}:
        listed = F.array(*(F.lit(name) for name in _NAMED[directive]))
        return F.nullif(F.array_position(listed, F.lower(text(directive))).cast("int"), F.lit(0))
    return _number(text("m")) if "m" in names else F.lit(1)


@cache
def _digits() -> tuple[str, str]:
    """Return all decimal digits outside ASCII, and their ASCII equivalents."""
    digits = [chr(code) for code in range(128, sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Nd"]
    return "".join(digits), "".join(str(unicodedata.decimal(digit)) for digit in digits)
