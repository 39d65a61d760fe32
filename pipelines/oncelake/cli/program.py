"""Shared parts of the commands: options, opening the lake, one-line errors, signals."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from oncelake.common.errors import ConfigError, OncelakeError, StageError, StoppedError
from oncelake.common.json_line import json_line

if TYPE_CHECKING:
    from oncelake.lakehouse import Lakehouse

Conf = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--conf",
        "--config",
        metavar="FILE",
        envvar="ONCELAKE_CONF",
        help="Configuration file.",
        show_default="conf/local.yaml",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override one setting, for example lake.root=/tmp/lake. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show Spark's log and tracebacks.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only warnings and errors.")]

# The signals that asked this process to stop between two batches.
_stopped_by: list[int] = []


@contextmanager
def opened(
    conf: Path | None,
    sets: list[str] | None,
    *,
    verbose: bool,
    as_json: bool = False,
    quiet: bool = False,
    changes: bool = False,
    **options: Any,
) -> Iterator[tuple[Console, "Lakehouse"]]:
    """Yield the console and the lake; print an error in one line and exit with its code.

    An error raised inside names Spark's log file. Raise errors that are no failure of Spark after this block.

    Args:
        conf: the configuration file; see `Lakehouse.open`.
        sets: settings that override the file.
        verbose: show Spark's log and tracebacks.
        as_json: print JSON.
        quiet: print only warnings and errors.
        changes: True if the command may have changed something when Ctrl-C ends it.
        options: further arguments of `Lakehouse.open`.
    """
    with reported(as_json=as_json, verbose=verbose, quiet=quiet, changes=changes) as console:
        from oncelake.lakehouse import Lakehouse

        with Lakehouse.open(conf, sets or [], verbose=verbose, **options) as lake:
            yield console, lake


@contextmanager
def reported(*, as_json: bool, verbose: bool, quiet: bool = False, changes: bool = False) -> Iterator[Console]:
    """Yield the console; print an error in one line and exit with its code.

    Ctrl-C ends the block with one line and exit code 130, unless the command handles Ctrl-C itself.
    """
    ended = _Interruption()
    try:
        from oncelake.common.explain import explain
        from oncelake.common.spark.launch import end_jvm
        from oncelake.common.spark.machine import check_directory
        from oncelake.common.spark.session import quiet_libraries, spark_log
    except ImportError as error:
        raise _exit(_does_not_fit(error), 2, as_json=as_json, verbose=verbose) from None
    except KeyboardInterrupt as interrupted:
        raise _stopped(interrupted, changes=False, as_json=as_json, verbose=verbose) from None
    try:
        check_directory()
        if not verbose:
            quiet_libraries()
        if quiet and as_json:
            raise ConfigError("--quiet prints no result, --json prints it as JSON: give one of them")
        with ended.by_ctrl_c(end_jvm), _unprinted() if quiet else nullcontext():
            # no markup and no wrapping: text is printed as it is, a log line too
            yield Console(stderr=as_json, markup=False, emoji=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt as interrupted:
        raise _stopped(interrupted, changes=changes, as_json=as_json, verbose=verbose) from None
    except Exception as error:
        # the end of the JVM makes calls fail in other threads, and such an error can arrive first
        if ended.interrupted is not None:  # guard: ctrl-c-is-no-error
            raise _stopped(ended.interrupted, changes=changes, as_json=as_json, verbose=verbose) from None
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(1) from None
        if not isinstance(error, OncelakeError):
            raise _exit(explain(error), 1, as_json=as_json, verbose=verbose) from None
        log = f" (Spark's own log: {spark_log()})" if isinstance(error, StageError) and spark_log().exists() else ""
        details = error.told if isinstance(error, StageError) else None
        code = 128 + _stopped_by[-1] if isinstance(error, StoppedError) and _stopped_by else error.exit_code
        raise _exit(f"{error}{log}", code, details, as_json=as_json, verbose=verbose) from None


def _does_not_fit(error: ImportError) -> str:
    """Return why a library cannot be imported, with the place of PySpark, which PYTHONPATH often replaces."""
    spec = find_spec("pyspark")
    place = f"; PySpark is that of {spec.origin}" if spec is not None else ""
    return (
        f"a library does not fit this oncelake: {error}{place}. Install oncelake[local] in an environment of "
        "its own, and keep other libraries off PYTHONPATH"
    )


class _Interruption:
    """The end of a command by Ctrl-C.

    Attributes:
        interrupted: the interrupt that Ctrl-C raised; None before it.
    """

    interrupted: KeyboardInterrupt | None = None

    @contextmanager
    def by_ctrl_c(self, end_jvm: Callable[[], None]) -> Iterator[None]:
        """End the block at Ctrl-C, and the process at once at a second one; keep a handler that is already there."""
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(number: int, _: FrameType | None) -> None:
            signal.signal(number, _end_at_once)  # guard: second-ctrl-c-ends
            self.interrupted = KeyboardInterrupt(number)
            end_jvm()  # a thread that waits for Spark would keep the command from ending
            raise self.interrupted

        signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            if self.interrupted is None:
                signal.signal(signal.SIGINT, before)


def _stopped(interrupted: KeyboardInterrupt, *, changes: bool, as_json: bool, verbose: bool) -> typer.Exit:
    state = "what is written stays right; run the command again to do the rest" if changes else "nothing was changed"
    return _exit(f"stopped; {state}", _exit_code(interrupted), as_json=as_json, verbose=verbose)


@contextmanager
def _unprinted() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        yield


def interrupt(number: int, _: FrameType | None) -> None:
    """Handle a signal as Ctrl-C is handled, and remember which one it was."""
    raise KeyboardInterrupt(number)


def _exit_code(interrupted: KeyboardInterrupt) -> int:
    """Return 128 plus the signal's number, as a shell reports a process that a signal ended; 130 for Ctrl-C."""
    number = interrupted.args[0] if interrupted.args else signal.SIGINT
    return 128 + int(number)


