"""This is where the stages of a chain that runs on keep step: the first takes no new batch while the others have work.

Stages that are busy all at once share the processors, so that each batch takes as long as all of them together, and a
line waits for as many of these as there are stages. One after the other each has the machine to itself, and a line
waits for one round. The source is not left alone for long: after `LONGEST` the first stage goes on all the same.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from oncelake.common.lake import Lake, Table
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import BatchCallback
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.positions import TablePosition

# So many seconds the first stage waits at most: a source may keep its lines for some time only.
LONGEST = 10.0
_POLL = 0.01


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
