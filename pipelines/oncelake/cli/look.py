"""`oncelake status`, `doctor`, `history`, `trace` and `lines`: look at a lake and change nothing."""

import threading
from datetime import UTC, datetime
from typing import Annotated

import typer

from oncelake.cli import complete
from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, reported, stop_on_signals, warning
from oncelake.common.errors import StateError
from oncelake.common.json_line import result_line


def status(
    conf: Conf = None,
    sets: Sets = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, and each new batch, until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="With --watch: the pause between refreshes.")
    ] = 2.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show each stage: state, last batch, rows, backlog, ages.

    It takes no lock, so it can run next to `oncelake run`.
    """
    stopping = threading.Event() if watch else None
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (console, lake):
        if stopping is not None:
            from oncelake.observe.live import LiveBoard, showing

            stop_on_signals(stopping)
            show = showing(console, "oncelake status", as_json=as_json, board=LiveBoard)
            lake.watch(show, every=every, stopping=stopping)
            return
        from oncelake.observe.status import checkpoint_lines, quality_lines, status_table, waiting_lines

        rows = lake.status()
        warnings = [text for row in rows for text in row.warnings]
        for text in warnings:
            warning(text)
        if as_json:
            typer.echo(result_line("status", {"stages": [row.to_dict() for row in rows]}, warnings=warnings))
        else:
            table = status_table(rows, console.width if console.is_terminal else None)
            for line in (*table, *waiting_lines(rows), *quality_lines(rows), *checkpoint_lines(lake.settings.places())):
                console.print(line)


def doctor(
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check each stage, and name the command that repairs it.

    Exit code 1 if `oncelake run` would refuse to start. Nothing is changed. Log formats, suites and the expressions of
    gold tables are checked by `run`, as only Spark can check them. With `silver.transform`, Spark is started to check
    that code. For files that grow, it also warns where logrotate could lose lines. It also names each Java class of
    oncelake's that does not fit the installed Spark, and what a run does without it.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet) as (_, lake):
        from oncelake.observe.status import checkpoint_lines

        result = lake.doctor()
        places = lake.settings.places()
    with reported(as_json=as_json, verbose=verbose, quiet=quiet) as console:
        if as_json:
            stages = [row.to_dict() for row in result.stages]
            typer.echo(result_line("doctor", {"stages": stages}, holds=result.may_start, warnings=result.warnings))
        for row in result.stages if not as_json else ():
            line = f"{row.stage}: {row.state}: {row.detail}" if row.may_start else row.detail
            console.print("ok " if row.may_start else "no ", line)
        for line in checkpoint_lines(places) if not as_json else ():
            console.print(line)
        for text in (*result.warnings, *(text for row in result.stages for text in row.warnings)):
            warning(text)
        if result.begun:
            raise StateError(result.begun)
    if not result.may_start:
        raise typer.Exit(1)


def history(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="For example silver.access_log; default: all.", autocompletion=complete.tables
        ),
    ] = None,
    conf: Conf = None,
    sets: Sets = None,
    rules: Annotated[bool, typer.Option("--rules", help="Also show the rules, as YAML.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show which rules made which rows.

    Each line is a span of versions of a table that were made with the same rules: the log format, time limits and suite
    of silver, or the declaration of a gold table. The newest is first. It reaches back as far as Delta keeps the log.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (_, lake):
        spans = lake.history(table)
        if as_json:
            typer.echo(result_line("history", {"spans": [span.to_dict() for span in spans]}))
            return
        from oncelake.observe.rule_history import history_lines

        for line in history_lines(spans, rules=rules):
            typer.echo(line)
        if not spans:
            typer.echo(f"no rows yet{f' in {table}' if table else ''}. Run first: oncelake run --once")


def trace(
    line: Annotated[
        str,
        typer.Argument(metavar="LINE", help="TOPIC/PARTITION/OFFSET, or FILE:TEXT of the line."),
    ],
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Follow one line through every table.

    Shows the line in bronze, in silver or quarantine, and the window of each gold table that counts it. Exit code 1
    if the line is missing in a table that must have it. FILE is the file's path, or the end of it.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (_, lake):
        from oncelake.observe.trace.lineage import lines as lineage_lines

        way = lake.trace(line)
        for text in [result_line("trace", way.to_dict(), holds=way.holds)] if as_json else lineage_lines(way):
            typer.echo(text)
    if not way.holds:
        raise typer.Exit(1)


def lines(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A gold table, for example gold.error_log.", autocompletion=complete.tables
        ),
    ],
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIME",
            help="A time in the window, for example 2026-01-31T08:05; UTC unless it names a zone.",
        ),
    ],
    conf: Conf = None,
    sets: Sets = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="NAME=VALUE", help="A key of the row; NAME alone for a row without a value. Repeatable."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N lines.")] = 100,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the lines that a row of gold counts.

    Shows the row, and silver's row of each line with its file, or its topic, partition and offset. Without --key, these
    are the lines of all rows of the window.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (_, lake):
        from oncelake.common.moment import moment
        from oncelake.observe.gold_lines import line_texts

        wanted = {name: value if mark else None for name, mark, value in (key.partition("=") for key in keys or ())}
        counted = lake.lines(table, moment("--at", at, datetime.now(UTC)), wanted, limit=limit)
        for text in [result_line("lines", counted.to_dict())] if as_json else line_texts(counted):
            typer.echo(text)
