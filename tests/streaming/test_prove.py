"""A proof detects manual changes to a lake, and names the row or range; for a correct lake, it holds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.common import table_rows
from oncelake.common.spark import runtime
from oncelake.common.spark.jvm import jvm
from oncelake.engine import open_lake
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.link import Link
from oncelake.proof import prove as prove_module
from oncelake.proof.data_files import list_hadoop, list_local, listed_by_delta, listed_by_delta_rs
from tests.support.house import House, until
from tests.support.lakes import keep_copy, put_back

pytestmark = pytest.mark.spark

FIRST = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"no line of the format"]
SECOND = [b"2017-07-30 14:09:59 ERROR three", b"2017-07-30 14:11:00 WARN four", b""]
THIRD = [b"2017-07-30 14:12:00 ERROR five"]


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Fill a lake with two batches in every table, and keep a copy."""
    house = House.with_error_log(tmp_path_factory.mktemp("filled"))
    for name, lines in (("a.log", FIRST), ("b.log", SECOND)):
        house.write(name, *lines)
        house.run(spark)
    keep_copy(house)
    return house


@pytest.fixture
def ran(filled: House, spark: SparkSession) -> House:
    """Restore the filled lake."""
    return put_back(filled, filled.root / "copy", spark)


@pytest.fixture(autouse=True, params=["plain", "spark"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Prove without Spark where that is possible, and as if DuckDB were not installed: the answers are the same."""
    if request.param == "spark":
        monkeypatch.setattr(table_rows, "find_spec", lambda name: None if name == "duckdb" else name)
    return str(request.param)


def test_a_lake_is_proven_without_spark(ran: House, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reader == "plain":
        for module in (open_lake, prove_module):
            monkeypatch.setattr(module, "is_given", lambda: False)  # the session of the tests
        monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))
        assert ran.lakehouse().prove().holds


def test_a_full_proof_is_read_by_spark(ran: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str) -> str:
        return pytest.fail("a table is opened without Spark") if name == "duckdb" else name

    monkeypatch.setattr(table_rows, "find_spec", opened)
    assert ran.lakehouse(spark).prove(full=True).holds
    assert ran.lakehouse(spark).prove(deep=True).holds


def forget(spark: SparkSession) -> None:
    """Make Delta read the tables' files again, as another process would."""
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def prove(house: House, spark: SparkSession, **options: Any) -> list[Link]:
    forget(spark)
    return house.lakehouse(spark).prove(**options).links


def broken(house: House, spark: SparkSession, **options: Any) -> Link:
    """Prove a lake that does not hold, and return the link that fails, which is the last."""
    *before, last = prove(house, spark, **options)
    assert all(link.holds for link in before)
    assert not last.holds, [link.said for link in (*before, last)]
    assert not (house.lake / "_proofs").exists()
    return last


def log(house: House, table: str, version: int) -> Path:
    return house.lake / table / "_delta_log" / f"{version:020d}.json"


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change a commit file, and remove the checksums that would reveal it at once."""
    path.write_text(change(path.read_text()))
    for name in (f".{path.name}.crc", f"{path.stem}.crc", f".{path.stem}.crc.crc"):
        (path.parent / name).unlink(missing_ok=True)


def unlock(spark: SparkSession, path: Path) -> str:
    table = f"delta.`{path}`"
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('delta.appendOnly')")
    return table


def test_a_correct_lake_holds_and_the_next_proof_starts_at_its_end(ran: House, spark: SparkSession) -> None:
    links = prove(ran, spark)
    assert [link.said for link in links if not link.holds] == []
    assert [link.table for link in links if link.name.startswith("positions of")] == [
        "bronze.access_log",
        "silver.access_log",
        "silver.quarantine",
        "gold.error_log",
    ]
    again = prove(ran, spark)
    assert {link.said for link in again if link.name.startswith("positions of")} == {"nothing new since batch 1"}
    assert len(again) == 10  # and the census of the files, and the files themselves
    ran.write("c.log", *THIRD)
    ran.run(spark)
    more = prove(ran, spark)
    assert [link.said for link in more if not link.holds] == []
    said = {link.table: link.said for link in more if link.name.startswith("positions of")}
    assert said["bronze.access_log"] == "1 batch (2) without gap or overlap, 1 row recorded"
    assert said["silver.quarantine"] == "nothing new since batch 1"


def test_a_proof_changes_no_table(ran: House, spark: SparkSession) -> None:
    versions = ran.versions()
    prove(ran, spark)
    assert ran.versions() == versions


def test_full_proves_everything_again_and_since_a_part(ran: House, spark: SparkSession) -> None:
    prove(ran, spark)
    assert "2 batches (0 to 1)" in prove(ran, spark, full=True)[0].said
    second = DeltaLog(LocalFiles(), str(ran.lake / "bronze/access_log")).commit(2)
    assert second
    links = prove(ran, spark, since_ms=second.timestamp)
    assert "1 batch (1)" in links[0].said
    assert [link.said for link in links if not link.holds] == []


def test_a_part_with_a_gap_to_the_recorded_proof_is_not_recorded(ran: House, spark: SparkSession) -> None:
    second = DeltaLog(LocalFiles(), str(ran.lake / "bronze/access_log")).commit(2)
    assert second
    assert all(link.holds for link in prove(ran, spark, since_ms=second.timestamp))
    recorded = [json.loads(path.read_text()) for path in (ran.lake / "_proofs").glob("*.json")]
    assert all("bronze.access_log" not in tables["tables"] for tables in recorded)


def test_an_empty_lake_holds(house: House, spark: SparkSession) -> None:
    link, files = prove(house, spark)
    assert (link.holds, link.said) == (True, "no line is ingested yet: there is no table")
    assert (files.holds, files.said) == (True, "0 files match what was read")


def test_an_edited_row_of_silver_is_found(ran: House, spark: SparkSession) -> None:
    prove(ran, spark)
    shutil.rmtree(ran.lake / "_proofs")
    table = unlock(spark, ran.lake / "silver/access_log")
    spark.sql(f"UPDATE {table} SET level = 'INFO' WHERE message = 'one'")
    link = broken(ran, spark)
    assert link.table == "silver.access_log"
    assert "UPDATE (version 4" in link.said
    assert "is not a commit of the chain" in link.said


def test_the_next_proof_finds_a_row_edited_after_a_proof(ran: House, spark: SparkSession) -> None:
    prove(ran, spark)
    spark.sql(f"DELETE FROM {unlock(spark, ran.lake / 'silver/access_log')} WHERE message = 'one'")
    last = prove(ran, spark)[-1]
    assert not last.holds
    assert "DELETE (version 4" in last.said


def test_a_data_file_deleted_from_bronze_is_found_with_its_batch(ran: House, spark: SparkSession) -> None:
    gone = next(line for line in log(ran, "bronze/access_log", 2).read_text().splitlines() if line.startswith('{"add"'))
    name = json.loads(gone)["add"]["path"]
    (ran.lake / "bronze/access_log" / name).unlink()
    link = broken(ran, spark)
    assert link.name == "data files of bronze.access_log"
    assert link.said == f"{name} is missing; batch 1 added it in version 2"


def test_a_truncated_data_file_is_found(ran: House, spark: SparkSession) -> None:
    for path in (ran.lake / "gold/error_log").glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-1])
    link = broken(ran, spark)
    assert link.name == "data files of gold.error_log"
    assert "bytes instead of" in link.said


def test_a_batch_of_gold_applied_twice_is_found(ran: House, spark: SparkSession) -> None:
    last = log(ran, "gold/error_log", 2)
    shutil.copy(last, log(ran, "gold/error_log", 3))
    link = broken(ran, spark)
    assert link.table == "gold.error_log"
    assert "applies batch 1 a second time: reads again version 2 of silver.access_log" in link.said


def test_a_skipped_range_is_found(ran: House, spark: SparkSession) -> None:
    ran.write("c.log", *THIRD)
    ran.run(spark)
    log(ran, "gold/error_log", 2).unlink()
    log(ran, "gold/error_log", 3).rename(log(ran, "gold/error_log", 2))
    for path in (ran.lake / "gold/error_log/_delta_log").glob("*.crc"):
        path.unlink()
    for path in (ran.lake / "gold/error_log/_delta_log").glob(".*.crc"):
        path.unlink()
    link = broken(ran, spark)
    assert link.table == "gold.error_log"
    assert "skips version 2 of silver.access_log" in link.said
    assert "batch 1 missing" in link.said


def test_a_missing_quarantine_table_is_named(ran: House, spark: SparkSession) -> None:
    shutil.rmtree(ran.table("silver/quarantine"))
    link = broken(ran, spark)
    assert (link.name, link.said) == ("positions of silver.quarantine", "there is no table silver.quarantine")


def test_rows_of_another_writer_are_found(ran: House, spark: SparkSession) -> None:
    path = str(ran.lake / "silver/quarantine")
    spark.read.format("delta").load(path).limit(1).write.format("delta").mode("append").save(path)
    link = broken(ran, spark)
    assert link.table == "silver.quarantine"
    assert "WRITE (version 3" in link.said


def test_a_restored_table_does_not_hold(ran: House, spark: SparkSession) -> None:
    spark.sql(f"RESTORE TABLE delta.`{ran.lake}/gold/error_log` TO VERSION AS OF 1").collect()
    link = broken(ran, spark)
    assert "RESTORE (version 3" in link.said
    assert "removed batch 1, and no recovery follows it" in link.said


def test_a_silver_batch_that_is_not_yet_in_quarantine_is_left_out(ran: House, spark: SparkSession) -> None:
    commits = ran.checkpoint("silver") / "commits"
    (commits / "1").unlink()
    for path in (ran.lake / "silver/quarantine/_delta_log").glob("*00000002*"):
        path.unlink()
    links = prove(ran, spark)
    assert [link.said for link in links if not link.holds] == []
    (silver,) = (link for link in links if link.name == "positions of silver.access_log")
    assert silver.notes == ("batch 1 is excluded: it may still be written to silver.quarantine",)


def test_files_left_by_a_killed_batch_are_counted(ran: House, spark: SparkSession) -> None:
    table = ran.lake / "bronze/access_log"
    # a file as old as the last commit could belong to a batch that is being written
    one = min(table.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    shutil.copy2(one, table / "part-left.snappy.parquet")
    links = prove(ran, spark)
    (link,) = (link for link in links if link.name == "data files of bronze.access_log")
    assert link.holds
    assert link.notes[0].startswith("1 file that no commit refers to")


def test_files_are_listed_the_same_through_hadoop(ran: House, spark: SparkSession) -> None:
    root = str(ran.lake / "bronze/access_log")
    assert list_hadoop(spark, root) == list_local(root)


def test_files_are_listed_the_same_by_delta_rs(ran: House, spark: SparkSession) -> None:
    gold, silver = str(ran.table("gold/error_log")), str(ran.table("silver/access_log"))
    spark.sql(f"RESTORE TABLE delta.`{gold}` TO VERSION AS OF 1")
    spark.sql(f"ALTER TABLE delta.`{gold}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"DELETE FROM delta.`{gold}` WHERE minute(log_time) = 9")
    for table in (silver, gold):
        for version in DeltaLog(LocalFiles(), table).versions():
            listed = listed_by_delta_rs(table, version)
            assert listed is None or sorted(listed) == sorted(listed_by_delta(spark, table, version))
    assert listed_by_delta_rs(silver, 1)
    assert listed_by_delta_rs(f"{silver}%", 1) is None


def test_a_lake_that_is_written_during_a_proof_holds(house: House, spark: SparkSession) -> None:
    house.sets.append("run.trigger=200 milliseconds")
    house.write("a.log", *FIRST)
    process = house.start("run")
    try:
        until(lambda: "gold/error_log" in house.versions())
        for number in range(2):
            house.write(f"b{number}.log", *SECOND)
            links = prove(house, spark, full=True)
            assert [f"{link.name}: {link.said}" for link in links if not link.holds] == []
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert set(house.versions()) == set(house.tables)
    assert all(link.holds for link in prove(house, spark))


def test_the_command_prints_each_link_and_exits_1_if_one_fails(ran: House, spark: SparkSession) -> None:
    said = ran.tell(spark, "prove", "--json")
    value = json.loads(said.splitlines()[-1])
    assert value["holds"]
    shutil.copy(log(ran, "gold/error_log", 2), log(ran, "gold/error_log", 3))
    said = ran.tell(spark, "prove", expect=1)
    assert "\nDOES NOT HOLD: positions of gold.error_log: batch 1 (version 3" in said
    assert said.splitlines()[-1].startswith("not proven: positions of gold.error_log does not hold")


def test_a_run_proves_what_it_wrote_and_exits_1_if_a_link_fails(ran: House, spark: SparkSession) -> None:
    ran.write("later.log", b"2017-07-30 14:20:00 ERROR later")
    said = [
        json.loads(line)
        for line in ran.tell(spark, "run", "--once", "--prove", "--json").splitlines()
        if line[0] == "{"
    ]
    assert [line["event"] for line in said[-2:]] == ["end", "proof"]
    assert said[-2]["batches"] > 0
    assert said[-1]["holds"]
    shutil.copy(log(ran, "gold/error_log", 3), log(ran, "gold/error_log", 4))
    lines = ran.tell(spark, "run", "--once", "--prove", expect=1).splitlines()
    assert "oncelake: " in lines[-1] or lines[-1].startswith("not proven: ")


def test_a_run_without_an_end_is_not_proven(ran: House, spark: SparkSession) -> None:
    assert "--prove needs --once" in ran.tell(spark, "run", "--prove", expect=2)


def test_without_a_list_of_delta_files_the_rest_is_proven_and_noted(
    ran: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Databricks, whose Delta has other classes."""
    monkeypatch.setattr(runtime, "DELTA_LOG", "com.example.NoSuchClass")
    links = prove(ran, spark)
    assert all(link.holds for link in links)
    assert not [link for link in links if link.name.startswith("data files")]
    told = [link for link in links if any("data files are not checked" in metadata for metadata in link.notes)]
    assert len(told) == len(ran.tables)
