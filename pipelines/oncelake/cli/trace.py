"""This is where the command is that shows one line's way through the lake."""

import json
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.errors import ConfigError
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.survey import survey
from oncelake.observe.trace.asked import read_asked
from oncelake.observe.trace.follow import Follow
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
        asked = read_asked(line)
        settings, log_format = configured(conf, sets or [])
        if settings.lake.catalog is not None:
            raise ConfigError(
                f"lake.catalog {settings.lake.catalog}: trace follows a line by the files that commits added, which a "
                "catalog does not name; look the line up by topic, partition and offset, or file, in SQL"
            )
        with spark_session(settings.spark, verbose=verbose) as spark:
            way = Follow(spark, survey(settings, log_format, spark), log_format).way(asked)
        if as_json:
            typer.echo(json.dumps(way.to_dict()))
        else:
            for each in lines(way):
                typer.echo(each)
    if not way.holds:
        raise typer.Exit(1)
