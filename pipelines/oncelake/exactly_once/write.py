"""Idempotent Delta writes: append and MERGE, at most once per batch ID, verified in the Delta log.

Delta skips a write whose txnVersion is not above the recorded one for its txnAppId. An append takes both as
writer options. A MERGE takes them only from the confs of the batch's own session, so they are set there for the
MERGE and always unset afterwards. After each write the Delta log must hold the transaction. A conf on the wrong
session raises no error and records nothing, and a replay would then count rows twice.
Source: Delta's documentation, "Idempotent table writes in foreachBatch".
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from pyspark.sql import DataFrame, SparkSession
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from oncelake.common import tables
from oncelake.common.errors import LockedError, ReceiptError, ReplayError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog, TableState
from oncelake.exactly_once.positions import same_position

T = TypeVar("T")

APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

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
)
TRIES = 5
_LOST = "ConcurrentTransactionException"


@dataclass(frozen=True)
class Written:
    """The result of a write: the commit that holds the batch, and whether the table held it already."""

    commit: ChainCommit
    replayed: bool = False


class TableWriter:
    """The writer of one table for one stage, starting from the state that the start gate saw."""

    def __init__(self, path: str, commit_log: DeltaLog, state: TableState, *, every_batch: bool) -> None:
        self.path = path
        self._every_batch = every_batch
        self.log = commit_log
        self.last = state.last
        self._seen = state.newest.version if state.newest else min(commit_log.versions(), default=0) - 1

    @property
    def state(self) -> TableState:
        """The state of the table after this run's writes."""
        return TableState(self.last, newest=self.last)

    def append(self, frame: DataFrame, metadata: CommitMetadata) -> Written:
        """Append the batch's rows, unless the table already holds them.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, lambda: append(frame, self.path, metadata))

    def merge(self, frame: DataFrame, metadata: CommitMetadata, condition: str, update: Mapping[str, str]) -> Written:
        """MERGE the batch's rows (alias `batch`) into the table (alias `gold`), unless the table already holds them.

        Raises:
            ReplayError: the batch ID was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, lambda: merge(frame, self.path, metadata, condition, update))

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
            raise ReplayError(
                f"batch {metadata.batch_id} of {metadata.stage} is replayed with another range of its source: "
                f"{metadata.before} to {metadata.end}; {metadata.table} has recorded batch {last.batch_id} with "
                f"{last.before} to {last.end}. Nothing was written. Run: oncelake doctor"
            )
        assert self.last is not None
        return Written(self.last, replayed=True)

    def must_follow(self, metadata: CommitMetadata, last: CommitMetadata | None) -> None:
        """Raise ReplayError if a batch does not follow the last one; only the first table gets every batch."""
        if last is None or not self._every_batch:
            return
        if metadata.batch_id != last.batch_id + 1 or not same_position(metadata.before, last.end):
            raise ReplayError(
                f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}; "
                f"the last batch recorded in {metadata.table} is "
                f"batch {last.batch_id}, which ends at {last.end}. Nothing was written. "
                "Run: oncelake doctor"
            )

    def _once(self, metadata: CommitMetadata, write: Callable[[], None]) -> Written:
        held = self.holds(metadata)
        if held is not None:
            return held

        def attempt() -> None:
            self.must_be_alone(metadata)
            write()

        try:
            again_on_conflict(attempt)
        except Exception as error:
            if _is(error, _LOST):
                raise self._lost(metadata) from error
            raise
        return Written(self.receipt(metadata))

    def must_be_alone(self, metadata: CommitMetadata) -> None:
        """Raise LockedError if another run of the stage has written since this run last read the Delta log."""
        for commit in self.log.since(self._seen):
            if _is_other(commit, metadata):
                raise LockedError(
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
        raise ReceiptError(
            f"{metadata.table} did not record batch {metadata.batch_id} of {metadata.stage} "
            f"(application ID {metadata.app_id}); "
            "the batch is not committed, and the next start tries it again"
        )

    def must_be_ours(self, commit: ChainCommit, metadata: CommitMetadata, others: list[ChainCommit]) -> ChainCommit:
        """Return the batch's commit; raise LockedError if another run made it, or wrote at the same time."""
        if commit.metadata.run != metadata.run:
            raise LockedError(
                f"another instance wrote batch {metadata.batch_id} of {metadata.stage} to {metadata.table} "
                f"(version {commit.version}); this run stops and has changed nothing. {_END_ONE}"
            )
        self.last = commit
        if others:
            raise LockedError(
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


def append(frame: DataFrame, path: str, metadata: CommitMetadata) -> None:
    """Append rows with metadata, once for its transaction; for a batch use `TableWriter`, which verifies the write."""
    writer = frame.write.option("txnAppId", metadata.app_id).option("txnVersion", metadata.txn_version)
    tables.append(writer.option("userMetadata", metadata.to_json()), path)


def merge(frame: DataFrame, path: str, metadata: CommitMetadata, condition: str, update: Mapping[str, str]) -> None:
    """MERGE rows (alias `batch`) into a table (alias `gold`) with metadata, once for its transaction."""
    session = frame.sparkSession
    with _transaction(session, metadata):
        target = tables.opened(session, path).alias("gold")
        merge = target.merge(frame.alias("batch"), condition).whenMatchedUpdate(set=dict(update))
        merge.whenNotMatchedInsertAll().execute()


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


@contextmanager
def _transaction(session: SparkSession, metadata: CommitMetadata) -> Iterator[None]:
    confs = {APP_ID: metadata.app_id, TXN_VERSION: str(metadata.txn_version), USER_METADATA: metadata.to_json()}
    try:
        for key, value in confs.items():
            session.conf.set(key, value)
        yield
    finally:
        for key in confs:
            session.conf.unset(key)


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
