"""Render the live view: a table of stages with the latest events below.

No line wraps. On a narrow terminal, columns are dropped in a fixed order and long names are cut. On a short terminal,
events are dropped first. Rendering takes plain values and returns lines. It reads no file and makes no request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from oncelake.common.json_line import Level
from oncelake.common.wording import age, count_of, duration, printable, short_number
from oncelake.observe.columns import GAP, Column, fitting, line, total
from oncelake.observe.status import backlog_words

# The view shows at most this many events.
EVENTS = 5
_STYLES: dict[Level, str] = {"info": "", "warning": "yellow", "error": "bold red"}
_LAYERS = {"bronze": "dark_orange3", "silver": "bold", "gold": "dark_goldenrod", "serving": "cyan"}
_SPLIT, _ARROW = " · ", " → "
# With fewer free cells than this, the header omits the source and the lake.
_SHORTEST = 20
_TREND = "trend"
# On a narrow terminal, columns are dropped in this order; the stage's name always stays.
GIVE_WAY = ("in table", "age", "this run", "batch", "rows/s", _TREND, "freshness", "backlog", "state")
# A long name is cut to this many cells before a column is dropped.
_NAME = 18
# The trend's number of bars: the fewest before a column is dropped, the number that comes before a long name in full,
# and the most.
_FEWEST, _GOOD, _MOST = 6, 10, 40
# The full block is missing on purpose: with it, the bars of adjacent lines would touch.
_BARS = "▁▂▃▄▅▆▇"
# Characters that a terminal without UTF-8 may lack, each with a replacement of the same width.
_MARKS = dict(zip(f"…→·{_BARS}", "~>|_.:-=+#", strict=True))


@dataclass(frozen=True)
class Row:
    """One stage in the live view.

    Attributes:
        state: the state's name; empty if the view does not check the state.
        may_start: True if the stage may run in that state.
        batch_id: its last batch.
        this_run: rows that its batches have written since the view started.
        rows: rows in its first table.
        rate: rows per second of its last batch.
        backlog: input that is not processed yet, in `unit`.
        committed: when its last batch was committed, in seconds since 1970.
        freshness: seconds from the ingestion of the oldest line in its last batch to the commit.
        history: rows per second of its last batches, oldest first.
        note: what it waits for, or its error.
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
    note: str = ""

    @property
    def only_waits(self) -> bool:
        """Return True if the row has no batch, only a note."""
        return self.batch_id is None and bool(self.note)


@dataclass(frozen=True)
class Head:
    """The header's content.

    Attributes:
        what: what runs, for example `oncelake run`.
        over: the source and the lake; a long name keeps its end.
        facts: further facts, for example how many lines were ingested and since when.
    """

    what: str
    over: Sequence[str]
    facts: Sequence[str] = ()


@dataclass(frozen=True)
class BoardEvent:
    """An event with its time in seconds since 1970."""

    at: float
    text: str
    kind: Level = "info"


