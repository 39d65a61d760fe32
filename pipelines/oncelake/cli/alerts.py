"""`oncelake alerts`: show the alerts, try a receiver, send what is due without a run."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from oncelake.cli import complete
from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, refuse_options_before, warning
from oncelake.common.json_line import result_line

if TYPE_CHECKING:
    from oncelake.observe.alerts.state import AlertStatus

alerts = PlainTyper(invoke_without_command=True, no_args_is_help=False)


@alerts.callback()
def shown(
    context: typer.Context,
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the alerts: condition, state, last message.

    It reads what runs have recorded, looks at no table and sends nothing.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (console, lake):
        statuses = lake.alerts()
        if as_json:
            typer.echo(result_line("alerts", _object(statuses)))
        else:
            _say(console, statuses)


@alerts.command("test")
def try_out(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alert's name.", autocompletion=complete.alerts)],
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Send a test message to the receiver of an alert.

    Exit code 1 if it is not delivered. The state of the alert does not change.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose) as (console, lake):
        message = lake.test_alert(name)
        if as_json:
            typer.echo(result_line("alerts test", message.to_dict()))
        else:
            console.print(f"{name}: a test message is sent to its {lake.settings.alerts[name].to.kind} receiver")


@alerts.command()
def send(
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look at every condition once, and send what is due.

    A run does this by itself. Use it from cron, to hear of a run that has ended. Exit code 1 if a message is still
    unsent.
    """
    warnings = list[str]()
    warn = partial(warning, warnings=warnings)
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, warn=warn, changes=True) as (console, lake):
        statuses = lake.alerts(send=True)
        is_sent = not any(status.unsent for status in statuses)
        if as_json:
            typer.echo(result_line("alerts send", _object(statuses), holds=is_sent, warnings=warnings))
        else:
            _say(console, statuses)
    if not is_sent:
        raise typer.Exit(1)


def _object(statuses: "Sequence[AlertStatus]") -> dict[str, object]:
    return {"alerts": [status.to_dict() for status in statuses]}


def _say(console: Console, statuses: "Sequence[AlertStatus]") -> None:
    if not statuses:
        console.print("no alert is declared; see docs/alerts.md")
    for status in statuses:
        sent = f", last sent {status.last_sent}" if status.last_sent else ", none sent"
        unsent = f", {status.unsent} unsent" if status.unsent else ""
        console.print(f"{status.alert}: {status.state}: {status.when}; to {status.to}{sent}{unsent}")
        if status.failed:
            console.print(f"    {status.failed}")
