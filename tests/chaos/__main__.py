"""Play thousands of sequences and keep the results, play one seed again, or play the steps of a file."""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.chaos import page
from tests.chaos.draw import draw, draw_topic
from tests.chaos.game import Result
from tests.chaos.play import Played, Table
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
        began = time.monotonic()
        if asked.steps is not None:
            result = Table(spark, directory).play(parsed(asked.steps.read_text()))
            sys.stdout.write(f"{result}\n" if result.broken else "\n".join([*result.log, ""]))
            return bool(result.broken)
        files = Table(spark, directory / "files").play_all(range(asked.seed, asked.seed + asked.n), draw, _say)
        topics = Played()
        if asked.topics:
            broker = stack.enter_context(Broker(directory / "kafka"))
            table = Table(spark, directory / "topics", broker)
            topics = table.play_all(range(asked.seed, asked.seed + asked.topics), draw_topic, _say)
        seconds = time.monotonic() - began
    sys.stdout.write(said := page.summary(asked.seed, files, topics, seconds))
    if asked.keep:
        page.keep(said)
    return bool(files.broken or topics.broken)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first sequence's seed; each next one's is one more")
    parser.add_argument("-n", type=int, default=1, help="how many sequences on a directory")
    parser.add_argument("--topics", type=int, default=0, help="how many on a Kafka topic")
    parser.add_argument("--steps", type=Path, help="play the steps in this file instead, one a line")
    parser.add_argument("--keep", action="store_true", help="write the result into docs/chaos.md")
    return parser.parse_args()


def _say(seed: int, result: Result) -> None:
    sys.stdout.write(f"seed {seed}: {result}\n" if result.broken else f"seed {seed}: ok\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
