"""With tables in a catalog, by name: the same answer and guarantee, without reading the catalog's own files."""

import shutil
import sqlite3
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from rich.console import Console

from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table
from oncelake.common.spark.runtime import check_catalog
from oncelake.common.tables import has_table
from oncelake.engine import preflight
from oncelake.exactly_once import history
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.state import State
from oncelake.lab.demo.made_log import lines_of, write_log
from oncelake.observe.lake_watch import LakeWatch
from oncelake.observe.live import LiveBoard
from oncelake.observe.log_cache import cached
from oncelake.observe.progress import JsonLines
from oncelake.observe.report.contents import verdict
from tests.support.catalog_house import CatalogHouse
from tests.support.house import events, kill_group
from tests.support.lakes import BATCHES, LINES, MORE, forget_commits
from tests.support.made_report import facts_of
from tests.support.processes import newest, wait_for

# the tests share a lake, which one worker fills
pytestmark = pytest.mark.xdist_group("catalog")


@dataclass
class SeveralInCatalog(CatalogHouse):
    """The same with several sources, each with a directory of its name."""

    @property
    def flags(self) -> list[str]:
        return self.sets

    def declare(self, *names: str) -> None:
        """Declare the sources."""
        conf = yaml.safe_load(self.conf.read_text())
        conf.pop("source", None)
        conf["sources"] = {name: {"path": str(self.logs / name)} for name in names}
        self.conf.write_text(yaml.safe_dump(conf))
        for name in names:
            (self.logs / name).mkdir(parents=True, exist_ok=True)

    def counts(self, spark: SparkSession) -> dict[str | None, int]:
        """Return the number of silver's rows of each source."""
        silver = spark.read.table(self.chain(spark).lake.at(SILVER))
        return {row["source"]: row["count"] for row in silver.groupBy("source").count().collect()}


