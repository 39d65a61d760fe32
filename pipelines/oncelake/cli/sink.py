"""`oncelake sink`: test a sink of your own."""

import json
import os
from collections.abc import Iterator
from typing import Annotated

import typer

from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import Json, Quiet, Verbose, reported
from oncelake.common.errors import ConfigError
from oncelake.common.json_line import result_line

sink = PlainTyper(no_args_is_help=True, help="Test a sink of your own.")
_OPTIONS = "ONCELAKE_SERVING__OPTIONS"


@sink.callback()
def group() -> None:
    """Keep `test` a subcommand although it is the only one."""


@sink.command("test")
def check(
    name: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="The class of the sink.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="One of serving.options. Repeatable."),
    ] = None,
    kills: Annotated[int, typer.Option(metavar="N", min=0, help="Further kills, at random moments.")] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides the random moments.")] = 1,
    lines: Annotated[
        int, typer.Option(metavar="N", min=1, help="Kill before at most this many lines of the sink's code.")
    ] = 150,
    pauses: Annotated[int, typer.Option(metavar="N", min=1, help="Stop a writer before at most this many lines.")] = 12,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Test a sink with batches, replays, a rebuild, two writers and kills.

    It writes to tables whose names begin with oncelake_sink_test, and empties them. Exit code 1 if something does not
    hold. Give secrets in the environment, as for a run: ONCELAKE_SERVING__OPTIONS__PASSWORD.
    """
    with reported(as_json=as_json, verbose=verbose, quiet=quiet) as console:
        from oncelake.lab.sink_test.sink_check import SinkTest

        results = []
        for result in SinkTest(name, dict(_options(option or [])), kills, seed, lines, pauses).checks():
            results.append(result)
            if not as_json:
                console.print(str(result))
        holds = all(result.holds for result in results)
        if as_json:
            checks = [{"name": result.name, "holds": result.holds, "said": result.said} for result in results]
            typer.echo(result_line("sink test", {"sink": name, "holds": holds, "checks": checks}, holds=holds))
    if not holds:
        raise typer.Exit(1)


def _options(options: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options from the environment, then those of the command."""
    try:
        whole = json.loads(os.environ.get(_OPTIONS, "{}"))
    except ValueError:
        raise ConfigError(f'{_OPTIONS} is not JSON; write it as {{"key": "value"}}') from None
    if not isinstance(whole, dict):
        raise ConfigError(f'{_OPTIONS} is not a JSON object; write it as {{"key": "value"}}')
    yield from ((str(key), str(value)) for key, value in whole.items())
    for variable, value in os.environ.items():
        if variable.upper().startswith(f"{_OPTIONS}__"):
            yield variable[len(_OPTIONS) + 2 :].lower(), value
    for option in options:
        key, separator, value = option.partition("=")
        if not separator or not key:
            raise ConfigError(f"--option {key}: write it as KEY=VALUE")
        yield key, value
