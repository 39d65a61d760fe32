"""Format counts, ages, durations, sizes, shares and long lists for people, in one form everywhere."""

from collections.abc import Iterable
from datetime import UTC, datetime

# The default number of items of a list to name.
HANDFUL = 5

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = ("kB", "MB", "GB", "TB")


def count_of(count: int | None, one: str, several: str | None = None) -> str:
    """Return a count with its noun: `1 batch`, `20,000 rows`.

    Args:
        count: the number; None if it is unknown.
        one: the singular, with the words that agree with it, such as `file is missing`.
        several: the plural; default: the singular with `s`, or with `es` after `ch`.
    """
    if count == 1:
        return f"1 {one}"
    return f"{number(count)} {several or one + ('es' if one.endswith('ch') else 's')}"


def number(value: int | None) -> str:
    """Return a number with thousands separators; ? if it is unknown."""
    return "?" if value is None else f"{value:,}"


def short_number(value: float) -> str:
    """Return a number for a narrow column: in millions from 100 million on, a float below 10 with one decimal."""
    if value >= 100_000_000:
        return f"{value / 1e6:,.0f} M"
    return f"{value:,.1f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a duration: `3.7 s`, `2 min 5 s`, `40 d 2 h`; only a float below a minute has a decimal."""
    if isinstance(seconds, float) and seconds < 59.95:
        return f"{seconds:.1f} s"
    remaining, parts = round(seconds), list[tuple[int, str]]()
    for size, unit in _UNITS:
        if remaining >= size or parts:
            parts.append((remaining // size, unit))
            remaining %= size
    return " ".join(f"{many:,} {unit}" for many, unit in parts[:2] if many) or "0 s"


def age(seconds: float) -> str:
    """Return an age in its largest whole unit, as the report's script does: `15 s`, `2 min`; `?` of a future time."""
    if is_ahead(seconds):
        return "?"
    size, unit = next((entry for entry in _UNITS if seconds >= entry[0]), _UNITS[-1])
    return f"{max(int(seconds // size), 0)} {unit}"


def ago(seconds: float) -> str:
    """Return an age with `ago`: `15 s ago`; of a time that the clock has not reached, `15 s in the future`."""
    return f"{age(-seconds)} in the future" if is_ahead(seconds) else f"{age(seconds)} ago"


def is_ahead(seconds: float) -> bool:
    """Return True if an age is that of a time in the future, by more than clocks usually differ."""
    return seconds <= -1


def utc(milliseconds: int) -> str:
    """Return a time as text, such as 2026-01-31T08:00:00Z; with milliseconds unless they are 0."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    part = f".{milliseconds % 1000:03d}" if milliseconds % 1000 else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{part}Z"


def size(count: int) -> str:
    """Return a size in bytes: `512 bytes`, `4.1 kB`."""
    if count < 1000:
        return count_of(count, "byte")
    value, units = count / 1000, iter(_SIZES)
    unit = next(units)
    while value >= 999.95 and unit != _SIZES[-1]:
        value, unit = value / 1000, next(units)
    return f"{value:,.1f} {unit}"


def share(part: float | None, whole: float | None = 1) -> str:
    """Return a share in percent: `33.3 %`, `0.50 %`; a small share above zero is never shown as zero."""
    if part is None or whole is None:
        return "? %"
    if not part or not whole:
        return "0 %"
    value = 100 * part / whole
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{value:.2f} %" if value < 1 else f"{value:.1f} %"


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return `; did you mean error_log?` if a text is close to a known name; empty if it is close to none.

    A name with a dot is also close by its last part: `eror_log` to `gold.error_log`.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    by_name = {name: name for name in known}
    ends = {name.rpartition(".")[2]: name for name in by_name}
    for names in (by_name, ends):
        close = get_close_matches(text, names, n=1, cutoff=0.7)
        if close and names[close[0]] != text:
            return f"; did you mean {names[close[0]]}?"
    return ""


def listed(items: Iterable[str], total: int | None = None, separator: str = ", ", most: int = HANDFUL) -> str:
    """Return the first items of a list and the number of the others: `a, b and 3 more`.

    Args:
        items: all items, or only the first ones.
        total: the number of all items, if `items` has only the first ones.
        separator: the text between two items.
        most: the largest number of items to name.
    """
    names = list(items)
    named = separator.join(names[:most])
    more = (len(names) if total is None else total) - len(names[:most])
    if more <= 0:
        return named
    return f"{named}{' ' if separator == ', ' else separator}and {more:,} more"


def printable(text: str, longest: int = 200) -> str:
    """Return a text that is safe to print in one line: shortened, with control and format characters escaped."""
    short = text if len(text) <= longest else f"{text[:longest]}… ({count_of(len(text), 'character')})"
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in short)


def shown_path(path: str) -> str:
    """Return a file's path for a message, with unprintable characters escaped."""
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in path)


def shown_name(path: str) -> str:
    """Return the file name of a path for a message, with unprintable characters escaped."""
    return shown_path(path.rsplit("/", 1)[-1])


def shown(value: object, limit: int = 80) -> str:
    """Return a value as shown in an error: quoted, and shortened to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
