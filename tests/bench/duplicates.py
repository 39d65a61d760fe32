"""Measure what a window of repeats costs: the seconds of silver's batches for several windows and rates.

Silver is filled with the lines of the window, in commits of a size that maintenance leaves, and then gets batches of
one second of lines, a tenth of them repeats. The longest windows need much disk: a day at 20,000 lines a second is 1.7
billion lines. Run it on a quiet machine: `python -m tests.bench.duplicates [--most LINES]` leaves out what is larger.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.bench.results import keep
from tests.support.house import House

WINDOWS = {"1 minute": 60, "1 hour": 3_600, "1 day": 86_400}
RATES = (1_000, 20_000)
BATCHES, WARM = 9, 2
# Rows of a file that maintenance leaves.
ROWS_PER_COMMIT = 2_000_000
MOST = 100_000_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Print the median and the longest time of a batch for each window and rate, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=MOST, help="leave out windows with more lines")
    parser.add_argument("--rate", type=int, action="append", help="lines a second; several may be given")
    parser.add_argument("--batches", type=int, default=BATCHES)
    given = parser.parse_args()
    spark = build(SparkSettings(master="local[2]", driver_memory="4g"), app="oncelake-bench")
    figures: dict[str, dict[str, float]] = {}
    for rate in given.rate or RATES:
        for window in (None, *WINDOWS):
            lines = rate * WINDOWS.get(window or "", 0)
            if lines <= given.most:
                name = f"{rate:,} lines/s, {window or 'repeats kept'}"
                figures[name] = measured(spark, rate, window, given.batches)
                print(f"{name}: {figures[name]}", flush=True)
    keep("duplicates", {"seconds": figures})
    spark.stop()


def measured(spark: SparkSession, rate: int, window: str | None, batches: int) -> dict[str, float]:
    """Return the seconds of silver's batches with a filled window."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        house = House.with_error_log(root)
        if window is not None:
            house.sets = ["silver.deduplicate.key=[message]", f"silver.deduplicate.within={window}"]
        times = []
        seconds = WINDOWS.get(window or "", 0)
        for number in range(batches + WARM):
            house.write(f"{number}.log", *sent(rate, seconds + number))
            reports = house.run(spark)
            times += [report.seconds for report in reports if report.stage == "silver"][:1]
            if number == 0:
                fill(house, rate * seconds, seconds)
        steady = times[WARM:]
        return {"median": round(statistics.median(steady), 3), "longest": round(max(steady), 3)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sent(rate: int, second: int) -> Iterator[bytes]:
    """Yield the lines of one second; every tenth repeats the line before it."""
    at = f"{BEGIN + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}"
    for number in range(rate):
        event = number - 1 if number % 10 == 9 else number
        yield f"{at} INFO request {second}-{event} took 17 ms".encode()


def fill(house: House, lines: int, seconds: int) -> None:
    """Append lines with keys of their own to silver, evenly over the window before its lines.

    The commits have no metadata: they stand for earlier batches, and nothing here proves the lake.
    """
    silver = DeltaTable(house.table("silver/access_log"))
    schema = pyarrow.schema(silver.schema().to_arrow())
    chance = np.random.default_rng(1)
    for first in range(0, lines, ROWS_PER_COMMIT):
        rows = min(ROWS_PER_COMMIT, lines - first)
        part = (np.arange(first, first + rows) * (seconds * 1_000_000 / lines)).astype("int64")
        at = pyarrow.array(part + int(BEGIN.timestamp()) * 1_000_000, pyarrow.int64()).cast(
            schema.field("log_time").type
        )
        keys = pyarrow.FixedSizeBinaryArray.from_buffers(
            pyarrow.binary(16), rows, [None, pyarrow.py_buffer(chance.bytes(16 * rows))]
        ).cast(pyarrow.binary())
        known = {"log_time": at, "ingested_at": at, "event_key": keys}
        known["event_window"] = pyarrow.array(np.full(rows, seconds * 1_000_000), pyarrow.int64())
        known["message"] = known["level"] = pyarrow.array(["INFO"] * rows)
        columns = {field.name: known.get(field.name, pyarrow.nulls(rows, field.type)) for field in schema}
        write_deltalake(silver, pyarrow.table(columns, schema), mode="append")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"took {time.monotonic() - began:.0f} s")
