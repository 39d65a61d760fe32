"""Apply batches to a served table, whatever its sink: replays, gaps, other writers and waiting are decided here.

The sink says which batch it stores last. A batch whose range is stored is a no-op. The next batch must begin where the
stored one ends, under the same query. Anything else changes nothing and is an error that names both ranges.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelake.common.errors import (
    ConfigError,
    OncelakeError,
    OvertakenError,
    ReceiptError,
    ReplayError,
    StopRequested,
    TargetAwayError,
    TargetError,
    reason,
)
from oncelake.common.lake import Table
from oncelake.common.wording import count_of
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, TableState
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.positions import TablePosition, same_position
from oncelake.exactly_once.write import Written
from oncelake.gold.declaration import GoldTable
from oncelake.serving.patience import Patience
from oncelake.serving.rows import Rows, sink_table
from oncelake.serving.settings import Mode, Unheld
from oncelake.serving.sink import RefusedRow, Sink, SinkBatch, SinkContent, SinkRows, SinkTable
from oncelake.silver.schema import SILVER

# `write` or `remove` of a sink.
Change = Callable[[SinkTable, SinkBatch, SinkRows], None]


@dataclass(frozen=True)
class Served:
    """A gold table's copy in a sink.

    Attributes:
        table: the stage's table, such as `serving.error_log`; the stage has the same name.
        declared: the gold table's declaration.
        mode: idempotent replaces values with gold's; transactional counts silver's lines and adds the counts.
        follows: the table that the stage reads.
        sink: the sink that serves the table.
        silver_schema: returns silver's columns.
        unheld: what to do with a row that the database cannot hold.
    """

    table: Table
    declared: GoldTable
    mode: Mode
    follows: Table
    sink: Sink = field(repr=False)
    silver_schema: Callable[[SparkSession], StructType] = lambda _: SILVER
    unheld: Unheld = "refuse"

    @property
    def stage(self) -> str:
        """The stage's name."""
        return str(self.table)

    @property
    def follows_changes(self) -> bool:
        """True if the stage reads the changes of the gold table, and not the lines of silver."""
        return self.mode == "idempotent"

    @property
    def place(self) -> str:
        """The name of the sink, for messages."""
        return str(self.sink)

    def shape(self, schema: StructType) -> SinkTable:
        """Return the table as its sink gets it.

        Args:
            schema: the gold table's columns and types.

        Raises:
            ConfigError: no sink can hold a column.
        """
        return sink_table(self.table.name, self.declared, schema)

    def state(self) -> TableState:
        """Return the state of the table: its last batch.

        Raises:
            TargetAwayError: the sink is unavailable.
            TargetError: the sink reports an error that waiting does not fix.
        """
        last = self._last()
        commit = self._commit(last) if last is not None and last.batch_id is not None else None
        return TableState(commit, newest=commit)

    def counted_otherwise(self, last: ChainCommit | None, rules: str) -> str | None:
        """Return what to do if the table holds counts by other rules, to which a batch would add its own.

        None if it does not, and if its rows are replaced by gold's.

        Args:
            last: the table's last batch.
            rules: the hash of the declaration that the next batch is counted by.
        """
        if self.follows_changes or last is None or last.metadata.rules in ("", rules):
            return None
        return (
            f"{self.stage} holds counts by another declaration of gold.{self.table.name} than the one in the settings. "
            f"To count it again: oncelake rebuild {self.stage}"
        )

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Return the last batch only: the sink keeps no history."""
        last = self.state().last
        return iter([(last, True)] if last else [])

    def first_position(self) -> None:
        """Return None: a stage that reads a Delta table has no position before its first batch."""

    def apply(self, rows: Rows, metadata: CommitMetadata, patience: Patience, fence: Callable[[], None]) -> Written:
        """Apply a batch and its position; change nothing if the batch was already applied.

        Args:
            rows: the rows to upsert, in the order of their key.
            metadata: the batch.
            patience: how long to wait for an unavailable sink.
            fence: raises an error if this process may no longer write.

        Raises:
            ConfigError: a table is missing or is not as it must be, or it holds counts by another declaration.
            ReplayError: the batch overlaps the stored range, or leaves a gap.
            TargetError: the sink reports an error that waiting does not fix, or is unavailable for too long.
            ReceiptError: the sink did not store the batch that it was given.
        """
        return self._keep_applying(self.sink.write, rows, metadata, patience, fence)

    def remove(self, keys: Rows, metadata: CommitMetadata, patience: Patience, fence: Callable[[], None]) -> Written:
        """Remove the rows of some keys as a batch; arguments and errors are those of `apply`.

        Args:
            keys: rows of one value, the key, in the order of the keys.
            metadata: the batch.
            patience: how long to wait for an unavailable sink.
            fence: raises an error if this process may no longer write.

        Raises:
            ConfigError: the class of the sink cannot remove rows.
        """
        if not self.sink.removes:
            raise ConfigError(f"{self.place} cannot remove rows: its class has no method remove")
        return self._keep_applying(self.sink.remove, keys, metadata, patience, fence)

    def _keep_applying(
        self, change: Change, rows: Rows, metadata: CommitMetadata, patience: Patience, fence: Callable[[], None]
    ) -> Written:
        stops = self.sink.limits is None or self.unheld == "stop"
        if rows.refused.count and stops:
            raise self._stopped(f"{next(rows.refused.read())}; {count_of(rows.refused.count, 'such row')} in the batch")

        def refuse(row: RefusedRow) -> None:
            if stops:
                raise self._stopped(str(row))

        table = self.shape(rows.schema)
        sink_rows = SinkRows(rows.count, rows.chunks, fence, rows.refused, refuse)
        return patience.keep_trying(lambda: self._apply(change, table, sink_rows, metadata, rows.source_rows))

    def _stopped(self, message: str) -> TargetError:
        other = "" if self.sink.limits is None else ", or set serving.unheld to refuse"
        return TargetError(f"{self.place}: {message}. Change the declaration of gold.{self.table.name}{other}")

    def _apply(
        self, change: Change, table: SinkTable, rows: SinkRows, metadata: CommitMetadata, source_rows: int
    ) -> Written:
        last = self._last()
        while True:
            stored = self._commit(last) if last is not None and last.batch_id is not None else None
            if _is_applied(metadata, stored.metadata if stored else None, self.place):
                assert stored is not None
                return Written(stored, replayed=True)
            if (refused := self.counted_otherwise(stored, metadata.rules)) is not None:
                raise ConfigError(refused)  # guard: no-sum-of-two-declarations
            batch = self._batch(metadata, last, source_rows)
            try:
                with self._named(rows):
                    change(table, batch, rows)
            except OvertakenError:
                before, last = last, self._last()
                if last == before:
                    raise TargetError(
                        f"{self.place} refuses batch {metadata.batch_id} of {self.stage} because another process has "
                        "written, but its last batch is the same as before. The sink must compare the stored version "
                        f"{before.version if before else 0} with that of the batch, {batch.version}, less one"
                    ) from None
                continue
            self._must_hold(batch, rows)
            return Written(replace(self._commit(batch), metrics={"numOutputRows": str(rows.count)}), replayed=False)

    def _must_hold(self, batch: SinkBatch, rows: SinkRows) -> None:
        """Raise ReceiptError unless the sink took all rows, and stores the batch or a later one."""
        if not rows.taken:
            # guard: sink-takes-all-rows
            raise ReceiptError(f"{self.place} returned from batch {batch.batch_id} before it took all of its rows")
        last = self._last()
        if last is None or last.version < batch.version or (last.version == batch.version and not last.is_same(batch)):
            raise ReceiptError(  # guard: sink-stores-batch
                f"{self.place} was given {_words(batch)} of {self.stage}, but the last batch that it stores is "
                f"{_words(last)}"
            )

    def empty(self) -> None:
        """Delete the table's rows and its position, for a rebuild.

        Raises:
            TargetError: the sink reports an error, or is unavailable.
        """
        last = self._last()
        mark = SinkBatch(self.stage, (last.version if last else 0) + 1)
        with self._named():
            self.sink.empty(mark)
        last = self._last()
        if last is not None and not last.is_same(mark):
            # guard: emptied-sink-stores-mark
            raise ReceiptError(f"{self.place} was emptied, but the last batch that it stores is {_words(last)}")

    def check(self, schema: StructType) -> None:
        """Check that the sink can be written.

        Raises:
            ConfigError: a table is missing or is not as it must be; the message says what to do.
            TargetAwayError: the sink is unavailable.
        """
        with self._named():
            self.sink.check(self.shape(schema))

    def make(self, schema: StructType) -> None:
        """Create what the table needs in the sink, unless it exists; raises the same errors as `check`."""
        with self._named():
            self.sink.make(self.shape(schema))

    @contextmanager
    def snapshot(self, schema: StructType) -> Iterator[SinkContent]:
        """Yield the rows and the last batch that the sink holds at one moment."""
        with ExitStack() as stack:
            with self._named():
                stored = stack.enter_context(self.sink.snapshot(self.shape(schema)))
            yield replace(stored, rows=self._with_named_errors(stored.rows))

    def _with_named_errors(self, rows: Iterator[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
        with self._named():
            yield from rows

    def _last(self) -> SinkBatch | None:
        with self._named():
            last = self.sink.last()
            if last is not None and not isinstance(last, SinkBatch):
                raise TypeError(f"last() returned {type(last).__name__}, not a SinkBatch")
        return last

    @contextmanager
    def _named(self, rows: SinkRows | None = None) -> Iterator[None]:
        """Let errors of oncelake pass, with the sink's name; raise any other error of the sink as a TargetError.

        Args:
            rows: the rows that the sink takes; their own errors pass as they are.
        """
        try:
            yield
        except TargetAwayError as error:
            error.place = error.place or self.place
            error.said = self._shown(error.said)
            raise
        except (OvertakenError, StopRequested):
            raise
        except OncelakeError as error:
            message = self._shown(str(error))
            if message == str(error):
                raise
            raise (ConfigError if isinstance(error, ConfigError) else TargetError)(message) from None
        except Exception as error:
            if rows is not None and error is rows.failure:
                raise
            message = self._shown(f"{type(error).__name__}: {reason(error)}")
            raise TargetError(f"{self.place}: {message}. Fix the sink, then start again") from None

    def _shown(self, text: str) -> str:
        """Return a message of the sink without the values of options that may be secrets."""
        options = self.sink.options
        return without_secrets(text, {name: value for name, value in options.items() if name not in self.sink.public})

    def _batch(self, metadata: CommitMetadata, last: SinkBatch | None, source_rows: int) -> SinkBatch:
        return SinkBatch(
            stage=self.stage,
            version=(last.version if last else 0) + 1,
            query_id=metadata.query_id,
            batch_id=metadata.batch_id,
            before=metadata.before,
            after=metadata.end or "",
            rows=source_rows,
            total_rows=source_rows + (last.total_rows if last else 0),
            source=f"{self.follows}@{metadata.source.get('table_id', '')}",
            offset_log=metadata.after,
            rules=metadata.rules,
            run=metadata.run,
            committed_ms=time.time_ns() // 1_000_000,
        )

    def _commit(self, batch: SinkBatch) -> ChainCommit:
        """Return a batch as a commit of its table."""
        assert batch.batch_id is not None
        table, _, table_id = batch.source.rpartition("@")
        metadata = CommitMetadata(
            stage=self.stage,
            table=self.stage,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            before=batch.before,
            after="\n".join([*lines_of(batch.offset_log)[:2], batch.after]),
            rows=batch.total_rows - batch.rows,
            rules=batch.rules,
            run=batch.run,
            source={"kind": "delta", "table": table, "table_id": table_id},
        )
        metrics = {"numOutputRows": str(batch.rows)}
        return ChainCommit(batch.batch_id, "UPSERT", {}, metrics, batch.committed_ms, metadata, changes_data=True)


def without_secrets(text: str, options: Mapping[str, str]) -> str:  # guard: option-values-hidden
    """Return a text with the values of options replaced by their names: any of them may be a password."""
    for name, value in sorted(options.items(), key=lambda option: -len(option[1])):
        if len(value) >= _SHORTEST:
            text = text.replace(value, f"<{name}>")
    return text


# A shorter value of an option is no secret, and replacing it would make a text unreadable.
_SHORTEST = 4


def _words(batch: SinkBatch | None) -> str:
    if batch is None:
        return "none"
    what = "the mark of a rebuild" if batch.batch_id is None else f"batch {batch.batch_id} (query {batch.query_id})"
    return f"{what}, version {batch.version}, from {batch.before} to {batch.after}"


def _is_applied(metadata: CommitMetadata, last: CommitMetadata | None, place: str) -> bool:
    """Return True if a sink has already applied a batch, False if the batch is the next one.

    Raises:
        ReplayError: the batch overlaps the recorded range, leaves a gap after it, or belongs to another query.
    """
    if last is None:
        if metadata.batch_id == 0:
            return False
        raise ReplayError(  # guard: served-predecessors-exist
            f"batch {metadata.batch_id} of {metadata.stage} starts at {metadata.before}, "
            f"but {place} has recorded no batch of this stage. "
            f"{_UNDONE}"
        )
    if metadata.covers_same(last):
        return True
    if (
        metadata.query_id == last.query_id
        and metadata.batch_id == last.batch_id + 1
        and same_position(metadata.before, last.end)
    ):
        return False
    raise ReplayError(  # guard: served-batch-follows-position
        f"batch {metadata.batch_id} of {metadata.stage} (query {metadata.query_id}) "
        f"covers {metadata.before} to {metadata.end}, but {place} "
        f"has recorded batch {last.batch_id} (query {last.query_id}) with {last.before} to {last.end}: "
        f"{_relation(metadata, last)}. {_UNDONE}"
    )


_UNDONE = "Nothing of the batch was written. To see the state, run: oncelake doctor"


def _relation(metadata: CommitMetadata, last: CommitMetadata) -> str:
    try:
        start, end = TablePosition.parse(metadata.before), TablePosition.parse(last.end)
    except (ValueError, KeyError):
        return "one of these positions cannot be read"
    if end is None or (start is not None and start.table_id != end.table_id):
        return "the two positions are in different tables"
    if start is None or start.order < end.order:
        return "the ranges overlap"
    if start.order == end.order:
        return "the batch's ID or query does not follow the recorded one"
    return "there is a gap between the two"
