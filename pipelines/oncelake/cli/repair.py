"""`oncelake recover`, `rebuild` and `maintain`: repair checkpoints and tables, compact files."""

import threading
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from oncelake.cli import complete
from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, reported, stop_on_signals, warning
from oncelake.common.errors import StateError, StoppedError
from oncelake.common.json_line import json_line, result_line

if TYPE_CHECKING:
    from oncelake.engine.maintain import MaintenanceResult
    from oncelake.engine.recover import RecoveryResult

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
AcceptLoss = Annotated[
    bool,
    typer.Option("--accept-loss", help="Continue without lines that the source lost, and record it."),
]


def recover(
    stages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STAGE", help="Stages to recover; all if none is given.", autocompletion=complete.stages
        ),
    ] = None,
    conf: Conf = None,
    sets: Sets = None,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Repair lost or wrong checkpoints from the tables.

    Each table records how far it has read its source, so no data is read again. If that is not known exactly for a
    stage, its checkpoint is left as it is, and the command to use instead is printed.
    """
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, changes=not dry_run) as (_, lake):
        from oncelake.engine.open_lake import unheard

        say = partial(_say, dry_run=dry_run) if not as_json else unheard
        outcomes = lake.recover(*stages or (), accept_loss=accept_loss, dry_run=dry_run, done=say)
    refused = [outcome.refused for outcome in outcomes if outcome.refused]
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        if as_json:
            stages_done = [asdict(outcome) for outcome in outcomes]
            typer.echo(result_line("recover", {"dry_run": dry_run, "stages": stages_done}, holds=not refused))
        if refused:
            raise StateError("\n".join(refused))


def rebuild(
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE", help="First stage to rebuild, for example silver.", autocompletion=complete.stages
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="With the stage silver: make only the lines of this source again.",
            autocompletion=complete.sources,
        ),
    ] = None,
    conf: Conf = None,
    sets: Sets = None,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Empty a stage's tables and all later ones; fill them again.

    They are filled from the source or from the table before. Stop `oncelake run` first. The rebuild is
    refused if the source no longer has all lines that the tables hold, unless you pass --accept-loss.

    Of several sources, one can be rebuilt alone: `bronze.NAME` reads it again, `silver --source NAME` makes its
    lines again from bronze. The rows of the other sources stay in silver and gold.

    A gold table whose declaration changed is not emptied. It is built again beside the old one while `oncelake run`
    goes on. If no run goes on by then, it takes the old one's place in one commit; if not, stop the run and repeat the
    command.
    """
    stopping = threading.Event()

    def say(text: str) -> None:
        typer.echo(json_line("rebuild", text=text) if as_json else text)

    stop = partial(stop_on_signals, stopping)
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, started=stop) as (console, lake):
        from oncelake.observe.live import showing

        show = showing(console, "oncelake rebuild", as_json=as_json)
        names = lake.rebuild(
            stage, source=source, accept_loss=accept_loss, dry_run=dry_run, stopping=stopping, say=say, show=show
        )
    with reported(as_json=as_json, verbose=verbose, quiet=quiet):
        if stopping.is_set():
            raise StoppedError("stopped before all lines were replayed; the next run continues from there")
        if not dry_run:
            say(f"done: {', '.join(names)} rebuilt")


def maintain(
    conf: Conf = None,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compact the tables' small files (OPTIMIZE, VACUUM).

    Merges small data files and deletes data files that no version of the last 7 days needs. Source files are not
    touched. It can run next to `oncelake run`. Exit code 1 if a table could not be maintained.
    """
    warnings = list[str]()
    warn = partial(warning, as_json=as_json, warnings=warnings)
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet, warn=warn, changes=True) as (console, lake):

        def say(table: "MaintenanceResult") -> None:
            if not as_json:
                console.print(str(table))

        tables = lake.maintain(say)
        has_failed = any(result.failed for result in tables)
        if as_json:
            fields = {"tables": [result.to_dict() for result in tables]}
            typer.echo(result_line("maintain", fields, holds=not has_failed, warnings=warnings))
    if has_failed:
        raise typer.Exit(1)


def _say(outcome: "RecoveryResult", *, dry_run: bool) -> None:
    if outcome.refused:
        return
    if not outcome.steps:
        typer.echo(f"{outcome.stage}: {outcome.state}: nothing to recover")
    for step in outcome.steps:
        typer.echo(f"{outcome.stage}: {'would ' if dry_run else ''}{step}")
    if outcome.kept:
        typer.echo(f"{outcome.stage}: the old checkpoint is kept as {outcome.kept}")
