"""Gold is served into a class of a user's own: run, replay, prove, status, doctor and rebuild, and a failing store."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.observe.status import stage_status
from tests.support.house import House

pytestmark = pytest.mark.spark
OWN, STAGE = "tests.support.sinks:", "serving.error_log"
PARQUET = "oncelake.serving.sinks.parquet:ParquetStores"


def replay(house: House) -> None:
    """Remove Spark's record that the last served batch is done, as a kill after the sink's commit would."""
    commits = house.checkpoint(STAGE) / "commits"
    newest = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink()


def test_a_sink_of_your_own_is_a_stage_like_any_other(house: House, spark: SparkSession) -> None:
    says = house.root / "says"
    house.sets += [f"serving.sink={OWN}Refusing", "serving.wait=0 seconds", "serving.options.password=secret-word"]
    house.sets += [f"serving.options.file={house.root}/own.db", f"serving.options.says={says}"]
    assert house.tell(spark, "serving", "init") == "tests.support.sinks:Refusing has error_log\n"
    house.write("0.log", b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:08 ERROR two")
    house.run(spark)
    replay(house)
    assert [report.replayed for report in house.run(spark) if report.stage == STAGE] == [True]
    proof = house.lakehouse(spark).prove()
    assert proof.holds
    assert proof.links[-1].said == "2 rows, equal value by value in tests.support.sinks:Refusing"
    house.write("1.log", b"2017-07-30 14:09:09 ERROR three")
    says.write_text("away")
    with pytest.raises(StageError, match=r"serving\.error_log stopped in batch 1: .*is unavailable: no route"):
        house.run(spark)
    assert stage_status(house.chain(spark).states()[-1]).state == "target away"
    _, said = house.told(spark, "doctor", "--json")
    assert "no route with <password>" in said
    assert "secret-word" not in said + house.tell(spark, "status", "--json")
    says.write_text("broken")
    with pytest.raises(StageError, match=r"LookupError: no table\. Fix the sink") as error:
        house.run(spark)
    assert "secret-word" not in str(error.value)
    says.unlink()
    house.rebuild(spark, "serving")
    row = stage_status(house.chain(spark).states()[-1])
    assert (row.state, row.batch_id, row.backlog) == ("aligned", 0, 0)
    assert house.doubts(spark) == []


def test_a_served_table_is_compared_after_the_files_of_its_version_are_gone(house: House, spark: SparkSession) -> None:
    house.sets += [f"serving.sink={OWN}Together", f"serving.options.file={house.root}/own.db"]
    for name in ("0.log", "1.log"):
        house.write(name, b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:08 ERROR two")
        house.run(spark)
    gold = DeltaTable(str(house.table("gold/error_log")))
    gold.optimize.z_order(["log_time"])
    gold.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert house.doubts(spark) == []
    assert house.lakehouse(spark).prove().links[-1].said.startswith("2 rows, equal value by value in ")


def test_the_proof_says_that_a_sink_without_read_is_not_compared(house: House, spark: SparkSession) -> None:
    house.sets += [f"serving.sink={OWN}Unreadable", f"serving.options.file={house.root}/own.db"]
    house.write("0.log", b"2017-07-30 14:09:08 ERROR one")
    house.run(spark)
    proof = house.lakehouse(spark).prove()
    assert proof.holds
    assert proof.links[-1].said.startswith("NOT compared: tests.support.sinks:Unreadable cannot read its rows")
    assert str(proof.claim).startswith(
        "1 line, each exactly once; not compared: 1 table whose rows cannot be read back ("
    )


def test_a_store_that_fails_and_a_lost_checkpoint_double_nothing(house: House, spark: SparkSession) -> None:
    a, b = house.root / "a", house.root / "b"
    house.sets += [f"serving.sink={PARQUET}", f"serving.options.store.a={a}", f"serving.options.store.b={b}"]
    house.sets += ["serving.wait=0 seconds"]
    house.write("0.log", b"2017-07-30 14:09:08 ERROR one")
    house.run(spark)
    house.write("1.log", b"2017-07-30 14:09:09 ERROR two", b"2017-07-30 14:20:09 ERROR three")
    b.rename(house.root / "away")
    b.write_text("")
    with pytest.raises(StageError, match="store b is unavailable"):
        house.run(spark)
    b.unlink()
    (house.root / "away").rename(b)
    # gold grows before the batch that only store a has is served again, so that it could have another range
    shutil.rmtree(house.checkpoint(STAGE))
    house.write("2.log", b"2017-07-30 14:20:10 ERROR four")
    replace(house, sets=[]).run(spark)
    house.recover(spark)
    house.run(spark)
    assert house.doubts(spark) == []
    _damage(next(iter(sorted(b.rglob("*.parquet"), key=lambda path: path.stat().st_mtime, reverse=True))))
    (doubt,) = house.doubts(spark)
    assert "gold.error_log → serving.error_log: store b holds other rows than store a" in doubt


def _damage(path: Path) -> None:
    path.write_bytes(min(path.parent.glob("*.parquet"), key=lambda other: other.stat().st_mtime).read_bytes())
