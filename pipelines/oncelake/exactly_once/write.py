"""This is where every append and every MERGE of the chain is made: once per batch id, and proven.

Delta skips a write whose txnVersion is not above the recorded one for its txnAppId. An append takes both as
writer options. A MERGE takes them only from the confs of the session that the batch belongs to, so they
are set there, used, and unset whatever happens. Afterwards the table's log must hold the transaction: a
conf on the wrong session raises nothing and records nothing, and a replay would then count twice.
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

_END_ONE = "One run at a time may write a lake: end one of them, and see the state with: oncelake doctor"

# Conflicts of a batch with maintenance (OPTIMIZE, VACUUM), and of maintenance with a batch, that pass when the write is
# made again. A conflict of transactions is not among them: that is another instance of this stage, which won.
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
    """What a write came to: the commit that holds the batch, and whether this run made it."""

    commit: ChainCommit
    replayed: bool = False


class TableWriter:
    """One table as one stage writes it, from the state that the start check saw."""

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
        """Append the batch's rows, or find that the table already holds them.

        Raises:
            ReplayError: the batch id was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, lambda: append(frame, self.path, metadata))

    def merge(self, frame: DataFrame, metadata: CommitMetadata, condition: str, update: Mapping[str, str]) -> Written:
        """MERGE the batch's rows (alias `batch`) into the table (alias `gold`), or find them there.

        Raises:
            ReplayError: the batch id was written with another range, or does not follow the last one.
            LockedError: another run of the stage has written to the table in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(metadata, lambda: merge(frame, self.path, metadata, condition, update))

    def holds(self, metadata: CommitMetadata) -> Written | None:
        """Give the commit when the table already holds this batch over this range.

        Raises:
            ReplayError: it holds the batch id with another range, or does not hold what comes before.
        """
        last = self.last.metadata if self.last else None
        if last is None or metadata.batch_id > last.batch_id:
            self.must_follow(metadata, last)
            return None
        if not metadata.covers_same(last):
            raise ReplayError(
                f"batch {metadata.batch_id} of {metadata.stage} came back with another range of its source: "
                f"{metadata.before} to {metadata.end}; {metadata.table} has recorded batch {last.batch_id} with "
                f"{last.before} to {last.end}. Nothing was written. See the state with: oncelake doctor"
            )
        assert self.last is not None
        return Written(self.last, replayed=True)

    def must_follow(self, metadata: CommitMetadata, last: CommitMetadata | None) -> None:
        """Refuse a batch that leaves a gap after the last one; only the first table is given every batch."""
        if last is None or not self._every_batch:
            return
        if metadata.batch_id != last.batch_id + 1 or not same_position(metadata.before, last.end):
            raise ReplayError(
                f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}; "
                f"{metadata.table} has recorded up to "
                f"batch {last.batch_id}, which ends at {last.end}. Nothing was written. "
                "See the state with: oncelake doctor"
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
        """Stop before writing when another run of the stage has written since this one looked last."""
        for commit in self.log.since(self._seen):
            if _is_other(commit, metadata):
                raise LockedError(
                    f"{_other(commit)}; this one stops before batch {metadata.batch_id} of {metadata.stage} "
                    "and has changed "
                    f"nothing since. {_END_ONE}"
                )
            self._seen = commit.version

    def _lost(self, metadata: CommitMetadata) -> LockedError:
        """Say that Delta let another instance's write of the same query win."""
        known = (each for each in self.log.since(self._seen) if isinstance(each, ChainCommit))
        winner = next((each for each in known if metadata.app_id in each.txns), None)
        who = _other(winner) if winner else "another instance of this stage wrote at the same time"
        return LockedError(f"{who}; batch {metadata.batch_id} of {metadata.stage} was not written twice. {_END_ONE}")

    def receipt(self, metadata: CommitMetadata) -> ChainCommit:
        """Find the commit that this run just made; the table's log is the only witness."""
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
            f"(application id {metadata.app_id}); "
            "the batch is not committed and will be tried again at the next start"
        )

    def must_be_ours(self, commit: ChainCommit, metadata: CommitMetadata, others: list[ChainCommit]) -> ChainCommit:
        """Refuse the batch's commit when another run made it, or wrote while this one did."""
        if commit.metadata.run != metadata.run:
            raise LockedError(
                f"another instance wrote batch {metadata.batch_id} of {metadata.stage} to {metadata.table} "
                f"(version {commit.version}); this one stops and has changed nothing. {_END_ONE}"
            )
        self.last = commit
        if others:
            raise LockedError(
                f"{_other(others[-1])}, while this one wrote batch {metadata.batch_id} "
                f"(version {commit.version}): both "
                "are in the table, and may hold the same lines. End both, and see what holds with: oncelake doctor, "
                "then oncelake prove"
            )
        return commit


def _is_other(commit: Commit, metadata: CommitMetadata) -> TypeGuard[ChainCommit]:
    """Tell whether a commit is of another run of the stage; maintenance carries no metadata and may come between."""
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
    """Commit without rows: a recovery, or a loss. Without its transaction Delta would skip the commit."""
    append(tables.read(spark, path).limit(0), path, metadata)


def append(frame: DataFrame, path: str, metadata: CommitMetadata) -> None:
    """Append rows with metadata, once for its transaction; `TableWriter` does it for batches, and looks afterwards."""
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
    """Remove rows (alias `held`) whose `verdict` has no reasons, and give the others those that it has.

    Args:
        verdicts: one row for each row, or each set of equal rows, that was judged.
        path: where the table is.
        metadata: the replay's.
        condition: which verdict is of which row.
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
    """Return True if a write met another one and can be made again."""
    return _is(error, *_PASSING)


def _is(error: BaseException, *names: str) -> bool:
    """Tell an error of Delta by its name, which is its Python type or in the text of a Java one."""
    said = f"{type(error).__name__}: {error}"
    return any(name in said for name in names)


@retry(
    retry=retry_if_exception(is_conflict),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    reraise=True,
)
def again_on_conflict(write: Callable[[], T]) -> T:
    """Make a write, again when it met another one, a few times at most."""
    return write()
