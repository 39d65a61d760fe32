"""`oncelake run`: run the chain, and with --prove prove what it wrote."""

import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, reported, stop_on_signals, warning
from oncelake.cli.prove import say_link, say_result
from oncelake.common.errors import ConfigError, StoppedError
from oncelake.common.json_line import json_line
from oncelake.common.wording import count_of

if TYPE_CHECKING:
    from oncelake.engine.exclusive import RunResult


def run(
    conf: Conf = None,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Process all available input, then exit.")] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="With --once: then prove what is new, as `prove` does.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run all stages until Ctrl-C, or once with --once.

    Lines flow from the source through bronze and silver to the gold tables and the serving database. A run continues
    where the last one stopped, also after a crash, and counts every line exactly once. After Ctrl-C or SIGTERM it ends
    between two batches. With --prove, exit code 0 means that all input was processed and every link of the proof holds.
    """
    stopping, signals = threading.Event(), ExitStack()
    ran: RunResult | None = None
    proven = None

    def stop_between_batches() -> None:
        if ran is None:  # Spark may start only for the proof, and Ctrl-C ends that at once
            signals.callback(stop_on_signals(stopping))

    if not once:
        stop_between_batches()
    options = {"warn": partial(warning, as_json=as_json), "started": stop_between_batches}
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, changes=prove, **options) as (console, lake):
        from oncelake.engine.open_lake import unheard
        from oncelake.observe.live import showing

        if prove and not once:
            raise ConfigError("--prove needs --once, as only such a run ends; beside another one, run: oncelake prove")
        ran = lake.run(once=once, stopping=stopping, show=showing(console, "oncelake run", as_json=as_json))
        if not once or not ran.stopped:
            _say_end(console, ran, as_json=as_json)
            if prove:
                signals.close()
                proven = lake.prove(link=unheard if as_json else partial(say_link, console))
                if as_json:
                    typer.echo(json_line("proof", "info" if proven.holds else "error", **proven.to_dict()))
                else:
                    say_result(console, proven)
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        if once and ran.stopped:
            raise StoppedError("stopped before all input was processed; the next run continues from there")
    if proven is not None and not proven.holds:
        raise typer.Exit(1)


def _say_end(console: Console, ran: "RunResult", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_line("end", batches=ran.batches, without_end=ran.without_end))
        return
    batches = f"{count_of(ran.batches, 'batch')} committed"
    console.print(f"done: {batches if ran.batches else 'nothing new in the source, no table was changed'}")
    if ran.without_end:
        from oncelake.exactly_once.source import without_end_words

        console.print(f"waiting: {without_end_words(ran.without_end)}")
