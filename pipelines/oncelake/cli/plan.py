"""`oncelake plan`: what a run does with a changed configuration."""

from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened
from oncelake.common.json_line import result_line


def plan(
    conf: Conf = None,
    sets: Sets = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="Compare with another configuration file, not with the lake."),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", metavar="N", min=0, help="Start Spark: make all checks of a run, and try the rules on N lines."
        ),
    ] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do with the configuration.

    Compares the configuration with what the lake records: what changed, which tables a run builds and from how much,
    what it refuses, and the command that solves it. Nothing is changed. Times are those of the lake's own batches.
    Spark starts only with --sample, for Kafka, and for tables that are not on a local disk.

    With --against, no lake is needed: in CI, compare the file of a branch with that of main. Exit code 1 if a run would
    be refused.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet) as (console, lake):
        result = lake.plan(against=against, sets=sets or [], sample=sample)
        if as_json:
            typer.echo(result_line("plan", result.to_dict(), holds=result.holds))
        else:
            from oncelake.observe.plan.text import plan_lines

            for line in plan_lines(result, console.width if console.is_terminal else None):
                console.print(line)
    if not result.holds:
        raise typer.Exit(1)