@dataclass(frozen=True)
class Board:
    """A snapshot of the live view.

    Attributes:
        clock: returns the time in seconds since 1970; each rendering computes ages from it.
        whole: True to render everything, even if the terminal is too short; used for the final view.
    """

    head: Head
    rows: Sequence[Row]
    events: Sequence[BoardEvent]
    clock: Callable[[], float]
    whole: bool = field(default=False, kw_only=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the board to fit the terminal's width and height."""
        height = 10_000 if self.whole else options.size.height - 1  # a line on the last row would make it scroll
        yield from self.lines(options.max_width, height, options.encoding)

    def lines(self, width: int, height: int, encoding: str = "utf-8") -> list[Text]:
        """Return at most `height` lines, none wider than `width` cells."""
        table = self._table(width, max(height - 1, 1))
        room = height - 1 - len(table)
        events = [_event(event) for event in self.events[-min(EVENTS, max(room - 1, 0)) :]]
        events = [Text(), *events] if events and room > 1 else []
        space = [Text()] if room > len(events) else []
        lines = [self._header(width), *space, *table, *events][: max(height, 1)]
        for text in lines:
            text.no_wrap = True
            text.truncate(width, overflow="ellipsis")
            if not encoding.startswith("utf"):
                text.plain = "".join(_encodable(mark, encoding) for mark in text.plain)
        return lines

    def _header(self, width: int) -> Text:
        what, *facts = map(printable, (self.head.what, *self.head.facts))
        cells = width - cell_len(_SPLIT.join([what, "", *facts]))
        shown = [what, *([_way(self.head.over, cells)] if cells >= _SHORTEST else []), *facts]
        header = Text(_SPLIT.join(shown), style="dim")
        header.stylize("not dim bold", 0, len(what))
        return header

    def _table(self, width: int, height: int) -> list[Text]:
        widths = widths_in(width, self.rows, self.clock())
        lines = [_line(row, widths) for row in self.rows]
        if len(lines) + 1 > height:
            hidden = len(lines) - max(height - 2, 0)
            lines[max(height - 2, 0) :] = [Text(f"… {count_of(hidden, 'more stage')}", "dim")]
        titles = line(widths, None)
        titles.style = "dim"
        return [titles, *lines][:height]


def widths_in(width: int, rows: Sequence[Row], now: float) -> dict[Column[Row], int]:
    """Return the columns that fit into a width, in order, with their widths; the trend takes the remaining cells."""
    columns = _columns(now)
    widths = fitting(columns, rows, GIVE_WAY, width)
    (name, *_), (*_, last) = columns, widths
    spare = width - total(widths)
    reserved = _GOOD - widths[last] if last.title == _TREND else 0
    longer = min(name.natural(rows) - widths[name], max(spare - reserved, min(spare, 0)))
    widths[name] = max(widths[name] + longer, 1)
    if last.title == _TREND:
        room = widths.pop(last) + spare - longer
        bars = min(room, _MOST)
        trend = replace(last, cell=lambda row: printable(row.note) or sparkline(row.history[-bars:]))
        widths[trend] = min(room, max(bars, trend.natural(rows)))
    return widths


def _columns(now: float) -> tuple[Column[Row], ...]:
    """Return all columns; for a stage that only waits, the cells after the first two are empty."""

    def unless_waiting(cell: Callable[[Row], str]) -> Callable[[Row], str]:
        return lambda row: "" if row.only_waits else cell(row)

    return (
        Column(
            "stage",
            lambda row: printable(row.stage),
            False,
            lambda row: _LAYERS.get(row.stage.split(".")[0], ""),
            _NAME,
        ),
        Column("state", lambda row: row.state, False, lambda row: "green" if row.may_start else "bold red"),
        Column("batch", unless_waiting(lambda row: "" if row.batch_id is None else str(row.batch_id))),
        Column("this run", unless_waiting(lambda row: _count(row.this_run))),
        Column("in table", unless_waiting(lambda row: _count(row.rows))),
        Column("rows/s", unless_waiting(lambda row: _count(row.rate))),
        Column("backlog", unless_waiting(_backlog), style=lambda row: "yellow" if row.backlog else "dim"),
        Column("age", unless_waiting(lambda row: "" if row.committed is None else age(now - row.committed))),
        Column("freshness", unless_waiting(lambda row: "" if row.freshness is None else duration(row.freshness))),
        Column(
            _TREND,
            unless_waiting(lambda row: row.note or sparkline(row.history)),
            False,
            lambda row: ("dim" if row.may_start else "red") if row.note else "green",
            _FEWEST,
        ),
    )


def _line(row: Row, widths: dict[Column[Row], int]) -> Text:
    """Draw a stage; the note of a stage that only waits spans all columns after the first two."""
    if not row.only_waits:
        return line(widths, row)
    first = {column: cells for column, cells in widths.items() if column.title in ("stage", "state")}
    return GAP.join([*(column.draw(row, cells) for column, cells in first.items()), Text(printable(row.note), "dim")])


def _event(event: BoardEvent) -> Text:
    text = Text(printable(event.text), _STYLES[event.kind])
    return GAP.join([Text(clock_time(event.at), "dim"), text])


def _way(over: Sequence[str], width: int) -> str:
    """Return `source → lake`, cut to a width; if both do not fit, they share the width."""
    parts = [printable(part) for part in over]
    share = (width - cell_len(_ARROW) * (len(parts) - 1)) // max(len(parts), 1)
    share += sum(max(share - cell_len(part), 0) for part in parts)
    fit = (part if cell_len(part) <= share else f"…{set_cell_size(part[::-1], share - 1)[::-1]}" for part in parts)
    return _ARROW.join(fit)


def sparkline(values: Sequence[float]) -> str:
    """Draw values as small bars: the largest value is the highest bar, zero the lowest."""
    top = max(values, default=0.0)
    return "".join(_BARS[round(max(value, 0.0) / top * (len(_BARS) - 1)) if top > 0 else 0] for value in values)


def _encodable(mark: str, encoding: str) -> str:
    """Return the character, or a replacement of the same width if the encoding lacks it."""
    return mark if mark.encode(encoding, "ignore") else _MARKS.get(mark, "?" * cell_len(mark))


def _backlog(row: Row) -> str:
    if row.backlog is None or row.unit == "rows":
        return _count(row.backlog)
    return backlog_words(row.backlog, row.unit)


def _count(value: float | None) -> str:
    return "" if value is None else short_number(value)


def clock_time(at: float) -> str:
    """Return the time of day in UTC for a time in seconds since 1970."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"
