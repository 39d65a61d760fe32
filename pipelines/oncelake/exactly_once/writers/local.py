"""The writer of tables on a local disk and on S3: delta-rs commits from this process, without Spark's Delta writer.

It appends the rows of a batch as data files, see `new_files`, and merges the collected rows of a small one. Spark's
writer costs one to three seconds for a batch of any size, delta-rs some milliseconds.

delta-rs records a transaction, but does not skip one that the table holds already, and by default it repeats a commit
that lost against another one (delta-rs issue 2580). So a commit here is made against one snapshot: the recorded
transaction is read from it, and the commit must get the next version, or fails. On a local disk a version is given out
by a hard link, as `DirectFileSystem.java` does it for Spark, so both writers exclude each other; on S3 by a put under a
condition, as `S3LogStore.java` does it.

The answer to a commit can get lost after its effect, and delta-rs then finds its own commit in the way. So after each
failure the version is read: the run's ID in the commit metadata shows whose commit it is.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pyspark.sql.types import StructType

from oncelake.common.lake import is_local, listed_files, micros
from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.bounds import without_float_bounds
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog
from oncelake.exactly_once.files import FAILURES, LocalFiles
from oncelake.exactly_once.upkeep import NOTHING_AFTER, keep_up
from oncelake.exactly_once.version_checksum import VersionChecksums
from oncelake.exactly_once.writers import (
    Access,
    Check,
    LogCheck,
    MergeFor,
    TableChange,
    TransactionHeldError,
    VersionTakenError,
    Windows,
)
from oncelake.exactly_once.writers.new_files import DataFile, NewFiles, stats_text

# delta-rs' MERGE holds the files that it touches in memory, about 70 bytes for a row of few columns.
MERGED = 5_000_000
# What a table may use: features of the protocol that delta-rs writes as Spark does.
_FEATURES = frozenset({"appendOnly", "invariants", "changeDataFeed"})
_PLAIN_VERSION = 2
# A plain table has this version once its change data feed is turned on, one with constraints or generated columns too.
_CHANGES_VERSION = 4
_FEATURES_VERSION = 7
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

# Does the upkeep of tables on stores.
_MEANWHILE = ThreadPoolExecutor(thread_name_prefix="upkeep")

_INDEXED, _FIRST = "delta.dataSkippingStatsColumns", 32
# A field with an invariant has this in the schema; Spark's writer checks it.
_INVARIANTS = "delta.invariants"


def create(path: str, schema: StructType, properties: Mapping[str, str]) -> bool:
    """Create an empty table, unless there is one; return False if delta-rs cannot, for a reason that Spark will name.

    Args:
        path: the table's directory.
        schema: its columns.
        properties: its Delta properties.
    """
    columns = Schema.from_json(schema.json())
    try:
        DeltaTable.create(path, columns, "ignore", configuration=dict(properties), raise_if_key_not_exists=False)
    except (DeltaError, OSError):
        return False
    files = LocalFiles()
    VersionChecksums(DeltaLog(files, path), files).write(0)
    return True


class LocalTable:
    """One table on a local disk or on S3, as delta-rs writes it.

    Attributes:
        path: the table's directory.
        windows: the column of a gold table's windows; None for a table that is only appended to.
        needed: returns the oldest version that a stage still reads from the table; None if there is none.
        files: the access to the directory.
        checksums: the checksums of its versions.

    Args:
        access: how the directory is reached; None for one on a local disk.
    """

    def __init__(
        self,
        path: str,
        windows: str | None = None,
        needed: Callable[[], int | None] = lambda: None,
        access: Access | None = None,
    ) -> None:
        access = access or Access(LocalFiles(), DeltaLog(LocalFiles(), path))
        self.path = path
        self.windows = windows
        self.needed = needed
        self.files = access.files
        self.checksums = VersionChecksums(access.commit_log, access.files)
        self._options = dict(access.options)
        self._is_local = is_local(path)
        self._table: DeltaTable | None = None
        self._recorded = _Recorded(access.commit_log)
        self._kept_up: int | None = None
        self._upkeep: Future[None] | None = None

    def append(self, rows: BatchRows) -> TableChange | None:
        """Return the change that appends rows as data files; None if only Spark can write them."""
        files = self.new_files(rows)
        if files is None:
            return None

        def change(metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
            alone(self._table.version() if self._table is not None else None)
            written = files.written()
            fence()  # guard: lock-check-after-files
            return self._commit_files(files, written, metadata, alone)

        return change

    def _commit_files(
        self, files: NewFiles, written: Sequence[DataFile], metadata: CommitMetadata, alone: LogCheck
    ) -> bool:
        snapshot = self.snapshot(files.columns)
        alone(snapshot.version if snapshot is not None else None)  # guard: snapshot-before-log-check
        if snapshot is None or snapshot.schema != files.schema:
            files.discard()
            return False
        snapshot.append_files(written, metadata)
        return True

    def merge(self, rows: BatchRows, sql: MergeFor) -> TableChange | None:
        """Return the change that merges collected rows; None for others, which only Spark merges."""
        batch = rows.here
        if batch is None:
            return None

        def change(metadata: CommitMetadata, alone: LogCheck, fence: Check) -> bool:
            del fence
            snapshot = self.snapshot(rows.columns)
            alone(snapshot.version if snapshot is not None else None)
            merge_sql = sql("datafusion")
            if snapshot is None or merge_sql is None or not snapshot.can_merge(merge_sql.windows):
                return False
            snapshot.merge(batch, metadata, merge_sql.condition, merge_sql.update)
            return True

        return change

    def snapshot(self, columns: Sequence[str]) -> "Snapshot | None":
        """Return the newest version to commit rows of these columns against; None if only Spark can write them.

        That is so if the table lacks one of the columns, has one that must not be null, or uses more than the plain
        protocol; a gold table must have these columns alone, in this order. None also if delta-rs cannot read the
        table, for example because other processes commit while it lists the log. Spark then writes the batch, or says
        what is wrong.
        """
        table = self._newest()
        if table is None:
            return None
        # guard: table-has-batch-columns
        fits = self._has(columns) and _is_plain(table)
        return Snapshot(self.path, table, self._recorded, self.windows) if fits else None

    def new_files(self, rows: BatchRows) -> NewFiles | None:
        """Return the rows of a batch, for `Snapshot.append_files`; None if only Spark can write them.

        That is so for the reasons of `snapshot`, for rows that Spark computes for a table on a store, and if a column
        has another type than in the table: Spark's writer converts it. Nothing is computed yet. The columns with
        statistics are those that the table's property lists, or the first ones.
        """
        if rows.here is None and not self._is_local:
            return None
        if self.snapshot(rows.columns) is None or self._table is None:
            return None
        text = self._table.schema().to_json()
        fields = {field.name: field for field in StructType.fromJson(json.loads(text)).fields}
        fit = all(fields[field.name].dataType.simpleString() == field.dataType.simpleString() for field in rows.schema)
        # guard: same-types-and-nullable
        if not fit or _INVARIANTS in text or not all(field.nullable for field in fields.values()):
            return None
        listed = self._table.metadata().configuration.get(_INDEXED)
        indexed = [name.strip(" `") for name in listed.split(",")] if listed is not None else list(fields)[:_FIRST]
        return NewFiles(
            rows,
            self.path,
            {name: fields[name].dataType.typeName() for name in indexed if name in fields},
            text,
            self.files,
        )

    def opened_at(self, version: int) -> DeltaTable | None:
        """Return the table if its newest version is this one and delta-rs can read it; otherwise None.

        None also on a store, whose data files delta-rs reads without letting other threads of this process run.
        """
        table = self._newest() if self._is_local else None
        return table if table is not None and table.version() == version and _is_plain(table) else None

    def _newest(self) -> DeltaTable | None:
        """Return the table at its newest version; None if delta-rs cannot read it.

        On a store this is the newest one that is known: a look would be a request more for each batch, and the commit
        looks itself. If another writer has committed, it fails, and the next try has the newest version.
        """
        if self._upkeep is not None:
            self._upkeep.result()
        try:
            if self._table is None:
                self._table = DeltaTable(self.path, storage_options=self._options)
            elif self._is_local and self._is_there(self._table.version() + 1):  # else listing the log finds nothing
                self._table.update_incremental()  # guard: snapshot-is-newest
        except (DeltaError, OSError):
            self._table = None
            return None
        if self._kept_up is None:
            self._kept_up = self._table.version()
        return self._table

    def _is_there(self, version: int) -> bool:
        return Path(self.path, "_delta_log", f"{version:020}.json").exists()

    def _has(self, columns: Sequence[str]) -> bool:
        assert self._table is not None, "a snapshot has opened the table"
        fields = self._table.schema().fields
        if self.windows is not None:
            return [field.name for field in fields] == list(columns)
        others = [field for field in fields if field.name not in columns]
        return len(fields) - len(others) == len(columns) and all(field.nullable for field in others)

    def keep_up(self, commit: ChainCommit) -> None:
        """Do the table's upkeep that is due after a batch's commit by the last snapshot; nothing of it can fail.

        On a store, the next stage begins meanwhile: only the checksum must be there before it reads the table.
        """
        if self._table is None or self._kept_up is None:
            return
        self.checksums.write(commit.version)
        self._recorded.add(commit)
        if self._is_local:
            self._keep_up(self._table, self._kept_up, commit)
        else:
            self._upkeep = _MEANWHILE.submit(self._keep_up, self._table, self._kept_up, commit)
        self._kept_up = commit.version

    def _keep_up(self, table: DeltaTable, since: int, commit: ChainCommit) -> None:
        with suppress(DeltaError, OSError):
            if not self._is_local or self._is_there(table.version() + 1):  # as after a commit of files
                table.update_incremental()
        with suppress(*FAILURES):  # guard: store-away-at-upkeep
            keep_up(table, self, since, commit)


class _Recorded:
    """The transactions that a table has recorded, known from its commits one by one.

    delta-rs reads each commit since the last checkpoint to find one.

    Attributes:
        log: the table's log.
    """

    def __init__(self, log: DeltaLog) -> None:
        self.log = log
        self._version = -1
        self._last: dict[str, int | None] = {}

    def add(self, commit: Commit) -> None:
        """Add a commit, if it is the one after those that are known."""
        if commit.version == self._version + 1:
            self._version = commit.version
            self._last.update(commit.txns)

    def at(self, table: DeltaTable, app_id: str) -> int | None:
        """Return the last version of an application that a table has recorded; None if there is none."""
        for version in range(self._version + 1, table.version() + 1) if app_id in self._last else ():
            commit = self.log.commit(version)
            if commit is None:
                break
            self.add(commit)
        if app_id not in self._last or self._version != table.version():
            self._last = {app_id: table.transaction_version(app_id)}
            self._version = table.version()
        return self._last[app_id]


class Snapshot:
    """One version of a table; a commit against it becomes the next version, or fails.

    Attributes:
        directory: the table's directory.
        version: the version.
    """

    def __init__(self, directory: str, table: DeltaTable, recorded: _Recorded, windows: str | None = None) -> None:
        self.directory = directory
        self._table = table
        self._recorded = recorded
        self._windows = windows
        self.version: int = table.version()

    @property
    def schema(self) -> str:
        """The table's schema, as JSON."""
        return str(self._table.schema().to_json())

    def append_files(self, files: Sequence[DataFile], metadata: CommitMetadata) -> None:
        """Add data files, which may be none, with the batch's transaction and metadata.

        Raises:
            TransactionHeldError: the snapshot holds this transaction or a later one.
            VersionTakenError: another writer committed since the snapshot was read; the files are not in the table.
        """
        self._must_be_new(metadata)  # guard: file-transaction-is-new
        rows = sum(file.stats["numRecords"] for file in files)
        with self._settled(metadata):
            self._table.create_write_transaction(
                [AddAction(file.name, file.size, {}, file.modified, True, stats_text(file)) for file in files],
                "append",
                self._table.schema(),
                commit_properties=_properties(metadata, {"numOutputRows": str(rows)}),  # guard: rows-counted-from-files
                post_commithook_properties=NOTHING_AFTER,
            )

    def merge(self, rows: pyarrow.Table, metadata: CommitMetadata, condition: str, update: Mapping[str, str]) -> None:
        """MERGE rows (alias `batch`) into the table (alias `gold`) with the batch's transaction and metadata.

        Args:
            rows: the batch's rows.
            metadata: the batch's commit metadata.
            condition: the condition in DataFusion's SQL.
            update: column -> expression in DataFusion's SQL.

        Raises:
            TransactionHeldError: the snapshot holds this transaction or a later one.
            VersionTakenError: another writer committed since the snapshot was read; nothing was written.
        """
        if rows.num_rows == 0:  # delta-rs makes no commit for a MERGE without rows
            self.append_files([], metadata)  # guard: empty-merge-is-committed
            return
        self._must_be_new(metadata)
        with self._settled(metadata):
            merge = self._table.merge(
                rows,
                condition,
                source_alias="batch",
                target_alias="gold",
                writer_properties=cast(Any, without_float_bounds(self._table)),
                commit_properties=_properties(metadata),
                post_commithook_properties=NOTHING_AFTER,
            )
            merge.when_matched_update(dict(update)).when_not_matched_insert_all().execute()

    def can_merge(self, windows: Windows) -> bool:  # guard: small-merge-only
        """Return True if a MERGE of these windows, of all if none is given, touches few enough rows for delta-rs."""
        return self.rows_touched(windows) <= MERGED

    def rows_touched(self, windows: Windows) -> int:
        """Return how many rows are in the files that can hold one of the windows, by the files' statistics."""
        files = listed_files(self._table)
        rows = [count or 0 for count in files["num_records"].to_pylist()]
        bounds = [f"min.{self._windows}", f"max.{self._windows}"]
        if not windows or not set(bounds) <= set(files.column_names):
            return sum(rows)
        starts, ends = ([(moment - _EPOCH) // _MICROSECOND for moment in side] for side in zip(*windows, strict=True))
        least, most = (micros(files[name]) for name in bounds)

        def can_hold(low: int | None, high: int | None) -> bool:
            if low is None or high is None:
                return True
            place = bisect_left(ends, low)
            return place < len(ends) and starts[place] <= high

        return sum(count for count, *span in zip(rows, least, most, strict=True) if can_hold(*span))

    def _must_be_new(self, metadata: CommitMetadata) -> None:
        recorded = self._recorded.at(self._table, metadata.app_id)
        if recorded is not None and recorded >= metadata.txn_version:
            # guard: small-batch-transaction-is-new
            raise TransactionHeldError(f"{self._table.table_uri} holds {metadata.app_id} up to {recorded}")

    @contextmanager
    def _settled(self, metadata: CommitMetadata) -> Iterator[None]:
        """Settle a commit that failed: it was made and the answer is lost, or another writer was first, or neither.

        Raises:
            VersionTakenError: another writer has committed the version.
        """
        try:
            yield
        except (DeltaError, OSError) as error:
            there = self._recorded.log.commit(self.version + 1)
            if there is None:
                raise
            self._table.update_incremental()
            if there.metadata != metadata:  # guard: lost-answer-settled
                # guard: small-batch-tries-again
                raise VersionTakenError(f"version {self.version + 1} of {self._table.table_uri} is taken") from error


def _properties(metadata: CommitMetadata, metrics: Mapping[str, str] | None = None) -> CommitProperties:
    """Return what a commit records; `metrics` are for a commit whose rows delta-rs does not count."""
    custom: dict[str, Any] = {"userMetadata": metadata.to_json()}
    if metrics is not None:
        custom["operationMetrics"] = metrics
    return CommitProperties(
        custom_metadata=custom,
        max_commit_retries=0,  # guard: commit-on-checked-version-only
        app_transactions=[Transaction(metadata.app_id, metadata.txn_version)],  # guard: small-batch-transaction
    )


def _is_plain(table: DeltaTable) -> bool:  # guard: delta-rs-features-only
    protocol, metadata = table.protocol(), table.metadata()
    if protocol.min_reader_version != 1 or metadata.partition_columns:
        return False
    if protocol.min_writer_version == _FEATURES_VERSION:
        return set(protocol.writer_features or ()) <= _FEATURES
    if protocol.min_writer_version == _CHANGES_VERSION:
        # guard: plain-columns-only
        constrained = any(name.startswith("delta.constraints.") for name in metadata.configuration)
        return not constrained and "delta.generationExpression" not in table.schema().to_json()
    return bool(protocol.min_writer_version == _PLAIN_VERSION)
