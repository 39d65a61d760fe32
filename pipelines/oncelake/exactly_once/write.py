"""Idempotent Delta writes: append and MERGE, at most once per batch ID, verified in the Delta log.

Where this process may commit, delta-rs does: the collected rows of a small batch, and the files that Spark wrote for a
large one, see `local_write`. Elsewhere, and for a table that delta-rs cannot write, Spark's Delta writer does both.

Delta skips a write whose txnVersion is not above the recorded one for its txnAppId. An append takes both as
writer options. A MERGE takes them only from the confs of the batch's own session, so they are set there for the
MERGE and always unset afterwards. After each write the Delta log must hold the transaction. A conf on the wrong
session raises no error and records nothing, and a replay would then count rows twice.
Source: Delta's documentation, "Idempotent table writes in foreachBatch".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeGuard, TypeVar

from pyspark.sql import DataFrame, SparkSession
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from oncelake.common import tables
from oncelake.common.errors import LockedError, ReceiptError, ReplayError
from oncelake.common.spark.collect import Collected
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog, TableState
from oncelake.exactly_once.positions import same_position
from oncelake.exactly_once.table_version import TableVersion

if TYPE_CHECKING:
    from oncelake.exactly_once.local_write import LocalTable, Snapshot
    from oncelake.exactly_once.new_files import NewFiles

T = TypeVar("T")

APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Without it, Delta computes the source of a MERGE twice, or keeps a copy; collected rows need neither.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"

_END_ONE = "Only one run at a time may write a lake. Stop one of them, then run: oncelake doctor"

# Conflicts between a batch and maintenance (OPTIMIZE, VACUUM) that a retry resolves. A conflict of transactions is not
# among them: then another instance of this stage has written the batch.
# Source: Delta's documentation, "Concurrency control", "Conflict exceptions".
_PASSING = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "VersionTakenError",
)
TRIES = 5
_LOST = ("ConcurrentTransactionException", "TransactionHeldError")


def no_fence() -> None:
    """Do nothing: the lake has no lock, and only Delta's conflict check keeps other writers out."""


# The rows of a batch: a frame, or the collected rows of a small one.
Rows = DataFrame | Collected
# The SQL of the engine that runs a MERGE: Spark, or DataFusion in delta-rs.
Engine = Literal["spark", "datafusion"]


@dataclass(frozen=True)
class MergeSql:
    """A MERGE in the SQL of one engine.

    Attributes:
        condition: matches a row of `batch` with its row of `gold`.
        update: column -> expression over `gold` and `batch`.
        windows: the first and last window of each range that the condition allows, in order; empty for all.
    """

    condition: str
    update: Mapping[str, str]
    windows: Sequence[tuple[datetime, datetime]] = ()


# Returns the MERGE for an engine; None if the engine would not merge the values as Spark does.
MergeFor = Callable[[Engine], MergeSql | None]


@dataclass(frozen=True)
class Written:
    """The result of a write.

    Attributes:
        commit: the commit that holds the batch.
        replayed: whether the table held the batch already.
        by_spark: whether Spark's writer made the commit.
    """

    commit: ChainCommit
    replayed: bool = False
    by_spark: bool = True


