"""Measure the requests of a batch to S3, how many of them follow one another, and the seconds until gold counts it.

A server of this process has the bucket, and each of its answers takes some time longer, as those of a store far away
do. Files of 1,000 lines come one at a time, each when gold has counted the one before, so a batch is one round of the
whole chain: bronze, silver and quarantine, and the gold table `error_log`.

`python -m tests.bench.requests` measures both writers, with the checkpoints on this machine and on the store.
With arguments it measures one case: `--store run.small_batch=0`.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import yaml

from tests.bench.continuous import Program, Source, source, start
from tests.bench.programs.oncelake import command
from tests.bench.results import keep
from tests.bench.whole import line
from tests.support.house import error_log_conf
from tests.support.s3_house import variables
from tests.support.s3_server import BUCKET, Request, Server, rounds

# The milliseconds that an answer takes longer, the batches before the measurement and of each measurement, the lines of
# a batch, and the seconds in which a batch's upkeep ends.
DELAYS, WARM, MEASURED, LINES, AFTER = (25, 3), 6, 9, 1_000, 0.5
GOLD = "lake/gold/error_log/_delta_log/"


def kind(request: Request) -> str:
    """Return what a request is for, in words."""
    client = "delta-rs" if "object_store" in request.client else "Hadoop"
    key = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "N", request.key)
    return f"{client} {'LIST' if request.is_list else request.method} {request.status} {key}"


def batch(server: Server, lines: Source, program: Program, number: int) -> tuple[list[Request], int, float]:
    """Add a file, and return the requests until its upkeep, the rounds until gold's commit, and the seconds to it."""
    version = sum(name.endswith(".json") for name in server.names(GOLD))
    begun, now = len(server.requests), datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    numbers = range(number * LINES, (number + 1) * LINES)
    at = lines.send([line(each, now).removesuffix("\n") for each in numbers])
    while server.get(f"{GOLD}{version:020}.json") is None:
        program.check()
        assert time.monotonic() < at + 300, "gold does not count the batch"
        time.sleep(0.005)
    seconds = time.monotonic() - at
    until = server.requests[begun:]
    time.sleep(AFTER)
    return server.requests[begun:], rounds(until), seconds


def measure(sets: Sequence[str], *, on_store: bool) -> list[dict[str, Any]]:
    """Run the chain on an empty lake, and return the medians of its batches at each delay.

    Args:
        sets: further settings.
        on_store: whether the checkpoints are on the store.
    """
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        with ExitStack() as stack:
            server = stack.enter_context(Server())
            lines = stack.enter_context(source("files", root))
            (conf := root / "local.yaml").write_text(yaml.safe_dump(error_log_conf()))
            checkpoints = f"s3://{BUCKET}/lake/_checkpoints" if on_store else root / "checkpoints"
            stack.enter_context(mock.patch.dict(os.environ, variables(server)))
            run = command(*lines.sets, f"lake.root=s3://{BUCKET}/lake", f"checkpoints={checkpoints}", *sets, once=False)
            run[run.index("-c") + 1] = str(conf)
            program = stack.enter_context(start(run, root))
            lines.send([line(0, datetime.now(UTC).replace(microsecond=0, tzinfo=None)).removesuffix("\n")])
            until = time.monotonic() + 300
            while not server.names(GOLD):
                program.check()
                assert time.monotonic() < until, "the chain did not start"
                time.sleep(0.1)
            for number in range(1, WARM + 1):
                batch(server, lines, program, number)
            results = []
            for delay in DELAYS:
                server.delay = delay / 1000
                number += WARM + MEASURED
                taken = [batch(server, lines, program, number + each) for each in range(MEASURED)]
                counts = Counter(kind(request) for requests, _, _ in taken for request in requests)
                results.append(
                    {
                        "delay_ms": delay,
                        "checkpoints": "store" if on_store else "disk",
                        "sets": list(sets),
                        "requests": median(len(requests) for requests, _, _ in taken),
                        "puts": median(sum(map(_is_put, requests)) for requests, _, _ in taken),
                        "rounds": median(following for _, following, _ in taken),
                        "seconds": round(median(seconds for _, _, seconds in taken), 2),
                        "kinds": {name: round(count / MEASURED, 1) for name, count in counts.most_common()},
                    }
                )
            return results
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _is_put(request: Request) -> bool:
    """Return True if a request has the price of a put; Amazon's list has the same for a list, and none for a delete."""
    return request.is_list or request.method in ("PUT", "POST")


def main(arguments: Sequence[str]) -> None:
    """Print and keep the figures of all cases; with arguments, print those of one."""
    parser = argparse.ArgumentParser("python -m tests.bench.requests")
    parser.add_argument("--store", action="store_true", help="of one case: with the checkpoints on the store")
    parser.add_argument("sets", nargs="*", metavar="SETTING=VALUE", help="of one case: further settings of oncelake")
    given = parser.parse_args(arguments)
    cases = [(tuple(given.sets), given.store)] if arguments else _CASES
    runs = [run for sets, on_store in cases for run in measure(sets, on_store=on_store)]
    print(json.dumps(runs, indent=2))
    if not arguments:
        print(keep("requests", {"runs": runs}))


_CASES = [(sets, on_store) for sets in (("run.small_batch=0",), ()) for on_store in (False, True)]


if __name__ == "__main__":
    main(sys.argv[1:])
