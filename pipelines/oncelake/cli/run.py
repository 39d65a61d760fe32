"""`oncelake run`: run the chain."""

import threading
from functools import partial
from typing import Annotated

import typer

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, reported, stop_on_signals, warning
from oncelake.common.errors import StoppedError
from oncelake.common.json_line import json_line
from oncelake.common.wording import count_of


def run(
    conf: Conf = None,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Process all available input, then exit.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run all stages until Ctrl-C or SIGTERM, or once with --once.

    Lines flow from the source through bronze and silver to the gold tables and the serving database. A run continues
    where the last one stopped, also after a crash, and counts every line exactly once. After Ctrl-C it ends between
    two batches.
    """
    stopping = threading.Event()
    warn, stop = partial(warning, as_json=as_json), partial(stop_on_signals, stopping)
    if not once:
        stop()
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, warn=warn, started=stop) as (console, lake):
        from oncelake.observe.live import showing

        ran = lake.run(once=once, stopping=stopping, show=showing(console, "oncelake run", as_json=as_json))
    with reported(as_json=as_json, verbose=verbose, quiet=quiet) as console:
        if once and ran.stopped:
            raise StoppedError("stopped before all input was processed; the next run continues from there")
        if as_json:
            typer.echo(json_line("end", batches=ran.batches, without_end=ran.without_end))
            return
        batches = f"{count_of(ran.batches, 'batch')} committed"
        console.print(f"done: {batches if ran.batches else 'nothing new in the source, no table was changed'}")
        if ran.without_end:
            from oncelake.exactly_once.source import without_end_words

            console.print(f"waiting: {without_end_words(ran.without_end)}")
