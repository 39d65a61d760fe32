"""This is where the commands are that mend a lake: checkpoints from the tables, tables from what they read."""

import json
import threading
from dataclasses import asdict
from typing import Annotated

import typer

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, stop_on_signals
from oncelake.common.errors import StageError, StateError
from oncelake.common.json_line import json_line
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.preflight import check_ready
from oncelake.engine.rebuild import Rebuild, stages_before, stages_from
from oncelake.engine.recover import Outcome
from oncelake.engine.recover import recover as recover_stage
from oncelake.engine.runner import Run
from oncelake.engine.survey import Survey, selected, survey
from oncelake.exactly_once.lease import sole_writer
from oncelake.observe.display import display_on
from oncelake.observe.followers import FOLLOWERS
from oncelake.observe.progress import Progress

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
    with reported(as_json=as_json, verbose=verbose):
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            chosen = [stage for name in stages or () for stage in selected(chain.stages, name)] or list(chain.stages)
            outcomes = []
            with sole_writer(spark, chain.lake, settings.run.lock_wait):
                for stage in chosen:
                    outcomes.append(recover_stage(chain, spark, stage, accept_loss=accept_loss, dry_run=dry_run))
                    if not as_json:
                        _say(outcomes[-1], dry_run=dry_run)
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
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            stop_on_signals(stopping)
            check_ready(spark, settings, log_format)
            chain = survey(settings, log_format, spark)

            def say(text: str) -> None:
                typer.echo(json_line("rebuild", text=text) if as_json else text)

            with sole_writer(spark, chain.lake, settings.run.lock_wait) as lease:

                def replay(part: Survey) -> None:
                    display = display_on(console, part, "oncelake rebuild", as_json=as_json)
                    with display:
                        Run(part, spark, Progress(part, display), stopping, lease.check, FOLLOWERS).once()

                stages = stages_from(chain.stages, stage)
                work = Rebuild(chain, spark, stages, stages_before(chain.stages, stages), replay, say)
                for step in work.plan():
                    say(step)
                if not dry_run:
                    work.go(accept_loss=accept_loss)
        if stopping.is_set():
            raise StageError("stopped before everything was replayed; the next run goes on from there")
        if not dry_run:
            say(f"done: {', '.join(each.name for each in stages)} rebuilt")


def _say(outcome: Outcome, *, dry_run: bool) -> None:
    if outcome.refused:
        return
    if not outcome.steps:
        typer.echo(f"{outcome.stage}: {outcome.state}: nothing to recover")
    for step in outcome.steps:
        typer.echo(f"{outcome.stage}: {'would ' if dry_run else ''}{step}")
    if outcome.kept:
        typer.echo(f"{outcome.stage}: the old checkpoint is kept as {outcome.kept}")
