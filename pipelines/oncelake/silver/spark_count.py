"""Count the lines of a batch that Spark computes: by a job of their own, or by the one that writes silver's rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.types import StructType

from oncelake.common.spark.few_rows import FewRows
from oncelake.exactly_once.batch import Batch
from oncelake.quality.gate import BatchCounts
from oncelake.silver import arrival
from oncelake.silver.arrival import Arrivals
from oncelake.silver.parsing.events import by_event
from oncelake.silver.rules import Silver, counts_of_batch
from oncelake.silver.schema import QUARANTINE, with_source
from oncelake.silver.transform import accepted, broken_names, is_accepted


@dataclass
class LineCount(ABC):
    """Counts the lines of a batch.

    Attributes:
        frame: the parsed rows.
        silver: the rules.
        batch: the batch.
        refused: the rows of quarantine, if counting has collected them.
    """

    frame: DataFrame
    silver: Silver
    batch: Batch
    refused: DataFrame | None = field(default=None, init=False)

    def accepted(self) -> DataFrame:
        """Return silver's rows."""
        return accepted(self.frame)

    @abstractmethod
    def result(self) -> tuple[BatchCounts, Arrivals]:
        """Return the counts, and how the times of the accepted lines fit their arrival."""


class CountOfOwnJob(LineCount):
    """Counts by a job of its own, whether silver's rows are written or not."""

    def result(self) -> tuple[BatchCounts, Arrivals]:
        """Run the job."""
        values, measures = values_of(self.frame, self.silver.aggregates), self.silver.measures
        if self.silver.has_events and measures:
            values |= values_of(by_event(self.frame), measures)
        return self.silver.counted(values, self.batch), Arrivals.of_values(values)


@dataclass
class CountByObservation(LineCount):
    """Counts by Spark's observation, in the job that writes silver's rows."""

    def __post_init__(self) -> None:
        self._seen = Observation()

    def accepted(self) -> DataFrame:
        """Return silver's rows, whose job counts."""
        return accepted(self.frame.observe(self._seen, *self.silver.aggregates))

    def result(self) -> tuple[BatchCounts, Arrivals]:
        """Return what that job has counted."""
        values = dict(self._seen.get)
        return self.silver.counted(values, self.batch), Arrivals.of_values(values)


@dataclass
class CountByFilter(LineCount):
    """Counts by the filter that takes the refused lines out, and collects these if they are few.

    An observation would cost a sixth of the job, and the refused lines a second one. So Spark observes only what
    nothing else counts.
    """

    few: FewRows = field(kw_only=True)

    def __post_init__(self) -> None:
        self._seen = Observation()

    def accepted(self) -> DataFrame:
        """Return silver's rows, whose job counts."""
        measures = self.silver.measures
        lines = self.frame.observe(self._seen, *measures) if measures else self.frame
        names = arrival.with_name(broken_names(), is_accepted(), of_events=self.silver.has_events)
        return accepted(self.few.without(lines, is_accepted(), names, self._refused.fieldNames()))

    def result(self) -> tuple[BatchCounts, Arrivals]:
        """Return what that job has counted, once."""
        filtered = self.few.take(self._refused)
        self.refused = filtered.rows
        rules = {name: n for name, n in filtered.names.items() if not Arrivals.has(name)}
        values = dict(self._seen.get) if self.silver.measures else {}
        counted = counts_of_batch(filtered.lines, filtered.removed, rules, values, self.batch)
        return counted, Arrivals.of_names(filtered.names)

    @property
    def _refused(self) -> StructType:
        return with_source(QUARANTINE, named=self.silver.named)


def values_of(frame: DataFrame, aggregates: Sequence[Column]) -> dict[str, Any]:
    """Return the values of aggregates over a frame, by a job of their own."""
    (seen,) = frame.agg(*aggregates).collect()
    return dict(seen.asDict())
