"""This is where the command is that tells the whole story on a made log."""

import json
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.options import Json, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common.errors import OncelakeError
from oncelake.engine.configuration import shipped_conf
from oncelake.lab.demo.story import sets_below, tell
from oncelake.lakehouse import Lakehouse


def demo(
    conf: Annotated[Path | None, typer.Option("-c", "--conf", metavar="FILE", help="Another configuration.")] = None,
    sets: Sets = None,
    keep: Annotated[Path | None, typer.Option(help="Keep the lake here instead of a temporary directory.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Tell the whole story on a made log: run, replay, late and broken lines, the table and the proof."""
    with reported(as_json=as_json, verbose=verbose) as console:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="oncelake-demo-") if keep is None else nullcontext(keep) as place:
            root = Path(place).absolute()
            every = [*(sets or []), *sets_below(root)]
            with Lakehouse.open(conf or shipped_conf() / "local.yaml", every, verbose=verbose) as lake:
                holds = tell(console, lake, root)
        if as_json:
            typer.echo(json.dumps({"proof": holds}))
        if not all(holds.values()):
            raise OncelakeError(f"the proof does not hold: {', '.join(name for name, ok in holds.items() if not ok)}")
