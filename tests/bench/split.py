"""Measure what rules cost in the stream: a run over two million lines with ten row-level rules, and one without any.

Both are whole runs of `oncelake run --once`, from process start to exit, on the same files, each into its own lake,
alternately. The result is the ratio of the medians, as the machine is never quiet. Run it with `make bench`.
"""

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.whole import write_logs
from tests.support.house import House

LINES, ROUNDS = 2_000_000, 3
RULES: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_values_to_not_be_null", {"column": "log_time"}),
    ("expect_column_values_to_not_be_null", {"column": "message"}),
    ("expect_column_values_to_be_in_set", {"column": "level", "value_set": ["INFO", "WARN", "ERROR"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "message", "value_set": ["test", "debug"]}),
    ("expect_column_value_lengths_to_be_between", {"column": "message", "min_value": 1, "max_value": 200}),
    ("expect_column_values_to_match_regex", {"column": "message", "regex": "^[a-z]+ [0-9]+ "}),
    ("expect_column_values_to_not_match_regex", {"column": "message", "regex": "password=\\S+"}),
    ("expect_column_values_to_be_between", {"column": "log_time", "min_value": "2000-01-01"}),
    ("expect_column_values_to_be_between", {"column": "ingested_at", "min_value": "2020-01-01"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "ingested_at", "column_B": "log_time"}),
]


def main(lines: int = LINES) -> None:
    """Print the times of each round and the ratio."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        house = filled(root, lines)
        suites = {"without rules": root / "none", "with ten rules": root / "ten"}
        for directory in suites.values():
            directory.mkdir()
        expectations = [{"type": kind, "kwargs": kwargs} for kind, kwargs in RULES]
        path = suites["with ten rules"] / "silver.access_log.json"
        path.write_text(json.dumps({"name": "silver.access_log", "expectations": expectations}))
        times: dict[str, list[float]] = {name: [] for name in suites}
        for number in range(ROUNDS):
            for name, directory in suites.items():
                times[name].append(timed(house, directory))
                print(f"round {number + 1}: {name} {times[name][-1]:.1f} s", flush=True)
        ratio = statistics.median(times["with ten rules"]) / statistics.median(times["without rules"])
        print(f"ten rules: {ratio:.2f} times the run without (median of {ROUNDS}, {lines:,} lines)", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def filled(root: Path, lines: int) -> House:
    """Return a house whose files hold this many lines."""
    house = House(root, java="")
    write_logs(house.logs, lines, files=40)
    return house


def timed(house: House, suites: Path) -> float:
    """Run the chain over all available input, into an empty lake; return the seconds."""
    shutil.rmtree(house.lake, ignore_errors=True)
    house.sets = [f"quality.expectations={suites}"]
    began = time.monotonic()
    house.call("run", "--once")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
