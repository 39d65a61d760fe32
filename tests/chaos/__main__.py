"""Play thousands of sequences and keep the results, play one seed again, or play the steps of a file.

Without `--seed`, the results are kept in build/chaos.json, and the next run goes on after the sequences that are there.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.chaos import page
from tests.chaos.game import Result
from tests.chaos.kinds import KINDS, topics
from tests.chaos.memory import Memory
from tests.chaos.play import Played, Table
from tests.chaos.steps import parsed
from tests.support.broker import Broker
from tests.support.page_section import keep
from tests.support.places import ROOT

MEMORY = ROOT / "build" / "chaos.json"
# Of the sequences that are kept, the proofs of each fifth are compared with those of Spark, which take twice the time.
_COMPARED = 5


def main() -> int:
    """Play what the arguments ask for; return 1 if a sequence breaks the invariant."""
    asked = _asked()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelake-chaos-")))
        with java_output_to(directory / "spark"):
            spark = build(SparkSettings(master="local[2]", driver_memory="2g"), app="oncelake-chaos")
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        tables: dict[str, Table] = {}

        def table(kind: str) -> Table:
            if kind not in tables:
                tables[kind] = _table(stack, spark, directory, kind)
            return tables[kind]

        if asked.steps is not None:
            result = table(asked.only or "files").play(parsed(asked.steps.read_text()))
            sys.stdout.write(f"{result}\n" if result.broken else "\n".join([*result.log, ""]))
            return bool(result.broken)
        numbers = {kind: -(-asked.n // each.share) for kind, each in KINDS.items() if asked.only is None}
        numbers = numbers or {asked.only: asked.n}
        if asked.seed is not None:
            played = [
                table(kind).play_all(range(asked.seed, asked.seed + number), KINDS[kind].draw, _say)
                for kind, number in numbers.items()
            ]
            return any(each.broken for each in played)
        return _play_on(asked, numbers, table)


def _table(stack: ExitStack, spark: SparkSession, directory: Path, kind: str) -> Table:
    make = KINDS[kind].make or topics(stack.enter_context(Broker(directory / "kafka")))
    return Table(spark, directory / kind, make)


def _play_on(asked: argparse.Namespace, numbers: dict[str, int], table: Callable[[str], Table]) -> bool:
    """Play the sequences that were not played yet, and write all results; return whether one breaks the invariant."""
    if asked.fresh and asked.only is None:
        MEMORY.unlink(missing_ok=True)
    memory = Memory(MEMORY)
    if asked.fresh:
        memory.records.pop(asked.only, None)

    def play(kind: str, seed: int) -> Played:
        sys.stdout.write(f"{kind}, ")
        return table(kind).play_all([seed], KINDS[kind].draw, _say, compares=seed % _COMPARED == 0)

    try:
        for kind in sorted(memory.play_on(numbers, play, 60 * asked.minutes)):
            sys.stdout.write(f"{kind}: {memory.of(kind).sequences:,} of {numbers[kind]:,} are played; the next run ")
            sys.stdout.write("goes on\n")
    finally:
        for kind in numbers:
            if memory.of(kind).sequences and asked.keep:
                keep(kind, page.summary(KINDS[kind].words, memory.of(kind)))
    broken = {kind: memory.of(kind).broken for kind in numbers if memory.of(kind).broken}
    for kind, seeds in broken.items():
        sys.stdout.writelines(f"{kind}, seed {seed}: {text}\n" for seed, text in seeds.items())
    return bool(broken)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="play the sequences from this seed on again, and keep no result")
    parser.add_argument(
        "-n", type=int, default=1, help="how many sequences on a directory there are to be; fewer of some other kinds"
    )
    parser.add_argument("--only", choices=KINDS, help="play this kind of source only, and all sequences on it")
    parser.add_argument("--steps", type=Path, help="play the steps in this file instead, one a line")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no sequence after this many minutes")
    parser.add_argument("--fresh", action="store_true", help="forget the sequences of earlier runs")
    parser.add_argument("--keep", action="store_true", help="write the results of all runs into docs/chaos.md")
    return parser.parse_args()


def _say(seed: int, result: Result) -> None:
    sys.stdout.write(f"seed {seed}: {result}\n" if result.broken else f"seed {seed}: ok\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
