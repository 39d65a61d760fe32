"""The `foreachBatch` callback of a stage: build the commit metadata, run the stage's write, keep the error.

Spark writes `offsets/<batch id>` before the call, and `commits/<batch id>` after it returns. So the callback reads
the range of the batch from the checkpoint, and must raise an error whenever something fails.
"""

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from pyspark.sql import DataFrame

from oncelake.common.errors import ReceiptError, StageError, StopRequested
from oncelake.common.lake import Table
from oncelake.common.spark.collect import SmallBatches
from oncelake.common.spark.few_rows import FewRows, can_split
from oncelake.common.spark.rows import BatchRows, Collected, SparkRows
from oncelake.exactly_once.checkpoint import offset_log, position, read_query_id
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, TableState
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.table_version import TableVersion
from oncelake.exactly_once.write import OF_A_LAKE, TableWriter, Written, no_fence
from oncelake.exactly_once.writers import MergeFor


def batch_range(files: Files, checkpoint: str, batch_id: int, advice: str) -> tuple[str | None, str]:
    """Return the source's position before a batch, None before the first, and the whole text of `offsets/<batch id>`.

    Raises:
        StageError: the checkpoint lacks one of the two; the message ends with the advice.
    """
    after = offset_log(files, checkpoint, batch_id)
    earlier = offset_log(files, checkpoint, batch_id - 1) if batch_id else None
    if after is None or (batch_id and earlier is None):
        gone = batch_id if after is None else batch_id - 1
        raise StageError(f"{checkpoint}/offsets lacks batch {gone}. {advice}")  # guard: batch-range-in-checkpoint
    return position(earlier) if earlier else None, after


@dataclass(frozen=True)
class CommittedBatch:
    """A committed batch, as its stage reports it or as the commits of its tables record it.

    Attributes:
        stage: the stage's name.
        batch_id: the batch.
        rows: per table, such as `silver.access_log`, the rows that the batch appended, inserted or updated.
        seconds: how long the stage's own work took; of a recorded batch, the seconds from its plan to its commit.
        replayed: whether the tables held the batch already and nothing was written.
        warned: the limits that the batch exceeds, as text.
        refused: per rule, how many lines of the batch broke it.
        query_id: the streaming query's ID.
        position: the source's position after the batch, as the checkpoint spells it.
        ended: when the batch was done, or committed to the stage's first table, in seconds since 1970.
        freshness: seconds from the ingestion of the batch's oldest line to the commit; None if that is not known.
        masked: per rule that masks personal data, how many matches the batch has; empty for a replayed batch.
        lines: the lines of files that bronze's rows hold, if a row is a record of several lines; None if it is not.
        version: of a recorded batch, the version of the stage's first table that it created.
        planned_ms: of a recorded batch, when Spark planned it, in milliseconds since 1970.
        waiting: of a recorded batch, rows of its input that were committed before it and that it had not read; None for
            bronze, whose source keeps no history.
        refused_lines: of a recorded batch, how many lines broke a rule.
        lost: descriptions of the input that it skipped, as an accepted loss.
        commits: of a batch that its stage reports, the commit that holds it in each table, also of a replayed one.
    """

    stage: str
    batch_id: int
    rows: Mapping[str, int]
    seconds: float
    replayed: bool = False
    warned: Sequence[str] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    query_id: str | None = None
    position: str | None = None
    ended: float = field(default_factory=time.time)
    freshness: float | None = None
    masked: Mapping[str, int] = field(default_factory=dict)
    lines: int | None = None
    version: int | None = None
    planned_ms: int | None = None
    waiting: int | None = None
    refused_lines: int = 0
    lost: Sequence[str] = ()
    commits: Mapping[str, ChainCommit] = field(default_factory=dict)

    @property
    def committed_ms(self) -> int:
        """Return when it ended, in milliseconds since 1970."""
        return round(self.ended * 1000)

    @property
    def rate(self) -> float:
        """Return the rows per second."""
        return sum(self.rows.values()) / max(self.seconds, 0.001)


@dataclass(frozen=True)
class Notice:
    """A message of a stage that is not the result of a batch.

    Attributes:
        stage: the stage's name.
        text: what the stage waits for, or warns of.
        event: `waiting` if a batch waits, `warning` for a problem that stops nothing.
        batch_id: the batch that waits.
        query_id: the streaming query's ID.
        position: where that batch ends in the source, as the checkpoint spells it.
        since: the start of the wait or problem, in seconds since 1970.
        failure: of a stage that stopped: its batch and position, for programs; None if the stage goes on.
    """

    stage: str
    text: str
    event: Literal["waiting", "warning"] = "waiting"
    batch_id: int | None = None
    query_id: str | None = None
    position: str | None = None
    since: float = field(default_factory=time.time)
    failure: Mapping[str, Any] | None = None


Event = CommittedBatch | Notice
# A filter keeps rows as Java objects, which are up to six times as large as in Spark's row format.
_SIZE_IN_JAVA = 6
# Receives events on the batch's own thread, so it must return at once.
EventSink = Callable[[Event], None]


