"""Start, watch and stop the chain's queries together."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelake.common.errors import LockedError, OncelakeError, StageError
from oncelake.common.explain import explain
from oncelake.common.lake import SILVER, Table, is_s3, opens_in_delta_rs
from oncelake.common.spark.collect import SmallBatches, can_collect
from oncelake.common.spark.s3 import delta_rs_options
from oncelake.common.spark.wake import Wake, can_wake
from oncelake.engine.backpressure import Backpressure, Prefetch
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.gone_files import gone_file
from oncelake.engine.graph import Stage, bronze_target
from oncelake.engine.make_table import make_table, make_tables
from oncelake.engine.rules import record_rules
from oncelake.engine.sources import Failed, failure_lines, stands_alone
from oncelake.engine.start_gate import block_reason, refuse_unless_startable, waits
from oncelake.exactly_once.batch import BatchCallback, Event, EventSink, ForeignWriter, Notice, Writer
from oncelake.exactly_once.checkpoint import position, read_checkpoint
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import files_at, remove_staged
from oncelake.exactly_once.lease import has_lock, links_are_missing
from oncelake.exactly_once.positions import as_object, in_table
from oncelake.exactly_once.write import TableWriter, no_fence
from oncelake.exactly_once.writers import Access, Engine
from oncelake.exactly_once.writers.registry import engines_before_spark
from oncelake.gold.declaration import LOG_TIME

# Identifies this process in the commits of a table.
RUN_ID = uuid.uuid4().hex
POLL = 0.05
# A continuous run whose stages have all started looks less often: each look asks Java about every query.
RUNNING_POLL = 0.25
# The seconds that a running batch may still take after a stop was requested.
GRACE = 120.0
# The seconds that a run with --once waits for an unavailable database, unless `serving.wait` is set.
PATIENCE_ONCE = 300.0
# A stage that is woken when its input table has a new version also looks by itself, for commits of other processes.
WOKEN_TRIGGER = timedelta(seconds=2)
# A small batch has at most this many rows; more are not collected, but written to files.
MAX_ROWS = 250_000


# Called with the chain, the session and a sink for the follower's own events; yields the sink for the run's events.
Follower = Callable[[Chain, SparkSession, EventSink], AbstractContextManager[EventSink]]


class Reporter(Protocol):
    """The display of a run's events."""

    def __call__(self, event: Event, /) -> None:
        """Receive an event; called from a batch, so it must return at once."""

    def show(self) -> None:
        """Show the events received since the last call; called from the run's own thread."""


@dataclass(frozen=True)
class Running:
    """A started query, and the callback that Spark calls for its batches."""

    stage: Stage
    query: StreamingQuery
    callback: BatchCallback

    @property
    def failed(self) -> bool:
        """Return True if the query ended with an error, and not because it was stopped."""
        return not self.query.isActive and not self.callback.stopped and self.query.exception() is not None


