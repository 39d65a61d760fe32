"""`oncelake report` and `oncelake open`: write the report page of a lake, or serve it while the chain runs."""

import os
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, reported, stop_on_signals
from oncelake.common.errors import ConfigError
from oncelake.common.json_line import json_line, result_line

if TYPE_CHECKING:
    from oncelake.lakehouse import Lakehouse
    from oncelake.observe.report.period import Period

DEFAULT_FILE = Path("oncelake-report.html")
DEFAULT_PORT = 8765


Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Report what happened from this time on: yesterday, today, 24h, 7d, a date or a time, in UTC.",
    ),
]
NoProof = Annotated[bool, typer.Option("--no-proof", help="Skip the proof; the page says so.")]


def report(
    conf: Conf = None,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", "--output", metavar="FILE", help="File to write.", show_default=f"{DEFAULT_FILE}"),
    ] = None,
    since: Since = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --since: the end of that period.", show_default="now"),
    ] = None,
    no_proof: NoProof = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write no file; serve the page on 127.0.0.1 and refresh it.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="With --watch: the port, 0 for any free one.",
            show_default=f"{DEFAULT_PORT}",
            min=0,
            max=65535,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a report page: state, batches, counts, proof.

    With --since, it also tells what changed against the period before, and names the peaks.

    Exit code 1 if the proof does not hold.
    """
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        from oncelake.observe.report.period import read_period

        period = read_period(since, until, datetime.now(UTC))
        if watch and until is not None:
            raise ConfigError("--watch reports up to now: remove --until or --watch")
    stopping = threading.Event() if watch else None
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet) as (_, lake):
        if watch and out is not None:
            raise ConfigError("--watch serves the page and writes no file: remove -o or --watch")
        if port is not None and not watch:
            raise ConfigError("--port is the port of --watch: add --watch or remove --port")
        if stopping is not None:
            live = LivePage(lake, since, proof=not no_proof, as_json=as_json)
            live.serve(DEFAULT_PORT if port is None else port, stopping)
            return
        file = out or DEFAULT_FILE
        check_place(file)
        facts = lake.report(proof=not no_proof, period=period)
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        from oncelake.observe.report.contents import verdict
        from oncelake.observe.report.page import page

        write_page(file, page(facts))
        holds = facts.proof.holds and facts.proof.made != "not possible"
        text = f"wrote {file}: {verdict(facts).headline}"
        fields = {"page": str(file), **facts.to_dict()}
        typer.echo(result_line("report", fields, holds=holds) if as_json else text)
    if not holds:
        raise typer.Exit(1)


def open_page(
    conf: Conf = None,
    sets: Sets = None,
    since: Since = None,
    no_proof: NoProof = False,
    port: Annotated[
        int,
        typer.Option(metavar="PORT", help="The port.", show_default="any free one", min=0, max=65535),
    ] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Open the page of report --watch in the browser.

    The page follows the lake until Ctrl-C. Where there is no browser, the command prints its address.
    """
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        from oncelake.observe.report.period import read_period

        read_period(since, None, datetime.now(UTC))
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet) as (_, lake):
        live = LivePage(lake, since, proof=not no_proof, as_json=as_json, shown=webbrowser.open)
        live.serve(port, threading.Event())


@dataclass(frozen=True)
class LivePage:
    """A page that follows a lake.

    Attributes:
        lake: the lake.
        since: the start of the period to report on, which ends now; None for all that is in the lake.
        proof: run a proof whenever something is new.
        as_json: print the address as JSON.
        shown: receives the address, once it answers.
    """

    lake: "Lakehouse"
    since: str | None
    proof: bool
    as_json: bool
    shown: Callable[[str], object] = str

    def serve(self, port: int, stopping: threading.Event) -> None:
        """Serve the page until a stop is requested.

        Raises:
            ConfigError: the port is in use, or may not be used.
        """
        from oncelake.observe.report.serve import serving

        with serving(port) as (shown, url):
            typer.echo(json_line("serving", url=url) if self.as_json else f"serving {url} until Ctrl-C")
            stop_on_signals(stopping)
            # a text browser answers when it is closed
            threading.Thread(target=self.shown, args=(url,), daemon=True).start()
            self.lake.watch_report(shown.put, proof=self.proof, period=self.period, stopping=stopping)

    def period(self) -> "Period | None":
        """Return the period up to now."""
        from oncelake.observe.report.period import read_period

        return read_period(self.since, None, datetime.now(UTC))


def check_place(file: Path) -> None:
    """Raise ConfigError if the page cannot be written to a file; called before the lake is read."""
    if file.is_dir():
        raise ConfigError(f"-o {file} is a directory; give a file in it, such as {file / DEFAULT_FILE}")
    if not os.access(file.parent, os.W_OK):
        raise ConfigError(
            f"-o {file} cannot be written: {file.parent} is not a directory that this process may write to"
        )


def write_page(file: Path, text: str) -> None:
    """Write a page atomically: a reader sees the old page or the new one, never a part.

    Raises:
        ConfigError: the file cannot be written.
    """
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise ConfigError(
            f"-o {file} cannot be written ({error.strerror}); name a file that this process may write"
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
