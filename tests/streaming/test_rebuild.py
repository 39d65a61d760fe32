"""A rebuild empties a stage and all after it, replays them, and gives the right answer wherever it was interrupted."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.common.spark.jvm import jvm
from oncelake.engine.make_table import make_tables
from oncelake.engine.runner import Run
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import LINES, MORE, Filled

pytestmark = pytest.mark.spark


@pytest.fixture
def house(filled: Filled, spark: SparkSession) -> House:
    return filled.again(spark)


def ids(house: House) -> dict[str, str]:
    tables = ("bronze/access_log", "silver/access_log", "gold/error_log", "gold/log_volume")
    return {name: str(house.table_id(name)) for name in tables}


@pytest.mark.parametrize(
    ("stage", "rebuilt"),
    [
        ("bronze", {"bronze/access_log", "silver/access_log", "gold/error_log", "gold/log_volume"}),
        ("silver", {"silver/access_log", "gold/error_log", "gold/log_volume"}),
        ("gold.error_log", {"gold/error_log"}),
    ],
)
def test_a_stage_and_all_after_it_are_rebuilt(house: House, spark: SparkSession, stage: str, rebuilt: set[str]) -> None:
    before = ids(house)
    house.write("more.log", *MORE)
    house.rebuild(spark, stage)
    house.run(spark)
    house.must_be(LINES + MORE)
    assert house.doubts(spark) == []
    assert {name for name, table_id in ids(house).items() if table_id != before[name]} == rebuilt
    assert house.run(spark) == []


def test_a_rebuild_that_died_is_reported_and_completed_by_another(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    remove = LocalFiles.remove

    def dying(self: LocalFiles, path: str) -> None:
        if len(removed) == 3:
            raise KeyboardInterrupt
        removed.append(path)
        remove(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "remove", dying)
        with pytest.raises(KeyboardInterrupt):
            house.rebuild(spark, "silver")
    with pytest.raises(StateError, match=r"a rebuild of silver, .* is unfinished"):
        house.run(spark)
    with pytest.raises(StateError, match="is unfinished"):
        house.rebuild(spark, "gold.error_log")
    house.rebuild(spark, "silver")
    house.must_be(LINES)
    assert house.run(spark) == []


def test_a_rebuild_that_died_during_its_replay_is_completed_by_a_run(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Run, "once", lambda _: None)
        house.rebuild(spark, "silver")
    assert not (house.lake / "silver").joinpath("access_log").exists()
    house.run(spark)
    house.must_be(LINES)


def test_bronze_is_not_emptied_while_its_source_lacks_a_file(house: House, spark: SparkSession) -> None:
    gone = next(iter(sorted(house.logs.iterdir())))
    gone.unlink()
    versions = house.versions()
    with pytest.raises(StateError, match=r"bronze is not rebuilt: file:.*0%20%5Bx%5D.* no longer exists"):
        house.rebuild(spark, "bronze")
    assert house.versions() == versions
    said = house.rebuild(spark, "bronze", accept_loss=True)
    assert any("no longer exists" in line for line in said)
    house.must_be(LINES[4:])
    (aside,) = (house.lake / "bronze").glob("access_log.aside-*")
    assert len(list(aside.glob("*.parquet"))) == 3


def test_bronze_is_not_emptied_while_a_file_is_shorter(house: House, spark: SparkSession) -> None:
    path = next(iter(sorted(house.logs.iterdir())))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .* lacks 1 of the 4 lines that bronze holds"):
        house.rebuild(spark, "bronze")


def test_a_planned_batch_is_not_forgotten_while_its_source_lacks_a_file(tmp_path: Path, spark: SparkSession) -> None:
    house = House.with_error_log(tmp_path)
    house.write("a.log", *LINES[:2])
    with crashed(spark, f"bronze/access_log/_delta_log/{1:020}.json", before=True), pytest.raises(StageError):
        house.run(spark)
    (house.logs / "a.log").unlink()
    house.write("b.log", *LINES[2:])
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .*a\.log"):
        house.rebuild(spark, "bronze")
    said = house.rebuild(spark, "bronze", accept_loss=True)
    assert any("a.log" in line for line in said)
    house.must_be(LINES[2:])


def test_silver_is_not_emptied_while_bronze_has_fewer_lines(house: House, spark: SparkSession) -> None:
    spark.sql(f"RESTORE TABLE delta.`{house.lake}/bronze/access_log` TO VERSION AS OF 2").collect()
    first = sorted(path for path in house.logs.iterdir())[-1]
    first.unlink()
    refused = house.recover(spark, "bronze")["bronze"].refused
    assert refused is not None
    assert refused.endswith("oncelake recover bronze --accept-loss")
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].steps
    with pytest.raises(StateError, match=r"silver is not rebuilt: bronze\.access_log holds 7 lines"):
        house.rebuild(spark, "silver")


def test_a_restored_bronze_reads_its_lines_again_and_all_after_it_is_rebuilt(house: House, spark: SparkSession) -> None:
    spark.sql(f"RESTORE TABLE delta.`{house.lake}/bronze/access_log` TO VERSION AS OF 2").collect()
    with pytest.raises(StateError, match=r"(?s)recover bronze.*rebuild silver"):
        house.run(spark)
    house.recover(spark, "bronze")
    house.rebuild(spark, "silver")
    house.must_be(LINES)
    assert house.run(spark) == []


def begun(house: House, *stages: str) -> None:
    """Put the lake into the state of a rebuild that died before it emptied anything."""
    (house.lake / "_rebuild.json").write_text(json.dumps({"stages": stages}))


@pytest.mark.parametrize(
    ("stage", "made", "said"),
    [
        ("gold.error_log", False, "gold.error_log has no batch: 8 lines that wait for gold.error_log"),
        ("gold.error_log", True, "gold.error_log has no batch: 8 lines that wait for gold.error_log"),
        ("silver", False, "silver.access_log has no batch: 10 lines that wait for silver.access_log"),
        ("silver", True, "silver.access_log has no batch: 10 lines that wait for silver.access_log"),
    ],
    ids=["no gold table", "an empty gold table", "no silver table", "an empty silver table"],
)
def test_a_proof_does_not_hold_over_a_table_that_a_rebuild_emptied_and_could_not_fill(
    house: House, spark: SparkSession, stage: str, said: str, *, made: bool
) -> None:
    def fails(run: Run) -> None:
        if run.chain.stages[0].name == stage:
            for rebuilt in run.chain.stages if made else ():
                make_tables(spark, run.chain, rebuilt)
            raise StateError("the first batch fails")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "once", fails)
        with pytest.raises(StateError, match="the first batch fails"):
            house.rebuild(spark, stage)
    (doubt,) = house.doubts(spark)
    assert doubt.endswith(f"{said}. Run: oncelake run")
    assert said in house.tell(spark, "prove", expect=1)
    house.run(spark)
    house.must_be(LINES)
    assert house.doubts(spark) == []


def test_a_larger_rebuild_than_the_unfinished_one_asks_for_accepted_losses(house: House, spark: SparkSession) -> None:
    begun(house, "silver", "gold.error_log", "gold.log_volume")
    next(iter(sorted(house.logs.iterdir()))).unlink()
    versions = house.versions()
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .* no longer exists"):
        house.rebuild(spark, "bronze")
    assert house.versions() == versions
    assert house.rebuild(spark, "bronze", accept_loss=True)
    house.must_be(LINES[4:])
    assert house.doubts(spark) == []


def test_silver_can_be_rebuilt_during_an_unfinished_rebuild_of_gold(house: House, spark: SparkSession) -> None:
    begun(house, "gold.error_log")
    house.write("more.log", *MORE)
    house.rebuild(spark, "silver")
    house.run(spark)
    house.must_be(LINES + MORE)
    spark.sql(f"RESTORE TABLE delta.`{house.lake}/bronze/access_log` TO VERSION AS OF 2").collect()
    begun(house, "gold.error_log")
    versions = house.versions()
    with pytest.raises(StateError, match="Fix: oncelake recover bronze"):
        house.rebuild(spark, "silver")
    assert house.versions() == versions


def test_a_copy_of_a_lake_without_its_batches_is_refused_and_rebuilt(house: House, spark: SparkSession) -> None:
    shutil.rmtree(house.lake / "_checkpoints")
    for name in house.tables:
        at = str(house.table(name))
        rows = spark.read.format("delta").load(at).localCheckpoint()
        shutil.rmtree(at)
        rows.write.format("delta").save(at)
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    versions = house.versions()
    said = house.tell(spark, "doctor", expect=1)
    assert "bronze: foreign: bronze.access_log: version 0 (WRITE) holds rows that no batch of this chain wrote" in said
    assert said.count("oncelake rebuild ") == len(house.stages)
    with pytest.raises(StateError, match="no batch of this chain wrote"):
        house.run(spark)
    assert all("oncelake rebuild" in str(outcome.refused) for outcome in house.recover(spark).values())
    assert any("changed rows and is not a commit of the chain" in doubt for doubt in house.doubts(spark))
    assert house.versions() == versions
    moved = house.logs / "0 [x] %20é.log"
    moved.rename(house.root / moved.name)
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .* no longer exists"):
        house.rebuild(spark, "bronze")
    (house.root / moved.name).rename(moved)
    house.rebuild(spark, "bronze")
    house.must_be(LINES)
    assert house.doubts(spark) == []


def test_the_marker_of_a_rebuild_names_its_stages(house: House, spark: SparkSession) -> None:
    (house.lake / "_rebuild.json").write_text(json.dumps({"stages": ["gold.error_log"]}))
    with pytest.raises(StateError, match=r"Finish it: oncelake rebuild gold\.error_log"):
        house.run(spark)
    house.rebuild(spark, "gold.error_log")
    assert not Path(house.lake / "_rebuild.json").exists()
    house.must_be(LINES)
