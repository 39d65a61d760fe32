"""This is where a chain is watched from outside the process that runs it, from its tables' own commits.

Each look costs what is new: commits that were read are kept, and none is read that is not among the last. The lock is
asked who holds it, never taken.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oncelake.common.errors import OncelakeError
from oncelake.common.lake import Table
from oncelake.engine.chain import StageState
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import BatchReport
from oncelake.exactly_once.lease import has_lock, writer
from oncelake.exactly_once.source import Backlog
from oncelake.observe.kept import Kept
from oncelake.observe.progress import Display
from oncelake.observe.record import BatchRecord, record
from oncelake.observe.status import stage_status

# So many commits of each table are looked at; batches that come faster than this many a look are left out.
LOOK = 60


@dataclass
class LakeWatch:
    """A chain that is looked at again and again."""

    chain: Kept
    display: Display
    _seen: dict[str, tuple[str | None, int] | None] = field(default_factory=dict)
    _writer: str | None = ""
    _trouble: str = ""

    def go(self, every: float, stopping: threading.Event) -> None:
        """Look every so many seconds until a stop is asked for."""
        while not stopping.is_set():
            self.look()
            stopping.wait(every)

    def look(self) -> None:
        """Look once, and show what is new."""
        try:
            states = [self._stage_state(stage) for stage in self.chain.stages]
            records = record(self.chain, LOOK)
        except OncelakeError as error:  # a source that does not answer just now
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
        """Look at a stage; twice where it seems that it may not start, as a batch can end between two readings."""
        state = self.chain.stage_state(stage)
        return state if state.diagnosis.may_start else self.chain.stage_state(stage)

    def _stand(self, state: StageState, reports: Sequence[BatchReport]) -> None:
        name, status = state.stage.name, stage_status(state)
        ids = [(each.query_id, each.batch_id) for each in reports]
        seen = self._seen.get(name)
        known = len(ids) if name not in self._seen else ids.index(seen) + 1 if seen in ids else 0
        for report in reports[known:]:
            last = report is reports[-1]
            self.display.show(report, Backlog(status.backlog, status.backlog_unit) if last else None)
        self.display.show_status(status)
        self._seen[name] = ids[-1] if ids else seen

    def _who(self) -> None:
        now = writer(self.chain.lake) if has_lock(self.chain.lake) else self._writer
        if now != self._writer:
            self._writer = now
            self.display.writes(now)


def _reports(state: StageState, records: Sequence[BatchRecord]) -> Iterator[BatchReport]:
    """Give the batches of a stage that are still known, oldest first; of a served table its last one."""
    for each in records:
        if not _is_whole(state, each):
            continue
        rows = {Table(*name.split(".", 1)): count for name, count in each.rows.items()}
        warned, lost = tuple(each.quality.get("warned", ())), tuple(f"lost: {part}" for part in each.lost)
        yield BatchReport(
            stage=each.stage,
            batch_id=each.batch_id,
            rows=rows,
            seconds=each.seconds,
            replayed=False,
            warned=warned + lost,
            query_id=each.query_id,
            position=each.end,
            ended=each.committed_ms / 1000,
            freshness=each.freshness,
        )
    table, last = state.stage.tables[0], state.first.last
    if state.stage.served is not None and last is not None:
        metadata = last.metadata
        yield BatchReport(
            stage=metadata.stage,
            batch_id=metadata.batch_id,
            rows={table: last.rows_changed},
            seconds=max(last.timestamp - metadata.planned_ms, 0) / 1000,
            replayed=False,
            query_id=metadata.query_id,
            position=metadata.end,
            ended=last.timestamp / 1000,
        )


def _is_whole(state: StageState, batch: BatchRecord) -> bool:
    """Tell whether a batch is in all its tables: of several the first is written before the others."""
    checkpoint = state.checkpoint
    if len(state.stage.tables) == 1 or batch.query_id != checkpoint.query_id:
        return True
    return checkpoint.committed is not None and batch.batch_id <= checkpoint.committed
