"""This is where the command is that proposes a suite."""

import json
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.lake import SILVER
from oncelake.lakehouse import Lakehouse


def suggest(
    table: Annotated[str, typer.Argument(help="silver.access_log or bronze.access_log.")] = str(SILVER),
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    rows: Annotated[int, typer.Option(min=1, help="How many rows to look at.")] = 100_000,
    verbose: Verbose = False,
) -> None:
    """Propose a suite for a table as JSON to edit; for bronze also say which log format fits best."""
    with reported(as_json=False, verbose=verbose):
        with Lakehouse.open(conf, sets or [], verbose=verbose) as lake:
            suite = lake.suggest(table, rows=rows)
        typer.echo(json.dumps(suite, indent=2, ensure_ascii=False))
