"""Measure silver over a thousand batches: time for a batch, memory and cached frames.

Bronze is written beforehand by delta-rs, in a thousand commits of ten lines. Silver reads one file a batch, in
this process, with rules and a limit that warns. Run it with `python -m tests.bench.batches`.
"""

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import psutil
import pyarrow
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine.chain import named
from oncelake.engine.make_table import make_table
from oncelake.engine.runner import Run
from oncelake.exactly_once.batch import CommittedBatch, Notice
from oncelake.observe.progress import Display, Progress
from tests.support.house import House
from tests.support.spark_handles import cached_frames

BATCHES, LINES, EVERY = 1_000, 10, 100
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Watch(Display):
    """Receives the reports of batches, and measures the process after every few of them."""

    spark: SparkSession
    seconds: list[float] = field(default_factory=list)

    def show(self, report: CommittedBatch, waits: object) -> None:
        del waits
        self.seconds.append(report.seconds)
        if len(self.seconds) % EVERY == 0:
            last = sorted(self.seconds[-EVERY:])[EVERY // 2]
            print(f"batch {len(self.seconds):,}: {last:.2f} s in the median, {self._memory()}", flush=True)

    def _memory(self) -> str:
        heap = min(self._heap() for _ in range(3))  # garbage collection can be delayed by work that is still running
        kept = [frame.name() for frame in cached_frames(self.spark).values()]
        ours = sum("Delta Table State" not in (name or "") for name in kept)
        python = psutil.Process().memory_info().rss // 2**20
        return f"Java's heap {heap} MiB, Python {python} MiB, cached frames {len(kept)} (not Delta's: {ours})"

    def _heap(self) -> int:
        java = jvm(self.spark).java.lang
        java.System.gc()
        return int(java.Runtime.getRuntime().totalMemory() - java.Runtime.getRuntime().freeMemory()) // 2**20

    def tell(self, notice: Notice) -> None:
        print(notice, flush=True)


def main() -> None:
    """Run silver, and print time and memory along the way."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    spark = build(SparkSettings(master="local[2]", driver_memory="2g"))
    try:
        house = House(root, sets=["quality.gate.quarantined.warn=0.01", "run.max_bytes_per_batch=1"])
        chain = house.chain(spark)
        (target,) = named(chain.stages, "bronze").writes
        make_table(spark, target, chain.lake.at(BRONZE), chain.commit_log(BRONZE))
        fill(chain.lake.at(BRONZE))
        silver = replace(chain, stages=(named(chain.stages, "silver"),))
        Run(silver, spark, Progress(silver, Watch(spark)), threading.Event()).once()
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def fill(bronze: str) -> None:
    """Write bronze, one commit after the other; every fifth has a line that breaks a rule."""
    columns = {"value": pyarrow.binary(), "file": pyarrow.string(), "ingested_at": pyarrow.timestamp("us", "UTC")}
    schema = pyarrow.schema(list(columns.items()))
    for batch in range(BATCHES):
        at = BEGIN + timedelta(seconds=batch)
        levels = ["NONE" if batch % 5 == 0 else "WARN", *["ERROR"] * (LINES - 1)]
        lines = [f"{at:%Y-%m-%d %H:%M:%S} {level} order".encode() for level in levels]
        rows = {"value": lines, "file": [f"file:/logs/{batch}.log"] * LINES, "ingested_at": [at] * LINES}
        deltalake.write_deltalake(bronze, pyarrow.table(rows, schema=schema), mode="append", schema_mode="merge")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"{time.monotonic() - began:.0f} s")