@dataclass(frozen=True)
class Run:
    """One run of a chain.

    Attributes:
        stopping: set by the caller to end the run between two batches; set by the run when a stage failed.
        fence: raises LockedError if this process no longer holds the lake's lock.
        followers: further receivers of the run's events, such as metrics.
        sinks: the open event sinks of the followers.
        states: the states of the stages, read while the lake's lock was held; with None, the run reads them at its
            start.
        failed: the sources that stopped while the others go on, and why; also those that were not started.
    """

    chain: Chain
    spark: SparkSession
    progress: Reporter
    stopping: threading.Event
    fence: Callable[[], None] = no_fence
    followers: Sequence[Follower] = ()
    sinks: list[EventSink] = field(default_factory=list)
    states: Sequence[StageState] | None = None
    failed: Failed = field(default_factory=dict)

    @cached_property
    def small_batches(self) -> SmallBatches | None:
        """Return what collects the rows of small batches; None if Spark commits every batch, also large ones."""
        most = int(self.chain.settings.run.small_batch)
        by_delta_rs = most and can_collect(self.spark) and self._delta_rs_options is not None
        return SmallBatches(MAX_ROWS, most) if by_delta_rs else None

    @cached_property
    def _delta_rs_options(self) -> Mapping[str, str] | None:
        """Return how delta-rs reaches the lake's tables; None if it may not commit to them.

        It commits to lakes on a local disk with hard links, under the lake's lock, and to those on S3, at a path that
        it opens.
        """
        lake = self.chain.lake
        if lake.catalog is not None or not opens_in_delta_rs(lake.root):
            return None
        if is_s3(lake.root):
            return delta_rs_options(self.spark, lake.root)
        return {} if has_lock(lake) and not links_are_missing(lake) else None

    def once(self) -> None:
        """Process all available input through the last stage, then return.

        The layers run one after the other, in data order, each over everything that the layer before has written. The
        stages of one layer run in parallel. A stage that certainly has nothing to do is not started. Silver's table
        gets its new columns all the same, because gold may name them.

        Raises:
            StateError: a stage would lose or repeat rows; nothing was started.
            LockedError: another process now holds the lake's lock.
            StageError: a stage's query failed, and the others were stopped; or one source of several failed, and the
                others are processed.
        """
        refuse_unless_startable(self.chain, self.states)
        with self._followed():
            self._tell_failed()
            for _, group in groupby(self.chain.stages, key=lambda stage: stage.layer):
                stages = list(group)
                behind = [stage for stage in stages if not self.chain.stage_state(stage).up_to_date]
                for stage in stages:
                    if stage not in behind and SILVER in stage.tables:
                        make_tables(self.spark, self.chain, stage)
                self._watch(behind)
                if self.stopping.is_set():
                    break
        self._raise_failed()

    def on(self) -> None:
        """Run every stage until a stop is requested or a stage fails.

        Raises:
            StateError: a stage would lose or repeat rows; nothing was started.
            LockedError: another process now holds the lake's lock.
            StageError: a stage's query failed, and the others were stopped; or one source of several failed, and the
                others ran on.
        """
        refuse_unless_startable(self.chain, self.states)
        prefetch = Prefetch(self.spark)
        try:
            with self._followed():
                self._tell_failed()
                self._watch(self.chain.stages, Backpressure(self.chain.lake, prefetch, self.stopping))
        finally:
            prefetch.end()
        self._raise_failed()

    def _tell_failed(self) -> None:
        for stage, why in self.failed.items():
            self._tell(Notice(stage, f"not started, the other sources go on: {why}", "warning"))

    def _raise_failed(self) -> None:
        """Raise StageError if a source stopped while the others went on."""
        if self.failed:
            raise StageError(failure_lines(self.failed))

    @contextmanager
    def _followed(self) -> Iterator[None]:
        """Open the followers' event sinks for the run, then show the events that the followers send at the end."""
        record_rules(self.chain.lake, self.chain.stages, self.spark)
        try:
            with ExitStack() as stack:
                self.sinks.extend(
                    stack.enter_context(follow(self.chain, self.spark, self.progress)) for follow in self.followers
                )
                yield
        finally:
            self.sinks.clear()
            self.progress.show()

    def _tell(self, event: Event) -> None:
        """Pass an event to the display and to the followers; called from a batch."""
        self.progress(event)
        for sink in self.sinks:
            sink(event)

    def _watch(self, stages: Iterable[Stage], backpressure: Backpressure | None = None) -> None:
        """Start stages, and wait until they end, one fails, or a stop is requested; no query is active afterwards.

        In a continuous run, a stage starts when its input table holds a batch; its first batch would be empty before.

        Args:
            stages: the stages to start.
            backpressure: the backpressure of a continuous run; None to process all available input and return.
        """
        once = backpressure is None
        running: list[Running] = []
        waiting = list(stages)
        try:
            while not self.stopping.is_set() and (waiting or _going_on(self._remaining(running), once=once)):
                ready = [stage for stage in waiting if once or self._has_input(stage)]
                waiting = [stage for stage in waiting if stage not in ready]
                self.fence()
                for stage in ready:
                    running.extend(self._started(stage, backpressure))
                has_failed = any(query.failed for query in self._remaining(running))
                if has_failed or (not once and self._has_no_source(running)):
                    break
                self.progress.show()
                time.sleep(POLL if once or waiting else RUNNING_POLL)
        finally:
            self._end(running)
            self.progress.show()
        failure = self._failure(self._remaining(running))
        if failure is not None:
            self.fence()  # if another process holds the lock now, that is the cause of the failure
            raise failure

    def _started(self, stage: Stage, backpressure: Backpressure | None) -> Iterator[Running]:
        """Start a stage; if it reads one source of several, an error only sets it aside."""
        try:
            yield self._start(stage, backpressure)
        except LockedError:
            raise
        except Exception as error:
            if not stands_alone(self.chain, stage):
                raise
            why = str(error) if isinstance(error, OncelakeError) else explain(error)
            self._set_aside(stage, why, {"stage": stage.name})

    def _remaining(self, running: list[Running]) -> list[Running]:
        """Set aside the stages that failed and read one source of several; a lost lock concerns all stages."""
        for failed in [query for query in running if query.failed and stands_alone(self.chain, query.stage)]:
            if not isinstance(failed.callback.failure, LockedError):
                running.remove(failed)
                self._set_aside(failed.stage, str(self._failure([failed])), _facts(failed))
        return running

    def _set_aside(self, stage: Stage, why: str, facts: Mapping[str, Any]) -> None:
        self.fence()  # if another process holds the lock now, that is the cause of the failure
        self.failed[stage.name] = why.removeprefix(f"{stage.name} stopped ")
        self._tell(Notice(stage.name, f"stopped, the other sources go on: {why}", "warning", failure=facts))

    def _failure(self, running: Iterable[Running]) -> StageError | None:
        """Return the error of the first stage that failed, in one line; None if none failed."""
        for query in running:
            if not query.failed:
                continue
            error = query.callback.failure or query.query.exception()
            assert error is not None
            batch = "before its first batch" if query.callback.at is None else f"in batch {query.callback.at}"
            failure = StageError(f"{query.stage.name} stopped {batch}: {self._why(query.stage, error)}", _facts(query))
            failure.__cause__ = error
            return failure
        return None

    def _why(self, stage: Stage, error: BaseException) -> str:
        """Return why a stage failed and what to do; the start gate's reason if the stage may not start again."""
        if isinstance(error, OncelakeError):
            return str(error)
        with suppress(Exception):  # what is broken may also break this
            state = self.chain.stage_state(stage)
            if stage.reads and not state.diagnosis.may_start and not waits(state):
                return block_reason(state).removeprefix(f"{stage.name}: ")
            return gone_file(error, self.chain, stage) or explain(error)
        return explain(error)

    def _has_no_source(self, running: Iterable[Running]) -> bool:
        """Return True if every source has failed, so that a continuous run has nothing left to read."""
        return bool(self.failed) and all(query.stage.reads for query in running)

    def _start(self, stage: Stage, backpressure: Backpressure | None) -> Running:
        for table in stage.reads if len(stage.reads) > 1 else ():  # a source that failed may have none yet
            kind = self.chain.kinds.get(table)
            target = bronze_target(table, masked=kind is not None and bool(kind.rules))
            make_table(self.spark, target, self.chain.lake.at(table), self.chain.commit_log(table))
        make_tables(self.spark, self.chain, stage, by_delta_rs=bool(self.small_batches) and has_lock(self.chain.lake))
        state = self.chain.stage_state(stage)
        callback = self._callback(state, once=backpressure is None)
        if backpressure is not None:
            backpressure.join(stage, callback)
        # a path alone is on the cluster's own file system
        at = f"file:{state.path}" if self.chain.lake.per_host else state.path
        writer = stage.read(self.spark).writeStream.queryName(stage.name).option("checkpointLocation", at)
        writer = writer.foreachBatch(callback)
        if backpressure is not None:
            wakes = bool(stage.reads) and can_wake(self.spark)
            every = max(self.chain.settings.run.trigger, WOKEN_TRIGGER) if wakes else self.chain.settings.run.trigger
            query = writer.trigger(processingTime=f"{every.total_seconds():f} seconds").start()
            if wakes:
                backpressure.started(stage, Wake(self.spark, query))
            return Running(stage, query, callback)
        if not state.replays_alone:
            return Running(stage, writer.trigger(availableNow=True).start(), callback)
        replay = Running(stage, writer.trigger(once=True).start(), callback)
        while replay.query.isActive and not self.stopping.is_set():
            self.progress.show()
            time.sleep(POLL)
        return replay if replay.failed or self.stopping.is_set() else self._start(stage, backpressure)

    def _has_input(self, stage: Stage) -> bool:
        return not stage.reads or any((self.chain.commit_log(table).newest() or 0) > 0 for table in stage.reads)

    def _callback(self, state: StageState, *, once: bool) -> BatchCallback:
        lake, first = self.chain.lake, state.stage.tables[0]
        written = [target.table for target in state.stage.writes]
        if has_lock(lake):
            for table in written:
                remove_staged(lake.at(table))
        writers: dict[Table, Writer] = {
            table: TableWriter(
                lake.at(table),
                commit_log,
                state.table_states[table],
                every_batch=table == first,
                engines=self._engines(table, commit_log),
            )
            for table, commit_log in ((table, self.chain.commit_log(table)) for table in written)
        }
        wait = self.chain.settings.serving.wait
        return BatchCallback(
            stage=state.stage.name,
            checkpoint=state.path,
            files=self.chain.checkpoint_files,
            rules=state.stage.rules,
            run=RUN_ID,
            source=dict(state.source.identity()),
            first_position=state.source.first_position,
            identity_at=state.source.identity_at,
            tables=writers or {first: ForeignWriter()},
            write=state.stage.write,
            report=self._tell,
            stopping=self.stopping,
            fence=self.fence,
            patience=wait.total_seconds() if wait is not None else PATIENCE_ONCE if once else None,
            small_batches=self.small_batches,
        )

    def _engines(self, table: Table, commit_log: DeltaLog) -> Sequence[Engine]:
        """Return the engines that are tried before Spark's writer: none where only Spark may commit."""
        options, at = self._delta_rs_options, self.chain.lake.at(table)
        if self.small_batches is None or options is None:
            return ()
        return engines_before_spark(
            at,
            windows=LOG_TIME if table.layer == "gold" else None,
            needed=partial(self.needed, table),
            access=Access(files_at(at, self.spark), commit_log, options),
        )

    def needed(self, table: Table) -> int | None:
        """Return the oldest version of a table that a stage may still read, also again at a start; None if none."""
        table_id = self.chain.commit_log(table).table_id()
        stages = (stage for stage in self.chain.stages if table in stage.reads)
        read = (
            read_checkpoint(self.chain.checkpoint_files, self.chain.lake.checkpoint(stage.name)) for stage in stages
        )
        offsets = (next((text for text in checkpoint.offsets if text), None) for checkpoint in read)
        positions = (in_table(position(text), table_id) for text in offsets if text)
        return min((at.version for at in positions if at is not None), default=None)

    def _end(self, running: Iterable[Running]) -> None:
        """Stop queries between two batches: an idle one at once, a busy one before its next batch or after `GRACE`."""
        active = [started.query for started in running if started.query.isActive]
        if active:
            self.stopping.set()
        until = time.monotonic() + GRACE
        while active:
            for query in active:
                if not query.status["isTriggerActive"] or time.monotonic() > until:
                    with suppress(StreamingQueryException):  # the query has just failed: _failure reports its error
                        query.stop()
            active = [query for query in active if query.isActive]
            time.sleep(POLL)


def _going_on(running: list[Running], *, once: bool) -> bool:
    active = [query.query.isActive for query in running]
    return any(active) if once else all(active)


def _facts(stopped: Running) -> dict[str, Any]:
    """Return the stage, query, batch ID and end position of the batch in which a stage stopped, for programs."""
    callback = stopped.callback
    facts = {"query": callback.query_id, "batch_id": callback.at, "position": as_object(callback.position)}
    return {"stage": stopped.stage.name, **{name: value for name, value in facts.items() if value is not None}}
