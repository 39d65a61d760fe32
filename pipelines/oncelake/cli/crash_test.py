"""This is where the command is that kills the chain again and again and looks whether anything was lost."""

import json
import random
import signal
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.lab.crash_test.conduct import conduct
from oncelake.lab.crash_test.order import Order


def crash_test(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    kills: Annotated[int, typer.Option(help="How often to kill.")] = 100,
    seed: Annotated[int | None, typer.Option(help="What kills and lines are drawn from; a new one when unset.")] = None,
    lines: Annotated[int | None, typer.Option(help="How many lines to make; 300 for each kill when unset.")] = None,
    own_source: Annotated[
        bool, typer.Option("--own-source", help="Read the configured source, not made lines.")
    ] = False,
    copy_lake: Annotated[
        bool, typer.Option("--copy-lake", help="Begin with a copy of the configured lake; reads its source.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep all here instead of in a temporary directory.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Kill the chain again and again, on a lake of its own, and look whether a line was lost or doubled."""
    _end_as_by_ctrl_c()
    with reported(as_json=as_json, verbose=verbose) as console:
        drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
        order = Order(conf, sets or [], kills, drawn, lines, own_source, copy_lake, keep, verbose)
        verdict = conduct(order, lambda line: console.print(line, highlight=False, soft_wrap=True, markup=False))
        if as_json:
            typer.echo(json.dumps(verdict.to_dict()))
        else:
            for sentence in verdict.sentences():
                console.print(sentence, highlight=False, soft_wrap=True, markup=False)
    if not verdict.clean:
        raise typer.Exit(1)


def _end_as_by_ctrl_c() -> None:
    """Leave nothing behind on SIGTERM, and where the terminal goes away unless that was to be ignored (nohup)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
