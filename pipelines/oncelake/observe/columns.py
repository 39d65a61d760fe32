"""This is where it is decided which columns of the live view fit, how wide each is, and what stands in its cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from oncelake.common.wording import age, duration, short_number
from oncelake.observe.backlog import backlog_words
from oncelake.observe.sparkline import sparkline
from oncelake.observe.trace.show import printable

TREND = "trend"
# Columns give way in this order where the terminal is narrow; the stage's name stays.
GIVE_WAY = ("in table", "age", "this run", "batch", "rows/s", TREND, "freshness", "backlog", "state")
# What a long name is cut to before a column gives way.
_NAME = 18
# The fewest and the most bars of a trend, and how many it has before a long name is drawn in full.
_BARS, _GOOD_BARS, _MOST_BARS = 6, 10, 40
# What stands between two columns.
GAP = "  "
# Marks that a terminal without UTF-8 may lack, each with one of the same width.
_MARKS = str.maketrans({"…": "~", "→": ">", "·": "|"})


@dataclass(frozen=True)
class Row:
    """A stage, as the live view shows it.

    Attributes:
        state: the state's name, nothing where it is not looked at.
        may_start: whether it may run in that state.
        batch_id: its last batch.
        this_run: rows that its batches wrote since the view began.
        rows: rows that its first table holds.
        rate: rows a second of its last batch.
        backlog: what of its input waits, in `unit`.
        committed: when its last batch was committed, in seconds since 1970.
        freshness: seconds from when the oldest line of its last batch was taken in to its commit.
        history: rows a second of its last batches, oldest first.
        note: what it waits for, or fails by.
    """

    stage: str
    state: str = ""
    may_start: bool = True
    batch_id: int | None = None
    this_run: int | None = None
    rows: int | None = None
    rate: float | None = None
    backlog: int | None = None
    unit: str = "rows"
    committed: float | None = None
    freshness: float | None = None
    history: tuple[float, ...] = ()
    metadata: str = ""

    @property
    def only_waits(self) -> bool:
        """Whether there is nothing to show but what it waits for."""
        return self.batch_id is None and bool(self.metadata)


def _plain(row: Row) -> str:
    del row
    return ""


@dataclass(frozen=True)
class Column:
    """A column as it is drawn: its cells by the stage's name."""

    title: str
    cells: Mapping[str, str]
    width: int
    right: bool = True
    style: Callable[[Row], str] = _plain

    def pad(self, text: str) -> str:
        """Bring a cell's text to the column's width."""
        space = " " * max(self.width - cell_len(text), 0)
        return f"{space}{text}" if self.right else f"{text}{space}"


def fitting(rows: Sequence[Row], width: int, now: float, encoding: str) -> list[Column]:
    """Give the columns that fit, in their order; one that has nothing to show is left out."""
    stage, *others = (_column(title, rows, now, encoding) for title in _CELLS)
    shown = [column for column in others if any(column.cells.values())]
    for title in GIVE_WAY:
        if total([replace(stage, width=min(stage.width, _NAME)), *shown]) <= width:
            break
        shown = [column for column in shown if column.title != title]
    room = max(width - total([replace(stage, width=0), *shown]), 1)
    spare = max(room - (_GOOD_BARS - _BARS if any(each.title == TREND for each in shown) else 0), min(room, _NAME))
    name = _narrowed(stage, min(stage.width, spare), encoding)
    return [name, *(_stretched(column, rows, room - name.width, encoding) for column in shown)]


def total(columns: Sequence[Column]) -> int:
    """Give the width of a line of columns, in cells."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _column(title: str, rows: Sequence[Row], now: float, encoding: str) -> Column:
    cells = {row.stage: legible(_CELLS[title](row, now), encoding) for row in rows}
    if title not in ("stage", "state"):
        cells |= {row.stage: "" for row in rows if row.only_waits}
    width = max([cell_len(title), *map(cell_len, cells.values())])
    if title == TREND:
        width = _BARS
    return Column(title, cells, width, title not in ("stage", "state", TREND), _STYLES.get(title, _plain))


def _narrowed(column: Column, width: int, encoding: str) -> Column:
    cells = {stage: cut(text, width, encoding) for stage, text in column.cells.items()}
    return replace(column, cells=cells, width=width, title=cut(column.title, width, encoding))


def _stretched(column: Column, rows: Sequence[Row], room: int, encoding: str) -> Column:
    """Draw the trend as wide as there is room; it is the last column. A note stands in its place."""
    if column.title != TREND:
        return column
    width = min(_BARS + room, _MOST_BARS)
    cells = {row.stage: _trend(row, width, _BARS + room, encoding) for row in rows}
    return replace(
        column, cells=cells, width=max(width, *map(cell_len, cells.values())), title=cut(TREND, width, encoding)
    )


def _trend(row: Row, width: int, room: int, encoding: str) -> str:
    if row.metadata:
        return cut(legible(row.metadata, encoding), room, encoding)
    return sparkline(row.history, width, ascii_only=not encoding.startswith("utf"))


def legible(text: str, encoding: str) -> str:
    """Give a text as one line that a terminal of this encoding can show, and that cannot act on it."""
    shown = printable(text)
    if encoding.startswith("utf"):
        return shown
    return shown.translate(_MARKS).encode(encoding, "replace").decode(encoding)


def cut(text: str, width: int, encoding: str, *, keep_end: bool = False) -> str:
    """Cut a text to a width in cells, with a mark where something is missing: at its end, or at its beginning."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return set_cell_size(text, max(width, 0))
    mark = legible("…", encoding)
    if not keep_end:
        return set_cell_size(text, width - 1).rstrip() + mark
    return mark + set_cell_size(text[::-1], width - 1).rstrip()[::-1]


def _count(value: float | None) -> str:
    return "" if value is None else short_number(value)


def _backlog(row: Row, now: float) -> str:
    del now
    if row.backlog is None or row.unit == "rows":
        return _count(row.backlog)
    return backlog_words(row.backlog, row.unit)


def _age(row: Row, now: float) -> str:
    return "" if row.committed is None else age(now - row.committed)


def _freshness(row: Row, now: float) -> str:
    del now
    return "" if row.freshness is None else duration(row.freshness)


_CELLS: Mapping[str, Callable[[Row, float], str]] = {
    "stage": lambda row, _: row.stage,
    "state": lambda row, _: row.state,
    "batch": lambda row, _: "" if row.batch_id is None else str(row.batch_id),
    "this run": lambda row, _: _count(row.this_run),
    "in table": lambda row, _: _count(row.rows),
    "rows/s": lambda row, _: _count(row.rate),
    "backlog": _backlog,
    "age": _age,
    "freshness": _freshness,
    TREND: lambda row, _: row.metadata or ("-" if row.history else ""),
}
_STYLES: Mapping[str, Callable[[Row], str]] = {
    "state": lambda row: "green" if row.may_start else "bold red",
    "backlog": lambda row: "yellow" if row.backlog else "dim",
    TREND: lambda row: ("dim" if row.may_start else "red") if row.metadata else "green",
}