class Writer(Protocol):
    """The writer of a table, reduced to what the metadata of a batch needs."""

    @property
    def state(self) -> TableState:
        """The state of the table after this run's writes."""


class ForeignWriter:
    """The writer of a table outside the lake; its state is read in the transaction that writes the table."""

    state = TableState()


@dataclass
class Batch:
    """One batch, as a stage sees it: where to write, and what is written already.

    Attributes:
        fence: raises LockedError before a write if this process no longer holds the lake.
        stopping: set when the run has to end; a batch that waits for something then gives up.
        patience: how many seconds a batch may wait for something outside the lake; None for ever.
        say: receives a text about what the batch waits for.
        warned: the limits that the batch exceeds and that do not stop it, as text.
        small_batches: collects the rows of a small batch; None if Spark commits every batch.
        masked: per rule that masks personal data, how many matches the batch has.
        lines: the lines that its records hold; None if a row is a line, or nothing was written.
    """

    batch_id: int
    metadata: Callable[[Table], CommitMetadata]
    writers: Mapping[Table, Writer]
    written: dict[Table, Written] = field(default_factory=dict)
    fence: Callable[[], None] = no_fence
    stopping: threading.Event = field(default_factory=threading.Event)
    patience: float | None = 0.0
    say: Callable[[str], None] = lambda _: None
    warned: list[str] = field(default_factory=list)
    small_batches: SmallBatches | None = None
    masked: dict[str, int] = field(default_factory=dict)
    lines: int | None = None

    def collect(self, frame: DataFrame) -> Collected | None:
        """Return the rows of a frame if they are few; otherwise None, and Spark has to write them."""
        return self.small_batches.collect(frame) if self.small_batches is not None else None

    def rows(self, frame: DataFrame) -> BatchRows:
        """Return the rows of a frame: collected if they are few, otherwise as Spark computes them."""
        return self.collect(frame) or SparkRows(frame)

    def few_rows(self, frame: DataFrame) -> FewRows | None:
        """Return a filter that removes and keeps a few rows of a frame while Spark writes the others.

        None if Spark commits every batch, or the session lacks our class for it.
        """
        small = self.small_batches
        if small is None or not can_split(frame.sparkSession):
            return None
        return FewRows(frame.sparkSession, small.max_rows, _SIZE_IN_JAVA * small.max_bytes)

    def seems_small(self, frame: DataFrame, *, packed: int = 1) -> bool:
        """Return True if collecting a frame is worth a try, see `SmallBatches.seems_small`."""
        return self.small_batches is not None and self.small_batches.seems_small(frame, packed=packed)

    def append(
        self,
        table: Table,
        rows: BatchRows,
        quality: Mapping[str, Any] | None = None,
        deduplicated: Mapping[str, int] | None = None,
        lines: int | None = None,
    ) -> Written:
        """Append rows to a table, once for this batch ID, and record in the commit metadata what is known of them."""
        self.fence()  # guard: lock-check-before-append
        metadata = replace(self.metadata(table), quality=quality or {}, deduplicated=deduplicated or {})
        if lines is not None:
            metadata = replace(metadata, lines={"before": metadata.lines_before, "added": lines})
        return self._keep(table, self._delta(table).append(rows, metadata, self.fence))

    def merge(self, table: Table, rows: BatchRows, sql: MergeFor, quality: Mapping[str, Any] | None = None) -> Written:
        """MERGE rows into a table, once for this batch ID; `sql` returns the MERGE in an engine's SQL."""
        self.fence()  # guard: lock-check-before-merge
        metadata = replace(self.metadata(table), quality=quality or {})
        return self._keep(table, self._delta(table).merge(rows, metadata, sql))

    def put(self, table: Table, write: Callable[[CommitMetadata], Written]) -> Written:
        """Write to a table outside the lake; `write` stores the batch's metadata in the same transaction."""
        self.fence()  # guard: lock-check-before-put
        return self._keep(table, write(self.metadata(table)))

    def holds(self, table: Table) -> bool:
        """Return True if a table holds this batch already."""
        return self._delta(table).holds(self.metadata(table)) is not None

    def before(self, table: Table) -> TableVersion:
        """Return a table as it was before this batch, also if it holds the batch already."""
        return self._delta(table).before(self.metadata(table))

    def same_rules(self, table: Table) -> bool:
        """Return True if the table's last batch was made with the same rules as this one; also if it has no batch."""
        last = self.writers[table].state.metadata
        return last is None or last.rules == self.metadata(table).rules

    def _delta(self, table: Table) -> TableWriter:
        writer = self.writers[table]
        assert isinstance(writer, TableWriter), f"{table} is no table of the lake"
        return writer

    def _keep(self, table: Table, written: Written) -> Written:
        self.written[table] = written
        return written


Write = Callable[[DataFrame, Batch], None]


