"""`oncelake demo` and `crash-test`: they work on their own lake."""

import random
import signal
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, interrupt, reported
from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import result_line


def demo(
    conf: Annotated[
        Path | None,
        typer.Option(
            "-c",
            "--conf",
            "--config",
            metavar="FILE",
            help="Configuration file.",
            show_default="the one in the package",
        ),
    ] = None,
    sets: Sets = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory to keep the lake in, instead of a temporary one.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run everything once on a generated log.

    It shows a run, a replay, late and broken lines, the counts and the proof, in a temporary lake.
    """
    with reported(as_json=as_json, verbose=verbose, changes=keep is not None) as console:
        from oncelake.engine.conf_file import shipped_conf
        from oncelake.lab.demo.story import sets_below, tell
        from oncelake.lakehouse import Lakehouse

        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="oncelake-demo-") if keep is None else nullcontext(keep) as place:
            root = Path(place).absolute()
            every = [*(sets or []), *sets_below(root)]
            with Lakehouse.open(conf or shipped_conf() / "local.yaml", every, verbose=verbose) as lake:
                holds = tell(console, lake, root)
        if as_json:
            typer.echo(result_line("demo", {"proof": holds}, holds=all(holds.values())))
        if not all(holds.values()):
            raise OncelakeError(f"the proof does not hold: {', '.join(name for name, ok in holds.items() if not ok)}")


def crash_test(
    conf: Conf = None,
    sets: Sets = None,
    kills: Annotated[int, typer.Option(metavar="N", help="Number of kills.")] = 100,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Random seed of kills and lines.", show_default="a new one")
    ] = None,
    lines: Annotated[
        int | None, typer.Option(metavar="N", help="Number of lines to generate.", show_default="300 per kill")
    ] = None,
    own_source: Annotated[
        bool, typer.Option("--own-source", help="Read the source in your configuration instead of generated lines.")
    ] = False,
    copy_lake: Annotated[
        bool, typer.Option("--copy-lake", help="Start from a copy of your lake, and read your source.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory to keep everything in, instead of a temporary one.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Kill a run many times; check that no line is lost.

    It uses your settings and a temporary lake; your lake is not touched. Exit code 1 if a line is lost or counted
    twice.
    """
    _clean_up_on_signals()
    with reported(as_json=as_json, verbose=verbose, quiet=quiet) as console:
        from oncelake.engine.conf_file import conf_or_shipped
        from oncelake.lab.crash_test.conduct import Order, conduct

        drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
        used = conf if own_source or copy_lake else conf_or_shipped(conf)  # generated lines need no source and no lake
        order = Order(used, sets or [], kills, drawn, lines, own_source, copy_lake, keep, verbose)
        verdict = conduct(order, console.print)
        result = verdict.to_dict()
        for text in [result_line("crash-test", result, holds=verdict.clean)] if as_json else verdict.sentences():
            typer.echo(text)
    if not verdict.clean:
        raise typer.Exit(1)


def _clean_up_on_signals() -> None:
    """Handle SIGTERM and SIGHUP as Ctrl-C, so that nothing is left behind; nohup keeps ignoring SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
