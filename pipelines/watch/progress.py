"""This is where a run tells what its batches did: a table on a terminal, else a line a batch."""

import json
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid

from pipelines.errors import OncelakeError
from pipelines.exactly_once.batch import BatchReport
from pipelines.survey import Survey, named
from pipelines.watch.backlog import Backlog, backlog


class Display(Protocol):
    """How reports are shown."""

    def tell(self, text: str) -> None:
        """Show what a stage waits for."""

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Show one batch, and what waits behind it."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""


@dataclass
class Progress:
    """Reports on their way from the batches to the display.

    A batch only enqueues, so nothing that is slow to show holds it up; `show` runs in the main thread.
    """

    survey: Survey
    display: Display
    batches: int = 0
    waiting: queue.SimpleQueue[BatchReport | str] = field(default_factory=queue.SimpleQueue)

    def __call__(self, report: BatchReport) -> None:
        """Take a report; called from a batch."""
        self.waiting.put(report)

    def tell(self, text: str) -> None:
        """Take what a stage waits for; called from a batch."""
        self.waiting.put(text)

    def show(self) -> None:
        """Show what has come in since."""
        while not self.waiting.empty():
            report = self.waiting.get()
            if isinstance(report, str):
                self.display.tell(report)
                continue
            self.batches += not report.replayed
            self.display.show(report, self._backlog(report.stage) if self.waiting.empty() else None)

    def _backlog(self, stage: str) -> Backlog | None:
        try:
            return backlog(self.survey.view(named(self.survey.stages, stage)))
        except OncelakeError:  # Kafka does not answer just now; the query itself tells
            return None


# What is done with rows that are windows, not lines.
_WINDOWS = {"gold": "merged", "serving": "upserted"}


def sentence(report: BatchReport, waits: Backlog | None) -> str:
    """Say what a batch did."""
    if report.replayed:
        return f"{report.stage}: batch {report.batch_id} was in the table already, nothing written"
    (table, count), *others = report.rows.items()
    text = f"{report.stage}: batch {report.batch_id}, {count:,} rows"
    if table.layer in _WINDOWS:
        text += f" {_WINDOWS[table.layer]}, {report.seconds:.1f} s"
    else:
        text += "".join(f", {more:,} to {beside.name}" for beside, more in others)
        text += f", {report.seconds:.1f} s ({_rate(report):,.0f} rows/s)"
    if waits is not None and waits.count is not None:
        text += f", backlog {waits.count:,} {waits.unit}"
    return "; warning: ".join([text, *report.warned])


def _rate(report: BatchReport) -> float:
    return sum(report.rows.values()) / max(report.seconds, 0.001)


class Lines:
    """A line a batch, for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write one line."""
        self._write(sentence(report, waits))

    def tell(self, text: str) -> None:
        """Write one line."""
        self._write(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class JsonLines(Lines):
    """A JSON object a batch, for programs."""

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write one object."""
        rows = {str(table): count for table, count in report.rows.items()}
        event = {"event": "batch", "stage": report.stage, "batch_id": report.batch_id, "rows": rows}
        event |= {"seconds": round(report.seconds, 3), "replayed": report.replayed}
        event |= {"warned": list(report.warned)} if report.warned else {}
        self._write(json.dumps(event | ({"backlog": waits.count, "backlog_unit": waits.unit} if waits else {})))

    def tell(self, text: str) -> None:
        """Write one object."""
        stage, _, said = text.partition(": ")
        self._write(json.dumps({"event": "waiting", "stage": stage, "text": said}))


class LiveTable:
    """A table of stages that is drawn in place, for terminals."""

    def __init__(self, console: Console, stages: list[str]) -> None:
        self._total = dict.fromkeys(stages, 0)
        self._last: dict[str, tuple[BatchReport, Backlog | None]] = {}
        self._live = Live(self._grid(), console=console, auto_refresh=False)

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Draw the table again."""
        self._total[report.stage] += sum(report.rows.values())
        known = self._last.get(report.stage)
        self._last[report.stage] = (report, waits or (known[1] if known else None))
        self._live.update(self._grid(), refresh=True)

    def tell(self, text: str) -> None:
        """Write a line above the table."""
        self._live.console.print(text, highlight=False, markup=False)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _grid(self) -> Grid:
        grid = Grid("stage", box=None, pad_edge=False)
        for title in ("batch", "rows in this run", "rows/s", "backlog"):
            grid.add_column(title, justify="right")
        for stage, total in self._total.items():
            if stage not in self._last:
                grid.add_row(stage, "-", "0", "", "")
                continue
            report, waits = self._last[stage]
            behind = f"{waits.count:,} {waits.unit}" if waits and waits.count is not None else ""
            merges = stage.split(".")[0] in _WINDOWS
            rate = f"{report.seconds:.1f} s a batch" if merges else f"{_rate(report):,.0f}"
            grid.add_row(stage, str(report.batch_id), f"{total:,}", rate, behind)
        return grid


def display_on(console: Console, stages: list[str], *, as_json: bool) -> Lines | LiveTable:
    """Give what shows progress: objects for programs, a table drawn in place on a terminal, else lines."""
    if as_json:
        return JsonLines(typer.echo)
    return LiveTable(console, stages) if console.is_terminal else Lines(typer.echo)
