"""The last sentence of a proof counts only lines that were compared, also after the clean-up of Delta's logs."""

import json
import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import OncelakeError, StageError, StateError
from oncelake.exactly_once.link import Link
from oncelake.proof.result import ProofResult
from oncelake.serving.database import Database, parse_url
from tests.support.cut_logs import cut
from tests.support.house import House
from tests.support.lakes import keep_copy, put_back

pytestmark = pytest.mark.spark

BATCHES = (
    [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"no line of the format"],
    [b"2017-07-30 14:09:59 ERROR three", b"2017-07-30 14:11:00 WARN four", b""],
    [b"2017-07-30 14:12:00 ERROR five", b"2017-07-30 14:13:00 ERROR six", b"no line either"],
)
EVERY = "9 lines, every one exactly once"
TABLES = ("bronze/access_log", "silver/access_log", "silver/quarantine", "gold/error_log")


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Fill a lake with three batches in every table, and keep a copy after each one."""
    house = House.with_error_log(tmp_path_factory.mktemp("filled"))
    house.sets = [f"serving.url={url(house)}", "serving.tables=[error_log]"]
    house.tell(spark, "serving", "init")
    for number, lines in enumerate(BATCHES):
        house.write(f"{number}.log", *lines)
        house.run(spark)
        copy = keep_copy(house, f"copy-{number}")
        shutil.copy(house.root / "served.db", copy / "served.db")
    return house


@pytest.fixture
def ran(filled: House, spark: SparkSession) -> House:
    """Restore the filled lake."""
    sets, house = filled.sets, put_back(filled, filled.root / "copy-2", spark)
    house.sets = sets
    serve(house, house.root / "copy-2")
    return house


def url(house: House) -> str:
    return f"sqlite:///{house.root}/served.db"


def serve(house: House, copy: Path) -> None:
    """Restore the database of a copy; an open connection still has the old one."""
    shutil.copy(copy / "served.db", house.root / "served.db")
    Database(parse_url(url(house))).engine.dispose()


def set_back(house: House, *stages: str, to: int = 1) -> None:
    """Put stages back to where they were after a batch, as a run that is slow would be."""
    copy = House(house.root / f"copy-{to}")
    for stage in stages:
        layer = stage.partition(".")[0]
        shutil.rmtree(house.lake / layer, ignore_errors=True)
        if (copy.lake / layer).exists():
            shutil.copytree(copy.lake / layer, house.lake / layer)
        shutil.rmtree(house.checkpoint(stage))
        shutil.copytree(copy.checkpoint(stage), house.checkpoint(stage))
    if "serving.error_log" in stages:
        serve(house, copy.root)


def prove(house: House, spark: SparkSession, **options: bool | int) -> ProofResult:
    return house.lakehouse(spark).prove(**options)  # type: ignore[arg-type]


def claim(house: House, spark: SparkSession, **options: bool | int) -> str:
    """Prove a lake that holds, and return what the proof says of its lines."""
    proven = prove(house, spark, **options)
    assert proven.holds, proven.links[-1].said
    return str(proven.claim)


def link(proven: ProofResult, name: str) -> Link:
    return next(candidate for candidate in proven.links if candidate.name.startswith(name))


@pytest.mark.parametrize("tables", [[table] for table in TABLES] + [TABLES], ids=[*TABLES, "all"])
def test_rows_whose_commits_are_gone_are_compared_by_their_origin(
    ran: House, spark: SparkSession, tables: list[str]
) -> None:
    cut(ran, spark, *tables)
    assert claim(ran, spark) == EVERY
    assert claim(ran, spark, full=len(tables) == 1) == EVERY  # the record covers them


def test_a_silver_that_is_built_again_is_compared_with_all_rows_of_a_cut_bronze(
    ran: House, spark: SparkSession
) -> None:
    set_back(ran, "silver", "gold.error_log", "serving.error_log")
    cut(ran, spark, "bronze/access_log")
    ran.rebuild(spark, "silver")
    proven = prove(ran, spark)
    assert (proven.holds, str(proven.claim)) == (True, EVERY)
    silver = link(proven, "bronze.access_log → silver")
    assert silver.said == "9 rows = 6 in silver.access_log + 3 in silver.quarantine, in 1 batch"
    assert "rows of bronze.access_log below version 3 are compared by their origin alone" in silver.notes[0]


def test_a_line_that_silver_lost_before_the_oldest_commit_is_found(ran: House, spark: SparkSession) -> None:
    table = f"delta.`{ran.table('silver/access_log')}`"
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('delta.appendOnly')")
    spark.sql(f"DELETE FROM {table} WHERE message = 'one'")
    ran.rebuild(spark, "gold.error_log")
    ran.write("3.log", b"2017-07-30 14:14:00 ERROR seven")
    ran.run(spark)
    cut(ran, spark, *TABLES)
    proven = prove(ran, spark)
    assert not proven.holds
    assert "0.log has 3 rows in it, 1 in silver.access_log and 1 in silver.quarantine: 1 missing" in (
        proven.links[-1].said
    )


def test_lines_that_wait_are_a_number_until_they_are_read(ran: House, spark: SparkSession) -> None:
    set_back(ran, "silver", "gold.error_log", "serving.error_log")
    ran.write("3.log", b"2017-07-30 14:14:00 ERROR seven")
    assert claim(ran, spark) == (
        "6 of 9 lines, each exactly once; not compared: 1 file that waits for the next run "
        f"(files of {ran.logs}), 3 lines that wait for silver.access_log (positions of silver.access_log)"
    )
    ran.run(spark)
    assert claim(ran, spark) == "10 lines, every one exactly once"


def test_lines_that_wait_for_gold_are_a_number(ran: House, spark: SparkSession) -> None:
    set_back(ran, "gold.error_log", "serving.error_log")
    assert claim(ran, spark) == (
        "7 of 9 lines, each exactly once; not compared: 2 lines that wait for gold.error_log (positions of "
        "gold.error_log)"
    )


def test_changes_that_wait_for_serving_are_a_number(ran: House, spark: SparkSession) -> None:
    set_back(ran, "serving.error_log")
    said = claim(ran, spark)
    assert said == (
        "9 lines, each exactly once; not compared: 1 change that waits in gold.error_log for serving.error_log "
        "(position of serving.error_log)"
    )


@pytest.mark.parametrize("to", [1, 0])
def test_lines_that_silver_did_not_read_before_their_commits_went_are_a_number(
    ran: House, spark: SparkSession, to: int
) -> None:
    set_back(ran, "silver", "gold.error_log", "serving.error_log", to=to)
    cut(ran, spark, "bronze/access_log")
    read = 3 + 3 * to
    said = (
        f"{read} of 9 lines, each exactly once; not compared: {9 - read} lines that wait for silver.access_log "
        "(positions of silver.access_log)"
    )
    assert claim(ran, spark) == said
    assert claim(ran, spark) == said


def test_a_gold_table_behind_the_log_of_silver_is_not_compared(ran: House, spark: SparkSession) -> None:
    set_back(ran, "gold.error_log", "serving.error_log")
    cut(ran, spark, "silver/access_log")
    assert claim(ran, spark) == (
        "3 of 9 lines, each exactly once; not compared: 2 lines that wait for gold.error_log (positions of "
        "gold.error_log), 4 lines up to a version of silver.access_log that is gone from its log (silver.access_log → "
        "gold.error_log)"
    )
    assert claim(ran, spark).startswith("3 of 9 lines")
    (is_recorded,) = {
        "gold.error_log" in json.loads(path.read_text())["tables"] for path in ran.lake.glob("_proofs/*.json")
    }
    assert not is_recorded


def test_a_served_table_behind_the_log_of_gold_is_not_compared(ran: House, spark: SparkSession) -> None:
    set_back(ran, "serving.error_log")
    cut(ran, spark, "gold/error_log")
    said = claim(ran, spark)
    assert said.startswith("9 lines, each exactly once; not compared: ")
    assert "in gold.error_log for serving.error_log (position of serving.error_log), 1 table at version " in said


def test_a_proof_since_a_time_says_which_lines_it_leaves_out(ran: House, spark: SparkSession) -> None:
    last = max(
        json.loads(line)["commitInfo"]["timestamp"]
        for line in (ran.table("bronze/access_log") / f"_delta_log/{3:020d}.json").read_text().splitlines()
        if line.startswith('{"commitInfo"')
    )
    assert claim(ran, spark, since_ms=last).startswith("3 of 9 lines, each exactly once; not compared: 6 lines from ")
    assert claim(ran, spark, since_ms=1) == EVERY
    assert claim(ran, spark) == EVERY
    assert claim(ran, spark, since_ms=last).startswith("3 of 9 lines")


def test_a_deep_proof_counts_the_lines_of_files_that_are_gone(ran: House, spark: SparkSession) -> None:
    Path(ran.logs / "0.log").unlink()
    assert claim(ran, spark) == EVERY
    assert claim(ran, spark, deep=True) == (
        "6 of 9 lines, each exactly once; not compared: 3 lines of files that were not read again "
        f"({ran.logs} → bronze.access_log)"
    )


def test_the_command_says_the_same_numbers_as_json(ran: House, spark: SparkSession) -> None:
    (ran.logs / "0.log").unlink()
    said = ran.tell(spark, "prove", "--deep")
    assert "6 of 9 lines, each exactly once; not compared: 3 lines of files that were not read again" in said
    proof = json.loads(ran.tell(spark, "prove", "--deep", "--json"))
    assert (proof["lines"], proof["compared"], len(proof["uncompared"])) == (9, 6, 1)
    assert [part["count"] for entry in proof["links"] for part in entry["uncompared"]] == [3]


LAGS = {
    "bronze/access_log": ("silver", "gold.error_log", "serving.error_log"),
    "silver/access_log": ("gold.error_log", "serving.error_log"),
    "gold/error_log": ("serving.error_log",),
}


def vacuum(house: House, spark: SparkSession, table: str) -> None:
    """Remove all data files but those of the newest version, as a job with no retention would."""
    name, check = f"delta.`{house.table(table)}`", "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    try:
        spark.sql(f"OPTIMIZE {name}")
        spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    finally:
        spark.conf.unset(check)


def walk(house: House, spark: SparkSession, said: str) -> None:
    """Do what an error says, until a run ends well and the proof holds."""
    for _ in range(3):
        match = re.search(r"oncelake rebuild ([a-z_.]+)", said)
        assert match, said
        house.rebuild(spark, match[1])
        try:
            house.run(spark)
            break
        except OncelakeError as error:
            said = str(error)
    assert prove(house, spark).holds


@pytest.mark.parametrize("table", LAGS)
def test_files_that_no_stage_needs_any_more_may_be_removed(ran: House, spark: SparkSession, table: str) -> None:
    vacuum(ran, spark, table)
    assert claim(ran, spark) == EVERY
    assert claim(ran, spark, full=True) == EVERY
    assert ran.run(spark) == []


@pytest.mark.parametrize("table", LAGS)
def test_files_that_a_stage_had_not_read_are_named_with_one_way_out(
    ran: House, spark: SparkSession, table: str
) -> None:
    set_back(ran, *LAGS[table])
    vacuum(ran, spark, table)
    proven = prove(ran, spark)
    with pytest.raises(StageError) as stopped:
        ran.run(spark)
    way = f"oncelake rebuild {LAGS[table][0]}"
    for said in (proven.links[-1].said, str(stopped.value)):
        assert f"of {table.replace('/', '.')} is gone; the last VACUUM ended in version" in said
        assert said.endswith(way)
    assert not proven.holds
    walk(ran, spark, str(stopped.value))


@pytest.mark.parametrize("table", LAGS)
def test_a_log_that_was_cut_below_a_stage_is_refused_before_spark_refuses_it(
    ran: House, spark: SparkSession, table: str
) -> None:
    set_back(ran, *LAGS[table])
    cut(ran, spark, table)
    with pytest.raises(StateError) as refused:
        ran.run(spark)
    assert f"{LAGS[table][0]}: source trimmed: versions 2 to 2 of {table.replace('/', '.')}" in str(refused.value)
    assert any("oncelake rebuild" in row.detail for row in ran.lakehouse().doctor().stages)
    walk(ran, spark, str(refused.value))


@pytest.mark.parametrize("table", LAGS)
def test_a_deletion_by_hand_below_a_stage_names_what_leads_on(ran: House, spark: SparkSession, table: str) -> None:
    name = f"delta.`{ran.table(table)}`"
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('delta.appendOnly')")
    rows = "file LIKE '%0.log'" if table.startswith("bronze") else "log_time < TIMESTAMP '2017-07-30 14:10:00'"
    spark.sql(f"DELETE FROM {name} WHERE {rows}")
    with pytest.raises(StateError) as refused:
        ran.run(spark)
    proven = prove(ran, spark)
    assert not proven.holds
    assert "DELETE (version" in proven.links[-1].said
    said = str(refused.value)
    assert f"{table.replace('/', '.')} was changed by DELETE in version" in said
    if table.startswith("gold"):
        walk(ran, spark, said)
