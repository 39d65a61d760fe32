"""This is where numbers, times and texts of others are put into words for the page."""

from datetime import UTC, datetime

from oncelake.observe.trace.show import printable

_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"))


def utc(ms: float) -> str:
    """Write a time to the second."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def minute(seconds: float) -> str:
    """Write a time to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def span(seconds: float) -> str:
    """Write a span of time with its two largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    left, said = round(seconds), list[tuple[int, str]]()
    for size, unit in (*_SPANS, (1, "s")):
        if left >= size or said:
            said.append((left // size, unit))
            left %= size
    return " ".join(f"{count} {unit}" for count, unit in said[:2] if count)


def ago(seconds: float) -> str:
    """Write how long ago something was, with its largest unit, as the page's script does."""
    size, unit = next((each for each in _SPANS if seconds >= each[0]), (1, "s"))
    return f"{int(seconds // size)} {unit} ago"


def each_bin(seconds: int) -> str:
    """Name the length of a bin, as `minute` or `5 min`."""
    names = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 604_800: "week"}
    return names.get(seconds) or span(seconds)


def bins(seconds: int) -> str:
    """Name bins of a length."""
    name = each_bin(seconds)
    return f"{name}s" if name.isalpha() else f"bins of {name}"


def bytes_words(size: int) -> str:
    """Write a number of bytes with its unit."""
    value, units = float(size), ["kB", "MB", "GB", "TB"]
    if value < 1000:
        return f"{size} B"
    while (value := value / 1000) >= 1000 and len(units) > 1:
        units.pop(0)
    return f"{value:,.1f} {units[0]}"


def number(value: int | None) -> str:
    """Write a number with separators; one that is not known as ?."""
    return "?" if value is None else f"{value:,}"


def share(part: float | None, whole: float | None) -> str:
    """Write a part of a whole in per cent; a small one is never written as none."""
    if part is None or whole is None:
        return "? %"
    if not whole:
        return "0 %"
    value = 100 * part / whole
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{value:.2f} %" if value < 1 else f"{value:.1f} %"


def text(value: str) -> str:
    """Show a text of a log or of a file's name on one line, what could act on a screen escaped."""
    return printable(value, 2_000)


def label(value: str) -> str:
    """Write a text for a plot's label, where plotly would read some HTML."""
    return printable(value, 60).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
