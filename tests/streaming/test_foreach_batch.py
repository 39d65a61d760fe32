"""The examples of docs/foreach-batch.md count each row once, as they stand and under real kills."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oncelake.common.spark.runtime import DELTA_ON
from tests.support.given import SMALL, delta
from tests.support.house import House, kill_group
from tests.support.places import ROOT
from tests.support.processes import newest, wait_for
from tests.support.readme import blocks

pytestmark = pytest.mark.chain

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

confs, code = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").appName("a user's own query")
for key, value in confs.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
exec(code)
query.awaitTermination()
"""


def example(how: str, root: Path) -> str:
    """Return an example of the page with its files below a directory."""
    (code,) = (each.text for each in blocks(ROOT / "docs/foreach-batch.md") if f"table.{how}" in each.text)
    return code.replace("/data/", f"{root}/")


def put(root: Path, number: int) -> Counter[str]:
    """Move a file of events to where the query reads them, and return the keys in it."""
    keys = Counter({"a": number + 1, f"b{number % 3}": 2, f"c{number}": 1})
    (root / "events").mkdir(exist_ok=True)
    made = root / f"{number}.json"
    made.write_text("".join(json.dumps({"key": key}) + "\n" for key in keys.elements()))
    made.rename(root / "events" / made.name)
    return keys


def counted(root: Path, how: str) -> Counter[str]:
    rows = DeltaTable(root / "counts").to_pyarrow_table().to_pylist()
    return Counter({row["key"]: row["count"] for row in rows} if how == "merge" else [row["key"] for row in rows])


def run(spark: SparkSession, code: str) -> None:
    """Run the example in this process until it has processed all input."""
    names: dict[str, Any] = {"spark": spark}
    exec(code, names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def is_past(directory: Path, number: int) -> bool:
    return newest(directory) > number


@pytest.mark.parametrize("how", ["append", "merge"])
def test_the_example_counts_each_row_once_when_its_process_is_killed_after_any_step(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    truth, code = put(tmp_path, 0), example(how, tmp_path)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "counts/_delta_log"
    confs = {**DELTA_ON, **SMALL, "spark.driver.extraClassPath": delta(), "spark.ui.enabled": "false"}
    command = [sys.executable, "-c", PROGRAM, json.dumps([confs, code])]
    steps = [checkpoint / "sources/0", checkpoint / "offsets", log, checkpoint / "commits"]
    for number, step in enumerate(steps, 1):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={"SPARK_SUBMIT_OPTS": House(tmp_path).java, **os.environ},
        )
        wait_for(process, lambda: -1 < newest(checkpoint / "commits") == newest(checkpoint / "offsets"))
        before = newest(step)
        truth += put(tmp_path, number)
        wait_for(process, partial(is_past, step, before))
        kill_group(process)
    run(spark, code)
    assert counted(tmp_path, how) == truth
    version = newest(log)
    run(spark, code)
    assert newest(log) == version