class TableWriter:
    """The writer of one table for one stage, starting from the state that the start gate saw.

    Args:
        path: the table's path or catalog name.
        commit_log: the table's log.
        state: the state of the table that the start gate saw.
        every_batch: whether the table gets a commit in every batch.
        local: commits rows from this process; None if only Spark can write the table.
    """

    def __init__(
        self,
        path: str,
        commit_log: DeltaLog,
        state: TableState,
        *,
        every_batch: bool,
        local: "LocalTable | None" = None,
    ) -> None:
        self.path = path
        self._local = local
        self._every_batch = every_batch
        self.log = commit_log
        self.last = state.last
        self._seen = state.newest.version if state.newest else min(commit_log.versions(), default=0) - 1

    @property
    def state(self) -> TableState:
        """The state of the table after this run's writes."""
        return TableState(self.last, newest=self.last)

    def append(self, rows: Rows, metadata: CommitMetadata, fence: Callable[[], None] = no_fence) -> Written:
        """Append the batch's rows, unless the table already holds them.

        Args:
            rows: the batch's rows.
            metadata: the batch's commit metadata.
            fence: raises LockedError if this process no longer holds the lake.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        files = self._local.new_files(rows) if self._local is not None and isinstance(rows, DataFrame) else None
        return self._once(metadata, partial(self._append, rows, files, metadata, fence))

    def merge(self, rows: Rows, metadata: CommitMetadata, sql: MergeFor) -> Written:
        """MERGE the batch's rows (alias `batch`) into the table (alias `gold`), unless the table already holds them.

        Args:
            rows: the batch's rows.
            metadata: the batch's commit metadata.
            sql: returns the MERGE in an engine's SQL.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, partial(self._merge, rows, metadata, sql))

    def holds(self, metadata: CommitMetadata) -> Written | None:
        """Return the commit if the table already holds this batch over this range; otherwise None.

        Raises:
            ReplayError: the table holds the batch ID with another range, or lacks the batch before.
        """
        last = self.last.metadata if self.last else None
        if last is None or metadata.batch_id > last.batch_id:
            self.must_follow(metadata, last)
            return None
        if not metadata.covers_same(last):
            raise ReplayError(  # guard: recorded-batch-range
                f"batch {metadata.batch_id} of {metadata.stage} is replayed with another range of its source: "
                f"{metadata.before} to {metadata.end}; {metadata.table} has recorded batch {last.batch_id} with "
                f"{last.before} to {last.end}. Nothing was written. Run: oncelake doctor"
            )
        assert self.last is not None
        return Written(self.last, replayed=True)

    def before(self, metadata: CommitMetadata) -> TableVersion:
        """Return the table as it was before a batch.

        If the table holds the batch already, this is the version that the batch's commit records: newer ones, also
        those of maintenance, hold the batch's own rows.

        Raises:
            LockedError: another run of the stage has written to the table in the meantime.
        """
        held = self.holds(metadata)
        if held is not None:
            version = held.commit.metadata.deduplicated["version"]  # guard: repeats-from-recorded-version
            return TableVersion(self.path, metadata.table, version, replayed=True)
        self.must_be_alone(metadata)
        opened = self._local.opened_at(self._seen) if self._local is not None else None
        return TableVersion(self.path, metadata.table, self._seen, opened)

    def must_follow(self, metadata: CommitMetadata, last: CommitMetadata | None) -> None:
        """Raise ReplayError if a batch does not follow the last one; only the first table gets every batch."""
        if last is None or not self._every_batch:
            return
        if metadata.batch_id != last.batch_id + 1 or not same_position(metadata.before, last.end):
            raise ReplayError(  # guard: batch-follows-table
                f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}; "
                f"the last batch recorded in {metadata.table} is "
                f"batch {last.batch_id}, which ends at {last.end}. Nothing was written. "
                "Run: oncelake doctor"
            )

    def _once(self, metadata: CommitMetadata, write: Callable[[], bool]) -> Written:
        held = self.holds(metadata)
        if held is not None:
            return held

        try:
            by_spark = again_on_conflict(write)
        except Exception as error:
            if _is(error, *_LOST):
                raise self._lost(metadata) from error  # guard: lost-race-names-winner
            raise
        commit = self.receipt(metadata)
        if self._local is not None and not by_spark:
            self._local.keep_up(commit)
        return Written(commit, by_spark=by_spark)

    def _append(
        self, rows: Rows, files: "NewFiles | None", metadata: CommitMetadata, fence: Callable[[], None]
    ) -> bool:
        """Try once to append rows, or their files; return True if Spark's writer made the commit."""
        if files is not None:
            self._write_files(files, metadata, fence)
        given = rows if files is None else files
        snapshot = self._snapshot(given)
        self.must_be_alone(metadata)  # guard: snapshot-before-log-check
        if snapshot is None or isinstance(given, DataFrame):
            if files is not None:
                files.discard()
            append(rows, self.path, metadata)
            return True
        if isinstance(given, Collected):
            snapshot.append(given, metadata)
        else:
            snapshot.append_files(given.written(), metadata)
        return False

    def _write_files(self, files: "NewFiles", metadata: CommitMetadata, fence: Callable[[], None]) -> None:
        """Run the job that writes a large batch's files, and check that this process still holds the lake."""
        self.must_be_alone(metadata)
        files.written()
        fence()  # guard: lock-check-after-files

    def _merge(self, rows: Rows, metadata: CommitMetadata, sql: MergeFor) -> bool:
        """Try once to MERGE; return True if Spark wrote."""
        snapshot = self._snapshot(rows)
        self.must_be_alone(metadata)
        if isinstance(rows, Collected) and snapshot is not None:
            small = sql("datafusion")
            if small is not None and snapshot.can_merge(small.windows):
                snapshot.merge(rows, metadata, small.condition, small.update)
                return False
        made = sql("spark")
        assert made is not None, "Spark merges every table"
        merge(rows, self.path, metadata, made)
        return True

    def _snapshot(self, rows: "Rows | NewFiles") -> "Snapshot | None":
        """Return what collected rows, or files, are committed against; None if Spark writes.

        It is read before `must_be_alone` reads the log: so every commit up to the snapshot is checked, and one after
        it takes the version that the batch would get.
        """
        if self._local is None or isinstance(rows, DataFrame):
            return None
        return self._local.snapshot(rows.columns)

    def must_be_alone(self, metadata: CommitMetadata) -> None:
        """Raise LockedError if another run of the stage has written since this run last read the Delta log."""
        for commit in self.log.since(self._seen):
            if _is_other(commit, metadata):
                raise LockedError(  # guard: no-foreign-commit-before-write
                    f"{_other(commit)}; this run stops before batch {metadata.batch_id} of {metadata.stage} "
                    "and has changed "
                    f"nothing since. {_END_ONE}"
                )
            self._seen = commit.version

    def _lost(self, metadata: CommitMetadata) -> LockedError:
        """Return the error for a write that lost to another instance of the same query."""
        known = (each for each in self.log.since(self._seen) if isinstance(each, ChainCommit))
        winner = next((each for each in known if metadata.app_id in each.txns), None)
        who = _other(winner) if winner else "another instance of this stage wrote at the same time"
        return LockedError(f"{who}; batch {metadata.batch_id} of {metadata.stage} was not written twice. {_END_ONE}")

    def receipt(self, metadata: CommitMetadata) -> ChainCommit:
        """Return the commit that this run just made; only the Delta log proves that it exists.

        Raises:
            LockedError: another run wrote the batch, or wrote at the same time.
            ReceiptError: the table did not record the transaction.
        """
        others: list[ChainCommit] = []
        for commit in self.log.since(self._seen):
            self._seen = commit.version
            if not isinstance(commit, ChainCommit):
                continue
            if commit.txns.get(metadata.app_id) == metadata.batch_id:
                return self.must_be_ours(commit, metadata, others)
            if _is_other(commit, metadata):
                others.append(commit)
        raise ReceiptError(  # guard: receipt-in-delta-log
            f"{metadata.table} did not record batch {metadata.batch_id} of {metadata.stage} "
            f"(application ID {metadata.app_id}); "
            "the batch is not committed, and the next start tries it again"
        )

    def must_be_ours(self, commit: ChainCommit, metadata: CommitMetadata, others: list[ChainCommit]) -> ChainCommit:
        """Return the batch's commit; raise LockedError if another run made it, or wrote at the same time."""
        if commit.metadata.run != metadata.run:
            raise LockedError(  # guard: batch-written-by-this-run
                f"another instance wrote batch {metadata.batch_id} of {metadata.stage} to {metadata.table} "
                f"(version {commit.version}); this run stops and has changed nothing. {_END_ONE}"
            )
        self.last = commit
        if others:
            raise LockedError(  # guard: no-foreign-commit-during-write
                f"{_other(others[-1])}, while this run wrote batch {metadata.batch_id} "
                f"(version {commit.version}): both "
                "are in the table, and may hold the same lines. Stop both and run: oncelake doctor, "
                "then oncelake prove"
            )
        return commit


def _is_other(commit: Commit, metadata: CommitMetadata) -> TypeGuard[ChainCommit]:
    """Return True if another run of the stage made a commit; maintenance commits have no metadata and are allowed."""
    if not isinstance(commit, ChainCommit):
        return False
    return (commit.metadata.query_id, commit.metadata.run) != (metadata.query_id, metadata.run)


def _other(commit: ChainCommit) -> str:
    said = commit.metadata
    return (
        f"another run of {said.stage} (run {said.run[:8]}, query {said.query_id}) wrote batch {said.batch_id} to "
        f"{said.table} (version {commit.version})"
    )


def commit_note(spark: SparkSession, path: str, metadata: CommitMetadata) -> None:
    """Commit metadata alone, for a recovery or a loss; Delta skips an append with neither rows nor a transaction."""
    append(tables.read(spark, path).limit(0), path, metadata)


def append(rows: Rows, path: str, metadata: CommitMetadata) -> None:
    """Append rows with metadata, once for its transaction; for a batch use `TableWriter`, which verifies the write."""
    # guard: append-transaction
    writer = _frame(rows).write.option("txnAppId", metadata.app_id).option("txnVersion", metadata.txn_version)
    tables.append(writer.option("userMetadata", metadata.to_json()), path)


def merge(rows: Rows, path: str, metadata: CommitMetadata, sql: MergeSql) -> None:
    """MERGE rows (alias `batch`) into a table (alias `gold`) with metadata, once for its transaction."""
    frame = _frame(rows)
    session = frame.sparkSession
    with _transaction(session, metadata, {_MATERIALIZE: "none"} if isinstance(rows, Collected) else {}):
        target = tables.opened(session, path).alias("gold")
        merge = target.merge(frame.alias("batch"), sql.condition).whenMatchedUpdate(set=dict(sql.update))
        columns = [f"`{name.replace('`', '``')}`" for name in frame.columns]
        merge.whenNotMatchedInsert(values={name: f"batch.{name}" for name in columns}).execute()