@dataclass
class BatchCallback:
    """The function that `foreachBatch` calls for a stage.

    Attributes:
        write: the stage's own work; every input row must reach a table.
        report: receives the result of each batch, and what it waits for.
        tables: the stage's tables with their writers; every batch writes to the first.
        stopping: set when the run has to end; no further batch then begins.
        first_position: returns the source's position before the first batch; None if it is not recorded.
        fence: raises LockedError if this process no longer holds the lake; called before the batch's work
            and again before each write, as the process can be paused in between for any time.
        patience: how many seconds a batch may wait for something outside the lake; None for ever.
        query_id: the query's ID, known from the first batch on.
        position: where the current batch ends in the source; None before that is known.
        failure: the error that ended the stage, kept because Spark passes on only its text.
        stopped: whether `stopping` ended the query.
        at: the ID of the last batch that Spark passed in.
        identity_at: returns the source to record with a batch, from its end and `source`.
        settle: called with what a batch wrote, after all writes and before Spark plans the next batch.
        small_batches: collects the rows of a small batch; None if Spark commits every batch.
    """

    stage: str
    checkpoint: str
    files: Files
    rules: str
    run: str
    source: Mapping[str, str]
    tables: Mapping[Table, Writer]
    write: Write
    report: EventSink
    stopping: threading.Event
    first_position: Callable[[], str | None]
    fence: Callable[[], None] = no_fence
    patience: float | None = 0.0
    query_id: str | None = None
    position: str | None = None
    failure: BaseException | None = None
    stopped: bool = False
    at: int | None = None
    settle: Callable[[Mapping[Table, Written]], None] = lambda _: None
    small_batches: SmallBatches | None = None
    identity_at: Callable[[str | None, Mapping[str, str]], Mapping[str, str]] = lambda _, known: known

    def __post_init__(self) -> None:
        """Raise TypeError for a `write` that Spark would commit without running."""
        if inspect.isgeneratorfunction(self.write) or inspect.iscoroutinefunction(self.write):
            # guard: work-is-plain-function
            raise TypeError(f"{self.stage}: a stage's write must be a plain function; a generator would never run")

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; if this raises, the batch is replayed at the next start."""
        if self.stopping.is_set():
            self.stopped = True
            raise StopRequested(f"{self.stage} ends before batch {batch_id}")
        self.at, self.position = batch_id, None
        try:
            self.settle(self._write(frame, batch_id))
        except StopRequested:
            self.stopped = True
            raise
        except BaseException as error:
            self.failure = error
            # SystemExit or KeyboardInterrupt here would make Spark wait for this call for ever
            raise RuntimeError(f"{self.stage} failed in batch {batch_id}") from error  # guard: any-exit-ends-query

    def _write(self, frame: DataFrame, batch_id: int) -> Mapping[Table, Written]:
        began = time.monotonic()
        self.fence()  # guard: lock-check-before-batch
        batch = Batch(
            batch_id,
            self._notes(batch_id),
            self.tables,
            fence=self.fence,
            stopping=self.stopping,
            patience=self.patience,
            say=lambda text: self.report(Notice(self.stage, text, "waiting", batch_id, self.query_id, self.position)),
            small_batches=self.small_batches,
        )
        self.write(frame, batch)
        first = next(iter(self.tables))
        if first not in batch.written:
            # guard: batch-writes-first-table
            raise ReceiptError(f"{self.stage} wrote nothing to {first} in batch {batch_id}, not even its position")
        self.report(self._report(batch, time.monotonic() - began))
        return {table: written for table, written in batch.written.items() if not written.replayed}

    def _notes(self, batch_id: int) -> Callable[[Table], CommitMetadata]:
        before, after = batch_range(self.files, self.checkpoint, batch_id, OF_A_LAKE.other_range)
        before = before if batch_id else self.first_position()
        first, *others = self.tables
        query_id = self.query_id = read_query_id(self.files, self.checkpoint)
        self.position = position(after)
        source = self.source = self.identity_at(self.position, self.source)

        def metadata(table: Table) -> CommitMetadata:
            state = self.tables[table].state
            beside = {str(other): self._last_batch(other, batch_id) for other in others} if table == first else {}
            return CommitMetadata(
                stage=self.stage,
                table=str(table),
                query_id=query_id,
                batch_id=batch_id,
                before=before,
                after=after,
                **state.totals,
                rules=self.rules,
                run=self.run,
                source=source,
                beside=beside,
            )

        return metadata

    def _report(self, batch: Batch, seconds: float) -> CommittedBatch:
        quality = [result.commit.metadata.quality for result in batch.written.values() if not result.replayed]
        return CommittedBatch(
            stage=self.stage,
            batch_id=batch.batch_id,
            rows={
                str(table): 0 if result.replayed else result.commit.rows_changed
                for table, result in batch.written.items()
            },
            seconds=seconds,
            replayed=all(result.replayed for result in batch.written.values()),
            warned=tuple(batch.warned),
            refused=next((recorded["rules"] for recorded in quality if recorded), {}),
            query_id=self.query_id,
            position=self.position,
            masked=batch.masked,
            lines=batch.lines,
            commits={str(table): result.commit for table, result in batch.written.items()},
        )

    def _last_batch(self, table: Table, batch_id: int) -> int | None:
        """Return the last batch in a table if it is before this one; otherwise None."""
        last = self.tables[table].state.batch_id
        return last if last is not None and last < batch_id else None
