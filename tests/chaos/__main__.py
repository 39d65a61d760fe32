"""Play thousands of sequences and keep the results, play one seed again, or play the steps of a file."""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.chaos import page
from tests.chaos.game import Result
from tests.chaos.kinds import KINDS, topics
from tests.chaos.play import Table
from tests.chaos.steps import parsed
from tests.support.broker import Broker


def main() -> int:
    """Play what the arguments ask for; return 1 if a sequence breaks the invariant."""
    asked = _asked()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelake-chaos-")))
        with java_output_to(directory / "spark"):
            spark = build(SparkSettings(master="local[2]", driver_memory="2g"), app="oncelake-chaos")
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        if asked.steps is not None:
            result = _table(stack, spark, directory, asked.only or "files").play(parsed(asked.steps.read_text()))
            sys.stdout.write(f"{result}\n" if result.broken else "\n".join([*result.log, ""]))
            return bool(result.broken)
        broken = False
        for name, kind in KINDS.items():
            if asked.only in (None, name):
                broken |= _play_all(asked, _table(stack, spark, directory, name), name, 1 if asked.only else kind.share)
    return broken


def _table(stack: ExitStack, spark: SparkSession, directory: Path, kind: str) -> Table:
    make = KINDS[kind].make or topics(stack.enter_context(Broker(directory / "kafka")))
    return Table(spark, directory / kind, make)


def _play_all(asked: argparse.Namespace, table: Table, name: str, share: int) -> bool:
    """Play the sequences of one kind; return whether one breaks the invariant."""
    began, number = time.monotonic(), -(-asked.n // share)
    sys.stdout.write(f"{KINDS[name].words}:\n")
    played = table.play_all(range(asked.seed, asked.seed + number), KINDS[name].draw, _say)
    said = page.summary(KINDS[name].words, asked.seed, played, time.monotonic() - began)
    sys.stdout.write(said)
    if asked.keep:
        page.keep(name, said)
    return bool(played.broken)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first sequence's seed; each next one's is one more")
    parser.add_argument("-n", type=int, default=1, help="how many sequences on a directory; fewer of the other kinds")
    parser.add_argument("--only", choices=KINDS, help="play this kind of source only, and all sequences on it")
    parser.add_argument("--steps", type=Path, help="play the steps in this file instead, one a line")
    parser.add_argument("--keep", action="store_true", help="write the result into docs/chaos.md")
    return parser.parse_args()


def _say(seed: int, result: Result) -> None:
    sys.stdout.write(f"seed {seed}: {result}\n" if result.broken else f"seed {seed}: ok\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
