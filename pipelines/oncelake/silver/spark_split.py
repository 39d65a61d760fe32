"""Split and count a batch that Spark computes: by the job that writes silver's rows, and one for the refused lines."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from oncelake.common.lake import SILVER
from oncelake.common.spark.rows import SparkRows
from oncelake.quality.gate import Counted
from oncelake.silver.arrival import Arrivals
from oncelake.silver.duplicates import dropped, held_near, with_twin
from oncelake.silver.each import by_event
from oncelake.silver.schema import TWIN
from oncelake.silver.split import OwnCode, Repeats, Split, readable
from oncelake.silver.transform import accepted, quarantined


@dataclass
class SparkSplit(Split):
    """The parsed lines of a batch that Spark computes."""

    _seen: Observation | None = field(default=None, init=False)
    _is_whole: bool = field(default=False, init=False)

    @contextmanager
    def compared(self) -> Iterator[None]:
        """Find the repeats by a job that reads silver; it keeps the parsed lines, which are read several times."""
        declared = self.silver.deduplicate
        if declared is None:
            yield
            return
        # the rows that are kept are not those that the transform's plan was prepared for
        self.own = self.silver.transform.marked if self.silver.transform is not None else None
        before, frame = self.batch.before(SILVER), self.frame.persist()
        judged = with_twin(frame, held_near(before, frame, declared), declared.within).persist()
        try:
            with readable(before, self.batch):
                count = judged.where(F.col(TWIN.name).isNotNull()).count()
            kept = accepted(judged.where(F.col(TWIN.name).isNull()).drop(TWIN.name))
            self.repeats = Repeats(before, SparkRows(kept), SparkRows(dropped(judged)), count)
            yield
        finally:
            judged.unpersist()
            frame.unpersist()

    def refused(self) -> SparkRows:
        """Return quarantine's rows, which Spark parses again, unless there are none."""
        rows = quarantined(self.frame)
        return SparkRows(rows.limit(0) if self._is_whole else rows)

    def counted(self) -> Counted:
        """Count the lines."""
        aggregates, measures = self.silver.aggregates, self.silver.measures
        values = dict(self._seen.get) if self._seen is not None else values_of(self.frame, aggregates)
        self.arrivals = Arrivals.of_values(values)
        if self.silver.has_events and measures:
            values |= values_of(by_event(self.frame), measures)
        counted = self.silver.counted(values, self.batch)
        self._is_whole = counted.refused == 0
        return counted

    def _kept(self) -> SparkRows:
        if self.repeats is not None:
            return SparkRows(self.repeats.kept.frame())
        if self.counts_first:
            return SparkRows(accepted(self.frame))
        self._seen = Observation()
        return SparkRows(accepted(self.frame.observe(self._seen, *self.silver.aggregates)))

    def _completed(self, own: OwnCode) -> SparkRows:
        return SparkRows(own(self._kept().frame()))


def values_of(frame: DataFrame, aggregates: Sequence[Column]) -> dict[str, Any]:
    """Return the values of aggregates over a frame, by a job of their own."""
    (seen,) = frame.agg(*aggregates).collect()
    return dict(seen.asDict())
