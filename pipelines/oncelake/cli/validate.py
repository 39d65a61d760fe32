"""This is where the command is that audits tables by their suites."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.errors import ConfigError
from oncelake.common.lake import is_local
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.graph import silver_rules, suites
from oncelake.engine.survey import survey
from oncelake.observe.audit.audit import Auditor
from oncelake.observe.audit.audited import Audit, Audits
from oncelake.observe.audit.results import Result
from oncelake.quality.suite import Suite, Suites

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
    audits: list[Audit] = []
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        chosen = _chosen(suites(settings), tables or [])
        auditor = Auditor(_place(settings.places().root, docs))
        with spark_session(settings.spark, verbose=verbose) as spark:
            parse = silver_rules(settings, log_format).parse
            every = Audits(survey(settings, log_format, spark), spark, auditor, parse)
            for number, suite in enumerate(chosen, 1):
                with console.status(f"{suite.table}, {number} of {len(chosen)}: {len(suite.ids)} expectations"):
                    audits.append(every.audit(suite, new=new))
                if not as_json:
                    _say(console, audits[-1])
        if as_json:
            holds = all(each.holds for each in audits)
            said = {"audits": [each.to_dict() for each in audits], "docs": str(auditor.docs), "holds": holds}
            typer.echo(json.dumps(said))
        else:
            console.print(f"Data Docs: {auditor.docs}", highlight=False, markup=False, soft_wrap=True)
    if not all(each.holds for each in audits):
        raise typer.Exit(1)


def _chosen(found: Suites, names: list[str]) -> list[Suite]:
    known = {str(table): suite for table, suite in found.items()}
    if not known:
        raise ConfigError("there is no suite; put <layer>.<table>.json into `expectations` beside the configuration")
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no suite for {name}; there is one for {', '.join(known)}")
    return [known[name] for name in names or known]


def _place(root: str, docs: Path | None) -> Path:
    if docs is None and not is_local(root):
        raise ConfigError(f"the lake {root} is not on this machine: say where Data Docs are to be with --docs")
    return (docs or Path(root) / "quality" / "audit").absolute()


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
        return f"{name}: {result.unexpected:,} of {result.rows:,} rows break it"
    return name if result.observed is None else f"{name}: found {result.observed}"
