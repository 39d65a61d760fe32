"""This is where a command's surroundings are: Spark started and ended, errors in one line."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from oncelake.common.errors import OncelakeError, StageError
from oncelake.common.explain import explain
from oncelake.common.json_line import json_line
from oncelake.common.spark.session import quiet_libraries, spark_log


@contextmanager
def reported(*, as_json: bool, verbose: bool) -> Iterator[Console]:
    """Give the console, and turn an error into one line and its exit code."""
    if not verbose:
        quiet_libraries()
    try:
        yield Console(stderr=as_json)
    except OncelakeError as error:
        log = f" (Spark's own log: {spark_log()})" if isinstance(error, StageError) and spark_log().exists() else ""
        told = error.told if isinstance(error, StageError) else None
        raise _exit(f"{error}{log}", error.exit_code, told, as_json=as_json, verbose=verbose) from None
    except (KeyboardInterrupt, BrokenPipeError):
        raise typer.Exit(1) from None
    except Exception as error:
        raise _exit(explain(error), 1, as_json=as_json, verbose=verbose) from None


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
        stopping.set()

    if threading.current_thread() is threading.main_thread():  # elsewhere signals are somebody else's
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)


def _end_at_once(number: int, _: FrameType | None) -> None:
    """End as the signal does by itself, but show the cursor again that a live view has hidden."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
