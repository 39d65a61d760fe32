"""`oncelake quarantine`, `validate` and `suggest`: broken rules, audits of tables, a first suite."""

import json
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from oncelake.cli import complete
from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import (
    Conf,
    Json,
    Quiet,
    Sets,
    Verbose,
    opened,
    refuse_options_before,
    reported,
    stop_on_signals,
)
from oncelake.common.errors import StoppedError
from oncelake.common.json_line import json_line, result_line
from oncelake.common.lake import DUPLICATES, QUARANTINE, SILVER, bronze_of, bronze_stage
from oncelake.common.wording import count_of

if TYPE_CHECKING:
    from oncelake.engine.replay import ReplayResult
    from oncelake.observe.audit.audited import Audit
    from oncelake.observe.audit.results import Result
    from oncelake.quality.reasons import Reason

Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="For example silver.access_log; all tables with a suite if none is given.",
        autocompletion=complete.tables,
    ),
]
_LINES_SHOWN = 3  # of those that break an expectation

quarantine = PlainTyper(invoke_without_command=True, no_args_is_help=False)


@quarantine.callback()
def listing(
    context: typer.Context,
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show which rules the lines in quarantine broke.

    Nothing is changed. The subcommand `replay` checks these lines again.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (console, lake):
        lines, reasons = lake.quarantined()
        if as_json:
            fields = {"lines": lines, "reasons": [reason.to_dict() for reason in reasons]}
            typer.echo(result_line("quarantine", fields))
            return
        console.print(f"{QUARANTINE}: {count_of(lines, 'line')}")
        for reason in reasons:
            console.print(_why(reason))
            for line in reason.samples:
                console.print(f"    {line}")


@quarantine.command()
def replay(
    reasons: Annotated[
        list[str] | None,
        typer.Argument(metavar="RULE", help="Only lines that broke one of these rules; all if none is given."),
    ] = None,
    conf: Conf = None,
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved; change nothing.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check lines in quarantine again by the current rules.

    Lines that pass today's format and rules move to silver and count in gold.
    """
    stopping = threading.Event()
    stop = partial(stop_on_signals, stopping)
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, started=stop) as (console, lake):
        from oncelake.observe.live import showing

        moved = partial(_say_moved, console, as_json=as_json, dry_run=dry_run)
        show = showing(console, "oncelake quarantine replay", as_json=as_json)
        lake.replay(*reasons or (), dry_run=dry_run, stopping=stopping, moved=moved, show=show)
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        if stopping.is_set() and not dry_run:
            raise StoppedError("stopped before gold counted the lines; the next run continues from there")


def _say_moved(console: Console, outcome: "ReplayResult", *, as_json: bool, dry_run: bool = False) -> None:
    if as_json:
        typer.echo(json_line("replay", dry_run=dry_run, **outcome.to_dict()))
        return
    if outcome.finished:
        text = f"{count_of(outcome.finished, 'line')} of an unfinished earlier replay"
        console.print(f"finished: {text}, now only in {SILVER}")
    stay = ", ".join(f"{rule} {count:,}" for rule, count in outcome.stay.items())
    moved = f"{outcome.moved - outcome.repeats:,} of {count_of(outcome.lines, 'line')}"
    text = f"{moved} {'would move' if dry_run else 'moved'} to {SILVER}"
    if outcome.repeats:
        text += f", {outcome.repeats:,} to {DUPLICATES}"
    console.print(f"{QUARANTINE}: {text}{f'; still broken: {stay}' if stay else ''}")
    for source, lines in outcome.made_otherwise.items():
        console.print(
            f"{count_of(lines, 'row')} of these: {bronze_of(source)} put their lines together, or masked them, by "
            f"other rules than today's; a replay does not change that. To read them again: oncelake rebuild "
            f"{bronze_stage(source)}"
        )


def _why(reason: "Reason") -> str:
    times = f"{reason.first:%Y-%m-%d %H:%M}"
    if reason.first != reason.last:
        times += f" to {reason.last:%Y-%m-%d %H:%M}"
    return f"{reason.rule} ({reason.column}): {count_of(reason.lines, 'line')}, ingested {times}"


def validate(
    tables: Tables = None,
    conf: Conf = None,
    sets: Sets = None,
    new: Annotated[bool, typer.Option("--new", help="Only rows added since the last `oncelake validate`.")] = False,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for Great Expectations' HTML pages; required if the lake is not on a local disk.",
            show_default="quality/audit in the lake",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Validate tables with their Great Expectations suites.

    Exit code 1 if an expectation of severity critical is not met.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, changes=True) as (console, lake):
        from oncelake.engine.open_lake import unheard

        say = partial(_say_audit, console) if not as_json else unheard
        audits, place = lake.validate(*tables or (), new=new, docs=docs, begin=console.status, done=say)
        holds = all(audit.holds for audit in audits)
        if as_json:
            fields = {"audits": [audit.to_dict() for audit in audits], "docs": str(place), "holds": holds}
            typer.echo(result_line("validate", fields, holds=holds))
        else:
            console.print(f"Data Docs: {place}")
    if not holds:
        raise typer.Exit(1)


def _say_audit(console: Console, audit: "Audit") -> None:
    console.print(audit.heading)
    for result in audit.results:
        broken = ("no", "bold red" if result.severity == "critical" else "yellow")
        console.print(Text.assemble("  ", ("ok", "green") if result.success else broken, f"  {_sentence(result)}"))
        for line in result.lines[:_LINES_SHOWN]:
            console.print(f"        {line}")


def _sentence(result: "Result") -> str:
    name = result.rule if result.success else f"{result.rule} ({result.severity})"
    if result.error:
        return f"{name}: could not be checked: {result.error}"
    if result.unexpected is not None and result.rows is not None:
        rows = f"of {count_of(result.rows, 'row')}"
        return f"{name}: {count_of(result.unexpected, f'{rows} breaks it', f'{rows} break it')}"
    return name if result.observed is None else f"{name}: found {result.observed}"


def suggest(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="silver.access_log or bronze.access_log.", autocompletion=complete.ingested
        ),
    ] = str(SILVER),
    conf: Conf = None,
    sets: Sets = None,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows to read.")] = 100_000,
    verbose: Verbose = False,
) -> None:
    """Draft a suite for a table, as JSON to edit.

    For bronze it also names the log format that fits best.
    """
    with opened(conf, sets, verbose=verbose) as (_, lake):
        typer.echo(json.dumps(lake.suggest(table, rows=rows), indent=2, ensure_ascii=False))
