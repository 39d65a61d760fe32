"""This is where the notebooks' plots get their one look."""

from typing import Any

# One colour a level, wherever it is shown; told apart without red and green.
LEVELS = {
    "TRACE": "#c9ced6",
    "DEBUG": "#9aa5b1",
    "INFO": "#4c78a8",
    "WARN": "#eeb33b",
    "ERROR": "#d1495b",
    "FATAL": "#6a1b4d",
}
COLOURS = ("#2f6690", "#d1495b", "#edae49", "#00798c", "#8d6a9f", "#66717e")
# From little to much, on a light ground.
SCALE = ((0.0, "#f6f1ee"), (0.25, "#f2c9b8"), (0.6, "#d1495b"), (1.0, "#5b1230"))
_TEXT, _GRID = "#22303c", "#e4e8ec"


def use() -> None:
    """Make every plot from here on light, quiet and alike; `fig.show()` finds by itself where it is shown."""
    import plotly.graph_objects as go  # noqa: PLC0415 - it takes a second that only notebooks have
    import plotly.io as pio  # noqa: PLC0415

    axis = {"gridcolor": _GRID, "linecolor": _GRID, "zeroline": False, "ticks": "outside", "tickcolor": _GRID}
    axis |= {"automargin": True}
    layout: dict[str, Any] = {
        "font": {"family": "Inter, 'Segoe UI', Helvetica, Arial, sans-serif", "size": 13, "color": _TEXT},
        "title": {"x": 0, "xref": "container", "pad": {"l": 16}, "font": {"size": 16}},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "colorway": COLOURS,
        "xaxis": axis,
        "yaxis": axis,
        "height": 380,
        "margin": {"l": 64, "r": 24, "t": 64, "b": 56},
        "hovermode": "closest",
        "bargap": 0.15,
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "xanchor": "right", "x": 1},
    }
    pio.templates["oncelake"] = go.layout.Template(layout=layout)
    pio.templates.default = "oncelake"
