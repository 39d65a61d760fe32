"""This is where a run is measured: what batches and Spark tell is put away, and a thread beside the run counts it."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from opentelemetry.metrics import MeterProvider, get_meter_provider
from pyspark.sql import SparkSession

from oncelake.engine.chain import Chain, StageState, named
from oncelake.exactly_once.batch import BatchReport, Event, EventSink, Notice
from oncelake.observe.endpoint import endpoint
from oncelake.observe.listener import Ask, QueryEvent, listening
from oncelake.observe.metrics import Instruments, StageReading, instruments
from oncelake.observe.status import backlog

# So often it is looked how much waits before each stage, in seconds; scrapes are seldom closer together.
LOOK = 15.0
# So long the end of a run waits for what is left to be counted: a look at Kafka or a database may take longer.
GRACE = 5.0


def ignore(_: Event) -> None:
    """Take an event where nobody reads it."""


@contextmanager
def measured(chain: Chain, spark: SparkSession, _: EventSink) -> Iterator[EventSink]:
    """Measure a run: give what takes its events; where nobody reads metrics, all this is nothing.

    Read by who sets `metrics.port`, and by a program around that has set OpenTelemetry's meter provider.

    Raises:
        ConfigError: nothing can listen at metrics.port.
    """
    with ExitStack() as stack:
        providers = [*_given()]
        if chain.settings.metrics.port is not None:
            providers.append(stack.enter_context(endpoint(chain.settings.metrics)))
        if not providers:
            yield ignore
            return
        measure = RunMeter(
            [instruments(each) for each in providers], lambda stage: chain.stage_state(named(chain.stages, stage))
        )
        stack.enter_context(measure.going_on([stage.name for stage in chain.stages]))
        stack.enter_context(listening(spark, measure.put))
        yield measure.put


def _given() -> Iterator[MeterProvider]:
    """Give the meter provider that the program around has set; it has loaded the SDK then."""
    provider, sdk = get_meter_provider(), sys.modules.get("opentelemetry.sdk.metrics")
    if sdk is not None and isinstance(provider, sdk.MeterProvider):
        yield provider


@dataclass
class RunMeter:
    """What is told, and the thread that counts it.

    Attributes:
        stage_state: gives the state of a stage, by its name.
        stages: how each stage stands; the gauges read it.
    """

    instruments: Sequence[Instruments]
    stage_state: Callable[[str], StageState]
    stages: dict[str, StageReading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: queue.SimpleQueue[Event | Ask | None] = queue.SimpleQueue()
        self._names: dict[str, str] = {}

    def put(self, said: Event | Ask) -> None:
        """Take what is said; called from batches, and by Spark."""
        self._waiting.put(said)

    @contextmanager
    def going_on(self, stages: Sequence[str]) -> Iterator[None]:
        """Count beside a run over some stages, and at its end what is left."""
        self.stages.update({stage: StageReading() for stage in stages})
        for each in self.instruments:
            each.stages.update(self.stages)
        thread = threading.Thread(target=self._go, name="measure", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._waiting.put(None)
            thread.join(GRACE)
            for each in self.instruments:
                each.stages.clear()

    def count(self, said: Event | QueryEvent) -> None:
        """Count one thing that was said."""
        if isinstance(said, BatchReport):
            self._batch(said)
        elif isinstance(said, Notice):
            self._wait(said)
        else:
            self._told(said)

    def see(self) -> None:
        """Look at every stage; what cannot be seen now stays as it was."""
        for stage, reading in self.stages.items():
            # Kafka or the database is away, and the query itself tells; nothing may stop this
            with suppress(Exception):
                state = self.stage_state(stage)
                reading.backlog = backlog(state)
                last = state.first.last
                reading.committed = last.timestamp / 1000 if last else reading.committed

    def _go(self) -> None:
        due = time.monotonic()
        while True:
            try:
                said = self._waiting.get(timeout=max(due - time.monotonic(), 0.001))
            except queue.Empty:
                self.see()
                due = time.monotonic() + LOOK
                continue
            if said is None:
                return
            with suppress(Exception):  # Java is gone: the run ends by that anyway
                self.count(said() if callable(said) else said)

    def _batch(self, report: BatchReport) -> None:
        reading = self.stages[report.stage]
        reading.waiting = False
        if not report.replayed:
            reading.committed = time.time()
        for each in self.instruments:
            each.batch(report)

    def _wait(self, notice: Notice) -> None:
        reading = self.stages.get(notice.stage)
        if reading is None or reading.waiting or notice.event != "waiting":
            return
        reading.waiting = True
        for each in self.instruments:
            each.wait(notice.stage)

    def _told(self, told: QueryEvent) -> None:
        if told.kind == "started" and told.name in self.stages:
            self._names[told.run_id] = told.name
            self.stages[told.name].up = True
        stage = self._names.get(told.run_id)
        if stage is None:
            return
        if told.kind == "progress":
            self.stages[stage].input_rate = told.progress.get("inputRowsPerSecond") or 0.0
            for each in self.instruments:
                each.phases(stage, told.progress.get("durationMs", {}))
        elif told.kind != "started":
            self.stages[stage].input_rate = 0.0
            self.stages[stage].up = told.kind == "idle"
