"""The commands that mend a lake, or keep it tidy: checkpoints, tables, their files."""

import json
import threading
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from oncelake.cli.program import DEFAULT_CONF, Conf, Json, Sets, Verbose, opened, reported, warning
from oncelake.common.errors import StageError, StateError
from oncelake.common.json_line import json_line
from oncelake.engine.maintain import Maintained
from oncelake.engine.recover import Recovered
from oncelake.lakehouse import unheard
from oncelake.observe.live import showing

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Go on although a part of the source is gone for good.")
]


def recover(
    stages: Annotated[list[str] | None, typer.Argument(metavar="[STAGE]...", help="All when none is named.")] = None,
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write the checkpoints of stages again from their tables; refuses what cannot be done exactly."""
    say = partial(_say, dry_run=dry_run) if not as_json else unheard
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (_, lake):
        outcomes = lake.recover(*stages or (), accept_loss=accept_loss, dry_run=dry_run, done=say)
    with reported(as_json=as_json, verbose=verbose):
        if as_json:
            typer.echo(json.dumps({"dry_run": dry_run, "stages": [asdict(outcome) for outcome in outcomes]}))
        refused = [outcome.refused for outcome in outcomes if outcome.refused]
        if refused:
            raise StateError("\n".join(refused))


def rebuild(
    stage: Annotated[str, typer.Argument(help="The stage that is emptied, with all after it.")],
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Empty a stage's tables and all after it, and replay them; refused when the source no longer holds all."""
    stopping = threading.Event()

    def say(text: str) -> None:
        typer.echo(json_line("rebuild", text=text) if as_json else text)

    with opened(conf, sets, as_json=as_json, verbose=verbose, stopping=stopping) as (console, lake):
        show = showing(console, "oncelake rebuild", as_json=as_json)
        names = lake.rebuild(stage, accept_loss=accept_loss, dry_run=dry_run, stopping=stopping, say=say, show=show)
    with reported(as_json=as_json, verbose=verbose):
        if stopping.is_set():
            raise StageError("stopped before everything was replayed; the next run goes on from there")
        if not dry_run:
            say(f"done: {', '.join(names)} rebuilt")


def maintain(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Compact the tables' small files and remove old ones, also while the chain runs; exit 1 when one is not done."""
    warn = partial(warning, as_json=as_json)
    with opened(conf, sets, as_json=as_json, verbose=verbose, warn=warn) as (console, lake):

        def say(table: Maintained) -> None:
            if not as_json:
                console.print(str(table))

        tables = lake.maintain(say)
        if as_json:
            typer.echo(json.dumps({"tables": [each.to_dict() for each in tables]}))
    if any(each.failed for each in tables):
        raise typer.Exit(1)


def _say(outcome: Recovered, *, dry_run: bool) -> None:
    if outcome.refused:
        return
    if not outcome.steps:
        typer.echo(f"{outcome.stage}: {outcome.state}: nothing to recover")
    for step in outcome.steps:
        typer.echo(f"{outcome.stage}: {'would ' if dry_run else ''}{step}")
    if outcome.kept:
        typer.echo(f"{outcome.stage}: the old checkpoint is kept as {outcome.kept}")
