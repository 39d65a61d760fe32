"""`oncelake serving`: create the tables of the serving database or of another sink, and a dashboard of them."""

import json
from typing import Annotated

import typer

from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import Conf, Json, Sets, Verbose, opened
from oncelake.common.json_line import result_line

serving = PlainTyper(no_args_is_help=True, help="Set up the database that serves gold tables.")


@serving.command()
def init(
    conf: Conf = None,
    sets: Sets = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL; connect to no database and change nothing.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Create the served tables, oncelake_position and oncelake_refused.

    oncelake_position records how far each served table is written, oncelake_refused which rows the database cannot
    hold. Tables that exist are checked and kept. A sink of your own creates what it needs.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, changes=not sql) as (_, lake):
        from oncelake.serving.tables import POSITION, REFUSED

        served = lake.make_served_tables(dry_run=sql)
        database = served.tables[0].place
        names = [*([POSITION.name, REFUSED.name] if served.sql else []), *(table.table.name for table in served.tables)]
        if as_json:
            fields = {"database": database, "tables": names, "sql": served.sql, "made": not sql}
            typer.echo(result_line("serving init", fields))
        else:
            typer.echo("\n\n".join(f"{text};" for text in served.sql) if sql else f"{database} has {', '.join(names)}")


@serving.command()
def dashboard(conf: Conf = None, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Print a dashboard of the served tables for Grafana.

    Import what it prints in Grafana, and choose the data source: the database of serving.url, which is not connected
    to here. There is a panel for each measure that is a number, one for the last batches, and one for refused rows.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, changes=False) as (_, lake):
        made = lake.make_served_tables(dry_run=True).dashboard()
        result = result_line("serving dashboard", {"dashboard": made})
        typer.echo(result if as_json else json.dumps(made, indent=2))
