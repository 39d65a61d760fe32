"""The common style of the notebooks' plots and tables."""

import html
from typing import Any

from oncelake.observe import palette
from oncelake.observe.palette import light

# The report's colors for a light background.
LEVELS = light({level: colours for level, colours in palette.LEVELS.items() if level != "other"})
COLOURS = tuple(colours[0] for colours in palette.SERIES)
SHADES = tuple(colours[0] for colours in palette.SHADES)
REST = palette.REST[0]
# From low to high values.
SCALE = tuple((at, colours[0]) for at, colours in palette.SCALE)
INK, CARD, MARKED = (palette.PAGE[name][0] for name in ("ink", "card", "open-bg"))
_GRID = palette.PAGE["line"][0]


def use() -> None:
    """Set one light, plain style for all later plots; `fig.show()` finds the right renderer itself.

    In Jupyter, a plot gets a form for an export to HTML besides: by itself, plotly gives it only the form that
    JupyterLab draws, and `nbconvert` leaves that out.
    """
    import plotly.graph_objects as go  # noqa: PLC0415 - the import takes a second, and only notebooks need it
    import plotly.io as pio  # noqa: PLC0415

    axis = {"gridcolor": _GRID, "linecolor": _GRID, "zeroline": False, "ticks": "outside", "tickcolor": _GRID}
    axis |= {"automargin": True}
    layout: dict[str, Any] = {
        "font": {"family": "Inter, 'Segoe UI', Helvetica, Arial, sans-serif", "size": 13, "color": INK},
        "title": {"x": 0, "xref": "container", "pad": {"l": 16}, "font": {"size": 16}},
        "paper_bgcolor": CARD,
        "plot_bgcolor": CARD,
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
    if pio.renderers.default == "plotly_mimetype":
        pio.renderers.default = "plotly_mimetype+notebook"


def show(figure: Any, title: str, *, x: str | None, y: str | None, hover: str | None = None, **layout: Any) -> None:
    """Show a plot with a title, and axis titles with units.

    Args:
        figure: the plot.
        title: the title.
        x: the title of the horizontal axis, with its unit; None if the labels are enough.
        y: the title of the vertical axis, with its unit; None if the labels are enough.
        hover: a plotly hover template for the data points; None keeps plotly's default.
        layout: further plotly layout options.
    """
    figure.update_layout(title_text=title, xaxis_title=x, yaxis_title=y, **layout)
    if hover is not None:
        figure.update_traces(hovertemplate=f"{hover}<extra></extra>")
    figure.show()


def plain(text: str) -> str:
    """Escape a text from a log, because plotly would interpret some HTML tags in it."""
    return html.escape(text, quote=False)


def table(frame: Any, marked: Any = None) -> Any:
    """Return a pandas frame as a table with escaped, left-aligned texts.

    Args:
        frame: the frame.
        marked: a frame of booleans with the same shape: which cells to highlight; None for none.
    """
    sides = [{"selector": "th, td", "props": "text-align: left; padding: 3px 14px; vertical-align: top"}]
    styled = frame.style.set_table_styles(sides).format(escape="html", precision=1, thousands=",", na_rep="")
    styled = styled.format_index(escape="html", axis=0).format_index(escape="html", axis=1)
    if marked is None:
        return styled
    return styled.apply(lambda _: marked.map({True: f"background-color: {MARKED}", False: ""}.get), axis=None)
