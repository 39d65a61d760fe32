"""Split a batch that Spark computes: the job that writes silver's rows also counts, and collects few refused lines."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import functions as F

from oncelake.common.spark.rows import BatchRows, SparkRows
from oncelake.exactly_once.table_version import TableVersion
from oncelake.quality.gate import BatchCounts
from oncelake.silver.duplicates import dropped, stored_near, with_twin
from oncelake.silver.schema import TWIN
from oncelake.silver.settings import Deduplicate
from oncelake.silver.spark_count import CountByFilter, CountByObservation, CountOfOwnJob, LineCount
from oncelake.silver.split import OwnCode, Repeats, Split, readable
from oncelake.silver.transform import accepted, quarantined


@dataclass
class SparkSplit(Split):
    """The parsed lines of a batch that Spark computes."""

    _resources: ExitStack = field(default_factory=ExitStack, init=False)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Find the repeats, and hold what the jobs of the batch keep."""
        with self._resources:
            if self.silver.deduplicate is not None and self.before is not None:
                self._compare(self.silver.deduplicate, self.before)
            yield

    def refused(self) -> BatchRows:
        """Return quarantine's rows; a second pass reads the lines again, unless the first one has collected these."""
        refused = self._count.refused
        if refused is None:
            return SparkRows(quarantined(self.frame))
        return self.batch.rows(refused) if self.batch.seems_small(refused) else SparkRows(refused)

    def counted(self) -> BatchCounts:
        """Count the lines."""
        counted, self.arrivals = self._count.result()
        return counted

    def _without_own_columns(self) -> SparkRows:
        return SparkRows(self._count.accepted() if self.repeats is None else self.repeats.unique.frame())

    def _completed(self, own: OwnCode) -> SparkRows:
        return SparkRows(own(self._without_own_columns().frame()))

    @cached_property
    def _count(self) -> LineCount:
        """The count of the lines; its way is decided before silver is written."""
        if self.counts_first:
            return CountOfOwnJob(self.frame, self.silver, self.batch)
        few = self.batch.few_rows(self.frame)
        if few is None:
            return CountByObservation(self.frame, self.silver, self.batch)
        return CountByFilter(self.frame, self.silver, self.batch, few=self._resources.enter_context(few))

    def _compare(self, declared: Deduplicate, before: TableVersion) -> None:
        """Find the repeats by a job that reads silver; the parsed lines are kept, as they are read several times."""
        frame = self.frame.persist()
        self._resources.callback(frame.unpersist)
        judged = with_twin(frame, stored_near(before, frame, declared), declared.within).persist()
        self._resources.callback(judged.unpersist)
        with readable(before, self.batch):
            count = judged.where(F.col(TWIN.name).isNotNull()).count()
        unique = accepted(judged.where(F.col(TWIN.name).isNull()).drop(TWIN.name))
        self.repeats = Repeats(before, SparkRows(unique), SparkRows(dropped(judged)), count)
