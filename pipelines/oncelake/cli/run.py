"""The command that runs the chain."""

import threading
from functools import partial
from typing import Annotated

import typer

from oncelake.cli.program import DEFAULT_CONF, Conf, Json, Sets, Verbose, opened, reported, stop_on_signals, warning
from oncelake.common.errors import StageError
from oncelake.common.json_line import json_line
from oncelake.common.wording import count_of
from oncelake.observe.live import showing


def run(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Take all that is there, to the last stage, and end.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run every stage until SIGTERM or Ctrl-C; with --once take all that is there and end."""
    stopping = threading.Event()
    stop_on_signals(stopping)
    warn = partial(warning, as_json=as_json)
    with opened(conf, sets, as_json=as_json, verbose=verbose, stopping=stopping, warn=warn) as (console, lake):
        ran = lake.run(once=once, stopping=stopping, show=showing(console, "oncelake run", as_json=as_json))
    with reported(as_json=as_json, verbose=verbose) as console:
        if once and ran.stopped:
            raise StageError("stopped before everything was taken in; the next run goes on from there")
        if as_json:
            typer.echo(json_line("end", batches=ran.batches))
            return
        batches = f"{count_of(ran.batches, 'batch')} committed"
        console.print(f"done: {batches if ran.batches else 'nothing new in the source, no table was changed'}")
