"""What all commands share: their options, an opened lake, errors in one line, signals."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from oncelake.common.errors import OncelakeError, StageError
from oncelake.common.explain import explain
from oncelake.common.json_line import json_line
from oncelake.common.spark.session import quiet_libraries, spark_log
from oncelake.lakehouse import Lakehouse, unheard

Conf = Annotated[Path, typer.Option("-c", "--conf", metavar="FILE", help="The configuration file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, as lake.root=/tmp/lake; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show Spark's own log, and tracebacks.")]
DEFAULT_CONF = Path("conf/local.yaml")


@contextmanager
def opened(
    conf: Path,
    sets: list[str] | None,
    *,
    verbose: bool,
    as_json: bool = False,
    stopping: threading.Event | None = None,
    **options: Any,
) -> Iterator[tuple[Console, Lakehouse]]:
    """Give the console and the lake, and turn an error into one line and its exit code.

    An error that is raised inside keeps Spark's log; what is no failure of Spark is to be raised behind it.

    Args:
        conf: the configuration file.
        sets: settings that are put over it.
        verbose: whether Spark's own log and tracebacks are shown.
        as_json: whether programs read what is printed.
        stopping: set by SIGTERM and Ctrl-C once Spark is there, which sets handlers of its own.
        options: what else `Lakehouse.open` takes.
    """
    started = partial(stop_on_signals, stopping) if stopping is not None else unheard
    with (
        reported(as_json=as_json, verbose=verbose) as console,
        Lakehouse.open(conf, sets or [], verbose=verbose, started=started, **options) as lake,
    ):
        yield console, lake


@contextmanager
def reported(*, as_json: bool, verbose: bool) -> Iterator[Console]:
    """Give the console, and turn an error into one line and its exit code."""
    if not verbose:
        quiet_libraries()
    try:
        # what is printed is text as it is, however wide: a line of a log is not to be read as markup
        yield Console(stderr=as_json, markup=False, emoji=False, highlight=False, soft_wrap=True)
    except OncelakeError as error:
        log = f" (Spark's own log: {spark_log()})" if isinstance(error, StageError) and spark_log().exists() else ""
        told = error.told if isinstance(error, StageError) else None
        raise _exit(f"{error}{log}", error.exit_code, told, as_json=as_json, verbose=verbose) from None
    except (KeyboardInterrupt, BrokenPipeError):
        raise typer.Exit(1) from None
    except Exception as error:
        raise _exit(explain(error), 1, as_json=as_json, verbose=verbose) from None


def refuse_options_before(context: typer.Context) -> None:
    """Refuse options that stand before a command's own command, which would not take them.

    Raises:
        BadParameter: there are some.
    """
    sources = (context.get_parameter_source(name) for name in context.params)
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter(f"options stand after {context.invoked_subcommand}")


def _exit(
    message: str, code: int, told: Mapping[str, Any] | None = None, *, as_json: bool, verbose: bool
) -> typer.Exit:
    if verbose:
        traceback.print_exc()
    if as_json:
        typer.echo(json_line("error", "error", error=message, exit_code=code, **(told or {})))
    typer.echo(f"oncelake: {message}", err=True)
    return typer.Exit(code)


def warning(text: str, *, as_json: bool = False) -> None:
    """Print what keeps nothing from going on and is still worth a look, for programs too where they are to know."""
    if as_json:
        typer.echo(json_line("warning", "warning", text=text))
    typer.echo(f"oncelake: warning: {text}", err=True)


def stop_on_signals(stopping: threading.Event) -> None:
    """Let SIGTERM and Ctrl-C ask for a stop; a second signal of the kind ends at once.

    To be called again when Spark is there: PySpark sets a handler of its own for SIGINT.
    """

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, _end_at_once)
        # by a thread of its own: this one may be in the middle of `stopping.wait`, and have the lock that `set` takes
        threading.Thread(target=stopping.set).start()

    if threading.current_thread() is threading.main_thread():  # elsewhere signals are somebody else's
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)


def _end_at_once(number: int, _: FrameType | None) -> None:
    """End as the signal does by itself, but show the cursor again that a live view has hidden."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
