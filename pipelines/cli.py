"""This is where the commands are: what they take, what they print, and how they exit.

Exit codes: 0 all is well, 1 what was asked for failed or does not hold, 2 wrong use or configuration.
"""

import json
import tempfile
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipelines import __version__
from pipelines.configuration import configured, shipped_conf
from pipelines.demo.story import sets_below, tell
from pipelines.errors import OncelakeError, StageError
from pipelines.lock import sole_writer
from pipelines.program import reported, spark_session, stop_on_signals
from pipelines.ready import check_local_path, check_ready
from pipelines.run import Run
from pipelines.survey import needs_spark, survey
from pipelines.watch.progress import JsonLines, Lines, LiveTable, Progress
from pipelines.watch.status import status, status_grid

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Application logs to counts people can trust: every line exactly once.",
)

Conf = Annotated[Path, typer.Option("-c", "--conf", metavar="FILE", help="The configuration file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, as lake.root=/tmp/lake; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show Spark's own log, and tracebacks.")]
DEFAULT_CONF = Path("conf/local.yaml")


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    """Take the options that stand before a command."""
    if show:
        typer.echo(f"oncelake {__version__}")
        raise typer.Exit


@app.command()
def run(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    once: Annotated[bool, typer.Option("--once", help="Take all that is there, to the last stage, and end.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run every stage until SIGTERM or Ctrl-C; with --once take all that is there and end."""
    stopping = threading.Event()
    stop_on_signals(stopping)
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        check_local_path(settings.source)
        with spark_session(settings.spark, verbose=verbose) as spark:
            stop_on_signals(stopping)
            check_ready(spark, settings, log_format)
            chain = survey(settings, log_format, spark)
            _warn(warning for view in chain.views() for warning in view.source.warnings())
            progress = Progress(chain, _display(console, [stage.name for stage in chain.stages], as_json=as_json))
            with sole_writer(spark, chain.lake, settings.run.lock_wait), progress.display:
                chain_run = Run(chain, spark, progress, stopping)
                chain_run.once() if once else chain_run.on()
        if once and stopping.is_set():
            raise StageError("stopped before everything was taken in; the next run goes on from there")
        _say_end(console, progress, as_json=as_json)


@app.command(name="status")
def show_status(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Show per stage its state, last batch, rows, backlog and freshness."""
    _look(conf, sets, as_json=as_json, verbose=verbose, judge=False)


@app.command()
def doctor(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Name the state of each stage; exit 1 when one may not start. Changes nothing."""
    _look(conf, sets, as_json=as_json, verbose=verbose, judge=True)


@app.command()
def demo(
    conf: Annotated[Path | None, typer.Option("-c", "--conf", metavar="FILE", help="Another configuration.")] = None,
    sets: Sets = None,
    keep: Annotated[Path | None, typer.Option(help="Keep the lake here instead of a temporary directory.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Tell the whole story on a made log: run, replay, late and broken lines, the table and the proof."""
    with reported(as_json=as_json, verbose=verbose) as console:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="oncelake-demo-") if keep is None else nullcontext(keep) as place:
            root = Path(place).absolute()
            told = configured(conf or shipped_conf() / "local.yaml", [*(sets or []), *sets_below(root)])
            holds = tell(console, *told, root, verbose=verbose)
        if as_json:
            typer.echo(json.dumps({"proof": holds}))
        if not all(holds.values()):
            raise OncelakeError(f"the proof does not hold: {', '.join(name for name, ok in holds.items() if not ok)}")


def _look(conf: Path, sets: list[str] | None, *, as_json: bool, verbose: bool, judge: bool) -> None:
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) if needs_spark(settings) else nullcontext() as spark:
            rows = [status(view) for view in survey(settings, log_format, spark).views()]
        _warn(warning for row in rows for warning in row.warnings)
        if as_json:
            typer.echo(json.dumps({"stages": [row.to_dict() for row in rows]}))
        elif judge:
            for row in rows:
                mark = "[green]ok[/] " if row.may_start else "[bold red]no[/] "
                console.print(f"{mark} {row.stage}: [bold]{row.state}[/]: {row.detail}", highlight=False)
        else:
            console.print(status_grid(rows))
    if judge and not all(row.may_start for row in rows):
        raise typer.Exit(1)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        typer.echo(f"oncelake: warning: {warning}", err=True)


def _display(console: Console, stages: list[str], *, as_json: bool) -> Lines | LiveTable:
    if as_json:
        return JsonLines(typer.echo)
    return LiveTable(console, stages) if console.is_terminal else Lines(typer.echo)


def _say_end(console: Console, progress: Progress, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"event": "end", "batches": progress.batches}))
    elif progress.batches:
        console.print(f"done: {progress.batches} batches committed", highlight=False)
    else:
        console.print("done: nothing new in the source, no table was changed", highlight=False)
