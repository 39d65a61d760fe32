"""The commands in the order of their help; each is in a module of `oncelake.cli`.

Exit codes: 0 all is well, 1 what was asked for failed or does not hold, 2 wrong use or configuration.
"""

from typing import Annotated

import typer

from oncelake.common.version import __version__

try:
    from oncelake.cli import census, lab, look, mend, prove, quality, report, run, serving
except ModuleNotFoundError as error:
    missing = {"pyspark": "pyspark", "py4j": "pyspark", "delta": "delta"}.get(error.name or "")  # py4j is pyspark's
    if missing is None:
        raise
    typer.echo(
        f"oncelake: this Python has no {missing}: install oncelake[local], which brings Spark and Delta Lake, or "
        "run where a Spark is, as on Databricks or by spark-submit",
        err=True,
    )
    raise SystemExit(2) from None

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Application logs to counts people can trust: every line exactly once.",
)
app.command()(run.run)
app.command()(look.status)
app.command()(look.doctor)
app.command()(look.trace)
app.command()(mend.recover)
app.command()(mend.rebuild)
app.command()(prove.prove)
app.add_typer(census.census, name="census")
app.command()(report.report)
app.command()(quality.validate)
app.command()(mend.maintain)
app.command()(quality.suggest)
app.add_typer(quality.quarantine, name="quarantine")
app.add_typer(serving.serving, name="serving")
app.command()(lab.demo)
app.command("crash-test")(lab.crash_test)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ended:  # Databricks takes an entry point that exits for one that failed, whatever the code
        if ended.code:
            raise


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    """Take the options that stand before a command."""
    if show:
        typer.echo(f"oncelake {__version__}")
        raise typer.Exit
