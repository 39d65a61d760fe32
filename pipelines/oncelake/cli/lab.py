"""The commands with a lake of their own: the demo, and the crash test."""

import json
import random
import signal
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.program import DEFAULT_CONF, Conf, Json, Sets, Verbose, reported
from oncelake.common.errors import OncelakeError
from oncelake.engine.configuration import shipped_conf
from oncelake.lab.crash_test.conduct import Order, conduct
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


def crash_test(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    kills: Annotated[int, typer.Option(help="How often to kill.")] = 100,
    seed: Annotated[int | None, typer.Option(help="What kills and lines are drawn from; a new one when unset.")] = None,
    lines: Annotated[int | None, typer.Option(help="How many lines to make; 300 for each kill when unset.")] = None,
    own_source: Annotated[
        bool, typer.Option("--own-source", help="Read the configured source, not made lines.")
    ] = False,
    copy_lake: Annotated[
        bool, typer.Option("--copy-lake", help="Begin with a copy of the configured lake; reads its source.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep all here instead of in a temporary directory.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Kill the chain again and again, on a lake of its own, and look whether a line was lost or doubled."""
    _end_as_by_ctrl_c()
    with reported(as_json=as_json, verbose=verbose) as console:
        drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
        order = Order(conf, sets or [], kills, drawn, lines, own_source, copy_lake, keep, verbose)
        verdict = conduct(order, console.print)
        for each in [json.dumps(verdict.to_dict())] if as_json else verdict.sentences():
            typer.echo(each)
    if not verdict.clean:
        raise typer.Exit(1)


def _end_as_by_ctrl_c() -> None:
    """Leave nothing behind on SIGTERM, and where the terminal goes away unless that was to be ignored (nohup)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
