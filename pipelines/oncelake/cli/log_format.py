"""`oncelake format`: try a log format on a file, or find the one that fits."""

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
    from oncelake.lab.log_formats import Suggestion, Trial

File = Annotated[str, typer.Argument(metavar="FILE", help="A file with lines of a log, or - for standard input.")]
_WIDTH = 100  # of a line that is shown

log_format = typer.Typer(help="Try a log format on a file, or find the one that fits.", no_args_is_help=True)


@log_format.command("try")
def try_(
    file: File,
    name: Annotated[
        str | None,
        typer.Argument(metavar="FORMAT", help="A format's name or file; the one of the configuration if not given."),
    ] = None,
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show how the first lines of a file parse, and why some do not.

    Nothing is written, and no lake is needed. With a FORMAT, no configuration is read. Otherwise the lines are masked
    with the source's rules first, each line for itself.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.bronze.mask import Mask, check_mask
        from oncelake.common.spark.session import spark_session
        from oncelake.common.spark.settings import SparkSettings
        from oncelake.engine.configuration import code_places, configured, format_places
        from oncelake.engine.graph import silver_rules
        from oncelake.lab.log_formats import sampled, try_format
        from oncelake.silver.format import load_format

        mask = None
        if name is None:
            settings, formats = configured(conf, sets or [])
            if settings.source is None:
                sources = ", ".join(f"{source} ({each.format})" for source, each in settings.sources.items())
                raise ConfigError(f"the lake has several sources: {sources}; name the format after the file")
            name, of_spark = settings.source.format, settings.spark
            declared, made_by = formats[BRONZE.name], silver_rules(settings, formats, {}, code_places(conf))
            mask = settings.source.mask
        else:
            declared, of_spark, made_by = load_format(name, format_places(conf)), SparkSettings(), None
        with ExitStack() as stack:
            if mask is None:
                sample = stack.enter_context(sampled(file))
                spark = stack.enter_context(spark_session(of_spark, verbose=verbose, quick=True))
            else:
                spark = stack.enter_context(spark_session(of_spark, verbose=verbose, quick=True))
                check_mask(spark, mask, "source")
                sample = stack.enter_context(sampled(file, Mask(spark, mask.resolved()).value))
            trial = try_format(spark, sample, name, declared, made_by)
        if as_json:
            typer.echo(json.dumps(trial.to_dict(), ensure_ascii=False))
        else:
            _show(console, file, trial)
    with reported(as_json=as_json, verbose=verbose):
        if not trial.accepted:
            raise OncelakeError(f"no line of {file} parses as {name}. Find a format that fits: oncelake format suggest")


@log_format.command()
def suggest(file: File, conf: Conf = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Find the format that fits the first lines of a file best.

    Every known format is tried: the shipped ones, and those next to the configuration. If none parses half of the
    lines, a new one is drafted.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.common.spark.session import spark_session
        from oncelake.common.spark.settings import SparkSettings
        from oncelake.engine.configuration import format_places
        from oncelake.lab.log_formats import sampled, suggest_format

        with sampled(file) as sample, spark_session(SparkSettings(), verbose=verbose, quick=True) as spark:
            found = suggest_format(spark, sample, format_places(conf))
        if as_json:
            typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        else:
            _show_suggestion(console, file, found)
    with reported(as_json=as_json, verbose=verbose):
        if not found.fits:
            raise OncelakeError(
                f"no known format parses a line of {file}. Write one as docs/formats.md shows, and try it: "
                f"oncelake format try {file} my-format.yaml"
            )


def _show_suggestion(console: Console, file: str, found: "Suggestion") -> None:
    for trial in found.trials:
        if trial.accepted:
            console.print(f"{trial.format:<14}{trial.share:>7.1%} of {_counted(trial)}")
    if found.drafted is not None and found.drafted.share > found.best.share:
        share = f"{found.drafted.share:.1%} of {_counted(found.drafted)}"
        console.print(
            f"A draft parses {share}. Edit it, save it, and try it: oncelake format try {file} my-format.yaml"
        )
        console.print(f"\n{found.draft}", end="")
    elif found.best.accepted:
        console.print(f"See how they parse: oncelake format try {file} {found.best.format}")


def _show(console: Console, file: str, trial: "Trial") -> None:
    console.print(f"{trial.accepted:,} of {_counted(trial)} of {file} parse as {trial.format}")
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
        why = "; ".join(_why(each["rule"], each["column"], each["value"]) for each in refused.reasons)
        console.print(f"  {_short(refused.line)}\n    {why}")


def _why(rule: str | None, column: str | None, value: str | None) -> str:
    return str(rule) if column == "value" else f"{rule}: {column} is {value!r}"


def _counted(trial: "Trial") -> str:
    return count_of(trial.lines, "record" if trial.records else "line")


def _short(text: str) -> str:
    return printable(text.replace("\n", "\u23ce").expandtabs(2), _WIDTH)
