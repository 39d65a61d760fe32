"""This is where it is chosen how batches are shown: a live board on a terminal, objects for programs, else lines."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

import typer
from rich.console import Console

from oncelake.common.errors import OncelakeError
from oncelake.common.lake import is_local
from oncelake.engine.chain import Chain, StageState
from oncelake.exactly_once.batch import BatchReport
from oncelake.observe.backlog import Backlog, backlog
from oncelake.observe.board import clock_time
from oncelake.observe.columns import Row
from oncelake.observe.follow import Watching, WatchJson, WatchLines
from oncelake.observe.kept import kept
from oncelake.observe.live import TREND, LiveBoard
from oncelake.observe.progress import Display, JsonLines, Lines
from oncelake.observe.record import record
from oncelake.observe.status import stage_status


class RunBoard(LiveBoard):
    """The board of the process that runs the chain: it counts the run's own rows."""

    _first = "at its first batch"

    def __init__(self, console: Console, chain: Chain, what: str, states: Sequence[StageState] = ()) -> None:
        super().__init__(console, chain, what)
        self._states, self._kept = states, kept(chain)
        self._since = self._clock()
        self._rows = {name: replace(row, this_run=0) for name, row in self._rows.items()}

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Take a batch in, what waits behind it, and what the tables' commits say now."""
        super().show(report, waits)
        row = self._rows[report.stage]
        self._rows[row.stage] = replace(row, this_run=(row.this_run or 0) + sum(report.rows.values()))
        if waits is not None:  # otherwise the next report is here already
            self._look()

    def _look(self) -> None:
        """Look at the tables where that is cheap: a catalog is asked by queries, another store over the network."""
        lake, stages = self._chain.lake, [stage for stage in self._chain.stages if stage.writes]
        if lake.catalog is not None or not is_local(lake.root):
            return
        with suppress(OncelakeError):  # the run itself tells what is wrong
            records = record(self._kept, TREND)
            # what this run has measured stays: a batch that it found planned was planned in another run
            self.recall({name: each for name, each in records.items() if not self._rows[name].this_run})
            for stage in stages:
                row = replace(self._rows[stage.name], rows=self._kept.commit_log(stage.tables[0]).state().rows)
                row = replace(row, freshness=records[row.stage][-1].freshness if records[row.stage] else None)
                if stage.reads is not None:
                    waits = backlog(self._kept.stage_state(stage))
                    row = replace(row, backlog=waits.count, unit=waits.unit)
                self._rows[stage.name] = row

    def _rest(self) -> tuple[str, ...]:
        """Say how many lines this run has taken in, and since when it runs."""
        return (*self._lines(lambda row: row.this_run), f"since {clock_time(self._since)} UTC")

    def __enter__(self) -> Self:
        for state in self._states:
            self.stand(stage_status(state))
        self._rows = {name: _stateless(row) for name, row in self._rows.items()}
        self._look()
        return super().__enter__()


def _stateless(row: Row) -> Row:
    """Leave out what a run does not keep up to date: the state, and rows of tables that are not looked at again."""
    return replace(row, state="", may_start=True, rows=None)


def showing(console: Console, what: str, *, as_json: bool) -> Callable[[Chain, Sequence[StageState]], Display]:
    """Return what makes the display of a run's batches from the stages that are run, and as they stood before.

    Args:
        console: where people look.
        what: what the board's header begins with.
        as_json: whether programs read it.
    """

    def show(chain: Chain, states: Sequence[StageState]) -> Display:
        if as_json:
            return JsonLines(typer.echo)
        return RunBoard(console, chain, what, states) if _draws(console) else Lines(typer.echo)

    return show


def watching_on(console: Console, chain: Chain, *, as_json: bool) -> Watching:
    """Give what shows a chain that is watched from outside."""
    if as_json:
        return WatchJson(typer.echo)
    return LiveBoard(console, chain, "oncelake status") if _draws(console) else WatchLines(typer.echo)


def _draws(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal
