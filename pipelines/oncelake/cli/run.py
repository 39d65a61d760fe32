"""`oncelake run`: run the chain, and with --prove prove what it wrote."""

import os
import select
import sys
import threading
import time
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

# The seconds that a question waits for its answer.
_PATIENCE = 60.0

if TYPE_CHECKING:
    from oncelake.engine.exclusive import RunResult
    from oncelake.observe.plan.plan import Plan


def run(
    conf: Conf = None,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Process all available input, then exit.")] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="With --once: then prove what is new, as `prove` does.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Build gold tables whose declaration changed again, without asking.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run all stages until Ctrl-C, or once with --once.

    Lines flow from the source through bronze and silver to the gold tables and the serving database. A run continues
    where the last one stopped, also after a crash, and counts every line exactly once. After Ctrl-C or SIGTERM it ends
    between two batches. With --prove, exit code 0 means that all input was processed and every link of the proof holds.

    A run with a changed declaration of a gold table is refused. On a terminal, it shows the plan, and asks whether to
    build the table again first.
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
        asks = yes or (not as_json and not quiet and _is_answered())
        ran = lake.run(
            once=once,
            stopping=stopping,
            show=showing(console, "oncelake run", as_json=as_json),
            rebuild=partial(_is_wanted, console, yes=yes, stopping=stopping) if asks else None,
            say=partial(_say_step, console, as_json=as_json),
        )
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


def _is_wanted(console: Console, plan: "Plan", *, yes: bool, stopping: threading.Event) -> bool:
    """Show a plan, and return True if its tables are to be built again.

    Raises:
        ConfigError: the answer is no, so the run is refused.
        StoppedError: a stop was requested instead of an answer.
    """
    from oncelake.observe.plan.text import plan_lines

    for line in plan_lines(plan, console.width if console.is_terminal else None):
        console.print(line)
    if yes:
        return True
    console.print(f"Build {' and '.join(plan.rebuilt)} again now? [y/N] ", end="")
    waited = time.monotonic() + _PATIENCE
    while not (answered := bool(select.select([sys.stdin], [], [], 0.2)[0])) and time.monotonic() < waited:
        if stopping.is_set():
            console.print()
            raise StoppedError("stopped; nothing was changed")
    answer = sys.stdin.readline() if answered else ""
    if not answer.endswith("\n"):  # nobody has ended the line of the question
        console.print()
    if answer.strip().lower() not in ("y", "yes"):
        raise ConfigError(plan.refused[0].reason)  # as the run would, after the start of Spark
    return True


def _is_answered() -> bool:
    """Return True if somebody may answer a question: on a terminal, and not in its background."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # a terminal that starts no programs in the background
        return True


def _say_step(console: Console, text: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_line("rebuild", text=text))
    else:
        console.print(text)


def _say_end(console: Console, ran: "RunResult", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_line("end", batches=ran.batches, without_end=ran.without_end))
        return
    batches = f"{count_of(ran.batches, 'batch')} committed"
    console.print(f"done: {batches if ran.batches else 'nothing new in the source, no table was changed'}")
    if ran.without_end:
        from oncelake.exactly_once.source import without_end_words

        console.print(f"waiting: {without_end_words(ran.without_end)}")
