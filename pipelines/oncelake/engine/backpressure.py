"""This is where the stages of a chain that runs on keep step: the first takes no new batch while the others have work.

Stages that are busy all at once share the processors, so that each batch takes as long as all of them together, and a
line waits for as many of these as there are stages. One after the other each has the machine to itself, and a line
waits for one round. The source is not left alone for long: after `LONGEST` the first stage goes on all the same.

A write that carries a transaction id makes Delta rebuild the state of the table's newest version, 0.2 to 0.3 s on the
stage's own thread, whatever the batch. The newest version is known once a batch is committed; `Prefetch` asks for its
state at once, beside the other stages' work, and Delta keeps it. What the next write finds is the same either way.
Source: `Snapshot.transactions` and `computedState` of Delta 4.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from oncelake.common.lake import Lake, Table
from oncelake.common.spark.jvm import jvm
from oncelake.common.tables import is_name
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import BatchCallback
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.positions import TablePosition

# So many seconds the first stage waits at most: a source may keep its lines for some time only.
LONGEST = 10.0
_POLL = 0.01
# Compiled code for a query over a few hundred actions is not worth the compiling.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass
class Backpressure:
    """What is done between two batches of each stage of a run.

    Attributes:
        prefetch: takes the place of a table that has a new version.
        stopping: set when the run is to end.
    """

    lake: Lake
    prefetch: Callable[[str], None]
    stopping: threading.Event
    joined: list[tuple[Stage, BatchCallback]] = field(default_factory=list)

    def join(self, stage: Stage, callback: BatchCallback) -> None:
        """Take a stage in, before its query starts."""
        callback.settle = partial(self._between, stage)
        self.joined.append((stage, callback))

    def _between(self, stage: Stage, written: Iterable[Table]) -> None:
        for target in stage.writes:
            if target.table in written:
                self.prefetch(self.lake.at(target.table))
        if stage.reads is None:
            self._wait()

    def _wait(self) -> None:
        """Wait until all that was committed in the lake's tables has been taken on, up to gold."""
        until = time.monotonic() + LONGEST
        while self._is_work_left() and time.monotonic() < until:
            if self.stopping.wait(_POLL):
                return

    def _is_work_left(self) -> bool:
        joined = list(self.joined)
        table_states = {table: writer.state for _, callback in joined for table, writer in callback.tables.items()}
        return any(
            has_work(table_states[stage.reads], table_states[stage.tables[0]])
            for stage, _ in joined
            if stage.reads in table_states and stage.served is None
        )


def has_work(source: TableState, target: TableState) -> bool:
    """Tell whether a table's last batch has rows that the stage which follows it has not taken on.

    A batch without rows, such as one of refused lines alone, does not move Delta's readers on.
    """
    if source.last is None or not source.last.changes_data:
        return False
    position = TablePosition.parse(target.end)
    return position is None or not position.has_read(source.last.version)


@dataclass
class Prefetch:
    """A thread beside the stages that does so, table by table; where Spark does not let it, it ends."""

    spark: SparkSession
    _paths: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._go, name="prefetch", daemon=True).start()

    def __call__(self, path: str) -> None:
        """Take the place of a table that has a new version; a catalog's table is left to its writer."""
        self._paths.put(path)

    def end(self) -> None:
        """Look up no more."""
        self._paths.put(None)

    def _go(self) -> None:
        with suppress(Exception):  # on Databricks these classes are not there, and at the end Spark may be gone
            java = jvm(self.spark)
            session = self.spark._jsparkSession.newSession()
            for key, value in _INTERPRETED.items():
                session.conf().set(key, value)
            java.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
            log = java.org.apache.spark.sql.delta.DeltaLog
            while (path := self._paths.get()) is not None:
                if not is_name(path):
                    log.forTable(session, path).unsafeVolatileSnapshot().setTransactions()
