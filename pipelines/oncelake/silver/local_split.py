"""Split and count a small batch, whose parsed lines are collected: in this process, without another job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from oncelake.common.errors import ReceiptError
from oncelake.common.spark.rows import BatchRows, Collected, SparkRows
from oncelake.common.wording import count_of
from oncelake.quality.gate import BatchCounts
from oncelake.silver import collected, collected_duplicates
from oncelake.silver.arrival import Arrivals
from oncelake.silver.parsing.events import by_event
from oncelake.silver.rules import EVENTS_COUNT, counts_of_batch
from oncelake.silver.spark_count import values_of
from oncelake.silver.split import OwnCode, Repeats, Split


@dataclass
class LocalSplit(Split):
    """The parsed lines of a small batch."""

    parsed: Collected = field(kw_only=True)
    _stays: Collected | None = field(default=None, init=False)

    @property
    def counts_first(self) -> bool:
        """True: the lines are here, and a count that fails leaves no half-written batch."""
        return True

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Find the repeats."""
        if self.silver.deduplicate is not None and self.before is not None:
            unbroken = collected.unbroken(self.parsed)
            unique, repeats = collected_duplicates.split(unbroken, self.before, self.silver.deduplicate)
            self._stays = collected.as_silver(unique)
            self.repeats = Repeats(self.before, self._stays, repeats, repeats.rows.num_rows)
        yield

    def refused(self) -> Collected:
        """Return quarantine's rows."""
        return collected.quarantined(self.parsed)

    def counted(self) -> BatchCounts:
        """Count the lines."""
        unbroken, measures = collected.unbroken(self.parsed), self.silver.measures
        self.arrivals = Arrivals.of_collected(unbroken)
        values = values_of(by_event(self.parsed.frame()), measures) if measures else {}
        if self.silver.has_events:
            values[EVENTS_COUNT] = collected.accepted(self.parsed).rows.num_rows
        lines = self.parsed.rows.num_rows
        refused = lines - unbroken.rows.num_rows
        return counts_of_batch(lines, refused, collected.broken(self.parsed), values, self.batch)

    def _without_own_columns(self) -> Collected:
        return collected.accepted(self.parsed) if self._stays is None else self._stays

    def _completed(self, own: OwnCode) -> BatchRows:
        rows = self._without_own_columns()
        frame = own(rows.frame())
        completed = self.batch.collect(frame)
        if completed is None:
            return SparkRows(frame)
        if completed.rows.num_rows != rows.rows.num_rows:
            raise ReceiptError(  # guard: transform-keeps-row-count
                f"silver.transform made {count_of(completed.rows.num_rows, 'row')} of {rows.rows.num_rows:,} in batch "
                f"{self.batch.batch_id}; nothing was written. Correct it: each row must stay one row"
            )
        return completed
