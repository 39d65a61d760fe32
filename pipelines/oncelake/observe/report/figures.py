"""This is where facts become plotly figures, as plain JSON; the page's script colours them for light and dark."""

from oncelake.observe.report.colours import rule_colours, stage_colours
from oncelake.observe.report.facts import BatchFacts, Facts
from oncelake.observe.report.lines_figure import Figure, lines_figure
from oncelake.observe.trace.show import printable

# So many marks stand on one line without becoming a haze.
MANY = 150
_SHAPES = ("circle", "square", "diamond", "triangle-up", "x", "star")


def figures(facts: Facts) -> dict[str, Figure]:
    """Give every figure that there is something to draw for, by its name."""
    found: dict[str, Figure] = {}
    if facts.lines is not None:
        found["lines"] = lines_figure(facts.lines)
    if any(batch.refused for batch in facts.batches):
        found["quality"] = _quality([batch for batch in facts.batches if batch.refused])
    if facts.batches:
        found |= {name: _over_batches(facts, *told) for name, told in _OVER_BATCHES.items()}
    return found


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
        for rule, colours in rule_colours(rules)
    ]
    layout = {
        "barmode": "stack",
        "hovermode": "x unified",
        "xaxis": {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S UTC"},
        "yaxis": {"title": {"text": "broken rules"}, "rangemode": "tozero"},
        "meta": {"height": 280, "few": len(batches) <= 30},
    }
    return {"data": data, "layout": layout}


# Of each plot over batches: what is drawn of a batch, its unit, and how a value is written.
_OVER_BATCHES: dict[str, tuple[str, str, str]] = {
    "seconds": ("seconds", "seconds", ",.2f"),
    "rate": ("rate", "rows per second", ",.0f"),
    "freshness": ("freshness", "seconds", ",.1f"),
    "waiting": ("waiting", "rows", ",.0f"),
}


def _over_batches(facts: Facts, what: str, title: str, written: str) -> Figure:
    data: list[Figure] = []
    for number, (stage, colours) in enumerate(stage_colours(batch.stage for batch in facts.batches)):
        batches = [batch for batch in facts.batches if batch.stage == stage and _value(batch, what) is not None]
        if not batches:
            continue
        size = 6 if len(batches) <= MANY else 3
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(batches) <= MANY else "markers",
                "name": stage,
                "x": [batch.committed_ms for batch in batches],
                "y": [_value(batch, what) for batch in batches],
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
        "xaxis": {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S UTC"},
        "yaxis": {"title": {"text": title}, "rangemode": "tozero", "tickformat": ",~f"},
        "meta": {"height": 230},
    }
    if not any(any(trace["y"]) for trace in data):  # an axis of nothing but zeros
        layout["yaxis"] |= {"range": [0, 1], "dtick": 1}
    return {"data": data, "layout": layout}


def _value(batch: BatchFacts, what: str) -> float | None:
    value: float | None = getattr(batch, what)
    return value


def label(value: str) -> str:
    """Write a text for a plot's label, where plotly would read some HTML."""
    return printable(value, 60).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _no_template(text: str) -> str:
    """Keep a text from being read as a place for a value, which plotly writes as %{…}."""
    return text.replace("%{", "%&#123;")
