"""The exactly-once writer for the `foreachBatch` of your own streaming query.

It writes as a stage of the chain does: each commit has Delta's transaction, and the commit metadata with the range of
the source. Before the first batch of each start, the query's checkpoint is compared with the table, by the rules of
`diagnosis`.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from oncelake.common.errors import ReplayError, StateError
from oncelake.common.lake import is_local, is_name, place
from oncelake.common.spark.jvm import hadoop
from oncelake.common.spark.rows import SparkRows
from oncelake.common.spark.running_batch import RunningBatch, running_batch
from oncelake.common.spark.s3 import check_two_drivers
from oncelake.exactly_once.batch import batch_range
from oncelake.exactly_once.batch_input import (
    BEGINS,
    FILES,
    PUT_BACK,
    beginning,
    begins_at,
    input_of,
    list_number,
    refuse_several_sources,
)
from oncelake.exactly_once.checkpoint import position, read_checkpoint
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog, TableState
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.history import DeltaHistory
from oncelake.exactly_once.new_table import make_new
from oncelake.exactly_once.positions import is_whole
from oncelake.exactly_once.source import Backlog, Source
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.exactly_once.write import Advice, TableWriter, Written
from oncelake.exactly_once.writers.spark import Clauses

# The stage that the commits record.
STAGE = "foreachBatch"
# The key of the version that a query continued after, beside what a commit records of its input.
_AFTER = "continues_after"
_ADVICE = Advice(
    other_range=PUT_BACK,
    end_one="Only one query may write the table. Stop one of them",
    end_both="Stop both, and compare the table with its source before you continue",
)
_FIRST = {
    State.CHECKPOINT_AHEAD: "Undo what removed rows from the table, or write every batch to it, also an empty one.",
    State.CHECKPOINT_BEHIND: "Put the newest copy of the checkpoint back.",
    State.CHECKPOINT_LOST: "Put an intact copy of the checkpoint back.",
    State.FOREIGN: "Put the checkpoint back of the query that wrote the table; each query needs a table of its own.",
}


class OwnWriter(TableWriter):
    """The writer of a table that belongs to no lake."""

    advice = _ADVICE


class UnknownSource(Source):
    """The source of a query that is not the chain's: only its positions are known, from the checkpoint."""

    def identity(self) -> Mapping[str, str]:
        """Return nothing: the source is not known."""
        return {}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return None: Spark itself fails if the source lacks the position."""
        return None

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Return an unknown number."""
        return Backlog(None, "rows")


@dataclass
class _Start:
    """A table during one start of a query.

    Attributes:
        checked: the newest version of the table that was searched for removals.
        records: what the next commit records besides the files of its batch.
        done: the last batch that was written, or found written; None before the first.
    """

    run_id: str
    log: DeltaLog
    writer: OwnWriter
    checked: int
    records: Mapping[str, str] = field(default_factory=dict)
    done: int | None = None

    def must_hold(self, table: str) -> None:
        """Raise StateError if rows of earlier batches were removed from the table during this start."""
        last = self.writer.last
        known = max(self.checked, last.version if last is not None else -1)
        # a clean-up of the log takes old versions, and never the newest
        if known >= 0 and self.log.commit(known) is None and (self.log.newest() or -1) < known:
            raise StateError(  # guard: own-table-not-dropped
                f"{table} was removed while its query runs. Nothing was written. Put it back, or start over with a new "
                "checkpoint and an empty table"
            )
        for commit in self.log.since(self.checked):
            if commit.metadata is None and commit.takes_away:
                raise StateError(  # guard: own-table-not-emptied
                    f"{table} was changed by {commit.statement}, which removed rows of earlier batches. This batch was "
                    "not written. Start the query again: it checks what the table holds"
                )
            self.checked = commit.version


_starts: dict[tuple[str, str], _Start] = {}
# One write of a query at a time: the transaction of a MERGE is in the settings of the batch's session, and of two
# writes of one table in a batch the second must see the first.
_writing: dict[str, threading.Lock] = {}


