"""What a million lines cost the executors in each stage, and how two workers share a backlog of twenty million.

A standalone cluster of two workers with one core each, in which every task is an executor's; what is measured is the
time that they were busy with each stage's tasks, from Spark's event log. Run it by `python -m tests.bench.cluster`, or
with another number of lines.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page
from tests.bench.whole import write_logs
from tests.support.cluster import Cluster

LINES = 20_000_000
STAGES = ("bronze", "silver", "gold/error_log", "gold/log_volume")


def main(lines: int) -> None:
    """Print the seconds of each stage for a million lines and of each executor, and keep them."""
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


def busy(log: list[Path], checkpoints: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Give how long executors ran tasks: by the chain's stage, and by executor."""
    queries = {json.loads((checkpoints / stage / "metadata").read_text())["id"]: stage for stage in STAGES}
    stages: dict[int, str] = {}
    by_stage: Counter[str] = Counter()
    by_executor: Counter[str] = Counter()
    for event in events(log):
        if event["Event"] == "SparkListenerStageSubmitted":
            query = (event.get("Properties") or {}).get("sql.streaming.queryId", "")
            stages[event["Stage Info"]["Stage ID"]] = queries.get(query, "beside the stages")
        elif event["Event"] == "SparkListenerTaskEnd":
            ran = event.get("Task Metrics", {}).get("Executor Run Time", 0) / 1000
            by_stage[stages[event["Stage ID"]]] += ran
            by_executor[event["Task Info"]["Executor ID"]] += ran
    return dict(by_stage), dict(by_executor)


def events(log: list[Path]) -> Iterator[dict[str, Any]]:
    """Read the events of stages and tasks."""
    wanted = ('{"Event":"SparkListenerStageSubmitted"', '{"Event":"SparkListenerTaskEnd"')
    for file in log:
        with file.open() as lines:
            yield from (json.loads(line) for line in lines if line.startswith(wanted))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LINES)
