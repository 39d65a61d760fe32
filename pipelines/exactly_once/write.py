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

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from pipelines.errors import LockedError, ReceiptError, ReplayError
from pipelines.exactly_once.checkpoint import same_position
from pipelines.exactly_once.commit import Note
from pipelines.exactly_once.ledger import Commit, Ledger, Standing

APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# Conflicts with maintenance (OPTIMIZE, VACUUM) that pass when the write is made again. A conflict of
# transactions is not among them: that is another instance of this stage.
_PASSING = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "MetadataChangedException",
)


@dataclass(frozen=True)
class Written:
    """What a write came to: the commit that holds the batch, and whether this run made it."""

    commit: Commit
    replayed: bool = False


class TableWriter:
    """One table as one stage writes it, from the standing that the start check saw."""

    def __init__(self, path: str, ledger: Ledger, standing: Standing, *, every_batch: bool) -> None:
        self.path = path
        self._every_batch = every_batch
        self._ledger = ledger
        self._last = standing.last
        versions = ledger.versions()
        self._seen = versions[-1] if versions else -1

    @property
    def standing(self) -> Standing:
        """Where the table stands after this run's writes."""
        return Standing(self._last, newest=self._last)

    def append(self, frame: DataFrame, note: Note) -> Written:
        """Append the batch's rows, or find that the table already holds them.

        Raises:
            ReplayError: the batch id was written with another range, or does not follow the last one.
            LockedError: another instance wrote the batch in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(note, lambda: _append(frame, self.path, note))

    def merge(self, frame: DataFrame, note: Note, condition: str, update: Mapping[str, str]) -> Written:
        """MERGE the batch's rows (alias `batch`) into the table (alias `gold`), or find them there.

        Raises:
            ReplayError: the batch id was written with another range, or does not follow the last one.
            LockedError: another instance wrote the batch in the meantime.
            ReceiptError: the table did not record the transaction.
        """
        return self._once(note, lambda: _merge(frame, self.path, note, condition, update))

    def holds(self, note: Note) -> Written | None:
        """Give the commit when the table already holds this batch over this range.

        Raises:
            ReplayError: it holds the batch id with another range, or does not hold what comes before.
        """
        last = self._last.note if self._last else None
        if last is None or note.batch_id > last.batch_id:
            self._must_follow(note, last)
            return None
        if not note.covers_same(last):
            raise ReplayError(
                f"batch {note.batch_id} of {note.stage} came back with another range of its source: "
                f"{note.before} to {note.end}; {note.table} has recorded batch {last.batch_id} with "
                f"{last.before} to {last.end}. Nothing was written. See the state with: oncelake doctor"
            )
        assert self._last is not None
        return Written(self._last, replayed=True)

    def _must_follow(self, note: Note, last: Note | None) -> None:
        """Refuse a batch that leaves a gap after the last one; only the first table is given every batch."""
        if last is None or not self._every_batch:
            return
        if note.batch_id != last.batch_id + 1 or not same_position(note.before, last.end):
            raise ReplayError(
                f"batch {note.batch_id} of {note.stage} starts at {note.before}; {note.table} has recorded up to "
                f"batch {last.batch_id}, which ends at {last.end}. Nothing was written. "
                "See the state with: oncelake doctor"
            )

    def _once(self, note: Note, write: Callable[[], None]) -> Written:
        held = self.holds(note)
        if held is not None:
            return held
        _retrying(write)
        return Written(self._receipt(note))

    def _receipt(self, note: Note) -> Commit:
        """Find the commit that this run just made; the table's log is the only witness."""
        for commit in self._ledger.since(self._seen):
            self._seen = commit.version
            if commit.txns.get(note.app_id) != note.batch_id or commit.note is None:
                continue
            if commit.note.run != note.run:
                raise LockedError(
                    f"another instance wrote batch {note.batch_id} of {note.stage} to {note.table} "
                    f"(version {commit.version}); this one stops and has changed nothing"
                )
            self._last = commit
            return commit
        raise ReceiptError(
            f"{note.table} did not record batch {note.batch_id} of {note.stage} (application id {note.app_id}); "
            "the batch is not committed and will be tried again at the next start"
        )


def _append(frame: DataFrame, path: str, note: Note) -> None:
    writer = frame.write.format("delta").mode("append")
    writer = writer.option("txnAppId", note.app_id).option("txnVersion", note.batch_id)
    writer.option("userMetadata", note.to_json()).save(path)


def _merge(frame: DataFrame, path: str, note: Note, condition: str, update: Mapping[str, str]) -> None:
    session = frame.sparkSession
    with _transaction(session, note):
        target = DeltaTable.forPath(session, path).alias("gold")
        merge = target.merge(frame.alias("batch"), condition).whenMatchedUpdate(set=dict(update))
        merge.whenNotMatchedInsertAll().execute()


@contextmanager
def _transaction(session: SparkSession, note: Note) -> Iterator[None]:
    confs = {APP_ID: note.app_id, TXN_VERSION: str(note.batch_id), USER_METADATA: note.to_json()}
    try:
        for key, value in confs.items():
            session.conf.set(key, value)
        yield
    finally:
        for key in confs:
            session.conf.unset(key)


def _passes(error: BaseException) -> bool:
    return any(name in str(error) for name in _PASSING)


@retry(
    retry=retry_if_exception(_passes),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    reraise=True,
)
def _retrying(write: Callable[[], None]) -> None:
    write()
