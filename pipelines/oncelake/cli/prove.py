"""This is where the command is that proves a lake."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, warn
from oncelake.common.errors import ConfigError
from oncelake.common.models import Duration, shown
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured
from oncelake.engine.survey import survey
from oncelake.proof.link import Link
from oncelake.proof.prove import Proof

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}


def prove(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what was committed since: 2026-01-31, 2026-01-31T08:00, 2 h, 7 d."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Prove all again, also what was proven before.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read the source's files again and compare.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Follow every line from the source to the last table; exit 1 at the first link that does not hold."""
    began = time.monotonic()
    links: list[Link] = []
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        since_ms = None if since is None else since_when(since, datetime.now(UTC))
        if full and since is not None:
            raise ConfigError("--full proves everything, --since a part: give one of them")
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            proof = Proof(chain, spark, since_ms, full, deep, warn=lambda said: warn([said]))
            for link in proof.links():
                links.append(link)
                if not as_json:
                    _say(console, link)
        seconds = time.monotonic() - began
        if as_json:
            holds = all(link.holds for link in links)
            said = {"links": [link.to_dict() for link in links], "holds": holds, "seconds": round(seconds, 1)}
            typer.echo(json.dumps(said))
        else:
            _say_end(console, links, proof.lines, seconds)
    if not all(link.holds for link in links):
        raise typer.Exit(1)


def since_when(text: str, now: datetime) -> int:
    """Read a time, as milliseconds: an ISO date or time, in UTC unless it names a zone, or a span back from now.

    Raises:
        ConfigError: it is neither, or is still to come.
    """
    at = _read(text, now)
    if at is None:
        raise ConfigError(f"--since takes an ISO date or time, or a span as 2 h or 7 d, not {shown(text)}")
    if at > now:
        raise ConfigError(f"--since {shown(text)} is still to come")
    return int(at.timestamp() * 1000)


def _read(text: str, now: datetime) -> datetime | None:
    number, _, unit = text.strip().partition(" ")
    try:
        back: timedelta = TypeAdapter(Duration).validate_python(f"{number} {_UNITS.get(unit, unit)}")
        return now - back
    except (ValidationError, OverflowError):
        pass
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _say(console: Console, link: Link) -> None:
    mark = "[green]holds[/]" if link.holds else "[bold red]DOES NOT HOLD[/]"
    console.print(f"{mark}: {escape(link.name)}: {escape(link.said)}", highlight=False, soft_wrap=True)
    for note in link.notes:
        console.print(f"    {escape(note)}", highlight=False, soft_wrap=True)


def _say_end(console: Console, links: list[Link], lines: int, seconds: float) -> None:
    if all(link.holds for link in links):
        count = "1 link" if len(links) == 1 else f"{len(links):,} links"
        said = f"proven: {count}, {lines:,} lines, every one exactly once, {seconds:.1f} s"
    else:
        said = f"not proven: {links[-1].name} does not hold, {seconds:.1f} s"
    console.print(escape(said), highlight=False, soft_wrap=True)
