"""A source that is quiet for months does not lose its position to those who maintain the tables beside the chain."""

import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oncelake.engine.chain import named
from tests.support.house import House

pytestmark = pytest.mark.spark

DAY = 24 * 3600
LINES = [f"2017-07-30 14:0{minute}:08 ERROR number {minute}".encode() for minute in range(2)]


def age(log: Path, days: int) -> None:
    """Make every commit of a log older."""
    for path in log.glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().split("\n") if line]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] -= days * DAY * 1000
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        at = path.stat().st_mtime - days * DAY
        os.utime(path, (at, at))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def clean_up(spark: SparkSession, table: Path) -> None:
    """Maintain a table as others do: VACUUM, a checkpoint, and what a checkpoint removes of the log."""
    spark.sql(f"VACUUM delta.`{table}`")
    delta = DeltaTable(table)
    delta.create_checkpoint()
    delta.cleanup_metadata()


def test_a_quiet_table_that_others_clean_up_keeps_its_position(spark: SparkSession, tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    house.write("a.log", LINES[0])
    house.run(spark)
    table = house.lake / "silver/access_log"
    batches = sorted((table / "_delta_log").glob("*.json"))
    age(table / "_delta_log", 20)
    clean_up(spark, table)
    house.run(spark)
    assert DeltaTable(table).metadata().configuration["delta.logRetentionDuration"] == "interval 36500 days"
    source = house.chain(spark).stage_state(named(house.chain(spark).stages, "gold.error_log"))
    assert source.up_to_date  # a change of properties is no work for the stage behind
    age(table / "_delta_log", 40)
    clean_up(spark, table)
    assert all(path.exists() for path in batches)
    house.write("b.log", LINES[1])
    house.run(spark)
    clean_up(spark, table)  # the newest commit is not the batch's
    house.run(spark)
    assert "delta.logRetentionDuration" not in DeltaTable(table).metadata().configuration
    house.must_be(LINES)
    assert house.doubts(spark) == []
