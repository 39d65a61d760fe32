"""This is where a run tells what its batches did: on a live board on a terminal, else a line a batch."""

import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import Level, as_object, json_line
from oncelake.engine.chain import Chain, named
from oncelake.exactly_once.batch import BatchReport, Event, EventSink, Notice
from oncelake.observe.backlog import Backlog, backlog


class Display(Protocol):
    """How reports are shown."""

    def tell(self, notice: Notice) -> None:
        """Show what a stage waits for, or warns of."""

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

    chain: Chain
    display: Display
    sink: EventSink = lambda _: None
    batches: int = 0
    waiting: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)

    def __call__(self, event: Event) -> None:
        """Take an event; called from a batch."""
        self.waiting.put(event)
        self.sink(event)

    def show(self) -> None:
        """Show what has come in since."""
        while not self.waiting.empty():
            report = self.waiting.get()
            if isinstance(report, Notice):
                self.display.tell(report)
                continue
            self.batches += not report.replayed
            self.display.show(report, self._backlog(report.stage) if self.waiting.empty() else None)

    def _backlog(self, stage: str) -> Backlog | None:
        try:
            return backlog(self.chain.stage_state(named(self.chain.stages, stage)))
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
        text += f", {report.seconds:.1f} s ({report.rate:,.0f} rows/s)"
    if waits is not None and waits.count is not None:
        text += f", backlog {waits.count:,} {waits.unit}"
    return "; warning: ".join([text, *report.warned])


class Lines:
    """A line a batch, for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write one line."""
        self._write(sentence(report, waits))

    def tell(self, notice: Notice) -> None:
        """Write one line."""
        kind = "warning: " if notice.event == "warning" else ""
        self._write(f"{notice.stage}: {kind}{notice.text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class JsonLines(Lines):
    """A JSON object a batch, for programs."""

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write one object."""
        rows = {str(table): count for table, count in report.rows.items()}
        told: dict[str, Any] = {
            "stage": report.stage,
            "query": report.query_id,
            "batch_id": report.batch_id,
            "rows": rows,
        }
        told |= {"seconds": round(report.seconds, 3), "replayed": report.replayed}
        told |= {"warned": list(report.warned)} if report.warned else {}
        told |= {"freshness": round(report.freshness, 3)} if report.freshness is not None else {}
        told |= {"backlog": waits.count, "backlog_unit": waits.unit} if waits else {}
        level: Level = "warning" if report.warned else "info"
        self._write(json_line("batch", level, report.ended, **told, position=as_object(report.position)))

    def tell(self, notice: Notice) -> None:
        """Write one object."""
        told: dict[str, Any] = {"stage": notice.stage, "text": notice.text}
        told |= {"query": notice.query_id, "batch_id": notice.batch_id} if notice.batch_id is not None else {}
        told |= {"position": as_object(notice.position)} if notice.position is not None else {}
        self._write(json_line(notice.event, "warning", notice.since, **told))
