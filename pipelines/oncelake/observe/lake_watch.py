"""Watch a chain that another process runs, from the commits of its tables.

Each check costs only what is new: commits are cached, and only the latest ones are read. The watch reads who holds the
lock, and never takes the lock.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oncelake.common.errors import OncelakeError
from oncelake.engine.chain import StageState
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.lease import has_lock, writer
from oncelake.exactly_once.source import Backlog
from oncelake.observe.log_cache import CachedChain
from oncelake.observe.progress import Display
from oncelake.observe.record import record
from oncelake.observe.status import stage_status

# Each check reads at most this many commits per table. If more batches arrive between two checks, the oldest of them
# are not shown.
LOOK = 60


@dataclass
class LakeWatch:
    """A chain that is checked repeatedly, and the display that shows the changes."""

    chain: CachedChain
    display: Display
    _seen: dict[str, tuple[str | None, int] | None] = field(default_factory=dict)
    _writer: str | None = ""
    _trouble: str = ""

    def go(self, every: float, stopping: threading.Event) -> None:
        """Show what is new in the lake, again and again, until `stopping` is set; `every` is the pause in seconds."""
        while not stopping.is_set():
            self.look()
            stopping.wait(every)

    def look(self) -> None:
        """Check once, and show what is new."""
        try:
            states = [self._stage_state(stage) for stage in self.chain.stages]
            records = record(self.chain, LOOK)
        except OncelakeError as error:  # for example, the source does not answer; the next check tries again
            if str(error) != self._trouble:
                self.display.remark(str(error), "warning")
            self._trouble = str(error)
            return
        self._trouble = ""
        for state in states:
            self._stand(state, [*_reports(state, records.get(state.stage.name, ()))])
        self.display.recall(records)
        self._who()

    def _stage_state(self, stage: Stage) -> StageState:
        """Return a stage's state; if the stage may not start, check again, as a batch may have ended in between."""
        state = self.chain.stage_state(stage)
        return state if state.diagnosis.may_start else self.chain.stage_state(stage)

    def _stand(self, state: StageState, reports: Sequence[CommittedBatch]) -> None:
        name, status = state.stage.name, stage_status(state)
        ids = [(batch.query_id, batch.batch_id) for batch in reports]
        seen = self._seen.get(name)
        known = len(ids) if name not in self._seen else ids.index(seen) + 1 if seen in ids else 0
        for report in reports[known:]:
            last = report is reports[-1]
            waits = Backlog(status.backlog, status.backlog_unit, behind=status.backlog_behind)
            self.display.show(report, waits if last else None)
        self.display.show_status(status)
        self._seen[name] = ids[-1] if ids else seen

    def _who(self) -> None:
        now = writer(self.chain.lake) if has_lock(self.chain.lake) else self._writer
        if now != self._writer:
            self._writer = now
            self.display.writes(now)


def _reports(state: StageState, records: Sequence[CommittedBatch]) -> Iterator[CommittedBatch]:
    """Yield a stage's recorded batches, oldest first; for a served table, only the last batch."""
    for batch in records:
        if not _is_whole(state, batch):
            continue
        yield replace(batch, warned=(*batch.warned, *(f"lost: {part}" for part in batch.lost)))
    table, last = state.stage.tables[0], state.first.last
    if state.stage.served is not None and last is not None:
        metadata = last.metadata
        yield CommittedBatch(
            stage=metadata.stage,
            batch_id=metadata.batch_id,
            rows={str(table): last.rows_changed},
            seconds=max(last.timestamp - metadata.planned_ms, 0) / 1000,
            query_id=metadata.query_id,
            position=metadata.end,
            ended=last.timestamp / 1000,
        )


def _is_whole(state: StageState, batch: CommittedBatch) -> bool:
    """Return True if a batch is in all its tables: a stage writes its first table before the others."""
    checkpoint = state.checkpoint
    if len(state.stage.tables) == 1 or batch.query_id != checkpoint.query_id:
        return True
    return checkpoint.committed is not None and batch.batch_id <= checkpoint.committed
