"""After any damage to a checkpoint or a table, `run` refuses, `recover` repairs it, and the answer is exact."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from tests.support.house import House
from tests.support.lakes import LINES, MORE, Filled

pytestmark = pytest.mark.spark


@pytest.fixture
def house(filled: Filled, spark: SparkSession) -> House:
    return filled.again(spark)


def delete(house: House, *stages: str) -> None:
    for stage in stages:
        shutil.rmtree(house.checkpoint(stage))


def remove(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def damage_each(house: House) -> None:
    """Remove another file from each stage: the last of offsets, both of the last batch, metadata, a middle one."""
    remove(house.checkpoint("bronze") / "offsets" / "2")
    for name in ("offsets", "commits"):
        remove(house.checkpoint("silver") / name / "2")
    remove(house.checkpoint("gold.error_log") / "metadata")
    remove(house.checkpoint("gold.log_volume") / "offsets" / "1")


def truncate_each(house: House) -> None:
    """Cut a file short in each stage, with and without its checksum."""
    (house.checkpoint("bronze") / "sources" / "0" / "1").write_text("v1")
    (house.checkpoint("silver") / "offsets" / "2").write_bytes(b"")
    (house.checkpoint("gold.error_log") / "commits" / "2").write_bytes(b"")
    (house.checkpoint("gold.log_volume") / "metadata").write_bytes(b"")


def lose_the_source_log(house: House) -> None:
    shutil.rmtree(house.checkpoint("bronze") / "sources")
    delete(house, "silver", "gold.error_log", "gold.log_volume")


DAMAGE: dict[str, Callable[[House], None]] = {
    "one deleted": lambda house: delete(house, "gold.error_log"),
    "all deleted": lambda house: delete(house, *house.stages),
    "single files deleted": damage_each,
    "files truncated": truncate_each,
    "the list of seen files deleted": lose_the_source_log,
}


def recovered(house: House, spark: SparkSession, *stages: str) -> None:
    """Check that the run refuses and names the way out; recover, ingest more, compare the tables with plain Python."""
    versions = house.versions()
    with pytest.raises(StateError) as caught:
        house.run(spark)
    for stage in stages:
        assert f"{stage}: " in str(caught.value)
        assert f"oncelake recover {stage}" in str(caught.value)
    assert house.versions() == versions
    outcomes = house.recover(spark)
    assert not [outcome.refused for outcome in outcomes.values() if outcome.refused]
    assert [name for name, outcome in outcomes.items() if outcome.steps] == list(stages)
    more(house, spark)


def more(house: House, spark: SparkSession) -> None:
    house.write("more.log", *MORE)
    house.run(spark)
    house.must_be(LINES + MORE)
    versions = house.versions()
    assert house.run(spark) == []
    assert house.versions() == versions


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_lost_checkpoint_is_recovered_from_the_table(
    house: House, spark: SparkSession, damage: Callable[[House], None]
) -> None:
    damage(house)
    recovered(house, spark, *(("gold.error_log",) if damage is DAMAGE["one deleted"] else house.stages))
    if damage is DAMAGE["all deleted"]:
        assert house.doubts(spark) == []


@pytest.mark.parametrize("after", [0, 1])
def test_an_old_copy_of_every_checkpoint_is_replaced(
    house: House, spark: SparkSession, filled: Filled, after: int
) -> None:
    for stage in house.stages:
        delete(house, stage)
        shutil.copytree(filled.old_checkpoint(stage, after), house.checkpoint(stage))
    recovered(house, spark, *house.stages)


def test_a_checkpoint_of_another_stage_is_replaced(house: House, spark: SparkSession) -> None:
    delete(house, "gold.error_log")
    shutil.copytree(house.checkpoint("gold.log_volume"), house.checkpoint("gold.error_log"))
    recovered(house, spark, "gold.error_log")


@pytest.mark.parametrize("version", [1, 2])
def test_a_restored_gold_table_continues_under_a_new_query_id(house: House, spark: SparkSession, version: int) -> None:
    restore(spark, house, "gold/error_log", version)
    before = last_note(house, "gold/error_log")
    recovered(house, spark, "gold.error_log")
    assert last_note(house, "gold/error_log") != before


def test_a_gold_table_restored_twice_continues(house: House, spark: SparkSession) -> None:
    restore(spark, house, "gold/error_log", 1)
    house.recover(spark)
    house.run(spark)
    house.must_be(LINES)
    restore(spark, house, "gold/error_log", 2)
    recovered(house, spark, "gold.error_log")
    assert house.doubts(spark) == []


def test_a_quarantine_behind_silver_is_recovered(house: House, spark: SparkSession) -> None:
    restore(spark, house, "silver/quarantine", 1)
    recovered(house, spark, "silver")
    assert house.doubts(spark) == []


def test_a_quarantine_ahead_of_silver_is_restored_and_gold_is_rebuilt(house: House, spark: SparkSession) -> None:
    restore(spark, house, "silver/access_log", 2)
    with pytest.raises(StateError, match=r"(?s)recover silver.*rebuild gold\.error_log.*rebuild gold\.log_volume"):
        house.run(spark)
    outcomes = house.recover(spark)
    assert [step.split(",")[0] for step in outcomes["silver"].steps[:2]] == [
        "restore silver.quarantine to version 1",
        "commit to silver.quarantine and silver.access_log",
    ]
    assert "rebuild gold.error_log" in str(outcomes["gold.error_log"].refused)
    for name in ("gold.error_log", "gold.log_volume"):
        house.rebuild(spark, name)
    house.must_be(LINES)
    more(house, spark)
    assert house.doubts(spark) == []


def test_a_checkpoint_lost_between_silver_and_quarantine_is_recovered(house: House, spark: SparkSession) -> None:
    commit = house.lake / f"silver/quarantine/_delta_log/{2:020d}.json"
    remove(commit)
    commit.with_suffix(".crc").unlink(missing_ok=True)
    delete(house, "silver")
    assert house.size("silver/quarantine") == 1
    recovered(house, spark, "silver")


def test_a_recovery_that_died_after_its_commits_is_repeated(house: House, spark: SparkSession) -> None:
    before = shutil.copytree(house.checkpoint("gold.error_log"), house.root / "before-recovery", dirs_exist_ok=True)
    restore(spark, house, "gold/error_log", 1)
    house.recover(spark)
    delete(house, "gold.error_log")
    shutil.copytree(before, house.checkpoint("gold.error_log"))
    recovered(house, spark, "gold.error_log")


def test_a_table_restored_to_before_its_first_batch_is_refused_and_rebuilt(house: House, spark: SparkSession) -> None:
    restore(spark, house, "gold/error_log", 0)
    assert "oncelake rebuild gold.error_log" in str(house.recover(spark)["gold.error_log"].refused)
    house.rebuild(spark, "gold.error_log")
    more(house, spark)


def test_a_silver_table_changed_by_hand_is_refused(house: House, spark: SparkSession) -> None:
    silver = f"delta.`{house.lake}/silver/access_log`"
    with pytest.raises(Exception, match="append"):
        spark.sql(f"DELETE FROM {silver} WHERE level = 'INFO'")
    spark.sql(f"ALTER TABLE {silver} UNSET TBLPROPERTIES ('delta.appendOnly')")
    spark.sql(f"DELETE FROM {silver} WHERE level = 'INFO'")
    with pytest.raises(StateError, match=r"gold\.error_log: source replaced: silver\.access_log was changed by DELETE"):
        house.run(spark)


def test_the_loss_of_a_planned_file_needs_consent(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("gone.log", *MORE)
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "append", stop)
        with pytest.raises(StageError):
            house.run(spark)
    (house.logs / "gone.log").unlink()
    with pytest.raises(StateError, match=r"gone\.log, which no longer exists.*recover bronze --accept-loss"):
        house.run(spark)
    assert "--accept-loss" in str(house.recover(spark, "bronze")["bronze"].refused)
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].steps
    assert len(DeltaLog(LocalFiles(), str(house.lake / "bronze/access_log")).state().metadata.lost) == 1  # type: ignore[union-attr]
    more(house, spark)
    assert house.doubts(spark) == []


def stop(*_: object) -> None:
    raise ValueError("stopped")


def test_the_old_checkpoint_is_kept_aside_completely(house: House, spark: SparkSession) -> None:
    remove(house.checkpoint("gold.error_log") / "metadata")
    was = sorted(path.name for path in (house.checkpoint("gold.error_log") / "offsets").iterdir())
    kept = house.recover(spark)["gold.error_log"].kept
    assert kept is not None
    assert sorted(path.name for path in (Path(kept) / "offsets").iterdir()) == was


def restore(spark: SparkSession, house: House, table: str, version: int) -> None:
    spark.sql(f"RESTORE TABLE delta.`{house.lake}/{table}` TO VERSION AS OF {version}").collect()


def last_note(house: House, table: str) -> str:
    metadata = DeltaLog(LocalFiles(), str(house.lake / table)).state().metadata
    assert metadata is not None
    return metadata.query_id
