"""The command that writes a lake's report, or serves it while the chain runs."""

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.program import DEFAULT_CONF, Conf, Json, Sets, Verbose, opened, reported, stop_on_signals
from oncelake.common.errors import ConfigError
from oncelake.observe.report.contents import verdict
from oncelake.observe.report.page import page
from oncelake.observe.report.serve import serving

DEFAULT_FILE = Path("oncelake-report.html")
DEFAULT_PORT = 8765


def report(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", "--output", metavar="FILE", help=f"The page's file, {DEFAULT_FILE} when left out."),
    ] = None,
    no_proof: Annotated[bool, typer.Option("--no-proof", help="Leave the proof out; the page says so.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write no file: serve the page on 127.0.0.1, and refresh it.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(help=f"With --watch, where: {DEFAULT_PORT} when left out, 0 for any.", min=0, max=65535),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write one page: what the pipeline did, where it stands, whether every link holds; exit 1 unless it is proven."""
    stopping = threading.Event() if watch else None
    with opened(conf, sets, as_json=as_json, verbose=verbose, stopping=stopping) as (_, lake):
        if watch and out is not None:
            raise ConfigError("--watch serves the page and writes no file: leave -o out, or --watch")
        if port is not None and not watch:
            raise ConfigError("--port is where --watch serves the page: give both, or neither")
        if stopping is not None:
            with serving(DEFAULT_PORT if port is None else port) as (shown, url):
                said = f"serving {url} until Ctrl-C"
                typer.echo(json.dumps({"event": "serving", "url": url}) if as_json else said)
                stop_on_signals(stopping)
                lake.watch_report(shown.put, proof=not no_proof, stopping=stopping)
            return
        file = out or DEFAULT_FILE
        check_place(file)
        facts = lake.report(proof=not no_proof)
    with reported(as_json=as_json, verbose=verbose):
        write_page(file, page(facts))
        holds = facts.proof.holds and facts.proof.made != "not possible"
        said = f"wrote {file}: {verdict(facts).headline}"
        typer.echo(json.dumps({"page": str(file), **facts.to_dict()}) if as_json else said)
    if not holds:
        raise typer.Exit(1)


def check_place(file: Path) -> None:
    """Check, before the lake is looked at, that a page can be written to a place.

    Raises:
        ConfigError: it cannot.
    """
    if file.is_dir():
        raise ConfigError(f"-o {file} is a directory; name a file in it, such as {file / DEFAULT_FILE}")
    if not os.access(file.parent, os.W_OK):
        raise ConfigError(f"-o {file} cannot be written: {file.parent} is no directory that this process may write")


def write_page(file: Path, text: str) -> None:
    """Write a page whole at once: who opens it never sees half of one, and an old page stays until then.

    Raises:
        ConfigError: it cannot be written.
    """
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise ConfigError(f"-o {file} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
