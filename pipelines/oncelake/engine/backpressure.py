"""Backpressure in a continuous run: the first stage takes no new batch while later stages have work.

If all stages work at the same time, they share the processors. Each batch then takes as long as all of them together,
and a line waits for as many such batches as there are stages. If the stages work one after the other, each has the
whole machine, and a line waits for one round. The source does not wait for long: after `LONGEST` seconds the first
stage continues in any case.

A stage that reads a table looks for new versions only now and then. It is woken when a batch has written one, so a
line does not wait for that, and an idle chain looks less often.

A write by Spark with a transaction ID makes Delta rebuild the state of the table's newest version. That takes 0.2 to
0.3 s on the stage's own thread, for a batch of any size. The newest version is known as soon as a batch is committed.
So `Prefetch` asks for its state at once, while other stages work, and Delta caches it. The next write finds the same
state with or without the prefetch. A small batch needs none of this.
Source: `Snapshot.transactions` and `computedState` of Delta 4.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.background import UNTIL_WOKEN, Background, Pause
from oncelake.common.lake import Lake, Table, is_name
from oncelake.common.spark.jvm import jvm
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import BatchCallback
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.positions import TablePosition, TablesPosition
from oncelake.exactly_once.write import TableWriter, Written

# The first stage waits at most this many seconds, because the source may delete lines after its retention time.
LONGEST = 10.0
_POLL = 0.01
# For a query over a few hundred actions, code generation costs more time than it saves.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass
class Backpressure:
    """The work between two batches of each stage of a run.

    Attributes:
        prefetch: called with the path or catalog name of each table that has a new version.
        stopping: set when the run should end.
        joined: the stages of the run, each with its batch callback.
        wakes: by the name of a stage that reads a table, what makes its query look for new input at once.
    """

    lake: Lake
    prefetch: Callable[[str], None]
    stopping: threading.Event
    joined: list[tuple[Stage, BatchCallback]] = field(default_factory=list)
    wakes: dict[str, Callable[[], None]] = field(default_factory=dict)
    _ids: dict[Table, str | None] = field(default_factory=dict)

    def join(self, stage: Stage, callback: BatchCallback) -> None:
        """Add a stage before its query starts."""
        callback.settle = partial(self._between, stage)
        self.joined.append((stage, callback))

    def started(self, stage: Stage, wake: Callable[[], None]) -> None:
        """Let a stage that reads a table of the lake be woken, once its query has started."""
        if stage.reads:
            self.wakes[stage.name] = wake

    def _between(self, stage: Stage, written: Mapping[Table, Written]) -> None:
        """Wake the stages that read what a batch wrote, and the stage itself, which may have more to read."""
        for other, _ in list(self.joined):
            if (written.keys() & set(other.reads) or other is stage) and other.name in self.wakes:
                self.wakes[other.name]()
        for table, outcome in written.items():
            if outcome.by_spark and table in stage.tables and stage.served is None:
                self.prefetch(self.lake.at(table))
        if not stage.reads:
            self._wait()

    def _wait(self) -> None:
        """Wait until the stages up to gold have read every row committed to the lake's tables, or `LONGEST` is over."""
        until = time.monotonic() + LONGEST
        while self._is_work_left() and time.monotonic() < until:
            if self.stopping.wait(_POLL):
                return

    def _is_work_left(self) -> bool:
        joined = list(self.joined)
        table_states = {table: writer.state for _, callback in joined for table, writer in callback.tables.items()}
        return any(
            has_work(table_states[table], table_states[stage.tables[0]], partial(self._id, table))
            for stage, _ in joined
            for table in stage.reads
            if table in table_states and stage.served is None
        )

    def _id(self, table: Table) -> str | None:
        """Return a table's ID, which does not change during a run."""
        if table not in self._ids:
            writers = (callback.tables.get(table) for _, callback in self.joined)
            self._ids[table] = next(writer.log.table_id() for writer in writers if isinstance(writer, TableWriter))
        return self._ids[table]


def has_work(source: TableState, target: TableState, table_id: Callable[[], str | None] = lambda: None) -> bool:
    """Return True if the next stage has not read the rows of a table's last batch.

    A batch that adds no rows to the table does not count, because Delta's readers do not advance past it. An example
    is a batch in which every line is rejected.

    Args:
        source: the table that is read.
        target: the next stage's table.
        table_id: returns the ID of the table that is read; asked only if the stage reads several.
    """
    if source.last is None or not source.last.changes_data:
        return False
    position = TablePosition.parse(target.end) or TablesPosition.parse(target.end)
    if isinstance(position, TablesPosition):
        position = position.tables.get(table_id() or "")
    return not isinstance(position, TablePosition) or not position.has_read(source.last.version)


@dataclass
class Prefetch:
    """A background thread that makes Delta load the newest state of tables, until this fails once."""

    spark: SparkSession
    _paths: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    _unsupported: bool = False

    def __post_init__(self) -> None:
        self._thread = Background("prefetch", self._round)
        self._thread.start()

    def __call__(self, path: str) -> None:
        """Queue a table that has a new version; a table in a catalog is skipped."""
        self._paths.put(path)
        self._thread.wake()

    def end(self) -> None:
        """Stop the thread after the tables that are already queued."""
        self._thread.end()

    def _round(self) -> Pause:
        while not self._paths.empty():
            path = self._paths.get()
            if is_name(path) or self._unsupported:
                continue
            try:
                log, session = self._log
                log.forTable(session, path).unsafeVolatileSnapshot().setTransactions()
            except Exception:  # Databricks lacks these classes, and Spark may already have stopped
                self._unsupported = True
        return UNTIL_WOKEN

    @cached_property
    def _log(self) -> tuple[Any, Any]:
        """Return Delta's log class and a session of this thread, which interprets expressions."""
        java = jvm(self.spark)
        session = self.spark._jsparkSession.newSession()
        for key, value in _INTERPRETED.items():
            session.conf().set(key, value)
        java.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        return java.org.apache.spark.sql.delta.DeltaLog, session
