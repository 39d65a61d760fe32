"""Measure a simulated day of small batches: files, log, and time per batch, of an appended table and a gold table.

Each batch appends 100 rows to one table, and merges the counts of ten services in the current minute, and at times of
an old one, into another, with the writers, receipts and upkeep of a run. A batch stands for a second. Run it with
`python -m tests.bench.day [batches] [retention]`; 86,400 take hours. The retention is that of the logs, in real time:
`interval 15 minutes` for a log that keeps the commits of the last quarter of an hour.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable

from oncelake.common.spark.rows import Collected
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers import MergeSql
from oncelake.exactly_once.writers.local import LocalTable
from tests.bench.results import keep, page
from tests.support.memory import metadata

DAY = 86_400
LINES, SERVICES = 100, 10
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LOG = pa.schema([("log_time", pa.timestamp("us", "UTC")), ("line", pa.string())])
GOLD = pa.schema([("log_time", pa.timestamp("us", "UTC")), ("service", pa.string()), ("log_count", pa.int64())])
SAME = "(gold.log_time IS NOT DISTINCT FROM batch.log_time) AND (gold.service IS NOT DISTINCT FROM batch.service)"


def main(batches: int, retention: str) -> None:
    """Print and keep the figures of every tenth of the day."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        appended = _writer(root / "appended", LOG, None, retention)
        gold = _writer(root / "gold", GOLD, "log_time", retention)
        spent: dict[str, list[float]] = {"append": [], "merge": []}
        tenths = []
        for batch in range(batches):
            now = BEGIN + timedelta(seconds=batch)
            began = time.monotonic()
            appended.append(_lines(now, batch), metadata(batch))
            merging = time.monotonic()
            counts, sql = _counts(now, late=batch % 100 == 0)
            gold.merge(counts, metadata(batch, "gold.counts"), partial(_always, sql))
            spent["append"].append(merging - began)
            spent["merge"].append(time.monotonic() - merging)
            if (batch + 1) % max(batches // 10, 1) == 0:
                tenths.append({"batches": batch + 1, **_state(root, spent)})
                print(json.dumps(tenths[-1]), flush=True)
                spent = {"append": [], "merge": []}
        held = DeltaTable(str(root / "gold")).to_pyarrow_table(columns=["log_count"])
        assert sum(held["log_count"].to_pylist()) == batches * LINES + (batches + 99) // 100
        assert DeltaTable(str(root / "appended")).to_pyarrow_dataset().count_rows() == batches * LINES
        print(f"{keep('day', {'batches': batches, 'retention': retention, 'tenths': tenths})}, {page()}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _writer(path: Path, schema: pa.Schema, windows: str | None, retention: str) -> TableWriter:
    DeltaTable.create(str(path), schema=schema, configuration={"delta.logRetentionDuration": retention})
    commit_log = DeltaLog(LocalFiles(), str(path))
    return TableWriter(
        str(path), commit_log, commit_log.state(), every_batch=True, engines=[LocalTable(str(path), windows)]
    )


def _lines(now: datetime, batch: int) -> Collected:
    text = [f"{now:%Y-%m-%d %H:%M:%S} INFO order {batch * LINES + n} was sent" for n in range(LINES)]
    return Collected(pa.table({"log_time": [now] * LINES, "line": text}, schema=LOG), cast(Any, None))


def _counts(now: datetime, *, late: bool) -> tuple[Collected, MergeSql]:
    minute = now.replace(second=0)
    old = BEGIN + (minute - BEGIN) / 2
    times = [minute] * SERVICES + [old.replace(second=0)] * late
    columns = {
        "log_time": times,
        "service": [f"service {n}" for n in range(SERVICES)] + ["late"] * late,
        "log_count": [LINES // SERVICES] * SERVICES + [1] * late,
    }
    windows = sorted({(at, at) for at in times})
    named = ", ".join(
        f"arrow_cast('{at:%Y-%m-%d %H:%M:%S}', 'Timestamp(Microsecond, Some(\"UTC\"))')" for at, _ in windows
    )
    sql = MergeSql(f"{SAME} AND gold.log_time IN ({named})", {"log_count": "gold.log_count + batch.log_count"}, windows)
    return Collected(pa.table(columns, schema=GOLD), cast(Any, None)), sql


def _always(sql: MergeSql, _: str) -> MergeSql:
    return sql


def _state(root: Path, spent: dict[str, list[float]]) -> dict[str, Any]:
    state: dict[str, Any] = {"memory_mb": int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000}
    for table, how in (("appended", "append"), ("gold", "merge")):
        log = list(os.scandir(root / table / "_delta_log"))
        ordered = sorted(spent[how])
        state[table] = {
            "median_ms": round(statistics.median(ordered) * 1000, 1),
            "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1000, 1),
            "most_ms": round(ordered[-1] * 1000),
            "files": len(DeltaTable(str(root / table)).file_uris()),
            "on_disk": sum(name.name.endswith(".parquet") for name in os.scandir(root / table)),
            "log_entries": len(log),
            "log_mb": sum(each.stat().st_size for each in log) // 1_000_000,
        }
    return state


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DAY, sys.argv[2] if len(sys.argv) > 2 else "interval 30 days")
