"""This is where the chain's queries are started, watched and ended together."""

import threading
import time
import uuid
from contextlib import suppress
from collections.abc import Iterable
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from pipelines.chain import Stage, Target
from pipelines.errors import OncelakeError, StageError, StateError
from pipelines.exactly_once.batch import BatchCallback
from pipelines.exactly_once.state import CONSEQUENCE, State
from pipelines.exactly_once.write import TableWriter
from pipelines.explain import explain
from pipelines.survey import Survey, View
from pipelines.watch.progress import Progress

# Tells this start of the program from another one's in the commits of a table.
_RUN = uuid.uuid4().hex
POLL = 0.05
# How long a batch that is running may take to end after a stop was asked for.
GRACE = 120.0


@dataclass(frozen=True)
class Running:
    """A query that was started, and the callback that Spark calls for it."""

    stage: Stage
    query: StreamingQuery
    callback: BatchCallback


def run_once(survey: Survey, spark: SparkSession, progress: Progress, stopping: threading.Event) -> None:
    """Take everything that is in the source through the last stage, then end.

    The stages run one after the other, in the data's order, each over all that the one before has written;
    the gold tables run side by side.

    Raises:
        StateError: a stage would lose or repeat rows; nothing was started.
        StageError: a stage's query failed; the others were ended.
    """
    refuse_unless_startable(survey.views())
    for group in _levels(survey.stages):
        _watch(survey, spark, group, progress, stopping, once=True)
        if stopping.is_set():
            return


def run_on(survey: Survey, spark: SparkSession, progress: Progress, stopping: threading.Event) -> None:
    """Run every stage until a stop is asked for or one fails.

    Raises:
        StateError: a stage would lose or repeat rows; nothing was started.
        StageError: a stage's query failed; the others were ended.
    """
    refuse_unless_startable(survey.views())
    _watch(survey, spark, survey.stages, progress, stopping, once=False)


def refuse_unless_startable(views: Iterable[View]) -> None:
    """Raise an error that names every stage that may not start, what would happen, and the way out."""
    refused = [view for view in views if not view.finding.may_start]
    if refused:
        raise StateError("\n".join(refusal(view) for view in refused))


def refusal(view: View) -> str:
    """Say why a stage does not start, what would have happened, and what can be done."""
    finding = view.finding
    return (
        f"{view.stage.name}: {finding.state.value}: {finding.seen}. Started like this, "
        f"{CONSEQUENCE[finding.state]}. {way_out(view)}"
    )


def way_out(view: View) -> str:
    """Say what can be done about a stage that may not start."""
    if view.finding.state in (State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        first = "Point it at the source it was reading"
    else:
        first = f"Put {view.path} and the stage's tables back as they were together"
    return (
        f"{first}; or remove {view.path}, the stage's tables ({', '.join(map(str, view.ledgers))}) and the same of "
        "the stages after it, and the next run replays them from the start of what they read"
    )


def _levels(stages: Iterable[Stage]) -> list[list[Stage]]:
    """Group the stages by the table they read; a group is ready when the one before has ended."""
    levels: list[list[Stage]] = []
    for stage in stages:
        if levels and levels[-1][0].reads == stage.reads:
            levels[-1].append(stage)
        else:
            levels.append([stage])
    return levels


def _start(
    survey: Survey, spark: SparkSession, stage: Stage, progress: Progress, stopping: threading.Event, *, once: bool
) -> Running:
    for target in stage.writes:
        _make_table(spark, survey, target)
    view = survey.view(stage)
    callback = _callback(survey, view, progress, stopping)
    writer = stage.read(spark).writeStream.queryName(stage.name).option("checkpointLocation", view.path)
    interval = survey.settings.run.trigger.total_seconds()
    timed = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{interval:f} seconds")
    return Running(stage, timed.foreachBatch(callback).start(), callback)


def _watch(
    survey: Survey,
    spark: SparkSession,
    stages: Iterable[Stage],
    progress: Progress,
    stopping: threading.Event,
    *,
    once: bool,
) -> None:
    """Start stages and wait until they end, one fails, or a stop is asked for; then all have ended."""
    running: list[Running] = []
    try:
        for stage in stages:
            running.append(_start(survey, spark, stage, progress, stopping, once=once))
        while not stopping.is_set() and _going_on(running, once=once):
            progress.show()
            time.sleep(POLL)
    finally:
        _end(running, stopping)
        progress.show()
    _raise_failure(running)


def _going_on(running: list[Running], *, once: bool) -> bool:
    active = [each.query.isActive for each in running]
    return any(active) and not any(map(_failed, running)) if once else all(active)


def _callback(survey: Survey, view: View, progress: Progress, stopping: threading.Event) -> BatchCallback:
    tables = list(view.ledgers)
    writers = {
        table: TableWriter(survey.lake.path(table), ledger, view.standings[table], every_batch=table == tables[0])
        for table, ledger in view.ledgers.items()
    }
    return BatchCallback(
        stage=view.stage.name,
        checkpoint=view.path,
        files=survey.checkpoint_files,
        rules=view.stage.rules,
        run=_RUN,
        source=dict(view.source.identity()),
        first_position=view.source.first_position,
        tables=writers,
        write=view.stage.write,
        report=progress,
        stopping=stopping,
    )


def _make_table(spark: SparkSession, survey: Survey, target: Target) -> None:
    if survey.ledger(target.table).versions():
        return
    builder = DeltaTable.createIfNotExists(spark).location(survey.lake.path(target.table))
    builder = builder.addColumns(target.schema(spark))
    for key, value in target.properties.items():
        builder = builder.property(key, value)
    builder.execute()


def _failed(each: Running) -> bool:
    return not each.query.isActive and not each.callback.stopped and each.query.exception() is not None


def _end(running: Iterable[Running], stopping: threading.Event) -> None:
    """End queries between two batches: one that is idle is stopped, a busy one ends before its next batch."""
    active = [each.query for each in running if each.query.isActive]
    if not active:
        return
    stopping.set()
    until = time.monotonic() + GRACE
    while active:
        for query in active:
            if not query.status["isTriggerActive"] or time.monotonic() > until:
                with suppress(StreamingQueryException):  # it failed by itself just now; told by _raise_failure
                    query.stop()
        active = [query for query in active if query.isActive]
        time.sleep(POLL)


def _raise_failure(running: Iterable[Running]) -> None:
    for each in running:
        if not _failed(each):
            continue
        error = each.callback.failure or each.query.exception()
        assert error is not None
        if isinstance(error, OncelakeError):
            raise type(error)(f"{each.stage.name}: {error}") from error
        batch = "before its first batch" if each.callback.at is None else f"in batch {each.callback.at}"
        raise StageError(f"{each.stage.name} stopped {batch}: {explain(error)}") from error
