"""A damaged Delta log goes on with a warning, or the next start refuses it by name, and what the error says helps."""

import re

import deltalake
import pyarrow
import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE
from oncelake.common.spark.jvm import jvm
from oncelake.engine import recover as recovering
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.writers.spark import commit_note
from tests.support.damages import DAMAGES, TABLES, Damage, of_the_second_kind, opened, with_checkpoints
from tests.support.house import House
from tests.support.lakes import BATCHES, LINES, MORE, keep_copy, put_back

STAGES = {"bronze/access_log": "bronze", "silver/access_log": "silver", "silver/quarantine": "silver"}
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Fill a lake with three batches, with checkpoints of the last two versions, and keep a copy."""
    house = House.with_error_log(tmp_path_factory.mktemp("ran"))
    for number, lines in enumerate(BATCHES):
        house.write(f"{number}.log", *lines)
        house.run(spark)
        for table in TABLES if number else ():
            with_checkpoints(house.table(table) / "_delta_log")
    keep_copy(house)
    return house


@pytest.fixture
def house(ran: House, spark: SparkSession) -> House:
    return put_back(ran, ran.root / "copy", spark)


def read_alike(house: House, table: str, spark: SparkSession) -> bool:
    """Return True if Spark and delta-rs read the same version of a table, and the same number of rows."""
    place = str(house.table(table))
    _, snapshot = opened(house.table(table) / "_delta_log", spark)
    rows, version = spark.read.format("delta").load(place).count(), snapshot.version()
    delta_table = deltalake.DeltaTable(place)
    files = pyarrow.table(delta_table.get_add_actions(flatten=True))
    return (rows, version) == (sum(files["num_records"].to_pylist()), delta_table.version())


CASES = [(case, table) for case in DAMAGES for table in case.tables]
IDS = [f"{table} {case.what}" for case, table in CASES]


@pytest.mark.parametrize(("case", "table"), CASES, ids=IDS)
def test_a_damaged_log_goes_on_or_names_the_way_out(
    house: House, spark: SparkSession, case: Damage, table: str
) -> None:
    log, stage = house.table(table) / "_delta_log", STAGES.get(table, "gold.error_log")
    if case.prepared is not None:
        case.prepared(log, spark)
    case.do(log)
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    house.write("more.log", *MORE)
    if case.refused:
        refused = house.lakehouse().doctor()
        assert not refused.may_start
        assert any(case.refused in row.detail for row in refused.stages)
        assert any(case.refused in said for said in house.doubts(spark))
        with pytest.raises(StateError) as found:
            house.run(spark)
        assert case.refused in str(found.value)
        walk(house, spark, case, stage, str(found.value))
    elif case.warned:
        assert any(case.warned in said for said in house.lakehouse().doctor().warnings)
    house.run(spark)
    warned = [said for said in house.said if "in the log of" in said]
    assert any(case.warned in said for said in warned) if case.warned else not warned
    if case.prepared is not of_the_second_kind:  # delta-rs does not give the rows of such a table to pyarrow
        house.must_be([*LINES, *MORE])
    assert read_alike(house, table, spark)
    assert house.doubts(spark) == []


def walk(house: House, spark: SparkSession, case: Damage, stage: str, said: str) -> None:
    """Do what the errors say, until a start is not refused any more."""
    verb = "rebuild" if stage == "silver" else "recover"
    commands = [template.replace("recover", verb).replace("…", stage) for template in case.commands]
    while said:
        command, *_ = re.findall(r"oncelake ((?:recover|rebuild) [a-z_.]+(?: --accept-loss)?)", said)
        if commands:
            assert command.removesuffix(" --accept-loss") == commands.pop(0)
        kind, name, *flags = command.split()
        if kind == "recover":
            assert house.recover(spark, name, accept_loss=bool(flags))[name].refused is None
        else:
            house.rebuild(spark, name, accept_loss=bool(flags))
        try:
            house.run(spark)
            said = ""
        except StateError as error:
            said = str(error)
    assert not commands


@pytest.mark.parametrize("what", ["the newest commit is gone, and a checkpoint holds it", "RESTORE"])
def test_bronze_does_not_go_back_over_lines_that_its_source_has_no_more(
    house: House, spark: SparkSession, what: str
) -> None:
    log = house.table("bronze/access_log") / "_delta_log"
    for case in DAMAGES:
        if case.what == what:
            case.do(log)
    if what == "RESTORE":
        spark.sql(f"RESTORE TABLE delta.`{log.parent}` TO VERSION AS OF 2")
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    before = sorted(path.name for path in log.iterdir())
    (house.logs / "2.log").unlink()
    refused = house.recover(spark, "bronze")["bronze"].refused
    assert refused is not None
    assert "2.log, which no longer exists" in refused
    assert sorted(path.name for path in log.iterdir()) == before
    if what == "RESTORE":
        assert refused.endswith("oncelake recover bronze --accept-loss")
        assert house.recover(spark, "bronze", accept_loss=True)["bronze"].refused is None
        house.rebuild(spark, "silver", accept_loss=True)
        said = [f"{link.said} {link.uncompared}" for link in house.lakehouse(spark).prove().links]
        assert any("1 file of an accepted loss: " in line and "2.log" in line for line in said)
    else:
        assert refused.endswith("oncelake rebuild bronze --accept-loss")
        house.rebuild(spark, "bronze", accept_loss=True)
    assert house.size("bronze/access_log") == 7
    assert house.doubts(spark) == []


def test_a_recovery_that_died_before_it_recorded_the_loss_is_done_again(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"RESTORE TABLE delta.`{house.table('bronze/access_log')}` TO VERSION AS OF 2")
    (house.logs / "2.log").unlink()

    def die(spark: SparkSession, path: str, metadata: CommitMetadata) -> None:
        if metadata.event is CommitKind.LOSS:
            raise KeyboardInterrupt
        commit_note(spark, path, metadata)

    with monkeypatch.context() as patch:
        patch.setattr(recovering, "commit_note", die)
        with pytest.raises(KeyboardInterrupt):
            house.recover(spark, "bronze", accept_loss=True)
    assert "--accept-loss" in str(house.recover(spark, "bronze")["bronze"].refused)
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].refused is None
    metadata = house.chain().commit_log(BRONZE).state().metadata
    assert metadata is not None
    assert [file.endswith("2.log") for file in metadata.lost] == [True]


def test_new_commits_are_not_taken_for_those_that_silver_has_read(house: House, spark: SparkSession) -> None:
    """A table that goes back gives its next commits the numbers of those that are gone."""
    log = house.table("bronze/access_log") / "_delta_log"
    max(log.glob("*[0-9].json")).write_text("")
    house.recover(spark, "bronze")
    for _ in range(2):
        spark.sql(f"ALTER TABLE delta.`{log.parent}` SET TBLPROPERTIES ('note' = 'a commit of another writer')")
    with pytest.raises(StateError, match=r"a rebuild of silver, .* is unfinished\. Finish it: oncelake rebuild silver"):
        house.run(spark)
    with pytest.raises(StateError, match="is unfinished"):
        house.lakehouse(spark).maintain()
    house.rebuild(spark, "silver")
    house.run(spark)
    house.must_be(LINES)
    assert house.doubts(spark) == []


def test_a_loss_is_not_taken_for_a_commit_that_silver_has_read(house: House, spark: SparkSession) -> None:
    """The tables of bronze come from a backup of one batch before, and a file of the last batch is gone."""
    log = house.table("bronze/access_log") / "_delta_log"
    for path in log.glob(f"*{max(log.glob('*[0-9].json')).name[:20]}*"):
        path.unlink()
    (log / "_last_checkpoint").unlink(missing_ok=True)
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    sorted(house.logs.iterdir())[-1].unlink()
    house.recover(spark, "bronze", accept_loss=True)
    with pytest.raises(StateError, match="is unfinished"):
        house.run(spark)
    with pytest.raises(StateError, match=r"bronze\.access_log holds 7 lines, but silver.*--accept-loss"):
        house.rebuild(spark, "silver")  # silver still has the lines of the lost file
    house.rebuild(spark, "silver", accept_loss=True)
    house.run(spark)
    assert house.doubts(spark) == []
