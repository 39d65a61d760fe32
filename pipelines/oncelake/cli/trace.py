"""This is where the command is that shows one line's way through the lake."""

import json
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.lakehouse import Lakehouse
from oncelake.observe.trace.show import lines


def trace(
    line: Annotated[str, typer.Argument(metavar="LINE", help="topic/partition/offset, or file:line text.")],
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show one line's way: bronze, silver or quarantine, every gold table; exit 1 when it is nowhere."""
    with reported(as_json=as_json, verbose=verbose):
        with Lakehouse.open(conf, sets or [], verbose=verbose) as lake:
            way = lake.trace(line)
        if as_json:
            typer.echo(json.dumps(way.to_dict()))
        else:
            for each in lines(way):
                typer.echo(each)
    if not way.holds:
        raise typer.Exit(1)
