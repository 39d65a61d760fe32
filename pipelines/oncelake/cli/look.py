"""This is where the commands are that look at a lake and change nothing."""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, stop_on_signals, warning
from oncelake.common.errors import StateError
from oncelake.lakehouse import Lakehouse
from oncelake.observe.live import LiveBoard, showing
from oncelake.observe.status import StageStatus, quality_lines, status_table


def status(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it, with each batch, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --watch, look again after so many seconds.")] = 2.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show per stage its state, last batch, rows, backlog and freshness; with --watch go on showing it."""
    stopping = threading.Event()
    stop: Callable[[], None] = partial(stop_on_signals, stopping) if watch else lambda: None
    with (
        reported(as_json=as_json, verbose=verbose) as console,
        Lakehouse.open(conf, sets or [], verbose=verbose, started=stop) as lake,
    ):
        stop()
        if watch:
            show = showing(console, "oncelake status", as_json=as_json, board=LiveBoard)
            lake.watch(show, every=every, stopping=stopping)
            return
        rows = lake.status()
        for each in (said for row in rows for said in row.warnings):
            warning(each)
        if as_json:
            typer.echo(_json(rows))
        else:
            for line in (*status_table(rows, console.width if console.is_terminal else None), *quality_lines(rows)):
                console.print(line, highlight=False, markup=False, soft_wrap=True)


def doctor(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Name the state of each stage, and the command that mends it; exit 1 when one may not start. Changes nothing."""
    with reported(as_json=as_json, verbose=verbose) as console:
        with Lakehouse.open(conf, sets or [], verbose=verbose) as lake:
            found = lake.doctor()
        if as_json:
            typer.echo(_json(found.stages, warnings=found.warnings))
        for row in found.stages if not as_json else ():
            said = f"{row.stage}: {row.state}: {row.detail}" if row.may_start else row.detail
            console.print("ok " if row.may_start else "no ", said, highlight=False, markup=False, soft_wrap=True)
        for each in (*found.warnings, *(said for row in found.stages for said in row.warnings)):
            warning(each)
        if found.begun:
            raise StateError(found.begun)
    if not found.may_start:
        raise typer.Exit(1)


def _json(rows: list[StageStatus], **more: list[str]) -> str:
    return json.dumps({"stages": [row.to_dict() for row in rows], **more})