def _frame(rows: Rows) -> DataFrame:
    return rows.frame() if isinstance(rows, Collected) else rows


def move_out(verdicts: DataFrame, path: str, metadata: CommitMetadata, condition: str) -> None:
    """Delete rows (alias `held`) whose `verdict` has no reasons, and update the reasons of the other rows.

    Args:
        verdicts: one row for each checked row, or for each set of equal rows.
        path: the table's path.
        metadata: the metadata of the replay.
        condition: the MERGE condition that matches verdicts to rows.
    """
    session = verdicts.sparkSession
    with _transaction(session, metadata):
        merge = tables.opened(session, path).alias("held").merge(verdicts.alias("verdict"), condition)
        merge = merge.whenMatchedDelete("size(verdict.reasons) = 0")
        merge.whenMatchedUpdate("NOT held.reasons <=> verdict.reasons", {"reasons": "verdict.reasons"}).execute()


def replace_table(rows: DataFrame, path: str, metadata: CommitMetadata, properties: Mapping[str, str]) -> None:
    """Replace a table, with its columns and properties, by rows in one commit with metadata.

    Args:
        rows: the rows of the new table.
        path: the table's path.
        metadata: the metadata of the new table's first batch.
        properties: the new table's properties.
    """
    with _transaction(rows.sparkSession, metadata):
        tables.replace(rows, path, properties)


@contextmanager
def _transaction(
    session: SparkSession, metadata: CommitMetadata, other: Mapping[str, str] | None = None
) -> Iterator[None]:
    # guard: merge-transaction
    confs = {APP_ID: metadata.app_id, TXN_VERSION: str(metadata.txn_version), USER_METADATA: metadata.to_json()}
    confs |= other or {}
    try:
        for key, value in confs.items():
            session.conf.set(key, value)
        yield
    finally:
        for key in confs:
            session.conf.unset(key)  # guard: merge-confs-removed


def is_conflict(error: BaseException) -> bool:
    """Return True if a write conflicted with another one and can be retried."""
    return _is(error, *_PASSING)


def _is(error: BaseException, *names: str) -> bool:
    """Return True if an error is one of these Delta errors, by its Python type or the text of the Java error."""
    said = f"{type(error).__name__}: {error}"
    return any(name in said for name in names)


@retry(
    retry=retry_if_exception(is_conflict),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    reraise=True,
)
def again_on_conflict(write: Callable[[], T]) -> T:
    """Run a write, and retry it on a conflict; `TRIES` attempts at most."""
    return write()
