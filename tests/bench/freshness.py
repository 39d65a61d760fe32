"""Measure how long a line waits until gold counts it while all stages run: p50 and p99, beside the plain chain.

A feeder moves a file of lines into the source five times a second. delta-rs reads gold from outside: a line
is counted when the sum of the counts has reached its number. Run it with `python -m tests.bench.freshness`.
"""

import bisect
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.compute as pc

from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page

RATE, EVERY = 1_000, 0.2
WARM, MEASURED = 60.0, 60.0


@dataclass
class Feeder:
    """Moves files into the source, and records when each arrived."""

    logs: Path
    rate: int
    arrived: list[tuple[int, float]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """Feed until stopped."""
        lines, number, began = 0, 0, time.monotonic()
        while not self.stopping.wait(max(0.0, began + number * EVERY - time.monotonic())):
            number += 1
            count = round(self.rate * EVERY)
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
            partial = self.logs.parent / "partial"
            partial.write_text("".join(f"{now} ERROR order {lines + n} failed\n" for n in range(count)))
            lines += count
            partial.rename(self.logs / f"{number:08d}.log")
            self.arrived.append((lines, time.monotonic()))


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


def counted(gold: Path, until: float) -> Iterator[tuple[int, float]]:
    """Yield how many lines each version of gold counts, and its time."""
    version = -1
    while time.monotonic() < until:
        if (gold / "_delta_log" / f"{version + 1:020d}.json").exists():
            seen = time.monotonic()
            version += 1
            table = deltalake.DeltaTable(gold, version=version).to_pyarrow_table(columns=["log_count"])
            yield int(pc.sum(table["log_count"]).as_py() or 0), seen
        else:
            time.sleep(0.01)


def waits(feeder: Feeder, versions: list[tuple[int, float]], since: float, until: float) -> list[float]:
    """Return how long each file that arrived in a time span waited, in seconds."""
    totals = [total for total, _ in versions]
    found = []
    for lines, at in feeder.arrived:
        place = bisect.bisect_left(totals, lines)
        if since <= at < until:
            found.append((versions[place][1] if place < len(versions) else float("inf")) - at)
    return found


def measure(program: list[str], root: Path, gold: Path, rate: int) -> dict[str, Any]:
    """Start a program on an empty lake, feed it, and return the percentiles of the waits once it is warm."""
    feeder = Feeder(root / "logs", rate)
    feeder.logs.mkdir(parents=True)
    log = (root / "said").open("w")
    process = subprocess.Popen(program, stdout=log, stderr=log)
    try:
        with feeding(feeder):
            began = time.monotonic()
            versions = list(counted(gold, began + WARM + MEASURED + 10))
        if process.poll() is not None:
            raise RuntimeError(f"{program[:3]} ended by itself: {(root / 'said').read_text()}")
    finally:
        process.terminate()
        process.wait(60)
    found = sorted(waits(feeder, versions, began + WARM, began + WARM + MEASURED))
    commits = [at for _, at in versions if began + WARM <= at < began + WARM + MEASURED]
    return {
        "p50": found[len(found) // 2],
        "p99": found[len(found) * 99 // 100],
        "batches": len(commits),
    }


def oncelake(root: Path, *sets: str) -> list[str]:
    """Return the command that runs every stage."""
    return command(f"source.path={root}/logs", f"lake.root={root}/lake", *sets, once=False)


def plain(root: Path) -> list[str]:
    """Return the command that runs the plain chain."""
    return [sys.executable, "-m", "tests.bench.programs.plain_chain", f"{root}/logs", f"{root}/lake", "--on"]


def main(sets: list[str]) -> None:
    """Print and keep the figures of both programs; with settings given, of oncelake alone."""
    runs = []
    for name in ("oncelake", "plain chain") if not sets else ("oncelake",):
        root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
        try:
            program = oncelake(root, *sets) if name == "oncelake" else plain(root)
            gold = root / "lake/gold" / ("error_log" if name == "oncelake" else "")
            runs.append({"program": name, "rate": RATE, **measure(program, root, gold, RATE)})
            print(json.dumps(runs[-1]), flush=True)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    if not sets:
        print(f"{keep('freshness', {'runs': runs})}, {page()}")


if __name__ == "__main__":
    main(sys.argv[1:])
