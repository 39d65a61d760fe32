"""`oncelake prove`: prove that every line counts exactly once."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, warning
from oncelake.common.errors import ConfigError
from oncelake.common.json_line import result_line
from oncelake.common.wording import count_of, duration, shown

if TYPE_CHECKING:
    from oncelake.exactly_once.link import Link
    from oncelake.proof.result import ProofResult


def prove(
    conf: Conf = None,
    sets: Sets = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only commits after TIME: today, yesterday, 30m, 24h, 7d, 2w, 2026-01-31 or 2026-01-31T08:00; "
            "UTC unless it names a zone.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Check everything; the default is what is new since the last proof.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read the source files again and compare them with bronze.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Prove that every line counts exactly once.

    Compares the source with bronze, and each table with the next one. Each comparison is a link of the proof. It stops
    with exit code 1 at the first link that does not hold. Nothing is changed, and it can run next to `oncelake run`.
    Spark starts only for what cannot be read without it; with --full and --deep, it reads every table.
    """
    warnings = list[str]()
    warn = partial(warning, warnings=warnings)
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, warn=warn) as (console, lake):
        from oncelake.engine.open_lake import unheard

        since_ms = None if since is None else since_when(since, datetime.now(UTC))
        if full and since is not None:
            raise ConfigError("--full proves everything, --since only a part: give one of them")
        say = partial(say_link, console) if not as_json else unheard
        proven = lake.prove(since_ms=since_ms, full=full, deep=deep, link=say)
        if as_json:
            typer.echo(result_line("prove", proven.to_dict(), holds=proven.holds, warnings=warnings))
        else:
            say_result(console, proven)
    if not proven.holds:
        raise typer.Exit(1)


def since_when(text: str, now: datetime) -> int:
    """Return a time as milliseconds since 1970.

    Raises:
        ConfigError: the text is no time, or the time is in the future.
    """
    from oncelake.common.moment import moment

    at = moment("--since", text, now)
    if at > now:
        raise ConfigError(f"--since {shown(text)} is in the future; give a time in the past")
    return int(at.timestamp() * 1000)


def say_link(console: Console, link: "Link") -> None:
    """Print a link with its notes."""
    mark = ("holds", "green") if link.holds else ("DOES NOT HOLD", "bold red")
    console.print(Text.assemble(mark, f": {link.name}: {link.said}"))
    for note in link.notes:
        console.print(f"    {note}")


def say_result(console: Console, proven: "ProofResult") -> None:
    """Print the result of a proof in one line."""
    if proven.holds:
        sentence = f"proven: {count_of(len(proven.links), 'link')}, {proven.claim}, {duration(proven.seconds)}"
    else:
        sentence = f"not proven: {proven.links[-1].name} does not hold, {duration(proven.seconds)}"
    console.print(sentence)
