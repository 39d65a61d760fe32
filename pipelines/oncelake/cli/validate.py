"""This is where the command is that audits tables by their suites."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.wording import count_of
from oncelake.lakehouse import Lakehouse
from oncelake.observe.audit.audited import Audit
from oncelake.observe.audit.results import Result

Tables = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TABLE]...", help="As silver.access_log; every table that has a suite when none is named."),
]
# So many lines that break an expectation are printed.
_HANDFUL = 3


def validate(
    tables: Tables = None,
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    new: Annotated[bool, typer.Option("--new", help="Only the rows since the last audit.")] = False,
    docs: Annotated[
        Path | None, typer.Option(help="Where Data Docs are; <lake>/quality/audit on a local disk.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Let Great Expectations judge tables by their suites; exit 1 when a critical expectation is not met."""
    with reported(as_json=as_json, verbose=verbose) as console:
        say = partial(_say, console) if not as_json else lambda _: None
        with Lakehouse.open(conf, sets or [], verbose=verbose) as lake:
            audits, place = lake.validate(*tables or (), new=new, docs=docs, begin=console.status, done=say)
        holds = all(each.holds for each in audits)
        if as_json:
            said = {"audits": [each.to_dict() for each in audits], "docs": str(place), "holds": holds}
            typer.echo(json.dumps(said))
        else:
            console.print(f"Data Docs: {place}", highlight=False, markup=False, soft_wrap=True)
    if not holds:
        raise typer.Exit(1)


def _say(console: Console, found: Audit) -> None:
    console.print(escape(found.heading), highlight=False, soft_wrap=True)
    for each in found.results:
        broken = "[bold red]no[/]" if each.severity == "critical" else "[yellow]no[/]"
        mark = "[green]ok[/]" if each.success else broken
        console.print(f"  {mark}  {escape(_sentence(each))}", highlight=False, soft_wrap=True)
        for line in each.lines[:_HANDFUL]:
            console.print(f"        {escape(line)}", highlight=False, soft_wrap=True)


def _sentence(result: Result) -> str:
    name = result.rule if result.success else f"{result.rule} ({result.severity})"
    if result.error:
        return f"{name}: could not be judged: {result.error}"
    if result.unexpected is not None and result.rows is not None:
        of = f"of {count_of(result.rows, 'row')}"
        return f"{name}: {count_of(result.unexpected, f'{of} breaks it', f'{of} break it')}"
    return name if result.observed is None else f"{name}: found {result.observed}"
