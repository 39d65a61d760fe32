"""This is where the command that runs the chain is."""

import threading
from typing import Annotated

import typer
from rich.console import Console

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, stop_on_signals, warn
from oncelake.common.errors import StageError
from oncelake.common.json_line import json_line
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.graph import suites
from oncelake.engine.preflight import check_local_path, check_ready
from oncelake.engine.put_if_absent import no_hard_links, other_log_store
from oncelake.engine.runner import Run
from oncelake.engine.survey import survey
from oncelake.exactly_once.lease import sole_writer
from oncelake.observe.display import display_on
from oncelake.observe.followers import FOLLOWERS
from oncelake.observe.port import check_port
from oncelake.observe.progress import Progress
from oncelake.quality.check import left_out


def run(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Take all that is there, to the last stage, and end.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run every stage until SIGTERM or Ctrl-C; with --once take all that is there and end."""
    stopping = threading.Event()
    stop_on_signals(stopping)
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        check_local_path(settings.source)
        check_port(settings.metrics)
        writers = other_log_store(settings.places(), settings.spark)
        with spark_session(settings.spark, verbose=verbose) as spark:
            stop_on_signals(stopping)
            check_ready(spark, settings, log_format)
            chain = survey(settings, log_format, spark)
            views = chain.views()
            warn((warning for view in views for warning in view.source.warnings()), as_json=as_json)
            warn((said for suite in suites(settings).values() for said in left_out(suite)), as_json=as_json)
            progress = Progress(chain, display_on(console, chain, "oncelake run", views, as_json=as_json))
            with sole_writer(spark, chain.lake, settings.run.lock_wait) as lease, progress.display:
                warn([*writers, *no_hard_links(chain.lake)], as_json=as_json)
                chain_run = Run(chain, spark, progress, stopping, lease.check, FOLLOWERS)
                chain_run.once() if once else chain_run.on()
        if once and stopping.is_set():
            raise StageError("stopped before everything was taken in; the next run goes on from there")
        _say_end(console, progress, as_json=as_json)


def _say_end(console: Console, progress: Progress, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_line("end", batches=progress.batches))
    elif progress.batches:
        console.print(f"done: {progress.batches} batches committed", highlight=False)
    else:
        console.print("done: nothing new in the source, no table was changed", highlight=False)
