"""Measure a run: batches and Spark put events into a queue, and a separate thread counts them."""

import queue
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from opentelemetry.metrics import MeterProvider, get_meter_provider
from pyspark.sql import SparkSession

from oncelake.common.background import Background, Pause
from oncelake.engine.chain import Chain, StageState, named
from oncelake.exactly_once.batch import CommittedBatch, Event, EventSink, Notice
from oncelake.exactly_once.files import files_at
from oncelake.observe.alerts.state import read_states
from oncelake.observe.endpoint import endpoint
from oncelake.observe.listener import Ask, QueryEvent, listening
from oncelake.observe.metrics import Instruments, StageReading, instruments
from oncelake.observe.status import backlog

# Seconds between two checks of each stage's backlog; Prometheus rarely scrapes more often.
LOOK = 15.0
# At its end, a run waits at most this many seconds for the remaining events. A check of Kafka or a database may take
# longer.
GRACE = 5.0


def ignore(_: Event) -> None:
    """Discard an event."""


@contextmanager
def measured(chain: Chain, spark: SparkSession, _: EventSink) -> Iterator[EventSink]:
    """Measure a run, and yield the sink for its events; without a reader of the metrics, nothing is measured.

    There are two kinds of readers: the endpoint, if `metrics.port` is set, and the calling program, if it has set
    OpenTelemetry's meter provider.

    Raises:
        ConfigError: the process cannot listen at metrics.port.
    """
    with ExitStack() as stack:
        providers = [*_program_providers()]
        if chain.settings.metrics.port is not None:
            providers.append(stack.enter_context(endpoint(chain.settings.metrics)))
        if not providers:
            yield ignore
            return
        measure = RunMeter(
            [instruments(provider) for provider in providers],
            lambda stage: chain.stage_state(named(chain.stages, stage)),
            partial(_alerts, chain),
        )
        stack.enter_context(measure.going_on([stage.name for stage in chain.stages]))
        stack.enter_context(listening(spark, measure.put))
        yield measure.put


def _alerts(chain: Chain) -> dict[str, tuple[int, int]]:
    """Return how many windows or times are open for each alert, and how many of its messages are not sent."""
    states = read_states(files_at(chain.lake.root, chain.spark), chain.lake.root, chain.settings.alerts)
    return {name: (state.open, state.unsent) if state else (0, 0) for name, state in states.items()}


def _program_providers() -> Iterator[MeterProvider]:
    """Yield the meter provider that the calling program has set, if any; such a program has loaded the SDK."""
    provider, sdk = get_meter_provider(), sys.modules.get("opentelemetry.sdk.metrics")
    if sdk is not None and isinstance(provider, sdk.MeterProvider):
        yield provider


@dataclass
class RunMeter:
    """A queue of events, and the thread that counts them.

    Attributes:
        stage_state: returns the state of a stage, by its name.
        alerts: returns the values of the gauges of alerts.
        stages: the current reading of each stage, for the gauges.
    """

    instruments: Sequence[Instruments]
    stage_state: Callable[[str], StageState]
    alerts: Callable[[], dict[str, tuple[int, int]]] = dict
    stages: dict[str, StageReading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: queue.SimpleQueue[Event | Ask] = queue.SimpleQueue()
        self._thread, self._due = Background("measure", self._round, last=self._count_waiting), 0.0
        self._names: dict[str, str] = {}

    def put(self, event: Event | Ask) -> None:
        """Enqueue an event; called by batches and by Spark."""
        self._waiting.put(event)
        self._thread.wake()

    @contextmanager
    def going_on(self, stages: Sequence[str]) -> Iterator[None]:
        """Count events in a thread during a run over some stages; at its end, count the remaining ones."""
        self.stages.update({stage: StageReading() for stage in stages})
        for instrument in self.instruments:
            instrument.stages.update(self.stages)
        self._due = time.monotonic()
        self._thread.start()
        try:
            yield
        finally:
            self._thread.end()
            self._thread.join(GRACE)
            for instrument in self.instruments:
                instrument.stages.clear()
                instrument.alerts.clear()

    def count(self, event: Event | QueryEvent) -> None:
        """Count one event."""
        if isinstance(event, CommittedBatch):
            self._batch(event)
        elif isinstance(event, Notice):
            self._wait(event)
        else:
            self._query_event(event)

    def see(self) -> None:
        """Read every stage's backlog and last commit, and the alerts; what cannot be read keeps its last values."""
        for stage, reading in self.stages.items():
            # if Kafka or the database does not answer, the query itself reports it; no error may end this thread
            with suppress(Exception):
                state = self.stage_state(stage)
                reading.backlog = backlog(state)
                last = state.first.last
                reading.committed = last.timestamp / 1000 if last else reading.committed
        with suppress(Exception):
            alerts = self.alerts()
            for instrument in self.instruments:
                instrument.alerts.update(alerts)

    def _round(self) -> Pause:
        self._count_waiting()
        if time.monotonic() >= self._due:
            self.see()
            self._due = time.monotonic() + LOOK
        return 0, max(self._due - time.monotonic(), 0)

    def _count_waiting(self) -> None:
        while not self._waiting.empty():
            event = self._waiting.get()
            with suppress(Exception):  # the JVM has ended, which ends the run anyway
                self.count(event() if callable(event) else event)

    def _batch(self, report: CommittedBatch) -> None:
        reading = self.stages[report.stage]
        reading.waiting = False
        if not report.replayed:
            reading.committed = time.time()
        for instrument in self.instruments:
            instrument.batch(report)

    def _wait(self, notice: Notice) -> None:
        reading = self.stages.get(notice.stage)
        if reading is None or reading.waiting or notice.event != "waiting":
            return
        reading.waiting = True
        for instrument in self.instruments:
            instrument.wait(notice.stage)

    def _query_event(self, event: QueryEvent) -> None:
        if event.kind == "started" and event.name in self.stages:
            self._names[event.run_id] = event.name
            self.stages[event.name].up = True
        stage = self._names.get(event.run_id)
        if stage is None:
            return
        if event.kind == "progress":
            self.stages[stage].input_rate = event.progress.get("inputRowsPerSecond") or 0.0
            for instrument in self.instruments:
                instrument.phases(stage, event.progress.get("durationMs", {}))
        elif event.kind != "started":
            self.stages[stage].input_rate = 0.0
            self.stages[stage].up = event.kind == "idle"
