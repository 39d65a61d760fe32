"""`oncelake format`: try a log format on a file, test it on kept lines, or find the one that fits."""

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from oncelake.cli.program import Conf, Json, Sets, Verbose, reported
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE
from oncelake.common.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncelake.lab.evidence import Evidence
    from oncelake.lab.log_formats import Suggestion, Trial

File = Annotated[str, typer.Argument(metavar="FILE", help="A file with lines of a log, or - for standard input.")]
_WIDTH = 100  # of a line that is shown

log_format = typer.Typer(help="Find a log format, try it on a file, test it on kept lines.", no_args_is_help=True)


@log_format.command("try")
def try_(
    file: File,
    name: Annotated[
        str | None,
        typer.Argument(metavar="FORMAT", help="A format's name or file; the one of the configuration if not given."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the lines that are shown, and what they parse to, for `format test`.")
    ] = False,
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show how the first lines of a file parse, and why some do not.

    Nothing is written without --save, and no lake is needed. With a FORMAT, no configuration is read. Otherwise the
    lines are masked with the source's rules first, each line for itself.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.bronze.mask import Mask, check_mask
        from oncelake.common.spark.session import spark_session
        from oncelake.common.spark.settings import SparkSettings
        from oncelake.engine.configuration import code_places, configured, format_places
        from oncelake.engine.graph import silver_rules
        from oncelake.lab.format_tests import keep, kept_of, tests_file
        from oncelake.lab.log_formats import sample_of, try_format, unheld_text
        from oncelake.silver.parsing.parser import load_parser

        mask, places = None, format_places(conf)
        if name is None:
            settings, parsers = configured(conf, sets or [])
            if settings.source is None:
                sources = ", ".join(f"{source} ({each.format})" for source, each in settings.sources.items())
                raise ConfigError(f"the lake has several sources: {sources}; name the format after the file")
            name, of_spark = settings.source.format, settings.spark
            parser, made_by = parsers[BRONZE.name], silver_rules(settings, parsers, {}, code_places(conf))
            mask = settings.source.mask
        else:
            parser, of_spark, made_by = load_parser(name, places), SparkSettings(), None
        with ExitStack() as stack:
            sample = sample_of(file) if mask is None else None
            spark = stack.enter_context(spark_session(of_spark, verbose=verbose, quick=True))
            if sample is None:
                assert mask is not None
                check_mask(spark, mask, "source")
                sample = sample_of(file, Mask(spark, mask.resolved()).value)
            trial = try_format(spark, stack.enter_context(sample.file()), name, parser, made_by)
        unheld = unheld_text(parser, sample.text)
        if save:
            path = tests_file(name, places)
            kept = keep(path, name, kept_of(trial, parser, sample.modified))
        if as_json:
            typer.echo(json.dumps({**trial.to_dict(), "unheld": dict(unheld)}, ensure_ascii=False))
        else:
            _show(console, file, trial)
            _show_unheld(console, unheld)
            if save:
                console.print(f"{path} keeps {count_of(kept, 'line')}; check them with: oncelake format test {name}")
    with reported(as_json=as_json, verbose=verbose):
        if not trial.accepted:
            raise OncelakeError(f"no line of {file} parses as {name}. Find a format that fits: oncelake format suggest")


@log_format.command("test")
def check(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FORMAT", help="A format's name or file; every format with kept lines if not given."),
    ] = None,
    conf: Conf = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Check that formats still read kept lines as they did.

    `format try --save` keeps lines of a format in the directory `tests` beside it, to be edited. Exit code 1 if a line
    is read otherwise.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.common.spark.session import spark_session
        from oncelake.common.spark.settings import SparkSettings
        from oncelake.engine.configuration import format_places
        from oncelake.lab.format_tests import changed, read_kept, tested_formats, tests_file
        from oncelake.silver.parsing.parser import load_parser

        places = format_places(conf)
        names = [name] if name is not None else tested_formats(places)
        kept = {each: read_kept(tests_file(each, places)) for each in names}
        if not any(kept.values()):
            where = tests_file(name, places) if name is not None else places[0] / "tests"
            raise ConfigError(f"{where} keeps no lines; keep some: oncelake format try FILE {name or 'FORMAT'} --save")
        parsers = {each: load_parser(each, places) for each in names}
        with spark_session(SparkSettings(), verbose=verbose, quick=True) as spark:
            found = {each: list(changed(spark, parsers[each], kept[each])) for each in names}
        if as_json:
            lines = {each: [{"line": line.line, "differences": said} for line, said in found[each]] for each in names}
            typer.echo(json.dumps({"lines": {each: len(kept[each]) for each in names}, "changed": lines}))
        for each in names if not as_json else []:
            same = len(kept[each]) - len(found[each])
            console.print(f"{each}: {same:,} of {count_of(len(kept[each]), 'line')} as kept")
            for line, said in found[each]:
                console.print(f"  {_short(line.line)}\n    {'; '.join(map(_short, said))}")
    with reported(as_json=as_json, verbose=verbose):
        wrong = sum(map(len, found.values()))
        if wrong:
            read = count_of(wrong, "line is read otherwise", "lines are read otherwise")
            raise OncelakeError(
                f"{read}; correct the format, or keep the lines as they are read now: oncelake format try FILE "
                "FORMAT --save"
            )


@log_format.command()
def suggest(file: File, conf: Conf = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Find the format that fits the first lines of a file best.

    Spark is not needed. Every known format is tried: the shipped ones, and those next to the configuration. If none
    parses half of the lines, a new one is drafted, unless the lines can be read in several ways.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.engine.configuration import format_places
        from oncelake.lab.log_formats import known_formats, sample_of, suggest_format

        found = suggest_format(sample_of(file), known_formats(format_places(conf)))
        if as_json:
            typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        else:
            _show_suggestion(console, file, found)
    with reported(as_json=as_json, verbose=verbose):
        if found.chosen is None and found.best is None:
            raise OncelakeError(
                f"no known format parses a line of {file}, and none can be drafted: {found.reason}. Write one as "
                f"docs/formats.md shows, and try it: oncelake format try {file} my-format.yaml"
            )


def _show_suggestion(console: Console, file: str, found: "Suggestion") -> None:
    for known in found.known:
        if known.accepted:
            console.print(f"{known.format:<14}{known.share:>7.1%} of {known.counted}")
    for name, reason in found.unread.items():
        console.print(f"{name:<14} not tried, as only Spark reads {reason}: oncelake format try {file} {name}")
    if found.chosen is not None:
        show_evidence(console, found.chosen)
    if found.draft is not None and found.drafted is not None:
        for assumption in found.draft.assumptions:
            console.print(f"assumed: {assumption}")
        told = f"A draft parses {found.drafted.share:.1%} of {found.drafted.counted}."
        console.print(f"{told} Edit it, save it, and try it: oncelake format try {file} my-format.yaml")
        console.print(f"\n{found.draft.text}", end="")
        return
    if found.reason is not None:
        console.print(f"no draft: {found.reason}")
    if found.best is not None:
        console.print(f"See how they parse: oncelake format try {file} {found.best.format}")


def show_evidence(console: Console, found: "Evidence") -> None:
    """Print what a format reads in a sample, for a person to judge."""
    if found.first is not None and found.last is not None:
        levels = ", ".join(f"{level} {count:,}" for level, count in found.levels.items())
        console.print(f"  from {found.first:%Y-%m-%d %H:%M:%S} to {found.last:%Y-%m-%d %H:%M:%S} UTC; {levels}")
    if found.parsed is not None and found.parsed.log_time is not None:
        fields = ", ".join(f"{key}={value}" for key, value in found.parsed.fields.items() if value is not None)
        console.print(f"  read     {_short(found.parsed.text)}")
        console.print(
            f"    {found.parsed.log_time:%Y-%m-%d %H:%M:%S.%f} UTC {found.parsed.level} {_short(found.parsed.message)}"
        )
        if fields:
            console.print(f"    {_short(fields)}")
    if found.refused is not None:
        rules = ", ".join(f"{rule} {count:,}" for rule, count in found.rules.items())
        console.print(f"  refused  {_short(found.refused.text)}\n    {rules}")
    _show_unheld(console, found.unheld)
    for warning in found.warnings:
        console.print(f"  look: {warning}")


def _show_unheld(console: Console, unheld: "Mapping[str, int]") -> None:
    if unheld:
        texts = ", ".join(f"{printable(text, 40)!r} in {count_of(count, 'line')}" for text, count in unheld.items())
        console.print(f"  the pattern matches text that no group holds: {texts}")


def _show(console: Console, file: str, trial: "Trial") -> None:
    console.print(f"{trial.accepted:,} of {trial.counted} of {file} parse as {trial.format}")
    for parsed in trial.parsed:
        at = f"{parsed.log_time:%Y-%m-%d %H:%M:%S}.{parsed.log_time.microsecond // 1000:03}"
        console.print(f"  {at} UTC {parsed.level:<5} {_short(parsed.message)}")
        for values in filter(None, (parsed.fields, parsed.columns)):
            console.print(f"    {_short(', '.join(f'{key}={value}' for key, value in values.items()))}")
    if trial.misfits:
        counts = ", ".join(f"{column} {count:,}" for column, count in trial.misfits.items())
        console.print(f"values that do not fit their column's type and become null: {counts}")
    if trial.refused:
        broken = ", ".join(f"{rule} {count:,}" for rule, count in sorted(trial.rules.items()))
        console.print(f"{trial.lines - trial.accepted:,} do not; rules broken: {broken}")
    for refused in trial.refused:
        why = "; ".join(_why(reason["rule"], reason["column"], reason["value"]) for reason in refused.reasons)
        console.print(f"  {_short(refused.line)}\n    {why}")
    for warning in trial.warnings:
        console.print(f"  look: {warning}")


def _why(rule: str | None, column: str | None, value: str | None) -> str:
    return str(rule) if column == "value" else f"{rule}: {column} is {value!r}"


def _short(text: str) -> str:
    return printable(text.replace("\n", "\u23ce").expandtabs(2), _WIDTH)
