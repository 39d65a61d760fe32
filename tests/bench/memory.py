"""Measure the memory and the time per batch of a continuous run over many batches, and the proof of its lake.

A feeder adds a file of twenty lines as soon as gold counts the last one, so each file is one batch of each stage. The
resident memory of Python and of Java is taken after every batch. Run it with `python -m tests.bench.memory [batches]`;
5,000 take more than an hour.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.bench.continuous import Files, Gold, Program, start
from tests.bench.idle import wait_until_counted
from tests.bench.programs.oncelake import command, prove
from tests.bench.results import keep, page
from tests.bench.whole import is_error, line

BATCHES, LINES, TENTHS = 5_000, 20, 10
# seconds in which Spark frees what a collection has found unused
SETTLES = 5


def main(batches: int, sets: tuple[str, ...] = ()) -> None:
    """Print and keep the figures of every tenth."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        source = Files(root / "logs")
        sets = (*source.sets, f"lake.root={root}/lake", *sets)
        with start(command(*sets, once=False), root) as program:
            tenths = measure(program, source, Gold(root / "lake/gold/error_log"), batches)
        began = time.monotonic()
        subprocess.run(prove(*sets), check=True)
        proof = {"prove_s": round(time.monotonic() - began, 1), "tables": tables(root / "lake")}
        print(json.dumps(proof), flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{keep('memory', {'batches': batches, 'tenths': tenths, **proof})}, {page()}")


def measure(program: Program, source: Files, gold: Gold, batches: int) -> list[dict[str, Any]]:
    """Feed a run batch by batch, and return the figures of every tenth."""
    errors = 0
    tenths: list[dict[str, Any]] = []
    seconds: list[float] = []
    memory: dict[str, list[int]] = {"python": [], "java": []}
    for batch in range(batches + 1):
        numbers = range(batch * LINES, (batch + 1) * LINES)
        now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
        errors += sum(map(is_error, numbers))
        began = source.send([line(number, now).removesuffix("\n") for number in numbers])
        wait_until_counted(gold, errors, program)
        if batch == 0:  # waited for the start
            continue
        seconds.append(time.monotonic() - began)
        for name, megabytes in program.memory().items():
            memory[name].append(megabytes)
        if batch * TENTHS // batches > len(tenths):
            tenths.append({"batches": batch, **summary(seconds, memory)})
            if len(tenths) in {1, TENTHS}:
                tenths[-1]["java_live_mb"] = live_heap(program)
            print(json.dumps(tenths[-1]), flush=True)
            seconds, memory = [], {name: [] for name in memory}
    return tenths


def summary(seconds: list[float], memory: dict[str, list[int]]) -> dict[str, Any]:
    """Return the figures of a tenth: memory at its end and the most of it, and the time per batch."""
    ordered = sorted(seconds)
    return {
        **{f"{name}_mb": each[-1] for name, each in memory.items()},
        **{f"{name}_most_mb": max(each) for name, each in memory.items()},
        "median_s": round(statistics.median(ordered), 3),
        "p99_s": round(ordered[len(ordered) * 99 // 100], 3),
    }


def tables(lake: Path) -> dict[str, dict[str, int]]:
    """Return the number of each table's data files, and the entries and kilobytes of its log."""
    found = {}
    for log in sorted(lake.glob("*/*/_delta_log")):
        entries = list(log.iterdir())
        found[f"{log.parent.parent.name}/{log.parent.name}"] = {
            "files": len(DeltaTable(log.parent).file_uris()),
            "log_entries": len(entries),
            "log_kb": sum(entry.stat().st_size for entry in entries) // 1_000,
        }
    return found


def live_heap(program: Program) -> int | None:
    """Return the MB of Java's objects that are in use, after full collections; None without a JDK's jcmd.

    Java's resident memory grows up to the heap's limit before it collects, so it alone does not show a leak. Spark
    frees the blocks of a broadcast only when a collection has found it unused, so the first collection counts them
    still: a second one follows. Only the first and the last tenth ask for this: a full collection changes what comes
    after it.
    """
    if shutil.which("jcmd") is None:
        return None
    said = ""
    for order in ("GC.run", "GC.run", "GC.heap_info"):
        time.sleep(SETTLES)
        call = ["jcmd", str(program.java.pid), order]
        said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    used = [int(each.split(" used ")[1].split("K")[0]) for each in said.splitlines() if _is_heap(each)]
    return sum(used) // 1_000


def _is_heap(text: str) -> bool:
    """Return True for a line of the young or the old generation of the parallel collector."""
    return text.split()[:1] in (["PSYoungGen"], ["ParOldGen"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.bench.memory")
    parser.add_argument("batches", nargs="?", type=int, default=BATCHES)
    parser.add_argument("sets", nargs="*", metavar="SETTING=VALUE", help="further settings of oncelake")
    given = parser.parse_args()
    main(given.batches, tuple(given.sets))
