"""This is where a run's figures are OpenTelemetry instruments; docs/metrics.md says what each is good for.

What an attribute can be is known when a run starts: stages, tables and rules come from the configuration, the rest
from lists here. No text of a line, no file, offset or batch id is ever one, so the number of series does not grow.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from oncelake.common.version import __version__
from oncelake.exactly_once.batch import BatchReport
from oncelake.exactly_once.source import Backlog

# From a batch of a few lines to one of an hour, in seconds.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# Of what a trigger does, as Spark 4 names it.
PHASES = (
    "triggerExecution",
    "latestOffset",
    "getOffset",
    "getEndOffset",
    "setOffsetRange",
    "walCommit",
    "getBatch",
    "queryPlanning",
    "addBatch",
    "commitBatch",
    "commitOffsets",
)
# So many rules have a series of their own.
RULES = 50
OTHER = "other"


@dataclass(frozen=True)
class Metric:
    """One instrument.

    Attributes:
        name: by OpenTelemetry's convention.
        unit: in UCUM, a thing that is counted in braces.
        attributes: what its values are told apart by.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    attributes: tuple[str, ...]
    description: str


BATCHES = Metric("oncelake.batches", "counter", "{batch}", ("stage", "outcome"), "Batches written, or replayed")
DURATION = Metric("oncelake.batch.duration", "histogram", "s", ("stage", "outcome"), "The stage's own work of a batch")
ROWS = Metric("oncelake.rows", "counter", "{row}", ("stage", "table"), "Rows appended, inserted or updated")
QUARANTINED = Metric("oncelake.quarantined", "counter", "{line}", ("rule",), "Lines refused, by the rule they broke")
PHASE = Metric("oncelake.phase.time", "counter", "s", ("stage", "phase"), "Time that Spark's triggers took, by phase")
WAITS = Metric("oncelake.waits", "counter", "{wait}", ("stage",), "Batches that had to wait for the database")
UP = Metric("oncelake.stage.up", "gauge", "", ("stage",), "1 while the stage's query runs, else 0")
BACKLOG = Metric("oncelake.backlog", "gauge", "", ("stage", "unit"), "Rows, records or files of the input that wait")
FRESHNESS = Metric("oncelake.freshness", "gauge", "s", ("stage",), "Seconds since the stage's last commit")
INPUT = Metric("oncelake.input.rate", "gauge", "{row}/s", ("stage",), "Input rows per second, as Spark counts them")

METRICS = (BATCHES, DURATION, ROWS, QUARANTINED, PHASE, WAITS, UP, BACKLOG, FRESHNESS, INPUT)


@dataclass
class StageReading:
    """How a stage stands now.

    Attributes:
        committed: when it last committed, in seconds since 1970.
        waiting: whether its batch waits for the database.
    """

    up: bool = False
    backlog: Backlog | None = None
    committed: float | None = None
    input_rate: float = 0.0
    waiting: bool = False


# What a gauge shows of a stage: each value with the attributes beside the stage's.
Read = Callable[[StageReading], list[tuple[float, dict[str, str]]]]
_GAUGES: dict[Metric, Read] = {
    UP: lambda reading: [(float(reading.up), {})],
    BACKLOG: lambda reading: [
        (waits.count, {"unit": waits.unit}) for waits in (reading.backlog,) if waits and waits.count is not None
    ],
    FRESHNESS: lambda reading: [(max(time.time() - at, 0.0), {}) for at in (reading.committed,) if at is not None],
    INPUT: lambda reading: [(reading.input_rate, {})],
}


@dataclass
class Instruments:
    """The instruments that one meter provider reads.

    Attributes:
        stages: how each stage stands; empty while no run goes on.
    """

    meter: Meter
    stages: dict[str, StageReading] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._made: dict[Metric, Any] = {each: self._make(each) for each in METRICS if each.kind != "gauge"}
        for metric, read in _GAUGES.items():
            self.meter.create_observable_gauge(metric.name, [self._reading(read)], metric.unit, metric.description)

    def batch(self, report: BatchReport) -> None:
        """Count a batch; what was replayed brought no rows."""
        by = {"stage": report.stage, "outcome": "replayed" if report.replayed else "written"}
        self._made[BATCHES].add(1, by)
        self._made[DURATION].record(report.seconds, by)
        for table, count in report.rows.items():
            self._made[ROWS].add(max(count, 0), {"stage": report.stage, "table": str(table)})
        for rule, count in report.refused.items():
            self._made[QUARANTINED].add(count, {"rule": self._rule(rule)})

    def phases(self, stage: str, milliseconds: Mapping[str, float]) -> None:
        """Count the time that one trigger took."""
        for phase, took in milliseconds.items():
            self._made[PHASE].add(max(took, 0) / 1000, {"stage": stage, "phase": phase if phase in PHASES else OTHER})

    def wait(self, stage: str) -> None:
        """Count a batch that waits."""
        self._made[WAITS].add(1, {"stage": stage})

    def _rule(self, rule: str) -> str:
        if len(self.rules) < RULES:
            self.rules.add(rule)
        return rule if rule in self.rules else OTHER

    def _make(self, metric: Metric) -> Any:
        if metric.kind == "counter":
            return self.meter.create_counter(metric.name, metric.unit, metric.description)
        return self.meter.create_histogram(
            metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=BUCKETS
        )

    def _reading(self, read: Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for stage, reading in list(self.stages.items()):
                yield from (Observation(value, {"stage": stage, **more}) for value, more in read(reading))

        return observe


_BY_PROVIDER: "WeakKeyDictionary[MeterProvider, Instruments]" = WeakKeyDictionary()


def instruments(provider: MeterProvider) -> Instruments:
    """Give a provider's instruments: those that it has, as it would drop the gauges of a second run in one process."""
    if provider not in _BY_PROVIDER:
        _BY_PROVIDER[provider] = Instruments(provider.get_meter("oncelake", __version__))
    return _BY_PROVIDER[provider]
