"""This is where the live view is drawn: stages as a table, the last events below; plain values in, lines out.

Nothing wraps: columns give way in a chosen order where the terminal is narrow, names are cut, and events go first where
it is low. Drawing reads no file and asks nobody.
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

# So many events are shown at most.
EVENTS = 5
_STYLES: dict[Level, str] = {"info": "", "warning": "yellow", "error": "bold red"}
_LAYERS = {"bronze": "dark_orange3", "silver": "bold", "gold": "dark_goldenrod", "serving": "cyan"}
_SPLIT, _ARROW = " · ", " → "
# With less room than this the header does not say what is run over.
_SHORTEST = 20
_TREND = "trend"
# Columns give way in this order where the terminal is narrow; the stage's name stays.
GIVE_WAY = ("in table", "age", "this run", "batch", "rows/s", _TREND, "freshness", "backlog", "state")
# What a long name is cut to before a column gives way.
_NAME = 18
# How many bars a trend has before a column gives way, before a long name is drawn in full, and at most.
_FEWEST, _GOOD, _MOST = 6, 10, 40
# without the full block, as the bars of two lines one below the other would run together
_BARS = "▁▂▃▄▅▆▇"
# Marks that a terminal without UTF-8 may lack, each with one of the same width.
_MARKS = dict(zip(f"…→·{_BARS}", "~>|_.:-=+#", strict=True))


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
    note: str = ""

    @property
    def only_waits(self) -> bool:
        """Whether there is nothing to show but what it waits for."""
        return self.batch_id is None and bool(self.note)


@dataclass(frozen=True)
class Head:
    """What the header says.

    Attributes:
        what: what runs, as `oncelake run`.
        over: what it runs over, from where to where; the ends are kept where it is long.
        rest: what else, as how many lines were taken in and since when.
    """

    what: str
    over: Sequence[str]
    rest: Sequence[str] = ()


@dataclass(frozen=True)
class BoardEvent:
    """Something that happened, at a time in seconds since 1970."""

    at: float
    text: str
    kind: Level = "info"


@dataclass(frozen=True)
class Board:
    """The live view of one moment.

    Attributes:
        clock: gives the time in seconds since 1970; ages are told by it whenever the board is drawn.
        whole: whether all is drawn however low the terminal is, as it is at the end.
    """

    head: Head
    rows: Sequence[Row]
    events: Sequence[BoardEvent]
    clock: Callable[[], float]
    whole: bool = field(default=False, kw_only=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide and as high as the terminal is."""
        height = 10_000 if self.whole else options.size.height - 1  # a full screen would scroll
        yield from self.lines(options.max_width, height, options.encoding)

    def lines(self, width: int, height: int, encoding: str = "utf-8") -> list[Text]:
        """Give the lines, none wider than `width` cells and no more than `height`."""
        table = self._table(width, max(height - 1, 1))
        room = height - 1 - len(table)
        events = [_event(event) for event in self.events[-min(EVENTS, max(room - 1, 0)) :]]
        events = [Text(), *events] if events and room > 1 else []
        space = [Text()] if room > len(events) else []
        lines = [self._header(width), *space, *table, *events][: max(height, 1)]
        for each in lines:
            each.no_wrap = True
            each.truncate(width, overflow="ellipsis")
            if not encoding.startswith("utf"):
                each.plain = "".join(_encodable(mark, encoding) for mark in each.plain)
        return lines

    def _header(self, width: int) -> Text:
        what, *rest = map(printable, (self.head.what, *self.head.rest))
        left = width - cell_len(_SPLIT.join([what, "", *rest]))
        shown = [what, *([_way(self.head.over, left)] if left >= _SHORTEST else []), *rest]
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
    """Give the columns that fit a width, in their order, each as wide as it is drawn; the trend takes what is left."""
    columns = _columns(now)
    widths = fitting(columns, rows, GIVE_WAY, width)
    (name, *_), (*_, last) = columns, widths
    spare = width - total(widths)
    kept = _GOOD - widths[last] if last.title == _TREND else 0
    longer = min(name.natural(rows) - widths[name], max(spare - kept, min(spare, 0)))
    widths[name] = max(widths[name] + longer, 1)
    if last.title == _TREND:
        room = widths.pop(last) + spare - longer
        bars = min(room, _MOST)
        trend = replace(last, cell=lambda row: printable(row.note) or sparkline(row.history[-bars:]))
        widths[trend] = min(room, max(bars, trend.natural(rows)))
    return widths


def _columns(now: float) -> tuple[Column[Row], ...]:
    """Give every column; of a stage that only waits there are none but the first two."""

    def told(cell: Callable[[Row], str]) -> Callable[[Row], str]:
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
        Column("batch", told(lambda row: "" if row.batch_id is None else str(row.batch_id))),
        Column("this run", told(lambda row: _count(row.this_run))),
        Column("in table", told(lambda row: _count(row.rows))),
        Column("rows/s", told(lambda row: _count(row.rate))),
        Column("backlog", told(_backlog), style=lambda row: "yellow" if row.backlog else "dim"),
        Column("age", told(lambda row: "" if row.committed is None else age(now - row.committed))),
        Column("freshness", told(lambda row: "" if row.freshness is None else duration(row.freshness))),
        Column(
            _TREND,
            told(lambda row: row.note or sparkline(row.history)),
            False,
            lambda row: ("dim" if row.may_start else "red") if row.note else "green",
            _FEWEST,
        ),
    )


def _line(row: Row, widths: dict[Column[Row], int]) -> Text:
    """Draw a stage; what one only waits for goes over all columns behind the first two."""
    if not row.only_waits:
        return line(widths, row)
    first = {column: cells for column, cells in widths.items() if column.title in ("stage", "state")}
    return GAP.join([*(column.draw(row, cells) for column, cells in first.items()), Text(printable(row.note), "dim")])


def _event(event: BoardEvent) -> Text:
    said = Text(printable(event.text), _STYLES[event.kind])
    return GAP.join([Text(clock_time(event.at), "dim"), said])


def _way(over: Sequence[str], width: int) -> str:
    """Write from where to where; where both do not fit, each has its share."""
    parts = [printable(part) for part in over]
    share = (width - cell_len(_ARROW) * (len(parts) - 1)) // max(len(parts), 1)
    share += sum(max(share - cell_len(part), 0) for part in parts)
    fit = (part if cell_len(part) <= share else f"…{set_cell_size(part[::-1], share - 1)[::-1]}" for part in parts)
    return _ARROW.join(fit)


def sparkline(values: Sequence[float]) -> str:
    """Draw values as small bars, the highest of them as the full one; zero is the lowest bar."""
    top = max(values, default=0.0)
    return "".join(_BARS[round(max(value, 0.0) / top * (len(_BARS) - 1)) if top > 0 else 0] for value in values)


def _encodable(mark: str, encoding: str) -> str:
    """Give a mark of the same width that a terminal of this encoding can show."""
    return mark if mark.encode(encoding, "ignore") else _MARKS.get(mark, "?" * cell_len(mark))


def _backlog(row: Row) -> str:
    if row.backlog is None or row.unit == "rows":
        return _count(row.backlog)
    return backlog_words(row.backlog, row.unit)


def _count(value: float | None) -> str:
    return "" if value is None else short_number(value)


def clock_time(at: float) -> str:
    """Write the time of day, in UTC, of a time in seconds since 1970."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"
