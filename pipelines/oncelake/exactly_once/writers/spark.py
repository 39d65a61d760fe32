"""Spark's Delta writer: it writes every table, each change under one transaction.

Delta skips a write whose txnVersion is not above the recorded one for its txnAppId. An append takes both as
writer options. A MERGE takes them only from the confs of the batch's own session, so they are set there for the
MERGE and always unset afterwards. A conf on the wrong session raises no error and records nothing, and a replay would
then count rows twice: so `TableWriter` reads the Delta log after each write.
Source: Delta's documentation, "Idempotent table writes in foreachBatch".
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrame, SparkSession

from oncelake.common import tables
from oncelake.common.spark.rows import BatchRows
from oncelake.common.spark.s3 import only_version
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.writers import Check, LogCheck, MergeFor, MergeSql, TableChange

APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Without it, Delta computes the source of a MERGE twice, or keeps a copy; collected rows need neither.
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
# Adds clauses to a MERGE.
Clauses = Callable[[DeltaMergeBuilder], DeltaMergeBuilder]


@dataclass(frozen=True)
class SparkTable:
    """One table as Spark writes it.

    Attributes:
        path: the table's path or catalog name.
    """

    path: str

    def append(self, rows: BatchRows) -> TableChange:
        """Return the change that appends rows."""

        def change(metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
            del fence
            frame = rows.frame()
            with only_version(frame, self.path, alone() + 1):  # guard: append-at-next-version
                append(frame, self.path, metadata)
            return True

        return change

    def merge(self, rows: BatchRows, sql: MergeFor) -> TableChange:
        """Return the change that merges rows."""

        def change(metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
            del fence
            merge_sql = sql("spark")
            assert merge_sql is not None, "Spark merges every table"
            frame = rows.frame()
            with only_version(frame, self.path, alone() + 1):  # guard: merge-at-next-version
                merge(frame, self.path, metadata, merge_sql, computed=rows.here is not None)
            return True

        return change

    def merge_by(self, rows: DataFrame, condition: str, clauses: Clauses) -> TableChange:
        """Return the change that merges rows (alias `batch`) into the table (alias `target`) by any clauses."""

        def change(metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
            del fence
            with only_version(rows, self.path, alone() + 1), _transaction(rows.sparkSession, metadata):
                target = tables.opened(rows.sparkSession, self.path).alias("target")
                clauses(target.merge(rows.alias("batch"), condition)).execute()
            return True

        return change

    def opened_at(self, version: int) -> None:
        """Return None: Spark reads each version from its files."""
        del version

    def keep_up(self, commit: ChainCommit) -> None:
        """Do nothing: Spark's writer does the upkeep in its commits."""
        del commit


def commit_note(spark: SparkSession, path: str, metadata: CommitMetadata) -> None:
    """Commit metadata alone, for a recovery or a loss; Delta skips an append with neither rows nor a transaction."""
    append(tables.read(spark, path).limit(0), path, metadata)


def append(rows: DataFrame, path: str, metadata: CommitMetadata) -> None:
    """Append rows with metadata, once for its transaction; for a batch use `TableWriter`, which verifies the write."""
    # guard: append-transaction
    writer = rows.write.option("txnAppId", metadata.app_id).option("txnVersion", metadata.txn_version)
    tables.append(writer.option("userMetadata", metadata.to_json()), path)


def merge(rows: DataFrame, path: str, metadata: CommitMetadata, sql: MergeSql, *, computed: bool = False) -> None:
    """MERGE rows (alias `batch`) into a table (alias `gold`) once for the transaction of its metadata.

    `computed` is True if the frame holds the rows themselves, so that Delta need not keep them between its two passes.
    """
    session = rows.sparkSession
    with _transaction(session, metadata, {_MATERIALIZE: "none"} if computed else {}):
        target = tables.opened(session, path).alias("gold")
        merge = target.merge(rows.alias("batch"), sql.condition).whenMatchedUpdate(set=dict(sql.update))
        columns = [f"`{name.replace('`', '``')}`" for name in rows.columns]
        merge.whenNotMatchedInsert(values={name: f"batch.{name}" for name in columns}).execute()


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
