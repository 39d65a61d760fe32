"""This is where the command is that makes the tables of the serving database."""

import json
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.errors import ConfigError
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.survey import survey
from oncelake.serving.make import make, statements
from oncelake.serving.tables import POSITION

serving = typer.Typer(no_args_is_help=True, help="The serving database: make its tables.")


@serving.callback()
def group() -> None:
    """Keep `init` a command of its own name although it is the only one."""


@serving.command()
def init(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL; ask no database and change nothing.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Make the served tables and oncelake_position, unless they are there."""
    with reported(as_json=as_json, verbose=verbose):
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            stages = survey(settings, log_format, spark).stages
            found = [stage.served for stage in stages if stage.served is not None]
            if not found:
                raise ConfigError("no database is configured: set serving.url, as mysql+pymysql://user@host/database")
            texts = statements(spark, found) if sql else make(spark, found)
        names = [POSITION.name, *(each.table.name for each in found)]
        said = f"{found[0].database} has {', '.join(names)}"
        if as_json:
            typer.echo(json.dumps({"database": str(found[0].database), "tables": names, "sql": texts, "made": not sql}))
        else:
            typer.echo("\n\n".join(f"{text};" for text in texts) if sql else said)
