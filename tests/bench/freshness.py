"""Measure how long a line waits until gold, and MySQL, count it while all stages run: p50 and p99.

A feeder adds lines to the source five times a second, as real logs have them: of 1,000 lines ten are refused, and one
is long. delta-rs reads gold from outside, SQL the served table: a line is counted when the sum of the counts has
reached its number. Of the lines, only errors count, so a line's number is the number of errors up to it.

`python -m tests.bench.freshness` measures files and Kafka at 1,000 and 20,000 lines per second, files that grow at
1,000, files with MySQL behind gold, and the plain chain: three rounds of all, and keeps the median of each case. With
`--source` it measures one case: `--source kafka --rate 20000 --rounds 3 run.small_batch=0`.
"""

import argparse
import bisect
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.continuous import Counter, Gold, Kind, Program, Source, served, source, start
from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page
from tests.bench.whole import is_error, line

RATE, EVERY = 1_000, 0.2
RATES = (1_000, 20_000)
# The seconds before the measurement, of the measurement, and in which its last lines may still be counted.
WARM, MEASURED, LAST = 60.0, 60.0, 10.0


@dataclass(frozen=True)
class Case:
    """One run to measure.

    Attributes:
        source: the kind of the source.
        rate: lines per second.
        serve: whether MySQL serves gold.
        sets: further settings of oncelake.
        plain: whether to run the plain chain instead.
    """

    source: Kind = "files"
    rate: int = RATE
    serve: bool = False
    sets: tuple[str, ...] = ()
    plain: bool = False

    @property
    def name(self) -> str:
        """Return the name for the results."""
        program = "plain chain" if self.plain else "oncelake"
        source = {"kafka": "Kafka", "tail": "files that grow"}.get(self.source, self.source)
        return f"{program}, {source}{', MySQL behind gold' if self.serve else ''}"


CASES = (
    Case(),
    Case(plain=True),
    Case(rate=RATES[1]),
    Case("tail"),
    Case("kafka"),
    Case("kafka", rate=RATES[1]),
    Case(serve=True),
)


@dataclass
class Feeder:
    """Adds lines to a source, and records for each call the errors so far and the time."""

    source: Source
    rate: int
    arrived: list[tuple[int, float]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """Feed until stopped."""
        count, lines, errors, began = round(self.rate * EVERY), 0, 0, time.monotonic()
        while not self.stopping.wait(max(0.0, began + len(self.arrived) * EVERY - time.monotonic())):
            now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
            numbers = range(lines, lines + count)
            batch = [line(number, now).removesuffix("\n") for number in numbers]
            errors += sum(map(is_error, numbers))
            lines += count
            self.arrived.append((errors, self.source.send(batch)))


@contextmanager
def feeding(feeder: Feeder) -> Iterator[None]:
    """Feed in a second thread."""
    thread = threading.Thread(target=feeder.feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        feeder.stopping.set()
        thread.join()


def observe(counters: Mapping[str, Counter], program: Program, until: float) -> dict[str, list[tuple[int, float]]]:
    """Return for each table its sums of counts, and when each was seen first."""
    seen: dict[str, list[tuple[int, float]]] = {name: [] for name in counters}
    while time.monotonic() < until:
        program.check()
        for name, counter in counters.items():
            found = counter.look()
            if found is not None:
                seen[name].append(found)
        time.sleep(0.01)
    return seen


def waits(arrived: Sequence[tuple[int, float]], seen: Sequence[tuple[int, float]]) -> list[float | None]:
    """Return in ascending order how many seconds the lines of each call waited; None, at the end, for not counted."""
    totals = [total for total, _ in seen]
    places = [(bisect.bisect_left(totals, errors), at) for errors, at in arrived]
    found = sorted(seen[place][1] - at for place, at in places if place < len(seen))
    return [*found, *[None] * (len(arrived) - len(found))]


def measure(case: Case, warm: float = WARM, measured: float = MEASURED) -> list[dict[str, Any]]:
    """Run a program on an empty lake, and return the percentiles of the waits once it is warm, for each table."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        with ExitStack() as stack:
            lines = stack.enter_context(source(case.source, root))
            sets = (*lines.sets, f"lake.root={root}/lake", *case.sets)
            counters: dict[str, Counter] = {"gold": Gold(root / "lake/gold" / ("" if case.plain else "error_log"))}
            if case.serve:
                mysql = stack.enter_context(served(root, *sets))
                sets, counters["MySQL"] = (*sets, *mysql.sets), mysql
            run = plain(root) if case.plain else command(*sets, once=False)
            feeder = Feeder(lines, case.rate)
            program = stack.enter_context(start(run, root))
            stack.enter_context(feeding(feeder))
            began = time.monotonic() + warm
            seen = observe(counters, program, began + measured + LAST)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    arrived = [(errors, at) for errors, at in feeder.arrived if began <= at < began + measured]
    runs = []
    for name, found in seen.items():
        ordered = waits(arrived, found)
        runs.append(
            {
                "program": case.name + (f": {name}" if case.serve else ""),
                "rate": case.rate,
                "fed": round(len(arrived) * case.rate * EVERY / measured),
                "p50": ordered[len(ordered) // 2],
                "p99": ordered[len(ordered) * 99 // 100],
                "batches": sum(began <= at < began + measured for _, at in found),
            }
        )
    return runs


def medians(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the medians of the runs of each case, with the percentiles of each run in ascending order."""
    cases: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        cases.setdefault((run["program"], run["rate"]), []).append(run)
    found = []
    for of in cases.values():
        spread = {
            name: sorted((run[name] for run in of), key=lambda each: (each is None, each)) for name in ("p50", "p99")
        }
        middle = {name: each[len(each) // 2] for name, each in spread.items()}
        found.append({**of[0], **middle, "runs": spread})
    return found


def plain(root: Path) -> list[str]:
    """Return the command that runs the plain chain on files."""
    return [sys.executable, "-m", "tests.bench.programs.plain_chain", f"{root}/logs", f"{root}/lake", "--on"]


def main(arguments: Sequence[str]) -> None:
    """Print and keep the figures of all cases; with arguments, print those of one."""
    parser = argparse.ArgumentParser("python -m tests.bench.freshness")
    parser.add_argument("--source", choices=("files", "kafka", "tail"), help="measure one case")
    parser.add_argument("--rate", type=int, default=RATE, help="lines per second")
    parser.add_argument("--serve", action="store_true", help="serve gold from MySQL, and measure that too")
    parser.add_argument("--rounds", type=int, help="how often each case is measured; default: 3, of one case 1")
    parser.add_argument("--warm", type=float, default=WARM, help="seconds before the measurement")
    parser.add_argument("--measured", type=float, default=MEASURED, help="seconds of the measurement")
    parser.add_argument("sets", nargs="*", metavar="SETTING=VALUE", help="further settings of oncelake")
    given = parser.parse_args(arguments)
    one = given.source and Case(given.source, given.rate, given.serve, tuple(given.sets))
    cases = (one,) if one else CASES
    runs: list[dict[str, Any]] = []
    for case in cases * (given.rounds or (1 if one else 3)):
        for run in measure(case, given.warm, given.measured):
            runs.append(run)
            print(json.dumps(run), flush=True)
    found = medians(runs)
    for run in found:
        print(json.dumps(run))
    if not one:
        print(f"{keep('freshness', {'runs': found})}, {page()}")


if __name__ == "__main__":
    main(sys.argv[1:])
