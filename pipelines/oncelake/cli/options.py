"""This is where the options that every command takes are declared."""

from pathlib import Path
from typing import Annotated

import typer

Conf = Annotated[Path, typer.Option("-c", "--conf", metavar="FILE", help="The configuration file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key, as lake.root=/tmp/lake; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show Spark's own log, and tracebacks.")]
DEFAULT_CONF = Path("conf/local.yaml")


def refuse_options_before(context: typer.Context) -> None:
    """Refuse options that stand before a command's own command, which would not take them.

    Raises:
        BadParameter: there are some.
    """
    sources = (context.get_parameter_source(name) for name in context.params)
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter(f"options stand after {context.invoked_subcommand}")
