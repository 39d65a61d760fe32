"""Measure how long a batch takes as a table's log grows: an append and a MERGE after 100 commits, and after 5,000.

A run makes a lake. Then the bronze and gold logs are continued by hand, one commit a version, as a chain that keeps
running would: each commit of bronze adds a file, each commit of gold replaces one file by another. What is measured
reads only the logs, and the one gold file that every MERGE rewrites is real. The chain's own writer writes each batch,
with commit metadata and a transaction. Short and long logs alternate. Run it with `python -m tests.bench.growth`.
"""

import json
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE, Table
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.rows import SparkRows
from oncelake.common.spark.session import build
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.gold.transform import merge_into, windows
from tests.bench.results import keep, page
from tests.bench.whole import oncelake, write_logs
from tests.support.spark_handles import java_session

COMMITS = (100, 5_000)
BATCHES, WARM = 15, 5
GOLD = Table("gold", "error_log")


def main() -> None:
    """Print and keep how long a batch of each table takes after few commits and after many."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        write_logs(root / "logs", 1_000, files=1)
        subprocess.run(oncelake(root / "logs", root / "lake"), check=True, stdout=subprocess.DEVNULL)
        for commits in COMMITS:
            shutil.copytree(root / "lake", root / f"lake{commits}")
            for table in (BRONZE, GOLD):
                continue_log(root / f"lake{commits}/{table.layer}/{table.name}/_delta_log", commits)
        runs = [compare(root, table) for table in (BRONZE, GOLD)]
        print(f"{keep('growth', {'runs': runs})}, {page()}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def continue_log(log: Path, commits: int) -> None:
    """Add commits to a table's log: each adds a file that does not exist, and removes one if the last commit did."""
    last = max(int(path.stem) for path in log.glob("*.json"))
    actions = [json.loads(line) for line in (log / f"{last:020d}.json").read_text().splitlines()]
    kinds = {kind: action[kind] for action in actions for kind in action}
    metadata = CommitMetadata.from_json(kinds["commitInfo"]["userMetadata"])
    assert metadata is not None
    takes = kinds["commitInfo"]["operation"] == "MERGE"
    for number in range(1, commits + 1):
        later = replace(metadata, batch_id=metadata.batch_id + number)
        add = kinds["add"] | {"path": f"part-{number:05d}-nowhere.parquet"}
        # a file outside the windows of the batch, so that only the real one is touched
        add |= {"stats": re.sub(r"20\d\d-", "1999-", add["stats"])} if takes else {}
        lines: list[dict[str, Any]] = [
            {"commitInfo": kinds["commitInfo"] | {"userMetadata": later.to_json()}},
            {"txn": kinds["txn"] | {"version": later.batch_id}},
            {"add": add},
        ]
        if takes and number > 1:
            gone = {"path": f"part-{number - 1:05d}-nowhere.parquet", "deletionTimestamp": int(time.time() * 1000)}
            lines.append({"remove": gone | {"dataChange": True, "size": add["size"], "partitionValues": {}}})
        (log / f"{last + number:020d}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def compare(root: Path, table: Table) -> dict[str, Any]:
    """Write batches to a table after few commits and after many, alternately."""
    settings, _ = configured(shipped_conf() / "local.yaml", [f"lake.root={root}/lake"])
    spark = build(settings.spark)
    batches = {commits: write(spark, settings, root / f"lake{commits}", table) for commits in COMMITS}
    seconds: dict[int, list[float]] = {commits: [] for commits in COMMITS}
    for _ in range(WARM + BATCHES):
        for commits in COMMITS:
            seconds[commits].append(next(batches[commits]))
    median = {commits: statistics.median(each[WARM:]) for commits, each in seconds.items()}
    ratio = median[COMMITS[1]] / median[COMMITS[0]]
    said = ", ".join(f"{each * 1000:.0f} ms after {commits:,} commits" for commits, each in median.items())
    print(f"{table}, a batch: {said}: {ratio:.2f} times", flush=True)
    return {"table": str(table), "median": median, "ratio": ratio, "seconds": seconds}


def write(spark: SparkSession, settings: Any, lake: Path, table: Table) -> Iterator[float]:
    """Write a batch with each step, and yield the seconds it took."""
    path = f"{lake}/{table.layer}/{table.name}"
    log = jvm(spark).org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)
    log.checkpoint()
    commit_log = DeltaLog(LocalFiles(), path)
    writer = TableWriter(path, commit_log, commit_log.state(), every_batch=False)
    rows = spark.createDataFrame(
        spark.read.parquet(*(f"{path}/{each.name}" for each in Path(path).glob("*.parquet"))).collect(),
        spark.read.format("delta").load(path).schema,
    )
    while True:
        last = writer.state.metadata
        assert last is not None
        metadata = replace(last, batch_id=last.batch_id + 1)
        began = time.monotonic()
        if table == BRONZE:
            writer.append(SparkRows(rows), metadata)
        else:
            declared = settings.gold[table.name]
            counts = rows.persist()
            writer.merge(SparkRows(counts), metadata, partial(merge_into, declared, counts.schema, windows(counts)))
            counts.unpersist()
        yield time.monotonic() - began


if __name__ == "__main__":
    main()
