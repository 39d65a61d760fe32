"""Measure what a million lines cost the executors in each stage, and how two workers share twenty million.

The cluster is standalone, with two workers of one core each, so every task runs in an executor. The measure is the time
that executors are busy with each stage's tasks, from Spark's event log. Run it with `python -m tests.bench.cluster`, or
add another number of lines.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page
from tests.bench.whole import write_logs
from tests.support.cluster import Cluster
from tests.support.event_log import busy

LINES = 20_000_000


def main(lines: int) -> None:
    """Print and keep the seconds of each stage for a million lines, and of each executor."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        write_logs(root / "logs", lines, files=40)
        root.joinpath("cluster").mkdir()
        with Cluster(root / "cluster") as cluster:
            began = time.monotonic()
            subprocess.run(command(*cluster.sets, f"source.path={root}/logs", f"lake.root={root}/lake"), check=True)
            seconds = time.monotonic() - began
            by_stage, by_executor = busy(cluster.event_log(), root / "lake/_checkpoints")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    millions = lines / 1e6
    for stage, each in by_stage.items():
        print(f"{stage}: {each / millions:.2f} s of executors for a million lines", flush=True)
    for executor, each in by_executor.items():
        print(f"executor {executor}: busy for {each:.1f} s of {seconds:.1f}", flush=True)
    figures = {"lines": lines, "seconds": seconds, "by_stage": by_stage, "by_executor": by_executor}
    print(f"{keep('cluster', figures)}, {page()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LINES)
