"""The OpenTelemetry instruments of a run; docs/metrics.md describes the use of each.

All attribute values are known when a run starts: stages, tables and rules come from the configuration, the others from
lists in this module. A line's text, a file, an offset or a batch ID is never an attribute. So the number of series does
not grow.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from oncelake.common.version import __version__
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.source import Backlog

# In seconds: from a batch of a few lines to a batch that takes an hour.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# The phases of a trigger, by their names in Spark 4.
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
# At most this many rules have their own series; the others are counted as `other`.
RULES = 50
OTHER = "other"


@dataclass(frozen=True)
class Metric:
    """One instrument.

    Attributes:
        name: the name, in OpenTelemetry's convention.
        unit: the unit in UCUM; for counted things, the noun in braces.
        attributes: the attributes of its values.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    attributes: tuple[str, ...]
    description: str


BATCHES = Metric("oncelake.batches", "counter", "{batch}", ("stage", "outcome"), "Batches written or replayed")
DURATION = Metric("oncelake.batch.duration", "histogram", "s", ("stage", "outcome"), "The stage's own time per batch")
ROWS = Metric("oncelake.rows", "counter", "{row}", ("stage", "table"), "Rows appended, inserted or updated")
QUARANTINED = Metric("oncelake.quarantined", "counter", "{line}", ("rule",), "Lines sent to quarantine, by broken rule")
MASKED = Metric("oncelake.masked", "counter", "{match}", ("stage", "rule"), "Matches of mask rules, by rule")
PHASE = Metric("oncelake.phase.time", "counter", "s", ("stage", "phase"), "Time of Spark's triggers, by phase")
WAITS = Metric("oncelake.waits", "counter", "{wait}", ("stage",), "Batches that waited for the database")
UP = Metric("oncelake.stage.up", "gauge", "", ("stage",), "1 while the stage's query runs, otherwise 0")
BACKLOG = Metric("oncelake.backlog", "gauge", "", ("stage", "unit"), "Input rows, records or files not yet processed")
FRESHNESS = Metric("oncelake.freshness", "gauge", "s", ("stage",), "Seconds since the stage's last commit")
INPUT = Metric("oncelake.input.rate", "gauge", "{row}/s", ("stage",), "Input rows per second, as Spark counts them")
OPEN = Metric("oncelake.alerts.open", "gauge", "", ("alert",), "Windows or times for which an alert's condition holds")
UNSENT = Metric(
    "oncelake.alerts.unsent", "gauge", "{message}", ("alert",), "Messages of an alert that are not sent yet"
)

METRICS = (BATCHES, DURATION, ROWS, QUARANTINED, MASKED, PHASE, WAITS, UP, BACKLOG, FRESHNESS, INPUT, OPEN, UNSENT)


@dataclass
class StageReading:
    """The current values of a stage.

    Attributes:
        committed: when it last committed, in seconds since 1970.
        waiting: True while its batch waits for the database.
    """

    up: bool = False
    backlog: Backlog | None = None
    committed: float | None = None
    input_rate: float = 0.0
    waiting: bool = False


# Returns a gauge's values for a stage, each with its attributes in addition to `stage`.
Read = Callable[[StageReading], list[tuple[float, dict[str, str]]]]
_GAUGES: dict[Metric, Read] = {
    UP: lambda reading: [(float(reading.up), {})],
    BACKLOG: lambda reading: [
        (waits.count, {"unit": waits.unit}) for waits in (reading.backlog,) if waits and waits.count is not None
    ],
    FRESHNESS: lambda reading: [(time.time() - at, {}) for at in (reading.committed,) if at is not None],
    INPUT: lambda reading: [(reading.input_rate, {})],
}


@dataclass
class Instruments:
    """The instruments of one meter provider.

    Attributes:
        stages: the current values of each stage; empty while nothing runs.
        alerts: how many windows or times are open for each alert, and how many messages are not sent.
    """

    meter: Meter
    stages: dict[str, StageReading] = field(default_factory=dict)
    alerts: dict[str, tuple[int, int]] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._made: dict[Metric, Any] = {metric: self._make(metric) for metric in METRICS if metric.kind != "gauge"}
        for metric, read in _GAUGES.items():
            self.meter.create_observable_gauge(metric.name, [self._reading(read)], metric.unit, metric.description)
        for at, metric in enumerate((OPEN, UNSENT)):
            self.meter.create_observable_gauge(metric.name, [self._alerts(at)], metric.unit, metric.description)

    def batch(self, report: CommittedBatch) -> None:
        """Count a batch; a replayed batch adds no rows."""
        by = {"stage": report.stage, "outcome": "replayed" if report.replayed else "written"}
        self._made[BATCHES].add(1, by)
        self._made[DURATION].record(report.seconds, by)
        for table, count in report.rows.items():
            self._made[ROWS].add(max(count, 0), {"stage": report.stage, "table": table})
        for rule, count in report.refused.items():
            self._made[QUARANTINED].add(count, {"rule": self._rule(rule)})
        for rule, count in report.masked.items():
            self._made[MASKED].add(count, {"stage": report.stage, "rule": self._rule(rule)})

    def phases(self, stage: str, milliseconds: Mapping[str, float]) -> None:
        """Add the time of one trigger, by phase."""
        for phase, took in milliseconds.items():
            self._made[PHASE].add(max(took, 0) / 1000, {"stage": stage, "phase": phase if phase in PHASES else OTHER})

    def wait(self, stage: str) -> None:
        """Count a batch that waits for the database."""
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

    def _alerts(self, at: int) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            yield from (Observation(values[at], {"alert": name}) for name, values in list(self.alerts.items()))

        return observe


_BY_PROVIDER: "WeakKeyDictionary[MeterProvider, Instruments]" = WeakKeyDictionary()


def instruments(provider: MeterProvider) -> Instruments:
    """Return a provider's instruments; a second run in the process reuses them, as the provider drops new gauges."""
    if provider not in _BY_PROVIDER:
        _BY_PROVIDER[provider] = Instruments(provider.get_meter("oncelake", __version__))
    return _BY_PROVIDER[provider]
