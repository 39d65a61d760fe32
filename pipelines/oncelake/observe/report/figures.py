"""Plotly figures of the facts, as plain JSON; the page's script colors them for light and dark mode."""

import html
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from statistics import median
from typing import Any

from oncelake.common.wording import count_of, duration, printable
from oncelake.observe.palette import LEVELS, REST, SERIES, STAGES, Pair
from oncelake.observe.report.facts import ERRORS, BatchFacts, Facts, LinesFacts, MeasureFacts

Figure = dict[str, Any]

# The most bars that stay distinct side by side, and the most markers that stay distinct on one line.
CALM, MANY = 500, 150
# The most markers that stay distinct on one line of a small plot.
_POINTS = 60
_SHAPES = ("circle", "square", "diamond", "triangle-up", "x", "star")
_FROM_ZERO = {"rangemode": "tozero", "tickformat": ",~f"}
_TIMES = {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S UTC"}
# Per plot over batches: the attribute of a batch, its unit, and the number format.
_OVER_BATCHES = {
    "seconds": ("seconds", ",.2f"),
    "rate": ("rows per second", ",.0f"),
    "freshness": ("seconds", ",.1f"),
    "waiting": ("rows", ",.0f"),
}


def stage_colours(stages: Iterable[str]) -> Iterator[tuple[str, Pair]]:
    """Yield each stage once, with its color pair."""
    used = {layer: cycle(colours) for layer, colours in STAGES.items()}
    for stage in dict.fromkeys(stages):
        yield stage, next(used[stage.split(".")[0]])


def figures(facts: Facts) -> dict[str, Figure]:
    """Return every figure that has data, by name."""
    by_name: dict[str, Figure] = {}
    if facts.lines is not None:
        by_name["lines"] = _lines_figure(facts.lines)
    if any(batch.refused for batch in facts.batches):
        by_name["quality"] = _quality([batch for batch in facts.batches if batch.refused])
    if facts.batches:
        by_name |= {name: _over_batches(facts.batches, name, *axis) for name, axis in _OVER_BATCHES.items()}
    return by_name | {measure_id(number): measure_figure(measure) for number, measure in enumerate(facts.measures)}


def measure_id(number: int) -> str:
    """Return the name of the figure of a measure, by its place among the measures."""
    return f"measure-{number}"


def measure_figure(facts: MeasureFacts) -> Figure:
    """Return the figure of a measure: a line per group, and one for all others together.

    Counts and sums are zero where no window is; other measures have no value there, so their line has a gap.
    """
    adds = facts.function in ("count", "count where", "sum")
    named = [(name or facts.measure, values) for name, values in facts.groups.items()]
    series = [(*group, LEVELS.get(group[0], colours)) for group, colours in zip(named, SERIES, strict=False)]
    if facts.others:
        series.append(("others", facts.others, REST))
    data = []
    for number, (name, values, colours) in enumerate(series):
        x, y = _with_gaps(facts, values, 0 if adds else None)
        few = len(x) <= _POINTS
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": label(name),
                "x": x,
                "y": y,
                "line": {"color": colours[0], "width": 1.5},
                "marker": {"color": colours[0], "size": 4, "symbol": _SHAPES[number % len(_SHAPES)]},
                "hovertemplate": f"{_no_template(label(name))}: %{{y:,}}<extra></extra>",
                "meta": {"colours": colours},
            }
        )
    layout = {
        "hovermode": "x unified",
        "showlegend": len(data) > 1,
        "xaxis": {"type": "date", "hoverformat": "%Y-%m-%d %H:%M UTC"},
        "yaxis": {
            "title": {"text": f"per {each_bin(facts.seconds)}"},
            **(_FROM_ZERO if adds else {"tickformat": ",~f"}),
        },
        "meta": {"height": 250 if len(data) > 1 else 230},
    }
    return {"data": data, "layout": layout}


