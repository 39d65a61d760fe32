"""This is where the command is that keeps a lake's tables tidy."""

import json

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, warn
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.maintain import Maintained
from oncelake.engine.maintain import maintain as maintain_lake
from oncelake.engine.put_if_absent import no_hard_links, other_log_store
from oncelake.engine.start_gate import refuse_unless_finished
from oncelake.engine.survey import survey


def maintain(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Compact the tables' small files and remove old ones, also while the chain runs; exit 1 when one is not done."""
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        lake = settings.places()
        writers = [*other_log_store(lake, settings.spark), *no_hard_links(lake)]
        tables: list[Maintained] = []
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            refuse_unless_finished(chain)
            warn(writers, as_json=as_json)
            for each in maintain_lake(chain, spark):
                tables.append(each)
                if not as_json:
                    console.print(str(each), highlight=False, markup=False, soft_wrap=True)
        if as_json:
            typer.echo(json.dumps({"tables": [each.to_dict() for each in tables]}))
    if any(each.failed for each in tables):
        raise typer.Exit(1)
