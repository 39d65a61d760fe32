"""This is where the figure of lines over time is made, and where it is chosen what it opens on."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from oncelake.common.wording import count_of, duration
from oncelake.observe.report.colours import LEVELS
from oncelake.observe.report.facts import ERRORS, LinesFacts

Figure = dict[str, Any]

# So many bars stand side by side without becoming a haze.
CALM = 500


def lines_figure(lines: LinesFacts) -> Figure:
    """Draw lines per bin and level, and below them the share of errors."""
    data = [_bars(lines, level, counts, f"{level} %{{y:,}}") for level, counts in lines.levels.items()]
    shares = [100 * error / max(every, 1) for error, every in zip(lines.errors, lines.all, strict=True)]
    share = _bars(lines, "ERROR", shares, "errors %{y:.2f} %") | {"yaxis": "y2", "showlegend": False}
    share["meta"] = {"colours": LEVELS["ERROR"], "role": "errors"}
    layout = {
        "barmode": "stack",
        "bargap": 0,
        "hovermode": "x unified",
        "xaxis": {"type": "date", "anchor": "y2", "range": opening(lines), "hoverformat": "%Y-%m-%d %H:%M UTC"},
        "yaxis": {"domain": [0.34, 1], "title": {"text": f"lines per {each_bin(lines.seconds)}"}, **_FROM_ZERO},
        "yaxis2": {
            "domain": [0, 0.24],
            "title": {"text": "errors, %"},
            "range": [0, _highest(lines, shares)],
            "nticks": 4,
        },
        "meta": {"seconds": lines.seconds, "height": 440, **_bins(lines)},
    }
    return {"data": [*data, share], "layout": layout}


_FROM_ZERO = {"rangemode": "tozero", "tickformat": ",~f"}


def each_bin(seconds: int) -> str:
    """Name the length of a bin, as `minute` or `5 min`."""
    names = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 604_800: "week"}
    return names.get(seconds) or duration(seconds)


def bins(count: int, seconds: int) -> str:
    """Return a number of bins with their length: `2 minutes`, `1 bin of 5 min`."""
    name = each_bin(seconds)
    return count_of(count, name) if name.isalpha() else count_of(count, f"bin of {name}", f"bins of {name}")


def _bars(lines: LinesFacts, level: str, heights: Sequence[float], hover: str) -> Figure:
    return {
        "type": "bar",
        "name": level,
        "x": [start * 1000 for start in lines.starts],
        "y": list(heights),
        "width": lines.seconds * 1000,
        "offset": 0,
        "marker": {"color": LEVELS[level][0], "line": {"width": 0}},
        "hovertemplate": f"{hover}<extra></extra>",
        "meta": {"colours": LEVELS[level], "error": level in ERRORS},
    }


def _highest(lines: LinesFacts, shares: list[float]) -> float:
    """Choose where the shares' axis ends: the one error of a bin with hardly a line would press the others flat."""
    enough = median(lines.all) / 10
    shown = [share for share, every in zip(shares, lines.all, strict=True) if every >= enough]
    return 1.05 * max(*shown, 1, 1)


def _bins(lines: LinesFacts) -> Figure:
    """Give the bins that can be chosen in the page, and the one that it starts with."""
    first, last = opening(lines)
    wider = [each for each in (300, 3600, 86_400) if each > lines.seconds and each % lines.seconds == 0]
    bins = [lines.seconds, *wider]
    drawn = {each: len({start // each for start in lines.starts if first <= start * 1000 < last}) for each in bins}
    start = next((each for each in bins if drawn[each] <= CALM), bins[-1])
    return {"bins": [[each, each_bin(each)] for each in bins], "start": start}


def opening(lines: LinesFacts) -> list[int]:
    """Choose the stretch of time that the plot opens on: all, unless a few far lines would press the rest together."""
    counts, total, seen = lines.all, sum(lines.all), 0
    inner: list[int] = []
    for start, count in zip(lines.starts, counts, strict=True):
        seen += count
        if 0.02 * total < seen and seen - count < 0.98 * total:
            inner.append(start)
    ends = (
        (inner[0], inner[-1]) if inner and inner[-1] - inner[0] < 0.5 * (lines.starts[-1] - lines.starts[0]) else None
    )
    first, last = ends or (lines.starts[0], lines.starts[-1])
    return [first * 1000, (last + lines.seconds) * 1000]
