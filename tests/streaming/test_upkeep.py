"""The upkeep of small batches in a run: the chain, its proof and a replay hold over it, whoever writes the batches."""

import sqlite3
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.table import TableOptimizer
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.common.lake import BRONZE
from oncelake.engine.maintain import maintain
from oncelake.exactly_once import upkeep
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import forget_commits

pytestmark = pytest.mark.spark

LINES = [
    [
        f"2017-07-30 14:{minute:02}:08 ERROR one of {minute}".encode(),
        b"2017-07-30 13:00:09 error another",
        f"broken {minute}".encode(),
    ]
    for minute in range(6)
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep up every second commit, whatever there is to do."""
    for name, value in (("EVERY", 2), ("CLEAN_EVERY", 2), ("FEW", 2), ("COPIED", 1), ("GROUP", 1)):
        monkeypatch.setattr(upkeep, name, value)


def operations(house: House, table: str) -> list[str]:
    return [commit.operation for commit, _ in DeltaLog(LocalFiles(), str(house.table(table))).newest_first()]


def lines(batches: int) -> list[bytes]:
    return [line for some in LINES[:batches] for line in some]


def test_every_line_counts_once_over_upkeep_with_each_writer(house: House, spark: SparkSession) -> None:
    for batch, some in enumerate(LINES):
        house.write(f"{batch}.log", *some)
        small = ("0", "32MiB", "1", "32MiB")[batch % 4]
        House(house.root, house.conf, [*house.sets, f"run.small_batch={small}"]).run(spark)
    for table in house.tables:
        assert "OPTIMIZE" in operations(house, table)
        assert any((house.table(table) / "_delta_log").glob("*.checkpoint.parquet"))
    house.must_be(lines(6))
    assert house.doubts(spark) == []
    assert "silver" in house.tell(spark, "trace", "1.log:2017-07-30 14:01:08 ERROR one of 1")
    assert spark.read.format("delta").load(str(house.table("silver/access_log"))).count() == 12
    forget_commits(house, "silver")
    assert house.run(spark)[0].replayed
    house.must_be(lines(6))
    assert house.doubts(spark) == []


def test_a_served_table_follows_the_changes_that_both_writers_made(house: House, spark: SparkSession) -> None:
    """The change data feed has each changed window once, also of batches that were written while serving was behind."""
    house.sets += [f"serving.url=sqlite:///{house.root}/served.db", "serving.tables=[error_log]"]
    house.tell(spark, "serving", "init")
    upserted = []
    for batch, some in enumerate(LINES):
        house.write(f"{batch}.log", *some)
        small = "0" if batch in (1, 4) else "32MiB"
        again = House(house.root, house.conf, [*house.sets, f"run.small_batch={small}"])
        if batch in (3, 4):
            with crashed(spark, f"_checkpoints/serving/error_log/offsets/{3}", before=True), pytest.raises(StageError):
                again.run(spark)
        else:
            upserted += [sum(report.rows.values()) for report in again.run(spark) if report.stage.startswith("serving")]
    log = house.table("gold/error_log") / "_delta_log"
    writers = {"engineInfo" in text and "delta-rs" in text for text in map(Path.read_text, log.glob("*.json"))}
    assert (writers, "OPTIMIZE" in operations(house, "gold/error_log")) == ({True, False}, True)
    assert upserted == [2, 2, 2, 4]  # the last one has the windows of three batches, and the one that all have
    with sqlite3.connect(house.root / "served.db") as connection:
        served = connection.execute("SELECT log_time, log_count FROM error_log ORDER BY log_time").fetchall()
    assert [count for _, count in served] == [count for _, count in sorted(house.errors().items())]
    *_, link = house.lakehouse(spark).prove().links
    assert (link.holds, "equal value by value" in link.said) == (True, True), link
    assert house.lakehouse(spark).status()[-1].backlog == 0
    assert house.run(spark) == []


def test_a_stage_that_was_behind_reads_over_upkeep(house: House, spark: SparkSession) -> None:
    for batch, some in enumerate(LINES[:4]):
        house.write(f"{batch}.log", *some)
        with crashed(spark, "_checkpoints/silver/offsets/0", before=True), pytest.raises(StageError):
            house.run(spark)
    assert "OPTIMIZE" in operations(house, "bronze/access_log")
    house.run(spark)
    house.must_be(lines(4))
    assert house.doubts(spark) == []


@pytest.mark.parametrize("step", ["compact", "create_checkpoint", "cleanup_metadata"])
def test_a_crash_in_upkeep_loses_nothing(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def crashes(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    for batch in range(3):
        house.write(f"{batch}.log", *LINES[batch])
        with monkeypatch.context() as patch:
            patch.setattr(TableOptimizer if step == "compact" else DeltaTable, step, crashes)
            if batch == 1:
                with pytest.raises(StageError, match="killed"):
                    house.run(spark)
        house.run(spark)
    house.must_be(lines(3))
    assert house.doubts(spark) == []


def test_maintenance_runs_after_a_compaction_in_a_run(house: House, spark: SparkSession) -> None:
    batch = 0
    while batch == 0 or operations(house, "bronze/access_log")[0] != "OPTIMIZE":
        house.write(f"{batch}.log", *LINES[batch])
        house.run(spark)
        batch += 1
    done = {result.table: result for result in maintain(house.chain(spark), spark)}
    assert not done[str(BRONZE)].skipped
    assert {result.skipped for result in maintain(house.chain(spark), spark)} == {"no batch since the last maintenance"}
    house.must_be(lines(batch))
