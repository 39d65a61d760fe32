"""This is where the commands are that tell why lines are in quarantine, and let them try again."""

import json
import threading
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose, refuse_options_before
from oncelake.cli.program import reported, stop_on_signals
from oncelake.common import tables
from oncelake.common.errors import StageError
from oncelake.common.json_line import json_line
from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.graph import silver_rules
from oncelake.engine.preflight import check_ready
from oncelake.engine.rebuild import stages_from
from oncelake.engine.replay import Outcome, Replay
from oncelake.engine.runner import Run
from oncelake.engine.survey import survey
from oncelake.exactly_once.lease import sole_writer
from oncelake.observe.display import display_on
from oncelake.observe.followers import FOLLOWERS
from oncelake.observe.progress import Progress
from oncelake.quality.reasons import Reason
from oncelake.quality.reasons import reasons as summed_up

quarantine = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@quarantine.callback()
def listing(
    context: typer.Context,
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Tell which rules the lines in quarantine broke, how many lines, and some of them."""
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            there, path = chain.ledger(QUARANTINE).newest() is not None, chain.lake.at(QUARANTINE)
            rows = tables.read(spark, path) if there else None
            lines, found = (rows.count(), summed_up(rows)) if rows is not None else (0, [])
        if as_json:
            typer.echo(json.dumps({"lines": lines, "reasons": [each.to_dict() for each in found]}))
            return
        console.print(f"{QUARANTINE}: {_lines(lines)}", highlight=False)
        for each in found:
            console.print(escape(_sentence(each)), highlight=False, soft_wrap=True)
            for line in each.samples:
                console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)


@quarantine.command()
def replay(
    reasons: Annotated[
        list[str] | None, typer.Argument(metavar="[RULE]...", help="Lines that broke one of these; all when none.")
    ] = None,
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, and change nothing.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Send lines in quarantine through today's format and rules; those that pass move to silver and count in gold."""
    stopping = threading.Event()
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            stop_on_signals(stopping)
            check_ready(spark, settings, log_format)
            chain = survey(settings, log_format, spark)
            made_by = silver_rules(settings, log_format)
            if dry_run:
                _say(console, Replay(chain, spark, made_by).plan(reasons or ()), as_json=as_json, dry_run=True)
                return
            after = tuple(stage for stage in stages_from(chain.stages, "silver") if stage.name != "silver")
            counting = replace(chain, stages=after)
            display = display_on(console, counting, "oncelake quarantine replay", as_json=as_json)
            progress = Progress(counting, display)
            with sole_writer(spark, chain.lake, settings.run.lock_wait) as lease:
                outcome = Replay(chain, spark, made_by, lease.check).go(reasons or ())
                _say(console, outcome, as_json=as_json)
                if chain.ledger(SILVER).standing().last is not None:
                    with progress.display:  # also after a replay that died before gold had counted
                        Run(counting, spark, progress, stopping, lease.check, FOLLOWERS).once()
        if stopping.is_set():
            raise StageError("stopped before gold had counted the lines; the next run goes on from there")


def _say(console: Console, outcome: Outcome, *, as_json: bool, dry_run: bool = False) -> None:
    if as_json:
        typer.echo(json_line("replay", dry_run=dry_run, **outcome.to_dict()))
        return
    if outcome.finished:
        said = f"{_lines(outcome.finished)} of a replay that was begun before"
        console.print(f"finished: {said}, now in {SILVER} alone", highlight=False)
    stay = ", ".join(f"{rule} {count:,}" for rule, count in outcome.stay.items())
    said = f"{outcome.moved:,} of {_lines(outcome.lines)} {'would move' if dry_run else 'moved'} to {SILVER}"
    text = f"{QUARANTINE}: {said}{f'; still broken: {stay}' if stay else ''}"
    console.print(escape(text), highlight=False, soft_wrap=True)


def _sentence(reason: Reason) -> str:
    times = f"{reason.first:%Y-%m-%d %H:%M}"
    if reason.first != reason.last:
        times += f" to {reason.last:%Y-%m-%d %H:%M}"
    return f"{reason.rule} ({reason.column}): {_lines(reason.lines)}, taken in {times}"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