def _with_gaps(
    facts: MeasureFacts, values: Sequence[float | None], empty: float | None
) -> tuple[list[int], list[float | None]]:
    """Return the times in milliseconds and the values, with an empty bin at both ends of each gap between bins."""
    x: list[int] = []
    y: list[float | None] = []
    for start, value in zip(facts.starts, values, strict=True):
        missing = start - x[-1] // 1000 - facts.seconds if x else 0
        ends = [x[-1] // 1000 + facts.seconds, start - facts.seconds] if missing else []
        for at in dict.fromkeys(ends):
            x.append(at * 1000)
            y.append(empty)
        x.append(start * 1000)
        y.append(value)
    return x, y


def _quality(batches: list[BatchFacts]) -> Figure:
    rules = sorted({rule for batch in batches for rule in batch.refused})
    data = [
        {
            "type": "bar",
            "name": label(rule),
            "x": [batch.committed_ms for batch in batches],
            "y": [batch.refused.get(rule, 0) for batch in batches],
            "customdata": [batch.batch_id for batch in batches],
            "marker": {"color": colours[0], "line": {"width": 0}},
            "hovertemplate": f"{_no_template(label(rule))} %{{y:,}}<extra>batch %{{customdata}}</extra>",
            "meta": {"colours": colours},
        }
        for rule, colours in zip(rules, cycle(SERIES), strict=False)
    ]
    layout = {
        "barmode": "stack",
        "hovermode": "x unified",
        "xaxis": _TIMES,
        "yaxis": {"title": {"text": "broken rules"}, "rangemode": "tozero"},
        "meta": {"height": 280, "few": len(batches) <= 30},
    }
    return {"data": data, "layout": layout}


def _over_batches(all_batches: Sequence[BatchFacts], what: str, title: str, written: str) -> Figure:
    data: list[Figure] = []
    for number, (stage, colours) in enumerate(stage_colours(batch.stage for batch in all_batches)):
        batches = [batch for batch in all_batches if batch.stage == stage and getattr(batch, what) is not None]
        if not batches:
            continue
        size = 6 if len(batches) <= MANY else 3
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(batches) <= MANY else "markers",
                "name": stage,
                "x": [batch.committed_ms for batch in batches],
                "y": [getattr(batch, what) for batch in batches],
                "customdata": [batch.batch_id for batch in batches],
                "line": {"color": colours[0], "width": 1.5},
                "marker": {"color": colours[0], "size": size, "symbol": _SHAPES[number % len(_SHAPES)]},
                "hovertemplate": f"{stage}, batch %{{customdata}}: %{{y:{written}}}<extra></extra>",
                "meta": {"colours": colours, "stage": stage},
            }
        )
    layout: Figure = {
        "hovermode": "closest",
        "showlegend": False,
        "xaxis": _TIMES,
        "yaxis": {"title": {"text": title}, **_FROM_ZERO},
        "meta": {"height": 230},
    }
    if not any(any(trace["y"]) for trace in data):  # all values are zero
        layout["yaxis"] |= {"range": [0, 1], "dtick": 1}
    return {"data": data, "layout": layout}


def label(value: str) -> str:
    """Return a text escaped for a plot's label, because plotly interprets some HTML there."""
    return html.escape(printable(value, 60), quote=False)


def _no_template(text: str) -> str:
    """Escape plotly's placeholder syntax %{…} in a text."""
    return text.replace("%{", "%&#123;")


def _lines_figure(lines: LinesFacts) -> Figure:
    """Return the figure of lines per bin and level, with the share of errors below."""
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


def each_bin(seconds: int) -> str:
    """Return the length of a bin in words: `minute` or `5 min`."""
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
    """Return the upper end of the error share's axis.

    Bins with few lines do not count: one error among them would be a large share, and flatten all others.
    """
    enough = median(lines.all) / 10
    shown = [share for share, every in zip(shares, lines.all, strict=True) if every >= enough]
    return 1.05 * max(*shown, 1, 1)


def _bins(lines: LinesFacts) -> Figure:
    """Return the bin lengths that the page offers, and the one that it starts with."""
    first, last = opening(lines)
    wider = [length for length in (300, 3600, 86_400) if length > lines.seconds and length % lines.seconds == 0]
    bins = [lines.seconds, *wider]
    drawn = {
        length: len({start // length for start in lines.starts if first <= start * 1000 < last}) for length in bins
    }
    start = next((length for length in bins if drawn[length] <= CALM), bins[-1])
    return {"bins": [[length, each_bin(length)] for length in bins], "start": start}


def opening(lines: LinesFacts) -> list[int]:
    """Return the time range that the plot opens on: all, unless a few far lines would squeeze the rest."""
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
