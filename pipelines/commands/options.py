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
