"""Whatever is replayed, every line counts once; whatever would lose or repeat lines is refused."""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import ConfigError, OncelakeError, StageError, StateError
from oncelake.common.lake import QUARANTINE
from oncelake.engine.preflight import preflight
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.writers import spark as idempotent_write
from tests.support.house import House
from tests.support.lakes import forget_commits, keep_copy, put_back

pytestmark = pytest.mark.spark

FIRST = [
    b"2017-07-30 14:09:08 ERROR some message",
    b"2017-07-30 14:09:59 error lower case \xf0\x9f\x94\xa5",
    b"2017-07-30 14:10:00 INFO <b>html</b>; DROP TABLE x; --",
    b"",
    b"no line of the format",
    b"2017-07-30 14:10:08 ERROR with a lone \r inside",
    b"2017-07-30 14:10:09 ERROR \xff\xfe no UTF-8",
    b"2017-07-30 14:10:10 WARN NUL \x00 inside\r",
    b"2017-07-30 14:10:11 FATAL",
]
SECOND = [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR some message", b"broken"]


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Fill a lake with one run, and keep a copy."""
    house = House.with_error_log(tmp_path_factory.mktemp("filled"))
    house.write("a.log", *FIRST)
    house.run(spark)
    house.must_be(FIRST)
    keep_copy(house)
    return house


@pytest.fixture
def ran(filled: House, spark: SparkSession) -> House:
    """Restore the filled lake."""
    return put_back(filled, filled.root / "copy", spark)


def remove_last_commit(house: House, table: str, version: int) -> None:
    """Remove a table's last commit, as a kill just before it would."""
    for ending in ("json", "crc"):
        (house.lake / table / "_delta_log" / f"{version:020d}.{ending}").unlink(missing_ok=ending == "crc")
        (house.lake / table / "_delta_log" / f".{version:020d}.{ending}.crc").unlink(missing_ok=True)


def test_more_input_is_added_correctly_and_no_input_commits_nothing(ran: House, spark: SparkSession) -> None:
    ran.write("sub dir/b %20é.log", *SECOND)
    assert {report.stage: report.batch_id for report in ran.run(spark)} == {
        "bronze": 1,
        "silver": 1,
        "gold.error_log": 1,
    }
    ran.must_be(FIRST + SECOND)
    versions = ran.versions()
    assert ran.run(spark) == []
    assert ran.versions() == versions


def test_a_replayed_batch_changes_no_table(ran: House, spark: SparkSession) -> None:
    versions = ran.versions()
    for stage in ran.stages:
        forget_commits(ran, stage)
    assert [report.replayed for report in ran.run(spark)] == [True] * 3
    assert ran.versions() == versions
    ran.must_be(FIRST)


def test_a_batch_killed_between_silver_and_quarantine_is_completed(ran: House, spark: SparkSession) -> None:
    ran.write("b.log", *SECOND)
    ran.run(spark)
    forget_commits(ran, "silver")
    remove_last_commit(ran, "silver/quarantine", 2)
    versions = ran.versions()
    ran.run(spark)
    assert ran.versions() == {**versions, "silver/quarantine": 2}
    ran.must_be(FIRST + SECOND)


def test_a_half_written_batch_is_not_completed_with_another_format(ran: House, spark: SparkSession) -> None:
    forget_commits(ran, "silver")
    remove_last_commit(ran, "silver/quarantine", 1)
    ran.sets.append("silver.ahead=2 days")
    with pytest.raises(StageError, match=r"its transform, its suite or silver\.deduplicate changed"):
        ran.run(spark)
    ran.sets.clear()
    ran.run(spark)
    ran.must_be(FIRST)


def test_a_start_completes_tables_after_a_kill_during_their_creation(house: House, spark: SparkSession) -> None:
    for table in ("bronze/access_log", "silver/access_log", "gold/error_log"):
        log = house.lake / table / "_delta_log"
        log.mkdir(parents=True)
        (log / ".00000000000000000000.json.4711.tmp").write_text('{"commitInfo"')
    (house.lake / "silver/quarantine").mkdir(parents=True)
    house.write("a.log", *FIRST)
    house.run(spark)
    house.must_be(FIRST)


def test_the_confs_of_a_transaction_do_not_outlive_the_merge(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = []
    merge = idempotent_write.merge

    def watched(frame: DataFrame, *rest: Any, **more: Any) -> None:
        sessions.append(frame.sparkSession)
        merge(frame, *rest, **more)

    monkeypatch.setattr(idempotent_write, "merge", watched)
    house.sets.append("run.small_batch=0")
    house.write("a.log", *FIRST)
    house.run(spark)
    confs = (idempotent_write.APP_ID, idempotent_write.TXN_VERSION, idempotent_write.USER_METADATA)
    assert len(sessions) == 1
    assert [session.conf.get(conf, None) for session in sessions for conf in confs] == [None] * 3


def test_a_merge_that_records_no_transaction_fails_its_batch(
    ran: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran.write("b.log", *SECOND)
    ran.sets.append("run.small_batch=0")
    for conf in ("APP_ID", "TXN_VERSION"):
        monkeypatch.setattr(idempotent_write, conf, f"spark.of.another.session.{conf}")
    with pytest.raises(StageError, match=r"gold\.\w+ did not record batch 1"):
        ran.run(spark)


def test_a_replay_with_another_range_is_refused(ran: House, spark: SparkSession) -> None:
    forget_commits(ran, "gold.error_log")
    log = ran.checkpoint("gold.error_log") / "offsets" / "0"
    log.write_text(log.read_text().replace('"reservoirVersion":2', '"reservoirVersion":1'))
    (log.parent / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(StateError, match="covers another range"):
        ran.run(spark)


def test_a_gold_table_declared_later_is_filled_from_the_beginning(ran: House, spark: SparkSession) -> None:
    ran.write("b.log", *SECOND)
    ran.run(spark)
    ran.sets.append("gold.by_hour={every: 1 hour, by: {level: level}, measures: {n: count, last: max(log_time)}}")
    assert [report.stage for report in ran.run(spark)] == ["gold.by_hour"]
    errors = {row["log_time"]: row for row in ran.rows("gold/by_hour") if row["level"] == "ERROR"}
    assert {at.strftime("%m-%d %H"): row["n"] for at, row in errors.items()} == {"07-30 14": 5, "06-20 00": 1}
    last = max(row["last"] for row in errors.values())
    assert last.replace(tzinfo=None) == datetime(2017, 7, 30, 14, 10, 9)


def test_a_table_is_never_counted_with_two_declarations(ran: House, spark: SparkSession) -> None:
    ran.sets.append("gold.error_log.every=5 minutes")
    with pytest.raises(ConfigError, match=r"gold\.error_log is declared as .*5 minutes.* was built as .*1 minute"):
        preflight(spark, ran.chain(spark))


def test_a_table_with_a_transaction_retention_is_refused(ran: House, spark: SparkSession) -> None:
    table = f"delta.`{ran.lake}/gold/error_log`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')")
    with pytest.raises(
        ConfigError, match=r"gold\.error_log has delta\.setTransactionRetentionDuration = interval 1 day"
    ):
        preflight(spark, ran.chain(spark))


@pytest.mark.parametrize(
    "stages", [("bronze",), ("silver",), ("gold.error_log",), ("bronze", "silver", "gold.error_log")]
)
def test_a_deleted_checkpoint_is_refused_and_nothing_changes(
    ran: House, spark: SparkSession, stages: tuple[str, ...]
) -> None:
    for stage in stages:
        shutil.rmtree(ran.checkpoint(stage))
    versions = ran.versions()
    with pytest.raises(StateError) as caught:
        ran.run(spark)
    assert all(f"{stage}: checkpoint lost" in str(caught.value) for stage in stages)
    assert ran.versions() == versions


def test_an_old_checkpoint_put_back_is_refused(ran: House, spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(ran.lake / "_checkpoints", tmp_path / "old")
    ran.write("b.log", *SECOND)
    ran.run(spark)
    shutil.rmtree(ran.lake / "_checkpoints")
    shutil.copytree(tmp_path / "old", ran.lake / "_checkpoints")
    with pytest.raises(StateError, match="silver: checkpoint behind"):
        ran.run(spark)


def test_a_restored_table_is_refused(ran: House, spark: SparkSession) -> None:
    ran.write("b.log", *SECOND)
    ran.run(spark)
    spark.sql(f"RESTORE TABLE delta.`{ran.lake}/gold/error_log` TO VERSION AS OF 1").collect()
    with pytest.raises(StateError, match=r"gold\.error_log: checkpoint ahead: .*RESTORE in version 3"):
        ran.run(spark)


def test_a_recreated_source_table_is_refused(ran: House, spark: SparkSession) -> None:
    for place in (ran.lake / "bronze", ran.checkpoint("bronze")):
        shutil.rmtree(place)
    with pytest.raises(StateError, match="silver: source replaced"):
        ran.run(spark)


def test_a_stage_removed_with_all_after_it_is_replayed(ran: House, spark: SparkSession) -> None:
    for place in ("silver", "gold", "_checkpoints/silver", "_checkpoints/gold"):
        shutil.rmtree(ran.lake / place)
    ran.run(spark)
    ran.must_be(FIRST)


def test_bronze_keeps_every_byte_and_its_origin(ran: House) -> None:
    rows = ran.rows("bronze/access_log")
    assert sorted(row["value"] for row in rows) == sorted(FIRST)
    assert {row["file"] for row in rows} == {f"file:{ran.logs}/a.log"}
    assert {row["file_size"] for row in rows} == {(ran.logs / "a.log").stat().st_size}


def test_every_commit_records_its_range(ran: House, spark: SparkSession) -> None:
    ran.write("b.log", *SECOND)
    ran.run(spark)
    commit_log = DeltaLog(LocalFiles(), str(ran.lake / "silver/access_log"))
    first, second = [commit.metadata for commit in commit_log.since(0)]
    assert first
    assert second
    assert (first.before, second.before) == (None, first.end)
    assert second.after == (ran.checkpoint("silver") / "offsets" / "1").read_text()
    assert (second.rows, second.beside) == (7, {str(QUARANTINE): 0})


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("no")])
def test_a_batch_that_ends_early_in_any_way_fails_and_is_replayed(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    house.write("a.log", *FIRST)

    def broken(self: Batch, table: object, frame: object) -> None:
        del self, table, frame
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "append", broken)
        with pytest.raises(OncelakeError, match="bronze stopped in batch 0"):
            house.run(spark)
    house.run(spark)
    house.must_be(FIRST)