@pytest.fixture(scope="module")
def filled(spark: SparkSession, warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> CatalogHouse:
    """Fill a lake with three runs; each test leaves it correct, except the last ones."""
    house = CatalogHouse(tmp_path_factory.mktemp("catalog"), warehouse=warehouse, prefix="catalog_test_")
    for number, lines in enumerate(BATCHES):
        house.write(f"{number}.log", *lines)
        house.run(spark)
    return house


@pytest.mark.spark
def test_every_table_has_its_lines_and_its_proof(filled: CatalogHouse, spark: SparkSession) -> None:
    filled.must_be(filled.lines)
    assert filled.doubts(spark) == []
    assert [state.diagnosis.state for state in filled.chain(spark).states()] == [State.ALIGNED] * len(filled.stages)
    before = filled.versions()
    assert filled.run(spark) == []
    assert filled.versions() == before


@pytest.mark.spark
def test_a_watch_shows_each_stage_with_its_state_and_last_batches(filled: CatalogHouse, spark: SparkSession) -> None:
    said: list[str] = []
    board = LiveBoard(Console(width=100), filled.chain(spark), "oncelake status")
    for display in (JsonLines(said.append), board):
        follow = LakeWatch(cached(filled.chain(spark)), display)
        follow.look()
    told = events("\n".join(said))
    assert [(entry["stage"], entry["state"]) for entry in told if entry["event"] == "status"] == [
        (stage, "aligned") for stage in filled.stages
    ]
    assert [(row.stage, len(row.history)) for row in board.board().rows] == [
        (stage, len(BATCHES)) for stage in filled.stages
    ]


@pytest.mark.spark
def test_the_report_includes_tables_in_a_catalog(filled: CatalogHouse, spark: SparkSession) -> None:
    facts = facts_of(filled, spark)
    assert verdict(facts).headline == f"Every link holds: {len(filled.lines)} lines, each exactly once"
    answer, rows = filled.must_be(filled.lines), [facts.rows(str(table)) for table in (BRONZE, SILVER, QUARANTINE)]
    assert rows == [answer.lines, answer.parsed, answer.broken]
    assert facts.lines is not None
    assert facts.late is not None
    assert [batch.batch_id for batch in facts.batches if batch.stage == "silver"] == [0, 1, 2]
    assert (facts.lake, dict(facts.troubles)) == ("spark_catalog", {})


@pytest.mark.spark
@pytest.mark.parametrize("table", [BRONZE, SILVER, QUARANTINE, Table("gold", "error_log")], ids=str)
def test_the_history_agrees_with_the_log(filled: CatalogHouse, spark: SparkSession, table: Table) -> None:
    """The history has no transactions; the log files of this catalog have them, equal to those of the metadata."""
    told = [commit for commit, _ in filled.chain(spark).commit_log(table).newest_first()]
    log = DeltaLog(LocalFiles(), str(filled.table(f"{table.layer}/{table.name}")))
    written = [commit for commit, _ in log.newest_first()]
    for look in (attrgetter("version"), attrgetter("txns"), attrgetter("metadata")):
        assert list(map(look, told)) == list(map(look, written))
    for look in (attrgetter("changes_data"), attrgetter("rows_added"), attrgetter("takes_away")):
        assert list(map(look, told)) == list(map(look, written))
    assert sum(bool(commit.txns) for commit in told) >= 2


@pytest.mark.spark
def test_a_replayed_batch_is_a_no_op(filled: CatalogHouse, spark: SparkSession) -> None:
    before = filled.versions()
    for stage in filled.stages:
        forget_commits(filled, stage)
    assert {(report.stage, report.replayed) for report in filled.run(spark)} == {
        (stage, True) for stage in filled.stages
    }
    assert filled.versions() == before


@pytest.mark.spark
def test_a_long_history_is_read_in_parts(
    filled: CatalogHouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "FIRST", 1)
    chain = filled.chain(spark)
    commit_log, name = chain.commit_log(BRONZE), chain.lake.at(BRONZE)
    assert commit_log.newest() == 3
    for number in range(6):
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('some.note' = '{number}')")
    assert commit_log.newest() == 9
    assert [commit.version for commit in commit_log.since(2)] == list(range(3, 10))
    assert commit_log.versions() == list(range(10))
    state = chain.commit_log(BRONZE).state()
    assert state.last is not None
    assert state.last.version == 3


@pytest.mark.spark
def test_a_lost_checkpoint_is_recovered(filled: CatalogHouse, spark: SparkSession) -> None:
    for stage in filled.stages:
        shutil.rmtree(filled.checkpoint(stage))
    with pytest.raises(StateError, match="checkpoint lost"):
        filled.run(spark)
    filled.recover(spark)
    filled.write("more.log", *MORE)
    filled.run(spark)
    filled.must_be(filled.lines)
    assert filled.doubts(spark) == []


@pytest.mark.long
@pytest.mark.spark
def test_several_sources_come_and_go_and_are_recovered_and_rebuilt(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    house = SeveralInCatalog(tmp_path, warehouse=warehouse, prefix="several_test_")
    first, second, third = BATCHES
    house.declare("access_log", "app")
    house.write("access_log/0.log", *first)
    house.write("app/0.log", *second)
    house.run(spark)
    assert house.counts(spark) == {"access_log": 3, "app": 3}
    house.declare("app", "web")
    house.write("web/0.log", *first)
    house.write("app/1.log", *first)
    house.run(spark)
    expected = {"access_log": 3, "app": 6, "web": 3}
    assert house.counts(spark) == expected
    assert house.doubts(spark) == []
    shutil.rmtree(house.lake / "_checkpoints")
    house.declare("access_log", "app", "web")
    house.recover(spark)
    house.write("access_log/1.log", *third)
    house.run(spark)
    expected["access_log"] = 5
    assert house.counts(spark) == expected
    assert house.doubts(spark) == []
    for stage in ("bronze.app", "silver"):
        house.rebuild(spark, stage)
        assert house.counts(spark) == expected
        assert house.doubts(spark) == []


@pytest.mark.spark
def test_a_restored_table_is_detected_and_recovered(filled: CatalogHouse, spark: SparkSession) -> None:
    chain = filled.chain(spark)
    name, last = chain.lake.at(SILVER), filled.versions()["silver/access_log"]
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {last - 1}").collect()
    assert chain.stage_state(chain.stages[1]).diagnosis.state is State.CHECKPOINT_AHEAD
    with pytest.raises(StateError, match="changed by RESTORE"):
        filled.run(spark)
    filled.recover(spark, "silver")
    filled.rebuild(spark, "gold")
    filled.must_be(filled.lines)


@pytest.mark.spark
def test_a_rebuild_drops_the_tables_and_keeps_bronze_under_another_name(
    filled: CatalogHouse, spark: SparkSession
) -> None:
    said = filled.rebuild(spark, "bronze")
    filled.must_be(filled.lines)
    (aside,) = (line for line in said if line.startswith("the old table is kept as "))
    kept = aside.removeprefix("the old table is kept as ").partition(";")[0]
    assert has_table(spark, kept)
    assert spark.read.table(kept).count() == len(filled.lines)
    assert filled.doubts(spark) == []


@pytest.mark.spark
def test_a_deleted_row_breaks_the_proof(filled: CatalogHouse, spark: SparkSession) -> None:
    name = filled.chain(spark).lake.at(SILVER)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    spark.sql(f"DELETE FROM {name} WHERE message = 'five'").collect()
    assert "DELETE" in " ".join(filled.doubts(spark))


@pytest.mark.spark
def test_a_recreated_table_is_another_table(filled: CatalogHouse, spark: SparkSession) -> None:
    chain = filled.chain(spark)
    commit_log, name = chain.commit_log(BRONZE), chain.lake.at(BRONZE)
    before = commit_log.table_id()
    assert (commit_log.newest() or 0) > 0
    spark.sql(f"DROP TABLE {name}")
    assert commit_log.newest() is None
    spark.sql(f"CREATE TABLE {name} (value BINARY) USING delta")
    assert commit_log.versions() == [0]
    assert commit_log.table_id() not in (None, before)
    assert chain.stage_state(chain.stages[1]).diagnosis.state is State.SOURCE_REPLACED


@pytest.mark.spark
def test_a_served_table_is_compared_after_a_batch_that_changes_rows(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    house = CatalogHouse(tmp_path, warehouse=warehouse, prefix="served_test_")
    house.sets = [f"serving.url=sqlite:///{tmp_path}/served.db", "serving.tables=[error_log]"]
    house.tell(spark, "serving", "init")
    for name in ("one.log", "two.log"):
        house.write(name, *LINES)
        house.run(spark)
    log = DeltaLog(LocalFiles(), str(house.table("gold/error_log")))
    newest = log.newest()
    assert newest is not None
    told = house.chain(spark).commit_log(Table("gold", "error_log")).change_files(newest)
    assert told == log.change_files(newest) != 0
    assert "equal value by value in sqlite" in house.tell(spark, "prove")
    with sqlite3.connect(tmp_path / "served.db") as database:
        database.execute("UPDATE error_log SET log_count = log_count + 1")
    assert "DOES NOT HOLD: gold.error_log → serving.error_log" in house.tell(spark, "prove", expect=1)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("made", "strange"),
    [
        ("(n INT) USING delta", None),
        ("USING delta AS SELECT 1 AS n", "version 0 (CREATE TABLE AS SELECT) holds rows that no batch"),
        ("SHALLOW CLONE strange_test.copied", "that no batch of this chain wrote"),
    ],
)
def test_rows_without_a_batch_are_detected_in_the_history(spark: SparkSession, made: str, strange: str | None) -> None:
    spark.sql("CREATE SCHEMA IF NOT EXISTS strange_test")
    spark.sql("CREATE OR REPLACE TABLE strange_test.copied USING delta AS SELECT 1 AS n")
    spark.sql("DROP TABLE IF EXISTS strange_test.made")
    spark.sql(f"CREATE TABLE strange_test.made {made}")
    spark.sql("OPTIMIZE strange_test.made").collect()
    change = history.DeltaHistory(spark, "`spark_catalog`.`strange_test`.`made`").state().strange
    assert (change is None) if strange is None else (change is not None and strange in change)


@pytest.mark.long
@pytest.mark.chain
def test_a_run_after_a_kill_is_correct_with_a_persistent_catalog(tmp_path: Path) -> None:
    house = CatalogHouse(tmp_path, warehouse=tmp_path / "warehouse")
    derby = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(house.warehouse),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
    }
    settings = yaml.safe_load(house.conf.read_text())
    house.conf.write_text(yaml.safe_dump({**settings, "spark": {"conf": conf}}))
    house.sets = ["source.max_bytes_per_batch=20000", "run.trigger=0 seconds"]
    write_log(house.logs, 600)
    process = house.start("run")
    wait_for(process, lambda: newest(house.table("silver/access_log") / "_delta_log") > 0)
    kill_group(process)
    house.call("run", "--once")
    house.must_be(list(lines_of(house.logs)))


@pytest.mark.spark
def test_a_catalog_in_memory_is_refused(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "check_catalog", check_catalog)
    house = CatalogHouse(tmp_path)
    house.write("a.log", b"2017-07-30 14:09:08 ERROR one")
    assert "keeps its catalog in memory" in house.tell(spark, "run", "--once", expect=2)