def refuse_options_before(context: typer.Context) -> None:
    """Raise BadParameter if options stand before a subcommand, which would ignore them."""
    sources = (context.get_parameter_source(name) for name in context.params)
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter(f"put options after {context.invoked_subcommand}")


def _exit(
    message: str, code: int, details: Mapping[str, Any] | None = None, *, as_json: bool, verbose: bool
) -> typer.Exit:
    if verbose:
        traceback.print_exc()
    if as_json:
        typer.echo(json_line("error", "error", error=message, exit_code=code, **(details or {})))
    typer.echo(f"oncelake: {message}", err=True)
    return typer.Exit(code)


def warning(text: str, *, as_json: bool = False, warnings: list[str] | None = None) -> None:
    """Print a warning to stderr; with `as_json` also as a JSON line to stdout, with `warnings` add it to a result's."""
    if warnings is not None:
        warnings.append(text)
    if as_json:
        typer.echo(json_line("warning", "warning", text=text))
    typer.echo(f"oncelake: warning: {text}", err=True)


def stop_on_signals(stopping: threading.Event) -> Callable[[], None]:
    """Install handlers: the first SIGTERM or Ctrl-C asks for a stop, a second one ends the process at once.

    A command that ends by itself calls it when Spark has started: before that, Ctrl-C ends it at once.

    Returns:
        A function that puts the handlers back that were there before.
    """

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, _end_at_once)
        _stopped_by.append(number)
        # from another thread: this one may be inside `stopping.wait` and hold the lock that `set` needs
        threading.Thread(target=stopping.set).start()

    if threading.current_thread() is not threading.main_thread():  # other threads cannot install handlers
        return lambda: None
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return put_back


def _end_at_once(number: int, _: FrameType | None) -> None:
    """End the process by the signal's default action, after showing the cursor that a live view hides."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), b"\x1b[?25h\n")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