class ExactlyOnceTable:
    """A Delta table that gets each batch of one streaming query exactly once, for your own `foreachBatch`.

    A batch that Spark runs again is a no-op. A batch that does not follow the last one in the table is an error, and
    nothing is written. The class finds the query, its checkpoint and the range of the batch by itself.

    Args:
        table: the table's path, or, without a slash, its name in a catalog such as `main.sales.orders`. A table that
            does not exist is created by the first batch.
        continue_after: a version of the table. If the table is at this version and its rows are not of this query, the
            query's next batch follows it all the same; you are sure that the table lacks exactly that batch and what
            comes after it. Without effect once that batch is written.
    """

    def __init__(self, table: str, *, continue_after: int | None = None) -> None:
        self.table = table
        self.continue_after = continue_after

    def append(self, rows: DataFrame, batch_id: int) -> None:
        """Append rows made of a batch; call it once for every batch, also an empty one.

        Args:
            rows: the rows.
            batch_id: the batch, as Spark passes it.

        Raises:
            StateError: the table and the query do not fit each other, or nothing says that they do; nothing was
                written.
            ReplayError: the batch was written with another range of the source; nothing was written.
            LockedError: another query, or another start of this one, writes the table.
            ReceiptError: the table did not record the batch.
        """
        batch = _batch_of(rows, batch_id, self.table)
        with _writing.setdefault(batch.query_id, threading.Lock()):
            start, metadata = self._begin(rows.sparkSession, batch)
            _end(start, start.writer.append(SparkRows(rows), metadata))

    def merge(self, rows: DataFrame, batch_id: int, on: str, clauses: Clauses) -> None:
        """MERGE rows made of a batch (alias `batch`) into the table (alias `target`); call it once for every batch.

        Args:
            rows: the rows, made of the batch that Spark passes.
            batch_id: the batch, as Spark passes it.
            on: the condition that matches a row of `batch` with a row of `target`.
            clauses: adds clauses such as `whenMatchedUpdate` to Delta's builder, and returns it.

        Raises:
            StateError: as for `append`; also if the rows belong to another session than the batch.
            ReplayError: as for `append`.
            LockedError: as for `append`.
            ReceiptError: as for `append`.
            TypeError: `clauses` returned something else than a MERGE with its clauses.
        """
        batch = _batch_of(rows, batch_id, self.table)
        if not batch.owns:
            raise StateError(  # guard: own-merge-in-batch-session
                f"{self.table}: the rows to merge belong to another session than batch {batch_id}, and a write of "
                "another query could get its transaction. Nothing was written. Make them of the batch, with "
                "batch.select or batch.sparkSession"
            )

        def checked(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
            built = clauses(merge)
            if not isinstance(built, DeltaMergeBuilder):
                raise TypeError(f"{self.table}: clauses must return the MERGE with its clauses, and not execute it")
            return built

        with _writing.setdefault(batch.query_id, threading.Lock()):  # guard: own-merges-in-turn
            start, metadata = self._begin(rows.sparkSession, batch)
            if start.log.newest() is None:
                columns = [StructField(column.name, column.dataType) for column in rows.schema]
                make_new(rows.sparkSession, start.log, StructType(columns), {})
            _end(start, start.writer.merge_by(rows, metadata, on, checked))

    def _begin(self, spark: SparkSession, batch: RunningBatch) -> tuple[_Start, CommitMetadata]:
        """Return the table as this start of the query writes it, and the metadata of a batch that may be written."""
        at, files = _place_of(spark, self.table), files_at(batch.checkpoint, spark)
        refuse_several_sources(files, batch.checkpoint, batch.batch_id, self.table)
        before, after = batch_range(files, batch.checkpoint, batch.batch_id, _ADVICE.other_range)
        start = _starts.get((at, batch.query_id))
        if start is None or start.run_id != batch.run_id:
            start = _starts[at, batch.query_id] = self._started(spark, at, files, batch)
        start.must_hold(self.table)
        read = input_of(files, batch.checkpoint, before, position(after))
        metadata = CommitMetadata(
            stage=STAGE,
            table=at,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            before=before,
            after=after,
            **start.writer.state.totals,
            rules="",
            run=batch.run_id,
            source={**start.records, **read},
        )
        last = start.writer.last
        recorded = last.metadata if last is not None and last.metadata.batch_id == batch.batch_id else None
        is_ours = recorded is not None and recorded.run == batch.run_id
        if start.done == batch.batch_id or is_ours:  # guard: own-batch-writes-once
            raise StateError(  # guard: own-batch-written-already
                f"{self.table}: batch {batch.batch_id} is written a second time by the same run. These rows were not "
                "written. Write a table once in each batch: union the rows first"
            )
        if recorded is not None and any(recorded.source.get(key) != read.get(key) for key in (FILES, BEGINS)):
            raise ReplayError(  # guard: own-batch-same-input
                f"{self.table}: batch {batch.batch_id} is replayed with other files, or from another beginning, than "
                f"the table has recorded. Nothing was written. {_ADVICE.other_range}"
            )
        return start, metadata

    def _started(self, spark: SparkSession, at: str, files: Files, batch: RunningBatch) -> _Start:
        """Compare the table with the checkpoint of the query that was just started.

        Raises:
            StateError: the query would lose or repeat rows.
            OncelakeError: the table is on a store on which two drivers are not safe, or nothing can be put there.
        """
        check_two_drivers(spark, at)  # guard: own-table-store-is-safe
        log = DeltaHistory(spark, at) if is_name(at) else DeltaLog(files_at(at, spark), at)
        newest = log.newest()
        state = log.state()
        if state.newest is not None and state.newest.metadata.stage != STAGE:
            raise StateError(  # guard: own-table-not-of-lake
                f"{self.table} is {state.newest.metadata.table} of a lake, which only oncelake run writes. Nothing was "
                "written. Write another table"
            )
        checked = -1 if newest is None else newest
        if state.last is not None and _AFTER in state.last.metadata.source:
            state = replace(state, previous=None)  # it need not follow the commit before it
        # what others add to the table, or change in it, is not the query's
        diagnosis = diagnose(
            read_checkpoint(files, batch.checkpoint), {"the table": replace(state, changed=None)}, UnknownSource()
        )
        if diagnosis.may_start:
            self._refuse_other_files(files, batch, state)
            return _Start(batch.run_id, log, OwnWriter(at, log, state, every_batch=True), checked)
        # guard: own-continuation-names-version
        if newest is None or newest != self.continue_after or _has_transaction(state, batch):
            # guard: own-query-fits-table
            raise StateError(
                f"{self.table}: {diagnosis.state}: {diagnosis.seen}. Nothing was written. "
                f"{_way_out(diagnosis, state, newest, batch)}"
            )
        begins = beginning(files, batch.checkpoint)
        if batch.batch_id == 0 and not begins_at(begins, state.end):
            raise StateError(  # guard: own-continuation-begins-there
                f"{self.table}: batch 0 begins at {begins}, and version {newest} of the table ends at {state.end}. "
                "Nothing was written. Delete the new checkpoint, and start the query with that end as startingOffsets"
            )
        writer = OwnWriter(at, log, TableState(newest=state.newest), every_batch=True)
        return _Start(batch.run_id, log, writer, checked, {_AFTER: str(newest)})

    def _refuse_other_files(self, files: Files, batch: RunningBatch, state: TableState) -> None:
        """Raise ReplayError if the checkpoint has other files than the table's last batch, which this one follows."""
        last = state.metadata
        if last is None or FILES not in last.source or last.batch_id == batch.batch_id:
            return
        if input_of(files, batch.checkpoint, last.before, last.end)[FILES] != last.source[FILES]:
            raise ReplayError(  # guard: own-batch-follows-files
                f"{self.table}: batch {last.batch_id} has other files in the checkpoint than the table has recorded. "
                f"Nothing was written. {PUT_BACK}"
            )


def _end(start: _Start, written: Written) -> None:
    start.done, start.records = written.commit.metadata.batch_id, {}


def _batch_of(rows: DataFrame, batch_id: int, table: str) -> RunningBatch:
    """Return the batch that Spark runs.

    Raises:
        StateError: Spark does not run a batch in this thread, or another one.
    """
    batch = running_batch(rows)
    if batch is None or batch.batch_id != batch_id:
        runs = "no batch of a streaming query" if batch is None else f"batch {batch.batch_id}"
        raise StateError(  # guard: own-batch-is-running
            f"{table}: batch {batch_id} was passed, but this thread runs {runs}. Nothing was written. Call it in the "
            "function that foreachBatch calls, in the same thread, and without Spark Connect"
        )
    return batch


def _has_transaction(state: TableState, batch: RunningBatch) -> bool:
    """Return True if the table has recorded the batch ID for the query, so that Delta would skip the write."""
    newest = state.newest.metadata if state.newest is not None else None
    return newest is not None and newest.query_id == batch.query_id and newest.batch_id >= batch.batch_id


def _way_out(diagnosis: Diagnosis, state: TableState, newest: int | None, batch: RunningBatch) -> str:
    """Return what to do about a query that does not fit its table."""
    over = "Or start over, with a new checkpoint and an empty table"
    if newest is None:
        return f"If batch {batch.batch_id} is the first one that it needs, create it and pass continue_after=0. {over}"
    back = f"{_FIRST[diagnosis.state]} " if state.newest is not None else ""
    if not is_whole(state.end):  # guard: own-continuation-can-begin
        return f"{back}{over}: the table ends within a version of its source, where no query can begin, at {state.end}"
    of_files = list_number(state.end) is not None
    end = ", without a file that was read before" if of_files else f", the position {state.end}" if state.end else ""
    which = "a query with a new checkpoint" if _has_transaction(state, batch) else "this batch"
    return (
        f"{back}{'Or, i' if back else 'I'}f {which} begins exactly where version {newest} of the table ends{end}, pass "
        f"continue_after={newest}. {over}"
    )


def _place_of(spark: SparkSession, table: str) -> str:
    """Return a table's path as Spark resolves it, or its quoted name."""
    if "/" not in table:
        return table if is_name(table) else ".".join(f"`{part}`" for part in table.split("."))
    at = place(table)
    path, store = hadoop(spark, at)
    if is_local(at) and store.getScheme() != "file":  # the machine's default is another store
        return str(path.makeQualified(store.getUri(), store.getWorkingDirectory()).toString())
    return at
