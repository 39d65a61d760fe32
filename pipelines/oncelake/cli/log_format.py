"""`oncelake format`: try a log format on a file, test it on kept lines, or find the one that fits."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from oncelake.cli import complete
from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import Conf, Json, Sets, Verbose, reported
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.json_line import result_line
from oncelake.common.lake import BRONZE
from oncelake.common.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncelake.lab.evidence import Evidence
    from oncelake.lab.log_formats import Suggestion, Trial

File = Annotated[str, typer.Argument(metavar="FILE", help="A file with lines of a log, or - for standard input.")]
_WIDTH, _LEAST = 100, 20  # of a line that is shown

log_format = PlainTyper(help="Find a log format, try it on a file, test it on kept lines.", no_args_is_help=True)


@log_format.command("try")
def try_(
    file: File,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT",
            help="A format's name or file; the one of the configuration if not given.",
            autocompletion=complete.formats,
        ),
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
        from oncelake.engine.conf_file import format_places
        from oncelake.engine.configuration import code_places, configured
        from oncelake.engine.graph import silver_rules
        from oncelake.lab.format_tests import keep, kept_of, tests_file
        from oncelake.lab.log_formats import sample_of, try_format, unheld_text
        from oncelake.silver.parsing.parser import load_parser

        mask, places = None, format_places(conf)
        if name is None:
            settings, parsers = configured(conf, sets or [])
            if settings.source is None:
                sources = ", ".join(f"{source} ({declared.format})" for source, declared in settings.sources.items())
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
            count = keep(path, name, kept_of(trial, parser, sample.modified))
        if as_json:
            fields = {**trial.to_dict(), "unheld": dict(unheld)}
            typer.echo(result_line("format try", fields, holds=trial.accepted > 0))
        else:
            _show(console, file, trial)
            _show_unheld(console, unheld)
            if save:
                console.print(f"{path} keeps {count_of(count, 'line')}; check them with: oncelake format test {name}")
    with reported(as_json=as_json, verbose=verbose):
        if not trial.accepted:
            raise OncelakeError(f"no line of {file} parses as {name}. Find a format that fits: oncelake format suggest")


@log_format.command("test")
def check(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT",
            help="A format's name or file; every format with kept lines if not given.",
            autocompletion=complete.formats,
        ),
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
        from oncelake.engine.conf_file import format_places
        from oncelake.lab.format_tests import changed, read_kept, tested_formats, tests_file
        from oncelake.silver.parsing.parser import load_parser

        places = format_places(conf)
        names = [name] if name is not None else tested_formats(places)
        tests = {tested: read_kept(tests_file(tested, places)) for tested in names}
        if not any(tests.values()):
            where = tests_file(name, places) if name is not None else places[0] / "tests"
            raise ConfigError(f"{where} keeps no lines; keep some: oncelake format try FILE {name or 'FORMAT'} --save")
        parsers = {tested: load_parser(tested, places) for tested in names}
        with spark_session(SparkSettings(), verbose=verbose, quick=True) as spark:
            changes = {tested: list(changed(spark, parsers[tested], tests[tested])) for tested in names}
        if as_json:
            lines = {
                tested: [{"line": kept.line, "differences": differences} for kept, differences in of_format]
                for tested, of_format in changes.items()
            }
            fields = {"lines": {tested: len(tests[tested]) for tested in names}, "changed": lines}
            typer.echo(result_line("format test", fields, holds=not any(changes.values())))
        for tested in names if not as_json else []:
            same = len(tests[tested]) - len(changes[tested])
            console.print(f"{tested}: {same:,} of {count_of(len(tests[tested]), 'line')} as kept")
            for line, differences in changes[tested]:
                texts = "; ".join(_short(text, console, 4) for text in differences)
                console.print(f"  {_short(line.line, console, 2)}\n    {texts}")
    with reported(as_json=as_json, verbose=verbose):
        wrong = sum(map(len, changes.values()))
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
        from oncelake.engine.conf_file import format_places
        from oncelake.lab.log_formats import known_formats, sample_of, suggest_format

        suggestion = suggest_format(sample_of(file), known_formats(format_places(conf)))
        is_read = suggestion.chosen is not None or suggestion.best is not None
        if as_json:
            typer.echo(result_line("format suggest", suggestion.to_dict(), holds=is_read))
        else:
            _show_suggestion(console, file, suggestion)
    with reported(as_json=as_json, verbose=verbose):
        if not is_read:
            raise OncelakeError(
                f"no known format parses a line of {file}, and none can be drafted: {suggestion.reason}. Write one as "
                f"docs/formats.md shows, and try it: oncelake format try {file} my-format.yaml"
            )


def _show_suggestion(console: Console, file: str, suggestion: "Suggestion") -> None:
    for known in suggestion.known:
        if known.accepted:
            console.print(f"{known.format:<14}{known.share:>7.1%} of {known.counted}")
    for name, reason in suggestion.unread.items():
        console.print(f"{name:<14} not tried, as only Spark reads {reason}: oncelake format try {file} {name}")
    if suggestion.chosen is not None:
        show_evidence(console, suggestion.chosen)
    if suggestion.draft is not None and suggestion.drafted is not None:
        for assumption in suggestion.draft.assumptions:
            console.print(f"assumed: {assumption}")
        summary = f"A draft parses {suggestion.drafted.share:.1%} of {suggestion.drafted.counted}."
        console.print(f"{summary} Edit it, save it, and try it: oncelake format try {file} my-format.yaml")
        console.print(f"\n{suggestion.draft.text}", end="")
        return
    if suggestion.reason is not None:
        console.print(f"no draft: {suggestion.reason}")
    if suggestion.best is not None:
        console.print(f"See how they parse: oncelake format try {file} {suggestion.best.format}")


def show_evidence(console: Console, evidence: "Evidence") -> None:
    """Print what a format reads in a sample, for a person to judge."""
    if evidence.first is not None and evidence.last is not None:
        levels = ", ".join(f"{level} {count:,}" for level, count in evidence.levels.items())
        times = f"  from {evidence.first:%Y-%m-%d %H:%M:%S} to {evidence.last:%Y-%m-%d %H:%M:%S} UTC"
        is_wide = console.is_terminal and len(times) + len(levels) + 2 > console.width
        console.print(f"{times}\n  {levels}" if is_wide else f"{times}; {levels}")
    if evidence.parsed is not None and evidence.parsed.log_time is not None:
        fields = ", ".join(f"{key}={value}" for key, value in evidence.parsed.fields.items() if value is not None)
        console.print(f"  read     {_short(evidence.parsed.text, console, 11)}")
        start = f"    {evidence.parsed.log_time:%Y-%m-%d %H:%M:%S.%f} UTC {evidence.parsed.level} "
        console.print(f"{start}{_short(evidence.parsed.message, console, len(start))}")
        if fields:
            console.print(f"    {_short(fields, console, 4)}")
    if evidence.refused is not None:
        rules = ", ".join(f"{rule} {count:,}" for rule, count in evidence.rules.items())
        console.print(f"  refused  {_short(evidence.refused.text, console, 11)}\n    {rules}")
    _show_unheld(console, evidence.unheld)
    for warning in evidence.warnings:
        console.print(f"  look: {warning}")


def _show_unheld(console: Console, unheld: "Mapping[str, int]") -> None:
    if unheld:
        texts = ", ".join(f"{printable(text, 40)!r} in {count_of(count, 'line')}" for text, count in unheld.items())
        console.print(f"  the pattern matches text that no group holds: {texts}")


def _show(console: Console, file: str, trial: "Trial") -> None:
    console.print(f"{trial.accepted:,} of {trial.counted} of {file} parse as {trial.format}")
    for parsed in trial.parsed:
        at = f"{parsed.log_time:%Y-%m-%d %H:%M:%S}.{parsed.log_time.microsecond // 1000:03}"
        start = f"  {at} UTC {parsed.level:<5} "
        console.print(f"{start}{_short(parsed.message, console, len(start))}")
        for values in filter(None, (parsed.fields, parsed.columns)):
            texts = ", ".join(f"{key}={value}" for key, value in values.items())
            console.print(f"    {_short(texts, console, 4)}")
    if trial.misfits:
        counts = ", ".join(f"{column} {count:,}" for column, count in trial.misfits.items())
        console.print(f"values that do not fit their column's type and become null: {counts}")
    if trial.refused:
        broken = ", ".join(f"{rule} {count:,}" for rule, count in sorted(trial.rules.items()))
        console.print(f"{trial.lines - trial.accepted:,} do not; rules broken: {broken}")
    for refused in trial.refused:
        why = "; ".join(_why(reason["rule"], reason["column"], reason["value"]) for reason in refused.reasons)
        console.print(f"  {_short(refused.line, console, 2)}\n    {why}")
    for warning in trial.warnings:
        console.print(f"  look: {warning}")


def _why(rule: str | None, column: str | None, value: str | None) -> str:
    return str(rule) if column == "value" else f"{rule}: {column} is {value!r}"


def _short(text: str, console: Console, indent: int) -> str:
    """Return a text in one line, cut to the width of a terminal.

    Args:
        text: the text.
        console: where it is printed.
        indent: how many characters stand before it.
    """
    line = text.replace("\n", "\u23ce").expandtabs(2)
    room = max(console.width - indent, _LEAST) if console.is_terminal else _WIDTH
    if room < _WIDTH and len(line) > room:
        line = f"{line[: room - 1]}…"
    return printable(line, _WIDTH)
