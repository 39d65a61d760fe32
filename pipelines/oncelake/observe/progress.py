"""Report a run's batches: one text line per batch for logs and pipes, or one JSON object for programs."""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import Level, json_line
from oncelake.common.lake import Table
from oncelake.common.wording import count_of, duration
from oncelake.engine.chain import Chain, named
from oncelake.exactly_once.batch import CommittedBatch, Event, EventSink, Notice
from oncelake.exactly_once.positions import as_object
from oncelake.exactly_once.source import Backlog
from oncelake.observe.status import StageStatus, backlog_words, status_sentence


class Display:
    """The base class of displays, for a run's batches or a watched chain; this class shows nothing."""

    def tell(self, notice: Notice) -> None:
        """Show a stage's notice that it waits, or a warning."""

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        """Show one batch and the backlog after it."""

    def show_status(self, status: StageStatus) -> None:
        """Show a stage's state."""

    def recall(self, records: Mapping[str, Sequence[CommittedBatch]]) -> None:
        """Show the stages' last batches."""

    def remark(self, text: str, kind: Level = "info") -> None:
        """Show an event that belongs to no stage."""

    def writes(self, by: str | None) -> None:
        """Show who is writing the lake; None for nobody."""

    def __enter__(self) -> Self:
        """Start the display."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the display and release the terminal."""


@dataclass
class Progress:
    """A queue of events between the batches and the display.

    A batch only enqueues, so a slow display does not delay it. `show` runs in the main thread. It counts the backlog
    after a batch, but if that takes long, as for a directory of very many files, only once in a while: a count takes
    processor time that the batches need.
    """

    chain: Chain
    display: Display
    sink: EventSink = lambda _: None
    batches: int = 0
    waiting: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    _counts_again: dict[str, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Enqueue an event; called from a batch."""
        self.waiting.put(event)
        self.sink(event)

    def show(self) -> None:
        """Show the events that have arrived since the last call."""
        while not self.waiting.empty():
            report = self.waiting.get()
            if isinstance(report, Notice):
                self.display.tell(report)
                continue
            self.batches += not report.replayed
            self.display.show(report, self._backlog(report) if self.waiting.empty() else None)

    def _backlog(self, report: CommittedBatch) -> Backlog | None:
        began, stage = time.monotonic(), named(self.chain.stages, report.stage)
        if began < self._counts_again.get(report.stage, began):
            return None
        try:
            return self.chain.source(stage).backlog(report.position, changes=stage.served is not None)
        except OncelakeError:  # for example, Kafka does not answer; the query itself reports it
            return None
        finally:
            took = time.monotonic() - began
            if took > _LONG_COUNT:
                self._counts_again[report.stage] = began + took * _TIMES


# If a backlog takes longer than this to count, in seconds, counting gets one fiftieth of the time.
_LONG_COUNT, _TIMES = 0.1, 50
# The verb for layers whose rows are windows, not lines.
_WINDOWS = {"gold": "merged", "serving": "upserted"}


def sentence(report: CommittedBatch, waits: Backlog | None) -> str:
    """Return one line that says what a batch did."""
    if report.replayed:
        return f"{report.stage}: batch {report.batch_id} was in the table already, nothing written"
    (table, count), *others = report.rows.items()
    rows = count_of(count, "row")
    if report.lines is not None:
        rows = f"{count_of(count, 'record')} of {count_of(report.lines, 'line')}"
    text = f"{report.stage}: batch {report.batch_id}, {rows}"
    layer = Table.named(table).layer
    if layer in _WINDOWS:
        text += f" {_WINDOWS[layer]}, {duration(report.seconds)}"
    else:
        text += "".join(f", {more:,} to {Table.named(other).name}" for other, more in others)
        text += f", {duration(report.seconds)} ({report.rate:,.0f} rows/s)"
    if waits is not None and waits.count is not None:
        text += f", backlog {backlog_words(waits.count, waits.unit, waits.behind)}"
    return "; warning: ".join([text, *report.warned])


class Lines(Display):
    """One text line per batch or change of state, for logs and pipes."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._states: dict[str, str] = {}

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        """Write what a batch did."""
        self._write(sentence(report, waits))

    def tell(self, notice: Notice) -> None:
        """Write a stage's notice that it waits, or a warning."""
        kind = "warning: " if notice.event == "warning" else ""
        self._write(f"{notice.stage}: {kind}{notice.text}")

    def show_status(self, status: StageStatus) -> None:
        """Write a stage's state if it has changed."""
        before, self._states[status.stage] = self._states.get(status.stage), status.state
        if before != status.state:
            self._write(self._state(status))

    def remark(self, text: str, kind: Level = "info") -> None:
        """Write an event that belongs to no stage."""
        self._write(text if kind == "info" else f"{kind}: {text}")

    def writes(self, by: str | None) -> None:
        """Write who is writing the lake; None for nobody."""
        self._write(f"{by} is writing" if by else "no run is writing")

    def _state(self, status: StageStatus) -> str:
        return status_sentence(status)


class JsonLines(Lines):
    """One JSON object per batch or change of state, for programs."""

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        """Write what a batch did."""
        fields: dict[str, Any] = {"stage": report.stage, "query": report.query_id, "batch_id": report.batch_id}
        fields["rows"] = dict(report.rows)
        fields |= {"lines": report.lines} if report.lines is not None else {}
        fields |= {"seconds": round(report.seconds, 3), "replayed": report.replayed}
        fields |= {"warned": list(report.warned)} if report.warned else {}
        fields |= {"masked": dict(report.masked)} if report.masked else {}
        fields |= {"freshness": round(report.freshness, 3)} if report.freshness is not None else {}
        fields |= {"backlog": waits.count, "backlog_unit": waits.unit} if waits else {}
        level: Level = "warning" if report.warned else "info"
        self._write(json_line("batch", level, report.ended, **fields, position=as_object(report.position)))

    def tell(self, notice: Notice) -> None:
        """Write a stage's notice that it waits, or a warning."""
        fields: dict[str, Any] = {"stage": notice.stage, "text": notice.text}
        fields |= {"query": notice.query_id, "batch_id": notice.batch_id} if notice.batch_id is not None else {}
        fields |= {"position": as_object(notice.position)} if notice.position is not None else {}
        self._write(json_line(notice.event, "warning", notice.since, **fields))

    def remark(self, text: str, kind: Level = "info") -> None:
        """Write an event that belongs to no stage."""
        self._write(json_line("remark", kind, text=text))

    def writes(self, by: str | None) -> None:
        """Write who is writing the lake; None for nobody."""
        self._write(json_line("writer", writing=by is not None, by=by))

    def _state(self, status: StageStatus) -> str:
        return json_line("status", "info" if status.may_start else "error", **status.to_dict())
