"""This is where the command is that keeps a lake's tables tidy."""

import json
from functools import partial

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, warning
from oncelake.engine.maintain import Maintained
from oncelake.lakehouse import Lakehouse


def maintain(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Compact the tables' small files and remove old ones, also while the chain runs; exit 1 when one is not done."""
    with reported(as_json=as_json, verbose=verbose) as console:

        def say(table: Maintained) -> None:
            if not as_json:
                console.print(str(table), highlight=False, markup=False, soft_wrap=True)

        with Lakehouse.open(conf, sets or [], warn=partial(warning, as_json=as_json), verbose=verbose) as lake:
            tables = lake.maintain(say)
        if as_json:
            typer.echo(json.dumps({"tables": [each.to_dict() for each in tables]}))
    if any(each.failed for each in tables):
        raise typer.Exit(1)
