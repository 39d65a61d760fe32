"""This is where the commands are that tell why lines are in quarantine, and let them try again."""

import json
import threading
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose, refuse_options_before
from oncelake.cli.program import reported, stop_on_signals
from oncelake.common.errors import StageError
from oncelake.common.json_line import json_line
from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.wording import count_of
from oncelake.engine.replay import Replayed
from oncelake.lakehouse import Lakehouse
from oncelake.observe.display import showing
from oncelake.quality.reasons import Reason

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
        with Lakehouse.open(conf, sets or [], verbose=verbose) as lake:
            lines, found = lake.quarantined()
        if as_json:
            typer.echo(json.dumps({"lines": lines, "reasons": [each.to_dict() for each in found]}))
            return
        console.print(f"{QUARANTINE}: {count_of(lines, 'line')}", highlight=False)
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
    stop = partial(stop_on_signals, stopping)
    with reported(as_json=as_json, verbose=verbose) as console:
        moved = partial(_say, console, as_json=as_json, dry_run=dry_run)
        show = showing(console, "oncelake quarantine replay", as_json=as_json)
        with Lakehouse.open(conf, sets or [], verbose=verbose, started=stop) as lake:
            lake.replay(*reasons or (), dry_run=dry_run, stopping=stopping, moved=moved, show=show)
        if stopping.is_set() and not dry_run:
            raise StageError("stopped before gold had counted the lines; the next run goes on from there")


def _say(console: Console, outcome: Replayed, *, as_json: bool, dry_run: bool = False) -> None:
    if as_json:
        typer.echo(json_line("replay", dry_run=dry_run, **outcome.to_dict()))
        return
    if outcome.finished:
        said = f"{count_of(outcome.finished, 'line')} of a replay that was begun before"
        console.print(f"finished: {said}, now in {SILVER} alone", highlight=False)
    stay = ", ".join(f"{rule} {count:,}" for rule, count in outcome.stay.items())
    moved = f"{outcome.moved:,} of {count_of(outcome.lines, 'line')}"
    said = f"{moved} {'would move' if dry_run else 'moved'} to {SILVER}"
    text = f"{QUARANTINE}: {said}{f'; still broken: {stay}' if stay else ''}"
    console.print(escape(text), highlight=False, soft_wrap=True)


def _sentence(reason: Reason) -> str:
    times = f"{reason.first:%Y-%m-%d %H:%M}"
    if reason.first != reason.last:
        times += f" to {reason.last:%Y-%m-%d %H:%M}"
    return f"{reason.rule} ({reason.column}): {count_of(reason.lines, 'line')}, taken in {times}"
