"""This is where it is told what batches did: a line a batch for logs and pipes, or an object for programs."""

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import Level, json_line
from oncelake.common.wording import count_of, duration
from oncelake.engine.chain import Chain, named
from oncelake.exactly_once.batch import BatchReport, Event, EventSink, Notice
from oncelake.exactly_once.positions import as_object
from oncelake.exactly_once.source import Backlog
from oncelake.observe.record import BatchRecord
from oncelake.observe.status import StageStatus, backlog, backlog_words, status_sentence


class Display:
    """How a run's batches, or a chain that is watched from outside, are shown; this one shows nothing."""

    def tell(self, notice: Notice) -> None:
        """Show what a stage waits for, or warns of."""

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Show one batch, and what waits behind it."""

    def show_status(self, status: StageStatus) -> None:
        """Show how a stage stands."""

    def recall(self, records: Mapping[str, Sequence[BatchRecord]]) -> None:
        """Show what the stages' last batches were."""

    def remark(self, text: str, kind: Level = "info") -> None:
        """Show what happened to no stage in particular."""

    def writes(self, by: str | None) -> None:
        """Show who is writing the lake."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

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
    text = f"{report.stage}: batch {report.batch_id}, {count_of(count, 'row')}"
    if table.layer in _WINDOWS:
        text += f" {_WINDOWS[table.layer]}, {duration(report.seconds)}"
    else:
        text += "".join(f", {more:,} to {beside.name}" for beside, more in others)
        text += f", {duration(report.seconds)} ({report.rate:,.0f} rows/s)"
    if waits is not None and waits.count is not None:
        text += f", backlog {backlog_words(waits.count, waits.unit)}"
    return "; warning: ".join([text, *report.warned])


class Lines(Display):
    """A line a batch, or a change of what is watched, for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._states: dict[str, str] = {}

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write what a batch did."""
        self._write(sentence(report, waits))

    def tell(self, notice: Notice) -> None:
        """Write what a stage waits for, or warns of."""
        kind = "warning: " if notice.event == "warning" else ""
        self._write(f"{notice.stage}: {kind}{notice.text}")

    def show_status(self, status: StageStatus) -> None:
        """Write how a stage stands when its state is another than before."""
        before, self._states[status.stage] = self._states.get(status.stage), status.state
        if before != status.state:
            self._write(self._state(status))

    def remark(self, text: str, kind: Level = "info") -> None:
        """Write what happened to no stage in particular."""
        self._write(text if kind == "info" else f"{kind}: {text}")

    def writes(self, by: str | None) -> None:
        """Write who is writing the lake."""
        self._write(f"{by} is writing" if by else "no run is writing")

    def _state(self, status: StageStatus) -> str:
        return status_sentence(status)


class JsonLines(Lines):
    """The same as JSON objects, for programs."""

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Write what a batch did."""
        told: dict[str, Any] = {"stage": report.stage, "query": report.query_id, "batch_id": report.batch_id}
        told["rows"] = {str(table): count for table, count in report.rows.items()}
        told |= {"seconds": round(report.seconds, 3), "replayed": report.replayed}
        told |= {"warned": list(report.warned)} if report.warned else {}
        told |= {"freshness": round(report.freshness, 3)} if report.freshness is not None else {}
        told |= {"backlog": waits.count, "backlog_unit": waits.unit} if waits else {}
        level: Level = "warning" if report.warned else "info"
        self._write(json_line("batch", level, report.ended, **told, position=as_object(report.position)))

    def tell(self, notice: Notice) -> None:
        """Write what a stage waits for, or warns of."""
        told: dict[str, Any] = {"stage": notice.stage, "text": notice.text}
        told |= {"query": notice.query_id, "batch_id": notice.batch_id} if notice.batch_id is not None else {}
        told |= {"position": as_object(notice.position)} if notice.position is not None else {}
        self._write(json_line(notice.event, "warning", notice.since, **told))

    def remark(self, text: str, kind: Level = "info") -> None:
        """Write what happened to no stage in particular."""
        self._write(json_line("remark", kind, text=text))

    def writes(self, by: str | None) -> None:
        """Write who is writing the lake."""
        self._write(json_line("writer", writing=by is not None, by=by))

    def _state(self, status: StageStatus) -> str:
        return json_line("status", "info" if status.may_start else "error", **status.to_dict())
