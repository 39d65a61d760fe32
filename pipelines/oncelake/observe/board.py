"""This is where the live view is drawn: stages as a table, the last events below; plain values in, lines out.

Nothing wraps: columns give way in a chosen order where the terminal is narrow, names are cut, and events go first where
it is low. Drawing reads no file and asks nobody.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from oncelake.observe.columns import GAP, Column, Row, cut, fitting, legible

Kind = Literal["info", "warning", "error"]

# So many events are shown at most.
EVENTS = 5
_STYLES: dict[Kind, str] = {"info": "", "warning": "yellow", "error": "bold red"}
_LAYERS = {"bronze": "dark_orange3", "silver": "bold", "gold": "dark_goldenrod", "serving": "cyan"}
_SPLIT, _ARROW = " · ", " → "
# With less room than this the header does not say what is run over.
_SHORTEST = 20


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
    kind: Kind = "info"


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
        table = self._table(width, max(height - 1, 1), encoding)
        room = height - 1 - len(table)
        events = [self._event(event, width, encoding) for event in self.events[-min(EVENTS, max(room - 1, 0)) :]]
        events = [Text(""), *events] if events and room > 1 else []
        space = [Text("")] if room > len(events) else []
        return [self._header(width, encoding), *space, *table, *events][: max(height, 1)]

    def _header(self, width: int, encoding: str) -> Text:
        what, *rest = (legible(part, encoding) for part in (self.head.what, *self.head.rest))
        split = legible(_SPLIT, encoding)
        left = width - cell_len(split.join([what, "", *rest]))
        shown = [what, *([_way(self.head.over, left, encoding)] if left >= _SHORTEST else []), *rest]
        line = Text(cut(split.join(shown), width, encoding), style="dim", no_wrap=True)
        line.stylize("not dim bold", 0, len(what))
        return line

    def _table(self, width: int, height: int, encoding: str) -> list[Text]:
        columns = fitting(self.rows, width, self.clock(), encoding)
        lines = [self._line(row, columns, width, encoding) for row in self.rows]
        if len(lines) + 1 > height:
            hidden = len(lines) - max(height - 2, 0)
            more = Text(cut(legible(f"… {hidden} more stages", encoding), width, encoding), style="dim", no_wrap=True)
            lines = [*lines[: max(height - 2, 0)], more]
        titles = GAP.join(column.pad(column.title) for column in columns).rstrip()
        return [Text(titles, style="dim", no_wrap=True), *lines][:height]

    def _line(self, row: Row, columns: Sequence[Column], width: int, encoding: str) -> Text:
        line = Text(no_wrap=True)
        for column in columns:
            if line:
                line.append(GAP)
            if column.title not in ("stage", "state") and row.only_waits:
                return line.append(cut(legible(row.metadata, encoding), width - line.cell_len, encoding), "dim")
            style = _LAYERS.get(row.stage.split(".")[0], "") if column.title == "stage" else column.style(row)
            line.append(column.pad(column.cells[row.stage]), style)
        line.rstrip()
        return line

    def _event(self, event: BoardEvent, width: int, encoding: str) -> Text:
        at = clock_time(event.at)
        line = Text(cut(f"{at}{GAP}{legible(event.text, encoding)}", width, encoding), no_wrap=True)
        line.stylize(_STYLES[event.kind], len(at))
        line.stylize("dim", 0, len(at))
        return line


def _way(over: Sequence[str], width: int, encoding: str) -> str:
    """Write from where to where; where both do not fit, each has its share."""
    arrow = legible(_ARROW, encoding)
    parts = [legible(part, encoding) for part in over]
    share = (width - cell_len(arrow) * (len(parts) - 1)) // max(len(parts), 1)
    spare = sum(max(share - cell_len(part), 0) for part in parts)
    return arrow.join(cut(part, share + spare, encoding, keep_end=True) for part in parts)


def clock_time(at: float) -> str:
    """Write the time of day, in UTC, of a time in seconds since 1970."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def last_of(events: Iterable[BoardEvent]) -> tuple[BoardEvent, ...]:
    """Put events in the order of their times, the last ones alone."""
    return tuple(sorted(events, key=lambda event: event.at)[-EVENTS:])
