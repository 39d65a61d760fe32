"""Read from Spark's event log how long executors were busy."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAGES = ("bronze", "silver", "gold/error_log", "gold/log_volume")


def busy(log: list[Path], checkpoints: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return how long executors ran tasks: by the chain's stage, and by executor."""
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
