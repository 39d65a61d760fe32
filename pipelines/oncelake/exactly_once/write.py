"""Idempotent writes: append and MERGE, at most once per batch ID, verified in the Delta log.

The first engine that can writes the table. Spark's Delta writer (`writers/spark.py`), which can write each one, is the
last. After each write the Delta log must hold the transaction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeGuard, TypeVar

from pyspark.sql import DataFrame
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from oncelake.common.errors import LockedError, ReceiptError, ReplayError
from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog, TableState
from oncelake.exactly_once.positions import same_position
from oncelake.exactly_once.table_version import TableVersion
from oncelake.exactly_once.writers import Check, Engine, MergeFor, TableChange
from oncelake.exactly_once.writers.spark import Clauses, SparkTable

T = TypeVar("T")

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


@dataclass(frozen=True)
class Advice:
    """What to do about a batch that is not written, as the errors end.

    Attributes:
        other_range: the batch does not fit the last one in the table.
        end_one: another run writes the same table.
        end_both: both runs have written.
    """

    other_range: str
    end_one: str
    end_both: str


OF_A_LAKE = Advice(
    other_range="Run: oncelake doctor",
    end_one="Only one run at a time may write a lake. Stop one of them, then run: oncelake doctor",
    end_both="Stop both and run: oncelake doctor, then oncelake prove",
)


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
        engines: the engines to try before Spark's writer, in order.

    Attributes:
        advice: what to do about a batch that is not written.
    """

    advice: ClassVar[Advice] = OF_A_LAKE

    def __init__(
        self,
        path: str,
        commit_log: DeltaLog,
        state: TableState,
        *,
        every_batch: bool,
        engines: Sequence[Engine] = (),
    ) -> None:
        self.path = path
        self._spark = SparkTable(path)
        self._engines: Sequence[Engine] = [*engines, self._spark]
        self._every_batch = every_batch
        self.log = commit_log
        self.last = state.last
        self._seen = state.newest.version if state.newest else min(commit_log.versions(), default=0) - 1

    @property
    def state(self) -> TableState:
        """The state of the table after this run's writes."""
        return TableState(self.last, newest=self.last)

    def append(self, rows: BatchRows, metadata: CommitMetadata, fence: Check = no_fence) -> Written:
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
        return self._once(metadata, lambda engine: engine.append(rows), fence)

    def merge(self, rows: BatchRows, metadata: CommitMetadata, sql: MergeFor) -> Written:
        """MERGE the batch's rows (alias `batch`) into the table (alias `gold`), unless the table already holds them.

        Args:
            rows: the batch's rows.
            metadata: the batch's commit metadata.
            sql: returns the MERGE in the SQL of an engine.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, lambda engine: engine.merge(rows, sql), no_fence)

    def merge_by(self, rows: DataFrame, metadata: CommitMetadata, condition: str, clauses: Clauses) -> Written:
        """MERGE rows (alias `batch`) by Spark (alias `target`), unless the table already holds the batch.

        Args:
            rows: the batch's rows.
            metadata: the batch's commit metadata.
            condition: matches a row of `batch` with a row of `target`.
            clauses: adds the clauses to Delta's builder of the MERGE.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        change = self._spark.merge_by(rows, condition, clauses)
        return self._once(metadata, lambda engine: change if engine is self._spark else None, no_fence)

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
                f"{last.before} to {last.end}. Nothing was written. {self.advice.other_range}"
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
        written = self.holds(metadata)
        if written is not None:
            version = written.commit.metadata.deduplicated["version"]  # guard: repeats-from-recorded-version
            return TableVersion(self.path, metadata.table, version, replayed=True)
        self.must_be_alone(metadata)
        opened = next(filter(None, (engine.opened_at(self._seen) for engine in self._engines)), None)
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
                f"{self.advice.other_range}"
            )

    def _once(
        self, metadata: CommitMetadata, change_by: Callable[[Engine], TableChange | None], fence: Check
    ) -> Written:
        written = self.holds(metadata)
        if written is not None:
            return written
        changes = [(engine, change) for engine in self._engines if (change := change_by(engine)) is not None]
        try:
            engine = again_on_conflict(partial(self._commit, changes, metadata, fence))
        except Exception as error:
            if _is(error, *_LOST):
                raise self._lost(metadata) from error  # guard: lost-race-names-winner
            raise
        commit = self.receipt(metadata)
        engine.keep_up(commit)
        return Written(commit, by_spark=engine is self._spark)

    def _commit(self, changes: Sequence[tuple[Engine, TableChange]], metadata: CommitMetadata, fence: Check) -> Engine:
        """Try once to make a change by the first engine that can; return the engine."""
        alone = partial(self.must_be_alone, metadata)
        return next(engine for engine, change in changes if change(metadata, alone, fence))

    def must_be_alone(self, metadata: CommitMetadata, newest: int | None = None) -> int:
        """Raise LockedError if another run of the stage has written since this run last read the Delta log.

        Args:
            metadata: the metadata of the batch to write.
            newest: the version after which the batch is to be committed, or not at all; None to look for it.

        Returns:
            The newest version of the log that was looked at.
        """
        if newest == self._seen:
            return newest
        for commit in self.log.since(self._seen):
            if _is_other(commit, metadata):
                raise LockedError(  # guard: no-foreign-commit-before-write
                    f"{_other(commit)}; this run stops before batch {metadata.batch_id} of {metadata.stage} "
                    "and has changed "
                    f"nothing since. {self.advice.end_one}"
                )
            self._seen = commit.version
        return self._seen

    def _lost(self, metadata: CommitMetadata) -> LockedError:
        """Return the error for a write that lost to another instance of the same query."""
        known = (commit for commit in self.log.since(self._seen) if isinstance(commit, ChainCommit))
        winner = next((commit for commit in known if metadata.app_id in commit.txns), None)
        who = _other(winner) if winner else "another instance of this stage wrote at the same time"
        return LockedError(
            f"{who}; batch {metadata.batch_id} of {metadata.stage} was not written twice. {self.advice.end_one}"
        )

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
                f"(version {commit.version}); this run stops and has changed nothing. {self.advice.end_one}"
            )
        self.last = commit
        if others:
            raise LockedError(  # guard: no-foreign-commit-during-write
                f"{_other(others[-1])}, while this run wrote batch {metadata.batch_id} "
                f"(version {commit.version}): both "
                f"are in the table, and may hold the same lines. {self.advice.end_both}"
            )
        return commit


def _is_other(commit: Commit, metadata: CommitMetadata) -> TypeGuard[ChainCommit]:
    """Return True if another run of the stage made a commit; maintenance commits have no metadata and are allowed."""
    if not isinstance(commit, ChainCommit):
        return False
    return (commit.metadata.query_id, commit.metadata.run) != (metadata.query_id, metadata.run)


def _other(commit: ChainCommit) -> str:
    metadata = commit.metadata
    return (
        f"another run of {metadata.stage} (run {metadata.run[:8]}, query {metadata.query_id}) wrote batch "
        f"{metadata.batch_id} to {metadata.table} (version {commit.version})"
    )


def is_conflict(error: BaseException) -> bool:
    """Return True if a write conflicted with another one and can be retried."""
    return _is(error, *_PASSING)


def _is(error: BaseException, *names: str) -> bool:
    """Return True if an error is one of these Delta errors, by its Python type or the text of the Java error."""
    text = f"{type(error).__name__}: {error}"
    return any(name in text for name in names)


@retry(
    retry=retry_if_exception(is_conflict),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    reraise=True,
)
def again_on_conflict(write: Callable[[], T]) -> T:
    """Run a write, and retry it on a conflict; `TRIES` attempts at most."""
    return write()
