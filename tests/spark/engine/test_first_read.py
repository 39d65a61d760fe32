"""A new stage reads a young table by its commits and any other by its snapshot; a planned batch is read as planned."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from oncelake import StageError
from oncelake.common.lake import BRONZE
from oncelake.engine import graph
from oncelake.silver import stream
from tests.support.house import House

pytestmark = pytest.mark.spark

LINES = [f"2017-07-30 14:0{minute}:08 ERROR number {minute}".encode() for minute in range(4)]


@pytest.fixture
def bronze(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Return a lake whose bronze has four commits, which no other stage has read."""
    house = House.with_error_log(tmp_path)
    house.sets = ["run.max_bytes_per_batch=1"]
    whole = graph.chain
    monkeypatch.setattr("oncelake.engine.chain.chain", lambda *args: whole(*args)[:1])
    for number, line in enumerate(LINES):
        house.write(f"{number}.log", line)
        house.run(spark)
    monkeypatch.setattr("oncelake.engine.chain.chain", whole)
    assert house.versions()["bronze/access_log"] == len(LINES)
    return house


def read_by(house: House) -> str:
    """Return what the position after silver's first planned batch counts; a whole one counts commits."""
    offsets = (house.checkpoint("silver") / "offsets" / "0").read_text()
    return "snapshot" if '"isStartingVersion":true' in offsets else "commits"


def stop_before_the_first_batch(house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as once:
        once.setattr(stream, "write_silver", fail)
        with pytest.raises(StageError, match="the disk is full"):
            house.run(spark)


def test_a_young_table_is_read_by_its_commits(bronze: House, spark: SparkSession) -> None:
    bronze.run(spark)
    assert read_by(bronze) == "commits"
    bronze.must_be(LINES)


@pytest.mark.parametrize(
    ("few", "most"),
    [
        pytest.param((0, 100), "1", id="snapshot, then commits, in parts"),
        pytest.param((100, 0), "1GiB", id="commits, then snapshot, whole"),
        pytest.param((0, 100), "1GiB", id="snapshot, then commits, whole", marks=pytest.mark.long),
        pytest.param((100, 0), "1", id="commits, then snapshot, in parts", marks=pytest.mark.long),
    ],
)
def test_a_planned_batch_is_read_as_it_was_planned(
    bronze: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: tuple[int, int], most: str
) -> None:
    bronze.sets = [f"run.max_bytes_per_batch={most}"]
    before, after = few
    monkeypatch.setattr(graph, "FEW_COMMITS", before)
    stop_before_the_first_batch(bronze, spark, monkeypatch)
    assert read_by(bronze) == ("snapshot" if before == 0 and most == "1" else "commits")
    monkeypatch.setattr(graph, "FEW_COMMITS", after)
    bronze.write("more.log", LINES[0])
    bronze.run(spark)
    bronze.must_be([*LINES, LINES[0]])
    assert bronze.doubts(spark) == []


def test_a_query_that_has_a_whole_first_batch_reads_it_again_by_commits(
    bronze: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bronze.sets = []
    bronze.run(spark)
    bronze.write("more.log", LINES[0])
    options: list[str] = []
    set_option = DataStreamReader.option

    def option(reader: DataStreamReader, key: str, value: str) -> DataStreamReader:
        options.append(key)
        return set_option(reader, key, value)

    monkeypatch.setattr(DataStreamReader, "option", option)
    bronze.run(spark)
    assert "startingVersion" in options, "else Spark looks up the files of the snapshot again"
    bronze.must_be([*LINES, LINES[0]])


def test_a_compacted_table_is_read_by_its_snapshot(bronze: House, spark: SparkSession) -> None:
    table = DeltaTable(bronze.table("bronze/access_log"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    bronze.run(spark)
    bronze.must_be(LINES)


def test_a_table_that_another_writer_changed_is_read_by_its_snapshot(bronze: House, spark: SparkSession) -> None:
    bronze_log = bronze.chain(spark).commit_log(BRONZE)
    assert bronze_log.only_appends(most=len(LINES) + 1)
    assert not bronze_log.only_appends(most=len(LINES))
    DeltaTable(bronze.table("bronze/access_log")).alter.set_table_properties({"delta.checkpointInterval": "7"})
    assert not bronze_log.only_appends(most=100)


def test_a_table_with_a_shortened_log_is_read_by_its_snapshot(bronze: House, spark: SparkSession) -> None:
    log = bronze.table("bronze/access_log") / "_delta_log"
    DeltaTable(bronze.table("bronze/access_log")).create_checkpoint()
    (log / f"{0:020}.json").unlink()
    bronze.run(spark)
    bronze.must_be(LINES)
