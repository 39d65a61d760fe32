"""Keep the live board up to date, and choose the display: the board on a terminal, else lines or JSON objects.

A separate thread renders the board twice a second, so that ages advance between batches. It reads nothing but this
object. Only the main thread changes this object, after a batch has ended or a stage was checked.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.live import Live

from oncelake.common.errors import OncelakeError
from oncelake.common.explain import explain
from oncelake.common.json_line import Level
from oncelake.common.lake import DUPLICATES, QUARANTINE, is_local
from oncelake.common.wording import count_of, listed
from oncelake.engine.chain import Chain, StageState
from oncelake.exactly_once.batch import CommittedBatch, Notice
from oncelake.exactly_once.source import Backlog
from oncelake.observe.board import EVENTS, Board, BoardEvent, Head, Row, clock_time
from oncelake.observe.log_cache import cached
from oncelake.observe.progress import Display, JsonLines, Lines
from oncelake.observe.record import record
from oncelake.observe.status import StageStatus, backlog, stage_status

# The board is rendered this many times per second.
OFTEN = 2
# The trend of a stage uses at most this many batches.
TREND = 60


class LiveBoard(Display):
    """A board that is redrawn in place on a terminal; this class shows a chain that another process runs.

    Args:
        chain: the stages to show, and where they are stored.
        what: the start of the header.
        clock: returns the time in seconds since 1970.
    """

    _first = "no batch yet"

    def __init__(self, console: Console, chain: Chain, what: str, clock: Callable[[], float] = time.time) -> None:
        self._chain, self._what, self._clock = chain, what, clock
        self._rows = {stage.name: Row(stage.name) for stage in chain.stages}
        self._latest: dict[tuple[str, str], BoardEvent] = {}
        self._events: tuple[BoardEvent, ...] = ()
        self._refused = self._repeats = 0
        self._console, self._ended = console, False

    def board(self) -> Board:
        """Return the current board."""
        rows = [replace(row, note=row.note or self._waits(row)) for row in list(self._rows.values())]
        lake, sources = self._chain.lake, self._chain.kinds.values()
        over = (listed(source.directory or source.words for source in sources), lake.catalog or lake.root)
        head = Head(self._what, over, self._facts())
        return Board(head, rows, self._events, self._clock, whole=self._ended)

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        """Add a batch and the backlog after it."""
        row = self._change(report.stage, batch_id=report.batch_id, note="")
        if not report.replayed:
            history = (*row.history, report.rate)[-TREND:]
            self._change(report.stage, rate=report.rate, committed=report.ended, history=history)
        if waits is not None:
            self._change(report.stage, backlog=waits.count, unit=waits.unit)
        self._tell_of(report)

    def tell(self, notice: Notice) -> None:
        """Add a stage's notice that it waits, or a warning."""
        if notice.event == "waiting":
            self._change(notice.stage, note="waiting")
        self._keep(notice.stage, notice.event, BoardEvent(notice.since, f"{notice.stage}: {notice.text}", "warning"))

    def show_status(self, status: StageStatus) -> None:
        """Add a stage's state."""
        age, before = status.freshness_seconds, self._rows[status.stage].state
        self._change(
            status.stage,
            state=status.state,
            may_start=status.may_start,
            batch_id=status.batch_id,
            rows=next(iter(status.rows.values()), None),
            backlog=status.backlog,
            unit=status.backlog_unit,
            committed=None if age is None else self._clock() - age,
        )
        if not status.may_start and status.state != before:
            self._keep(status.stage, "state", BoardEvent(self._clock(), status.detail, "error"))

    def recall(self, records: Mapping[str, Sequence[CommittedBatch]]) -> None:
        """Add the stages' last batches, as recorded in the tables' commits."""
        for stage, batches in records.items():
            if batches and stage in self._rows:
                last, history = batches[-1], tuple(batch.rate for batch in batches[-TREND:])
                committed = last.committed_ms / 1000
                self._change(stage, rate=last.rate, freshness=last.freshness, committed=committed, history=history)

    def remark(self, text: str, kind: Level = "info") -> None:
        """Add an event that belongs to no stage."""
        self._keep("", text, BoardEvent(self._clock(), text, kind))

    def writes(self, by: str | None) -> None:
        """Set who is writing the lake; None for nobody."""
        self._what = f"{by.split(' on ')[0]} is writing" if by else "no run is writing"

    def __enter__(self) -> Self:
        self._live = Live(
            console=self._console,
            get_renderable=self.board,
            refresh_per_second=OFTEN,
            vertical_overflow="crop",
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and kind is not KeyboardInterrupt:
            self.remark(str(error) if isinstance(error, OncelakeError) else explain(error), "error")
        self._ended = True
        self._live.stop()
        self._console.line()

    def _change(self, stage: str, **values: Any) -> Row:
        self._rows[stage] = replace(self._rows[stage], **values)
        return self._rows[stage]

    def _keep(self, stage: str, what: str, event: BoardEvent) -> None:
        """Keep an event and drop the last one of its kind, so that a repeated event does not hide the others."""
        self._latest[stage, what] = event
        self._events = tuple(sorted(self._latest.values(), key=lambda latest: latest.at)[-EVENTS:])

    def _tell_of(self, report: CommittedBatch) -> None:
        """Keep as events what does not happen in every batch: replays, warnings, lines to quarantine and repeats."""
        if report.replayed:
            self._say(report, "replayed", "was in the table already, nothing written")
        for number, warning in enumerate(report.warned):
            self._say(report, f"warned {number}", f"warning: {warning}", "warning")
        if report.masked:
            matches = ", ".join(f"{rule} {count:,}" for rule, count in report.masked.items())
            self._say(report, "masked", f"masked: {matches}")
        refused = report.rows.get(str(QUARANTINE), 0)
        if refused:
            self._refused += refused
            text = f"{count_of(refused, 'line')} to quarantine, {self._refused:,} so far"
            self._say(report, "quarantine", text, "warning")
        repeats = report.rows.get(str(DUPLICATES), 0)
        if repeats:
            self._repeats += repeats
            text = f"{count_of(repeats, 'repeat')} dropped, {self._repeats:,} so far"
            self._say(report, "duplicates", text)

    def _say(self, report: CommittedBatch, what: str, text: str, kind: Level = "info") -> None:
        self._keep(
            report.stage, what, BoardEvent(report.ended, f"{report.stage}: batch {report.batch_id}: {text}", kind)
        )

    def _waits(self, row: Row) -> str:
        """Return what a stage without a batch waits for; an empty string if it has a batch."""
        if row.batch_id is not None:
            return ""
        stage = next(candidate for candidate in self._chain.stages if candidate.name == row.stage)
        before = [earlier.name for earlier in self._chain.stages if {*stage.reads} & {*earlier.tables}]
        if not stage.reads and not row.backlog:
            return f"waiting for {self._chain.kind(stage).words}"
        waits = before and all(self._rows[name].batch_id is None for name in before)
        return f"waiting for {', '.join(map(str, stage.reads))}" if waits else self._first

    def _facts(self) -> tuple[str, ...]:
        """Return the number of lines or records, and the time, which shows that the board is current."""
        return (*self._lines(lambda row: row.rows), f"{clock_time(self._clock())} UTC")

    def _lines(self, count: Callable[[Row], int | None]) -> Iterator[str]:
        stages = [stage for stage in self._chain.stages if not stage.reads]
        known = [rows for rows in (count(self._rows[stage.name]) for stage in stages) if rows is not None]
        of_lines = all(self._chain.kind(stage).records_of_lines is None for stage in stages)
        return iter([count_of(sum(known), "line" if of_lines else "record")] if known else [])


class RunBoard(LiveBoard):
    """The board of the process that runs the chain; it also counts the rows of this run."""

    _first = "running its first batch"

    def __init__(self, console: Console, chain: Chain, what: str, states: Sequence[StageState] = ()) -> None:
        super().__init__(console, chain, what)
        self._states, self._cached = states, cached(chain)
        self._since = self._clock()
        self._rows = {name: replace(row, this_run=0) for name, row in self._rows.items()}

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        """Add a batch and the backlog after it, and read the tables' commits."""
        super().show(report, waits)
        self._change(report.stage, this_run=(self._rows[report.stage].this_run or 0) + sum(report.rows.values()))
        if waits is not None:  # None: the next report is already waiting, and reads the commits
            self._look()

    def _look(self) -> None:
        """Read the tables' commits if that is cheap: not from a catalog (by queries) or a remote store (by network)."""
        lake, stages = self._chain.lake, [stage for stage in self._chain.stages if stage.writes]
        if lake.catalog is not None or not is_local(lake.root):
            return
        with suppress(OncelakeError):  # the run itself reports the error
            records = record(self._cached, TREND)
            # keep what this run measured: an unfinished batch that it found was planned in an earlier run
            self.recall({name: batches for name, batches in records.items() if not self._rows[name].this_run})
            for stage in stages:
                last = next(reversed(records[stage.name]), None)
                rows = self._cached.commit_log(stage.tables[0]).state().rows
                self._change(stage.name, rows=rows, freshness=last.freshness if last else None)
                if stage.reads:
                    waits = backlog(self._cached.stage_state(stage))
                    self._change(stage.name, backlog=waits.count, unit=waits.unit)

    def _facts(self) -> tuple[str, ...]:
        """Return how many lines this run has ingested, and when it started."""
        return (*self._lines(lambda row: row.this_run), f"since {clock_time(self._since)} UTC")

    def __enter__(self) -> Self:
        for state in self._states:
            self.show_status(stage_status(state))
            # clear what a run does not update: the state, and the rows of tables that are not read again
            self._change(state.stage.name, state="", may_start=True, rows=None)
        self._look()
        return super().__enter__()


def showing(console: Console, what: str, *, as_json: bool, board: type[LiveBoard] = RunBoard) -> Callable[..., Display]:
    """Return a function that creates the display from the chain, and for a run also from the states before the run.

    Args:
        console: the console of the terminal.
        what: the start of the board's header.
        as_json: True for JSON objects.
        board: the class to show on a terminal.
    """
    if as_json or not console.is_terminal or console.is_dumb_terminal:
        lines = JsonLines if as_json else Lines
        return lambda *_: lines(typer.echo)
    return lambda chain, *states: board(console, chain, what, *states)
