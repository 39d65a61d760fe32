"""Split a batch that Spark computes: the job that writes silver's rows also counts, and collects few refused lines."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import functions as F

from oncelake.common.spark.rows import BatchRows, SparkRows
from oncelake.exactly_once.table_version import TableVersion
from oncelake.quality.gate import Counted
from oncelake.silver.duplicates import dropped, held_near, with_twin
from oncelake.silver.schema import TWIN
from oncelake.silver.settings import Deduplicate
from oncelake.silver.spark_count import CountByFilter, CountByObservation, CountOfOwnJob, LineCount
from oncelake.silver.split import OwnCode, Repeats, Split, readable
from oncelake.silver.transform import accepted, quarantined


@dataclass
class SparkSplit(Split):
    """The parsed lines of a batch that Spark computes."""

    _held: ExitStack = field(default_factory=ExitStack, init=False)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Find the repeats, and hold what the jobs of the batch keep."""
        with self._held:
            if self.silver.deduplicate is not None and self.before is not None:
                self._compare(self.silver.deduplicate, self.before)
            yield

    def refused(self) -> BatchRows:
        """Return quarantine's rows; a second pass reads the lines again, unless the first one has collected these."""
        found = self._count.refused
        if found is None:
            return SparkRows(quarantined(self.frame))
        return self.batch.rows(found) if self.batch.seems_small(found) else SparkRows(found)

    def counted(self) -> Counted:
        """Count the lines."""
        counted, self.arrivals = self._count.result()
        return counted

    def _kept(self) -> SparkRows:
        return SparkRows(self._count.accepted() if self.repeats is None else self.repeats.kept.frame())

    def _completed(self, own: OwnCode) -> SparkRows:
        return SparkRows(own(self._kept().frame()))

    @cached_property
    def _count(self) -> LineCount:
        """The count of the lines; its way is decided before silver is written."""
        if self.counts_first:
            return CountOfOwnJob(self.frame, self.silver, self.batch)
        few = self.batch.few_rows(self.frame)
        if few is None:
            return CountByObservation(self.frame, self.silver, self.batch)
        return CountByFilter(self.frame, self.silver, self.batch, few=self._held.enter_context(few))

    def _compare(self, declared: Deduplicate, before: TableVersion) -> None:
        """Find the repeats by a job that reads silver; the parsed lines are kept, as they are read several times."""
        frame = self.frame.persist()
        self._held.callback(frame.unpersist)
        judged = with_twin(frame, held_near(before, frame, declared), declared.within).persist()
        self._held.callback(judged.unpersist)
        with readable(before, self.batch):
            count = judged.where(F.col(TWIN.name).isNotNull()).count()
        kept = accepted(judged.where(F.col(TWIN.name).isNull()).drop(TWIN.name))
        self.repeats = Repeats(before, SparkRows(kept), SparkRows(dropped(judged)), count)
