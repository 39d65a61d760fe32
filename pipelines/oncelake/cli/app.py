"""The command line: its commands, in the order and the panels of its help.

Exit codes: 0 success; 1 the command failed, or what it checks does not hold; 2 wrong use or configuration;
130 interrupted by Ctrl-C.
"""

from importlib.util import find_spec
from typing import Annotated

import typer

from oncelake.cli import (
    alerts,
    census,
    init,
    lab,
    log_format,
    look,
    plan,
    prove,
    quality,
    repair,
    report,
    run,
    service,
    serving,
    sink,
)
from oncelake.cli.plain_help import PlainTyper
from oncelake.common.version import __version__

_SPARK = {"pyspark": "pyspark", "py4j": "pyspark", "delta": "delta"}  # py4j is pyspark's
missing = next((package for name, package in _SPARK.items() if find_spec(name) is None), None)
if missing is not None:
    typer.echo(
        f"oncelake: this Python has no {missing}: install oncelake[local], which brings Spark and Delta Lake, or "
        "run where Spark is installed, for example on Databricks or with spark-submit",
        err=True,
    )
    raise SystemExit(2)

RUN, LOOK, REPAIR, QUALITY, SET_UP = "Run", "Look", "Repair", "Quality", "Set up and try out"


def examples(*commands: str) -> str:
    """Return the end of a command's help: one example a line."""
    return "\n".join(("Examples:  ", *(f"oncelake {command}  " for command in commands)))  # two spaces: a line break


app = PlainTyper(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Turn application logs into counts you can trust: every line counts exactly once.",
    epilog=examples("demo", "run --once", "prove", "COMMAND -h"),
)
app.command(
    rich_help_panel=RUN,
    epilog=examples(
        "run --once", "run -c conf/prod.yaml", "run --set source.path=/var/log/app --set lake.root=/data/lake"
    ),
)(run.run)
app.command(
    rich_help_panel=RUN, epilog=examples("plan", "plan --sample 1000", "plan --against ../main/conf/local.yaml")
)(plan.plan)
app.command(rich_help_panel=RUN, epilog=examples("maintain", "maintain --json"))(repair.maintain)
app.command(rich_help_panel=LOOK, epilog=examples("status", "status --watch --every 5", "status --json"))(look.status)
app.command(rich_help_panel=LOOK, epilog=examples("doctor", "doctor --json"))(look.doctor)
app.command(rich_help_panel=LOOK, epilog=examples("history", "history silver.access_log --rules", "history --json"))(
    look.history
)
app.command(rich_help_panel=LOOK, epilog=examples("prove", "prove --since '2 h'", "prove --full --deep"))(prove.prove)
app.command(
    rich_help_panel=LOOK,
    epilog=examples("trace app_log/0/1234", "trace 'app-1.log:2026-01-31 08:00:00 ERROR disk full'"),
)(look.trace)
app.command(
    rich_help_panel=LOOK,
    epilog=examples(
        "lines gold.error_log --at 2026-01-31T08:05", "lines gold.log_volume --at 2026-01-31T08:05 --key level=ERROR"
    ),
)(look.lines)
app.command(
    rich_help_panel=LOOK, epilog=examples("report", "report -o /tmp/lake.html --no-proof", "report --watch --port 8000")
)(report.report)
app.command("open", rich_help_panel=LOOK, epilog=examples("open", "open --since 24h"))(report.open_page)
app.add_typer(
    census.census,
    name="census",
    rich_help_panel=LOOK,
    epilog=examples("census", "census --list", "census reread /var/log/app/a.log"),
)
app.add_typer(
    alerts.alerts,
    name="alerts",
    rich_help_panel=LOOK,
    epilog=examples("alerts", "alerts test error_spike", "alerts send"),
)
app.command(rich_help_panel=REPAIR, epilog=examples("recover --dry-run", "recover", "recover gold.error_log"))(
    repair.recover
)
app.command(rich_help_panel=REPAIR, epilog=examples("rebuild silver --dry-run", "rebuild gold.error_log"))(
    repair.rebuild
)
app.add_typer(
    quality.quarantine,
    name="quarantine",
    rich_help_panel=QUALITY,
    epilog=examples("quarantine", "quarantine replay --dry-run", "quarantine replay pattern"),
)
app.command(rich_help_panel=QUALITY, epilog=examples("validate", "validate silver.access_log --new"))(quality.validate)
app.command(rich_help_panel=QUALITY, epilog=examples("suggest > suite.json", "suggest bronze.access_log"))(
    quality.suggest
)
app.command(
    rich_help_panel=SET_UP,
    epilog=examples(
        "init my-lake --from /var/log/myapp", "init my-lake --kafka broker1:9092 --topic app-log", "init my-lake"
    ),
)(init.init)
app.command(rich_help_panel=SET_UP, epilog=examples("schema > conf/oncelake.schema.json"))(init.schema)
app.add_typer(
    log_format.log_format,
    name="format",
    rich_help_panel=SET_UP,
    epilog=examples("format suggest app.log", "format try app.log java", "format try app.log my-format.yaml"),
)
app.add_typer(
    serving.serving, name="serving", rich_help_panel=SET_UP, epilog=examples("serving init --sql", "serving init")
)
app.add_typer(
    sink.sink,
    name="sink",
    rich_help_panel=SET_UP,
    epilog=examples(
        "sink test mypackage.sinks:Redis --option host=localhost", "sink test mypackage.sinks:Redis --kills 50"
    ),
)
app.command(
    "install-service",
    rich_help_panel=SET_UP,
    epilog=examples(
        "install-service --run-as oncelake --group adm",
        "install-service --run-as oncelake --every '10 minutes'",
        "install-service --user --dry-run",
    ),
)(service.install_service)
app.command(rich_help_panel=SET_UP, epilog=examples("demo", "demo --keep /tmp/demo"))(lab.demo)
app.command(
    "crash-test", rich_help_panel=SET_UP, epilog=examples("crash-test --kills 5", "crash-test --kills 5 --seed 7")
)(lab.crash_test)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ended:  # Databricks treats an entry point that exits as failed, whatever the code
        if ended.code:
            raise


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Handle the options that stand before a command."""
    if show:
        typer.echo(f"oncelake {__version__}")
        raise typer.Exit
