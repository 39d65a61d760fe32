"""Measure the requests of a batch to S3, how many of them follow one another, and how fresh gold is.

A server of this process has the bucket, and each of its answers takes some time longer, as those of a store far away
do. A feeder adds 1,000 lines a second while the whole chain runs: bronze, silver and the gold table `error_log`.

`python -m tests.bench.requests` measures 3 and 25 ms a request, with the checkpoints on the store and on this machine,
by the small writer and by Spark's (`run.small_batch: 0`). With `--delay` it measures one case:
`--delay 25 --store run.small_batch=0`.
"""

import argparse
import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.compute as pc
import yaml
from pyarrow import parquet

from tests.bench.continuous import source, start
from tests.bench.freshness import RATE, Feeder, feeding, observe, waits
from tests.bench.programs.oncelake import command
from tests.bench.results import keep
from tests.s3.house import variables
from tests.s3.server import BUCKET, Request, Server
from tests.support.house import error_log_conf

DELAYS = (3, 25)
WARM, MEASURED, LAST = 40.0, 60.0, 20.0
BRONZE, GOLD = ("lake/bronze/access_log/_delta_log/", "lake/gold/error_log/_delta_log/")


def rounds(requests: Sequence[Request]) -> int:
    """Return how many of the requests follow one another: the most of which no two overlap."""
    count, end = 0, 0.0
    for request in sorted(requests, key=lambda request: request.ended):
        if request.began >= end:
            count, end = count + 1, request.ended
    return count


def kind(request: Request) -> str:
    """Return what a request is for, in words."""
    client = "delta-rs" if "object_store" in request.client else "Hadoop"
    key = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "N", request.key)
    return f"{client} {'LIST' if request.is_list else request.method} {request.status} {key}"


def batches(requests: Sequence[Request]) -> int:
    """Return how many batches were committed to bronze."""
    return sum(
        request.method == "PUT" and request.status == 200 and request.key.startswith(f"{BRONZE}0")
        for request in requests
        if request.key.endswith(".json")
    )


@dataclass
class Gold:
    """The counts of gold, read version by version without a request."""

    server: Server
    version: int = -1
    sums: dict[str, int] = field(default_factory=dict)

    def look(self) -> tuple[int, float] | None:
        """Return the sum of the counts and the time of the look; None if nothing has changed."""
        commit = self.server.get(f"{GOLD}{self.version + 1:020d}.json")
        if commit is None:
            return None
        seen = time.monotonic()
        self.version += 1
        for action in map(json.loads, commit.content.splitlines()):
            if "add" in action:
                path = action["add"]["path"]
                stored = self.server.get(f"lake/gold/error_log/{path}")
                assert stored is not None, path
                column = parquet.read_table(BytesIO(stored.content), columns=["log_count"])["log_count"]
                self.sums[path] = int(pc.sum(column).as_py() or 0)
            if "remove" in action:
                self.sums.pop(action["remove"]["path"], None)
        return sum(self.sums.values()), seen


def measure(delay: int, sets: Sequence[str], *, on_store: bool, warm: float, measured: float) -> dict[str, Any]:
    """Run the chain on an empty lake, and return the figures of its batches once it is warm.

    Args:
        delay: the milliseconds that each answer takes longer.
        sets: further settings.
        on_store: whether the checkpoints are on the store.
        warm: seconds before the measurement.
        measured: seconds of the measurement.
    """
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        with ExitStack() as stack:
            server = stack.enter_context(Server(delay=delay / 1000))
            lines = stack.enter_context(source("files", root))
            (conf := root / "local.yaml").write_text(yaml.safe_dump(error_log_conf()))
            checkpoints = f"s3://{BUCKET}/lake/_checkpoints" if on_store else root / "checkpoints"
            at = (f"lake.root=s3://{BUCKET}/lake", f"checkpoints={checkpoints}")
            stack.enter_context(mock.patch.dict(os.environ, variables(server)))
            run = command(*lines.sets, *at, *sets, once=False)
            run[run.index("-c") + 1] = str(conf)
            program = stack.enter_context(start(run, root))
            feeder = Feeder(lines, RATE)
            counters = {"gold": Gold(server)}
            until = time.monotonic() + 240
            while not server.get(f"{GOLD}{0:020d}.json"):
                program.check()
                assert time.monotonic() < until, "the chain did not start"
                time.sleep(0.1)
                if not feeder.arrived:
                    stack.enter_context(feeding(feeder))
                    time.sleep(0.5)
            began = time.monotonic() + warm
            seen = observe(counters, program, began + measured + LAST)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    arrived = [(errors, at) for errors, at in feeder.arrived if began <= at < began + measured]
    ordered = waits(arrived, seen["gold"])
    requests = [request for request in server.requests if began <= request.began < began + measured]
    count = batches(requests)
    kinds = Counter(map(kind, requests))
    return {
        "delay_ms": delay,
        "on_store": on_store,
        "sets": list(sets),
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "batches": count,
        "requests": round(len(requests) / count, 1),
        "rounds": round(rounds(requests) / count, 1),
        "puts": round(sum(_is_put(request) for request in requests) / count, 1),
        "kinds": {name: round(number / count, 2) for name, number in kinds.most_common()},
    }


def _is_put(request: Request) -> bool:
    """Return True if a request has the price of a put: Amazon's list has the same for a list, and none for a delete."""
    return request.is_list or request.method in ("PUT", "POST")


def main(arguments: Sequence[str]) -> None:
    """Print and keep the figures of all cases; with a delay, print those of one."""
    parser = argparse.ArgumentParser("python -m tests.bench.requests")
    parser.add_argument("--delay", type=int, help="measure one case: milliseconds a request")
    parser.add_argument("--store", action="store_true", help="of one case: with the checkpoints on the store")
    parser.add_argument("--warm", type=float, default=WARM, help="seconds before the measurement")
    parser.add_argument("--measured", type=float, default=MEASURED, help="seconds of the measurement")
    parser.add_argument("sets", nargs="*", metavar="SETTING=VALUE", help="further settings of oncelake")
    given = parser.parse_args(arguments)
    one = given.delay is not None
    cases = [(given.delay, tuple(given.sets), given.store)] if one else _CASES
    runs = []
    for delay, sets, on_store in cases:
        run = measure(delay, sets, on_store=on_store, warm=given.warm, measured=given.measured)
        runs.append(run)
        print(json.dumps(run, indent=2), flush=True)
    if not one:
        print(keep("requests", {"runs": runs}))


_BY_SPARK = ("run.small_batch=0",)
_CASES = [(delay, sets, on_store) for delay in DELAYS for sets in (_BY_SPARK, ()) for on_store in (True, False)]


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
