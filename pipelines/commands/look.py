"""This is where the commands are that look at a lake and change nothing."""

import json
from contextlib import nullcontext
from pathlib import Path

import typer

from pipelines.commands.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from pipelines.configuration import configured
from pipelines.program import reported, spark_session, warn
from pipelines.survey import needs_spark, survey
from pipelines.watch.status import stage_status, status_grid


def status(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Show per stage its state, last batch, rows, backlog and freshness."""
    _look(conf, sets, as_json=as_json, verbose=verbose, judge=False)


def doctor(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Name the state of each stage; exit 1 when one may not start. Changes nothing."""
    _look(conf, sets, as_json=as_json, verbose=verbose, judge=True)


def _look(conf: Path, sets: list[str] | None, *, as_json: bool, verbose: bool, judge: bool) -> None:
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) if needs_spark(settings) else nullcontext() as spark:
            rows = [stage_status(view) for view in survey(settings, log_format, spark).views()]
        warn(warning for row in rows for warning in row.warnings)
        if as_json:
            typer.echo(json.dumps({"stages": [row.to_dict() for row in rows]}))
        elif judge:
            for row in rows:
                mark = "[green]ok[/] " if row.may_start else "[bold red]no[/] "
                console.print(f"{mark} {row.stage}: [bold]{row.state}[/]: {row.detail}", highlight=False)
        else:
            console.print(status_grid(rows))
    if judge and not all(row.may_start for row in rows):
        raise typer.Exit(1)
