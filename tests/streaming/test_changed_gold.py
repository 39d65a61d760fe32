"""A gold table gets another declaration: it is built beside the old one, and takes its place in one commit."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import (
    ConfigError,
    LockedError,
    ReceiptError,
    StageError,
    StateError,
    StoppedError,
    TargetAwayError,
)
from oncelake.engine import gold_change as beside
from oncelake.engine.recover import RecoveryResult
from oncelake.exactly_once.lease import writer
from oncelake.lab.demo.server import free_port
from tests.support.crashing import crashed, died
from tests.support.house import House, until
from tests.support.lakes import LINES, MORE, Filled

pytestmark = pytest.mark.spark

CHANGED: dict[str, Any] = {"where": "level <> 'INFO'", "every": "1 hour", "by": {"level": "level"}}
CHANGED["measures"] = {"lines": "count", "last": "max(log_time)"}
TABLE = "gold/error_log"


@pytest.fixture
def house(filled: Filled, spark: SparkSession) -> House:
    return filled.again(spark)


def change(house: House, **others: Any) -> None:
    """Declare error_log in another way."""
    house.sets += [f"gold.error_log={json.dumps({**CHANGED, **others})}"]


def counted(house: House) -> dict[tuple[datetime, str], int]:
    rows = house.rows(TABLE)
    assert len({(row["log_time"], row["level"]) for row in rows}) == len(rows)
    return {(row["log_time"].replace(tzinfo=UTC), row["level"]): row["lines"] for row in rows}


def expected(lines: list[bytes]) -> dict[tuple[datetime, str], int]:
    """Count the lines of the changed declaration in plain Python."""
    counts: dict[tuple[datetime, str], int] = {}
    for line in lines:
        day, _, rest = line.decode().partition(" ")
        time, _, rest = rest.partition(" ")
        level = rest.partition(" ")[0].upper()
        if day[:2] == "20" and level not in ("INFO", ""):
            at = datetime.fromisoformat(f"{day} {time[:2]}:00:00").replace(tzinfo=UTC)
            counts[at, level] = counts.get((at, level), 0) + 1
    return counts


def proven(house: House, spark: SparkSession) -> None:
    assert house.doubts(spark) == []
    assert [str(link) for link in house.lakehouse(spark).prove(full=True).links if not link.holds] == []


def test_a_changed_table_is_built_beside_the_old_one_and_replaces_it(house: House, spark: SparkSession) -> None:
    old, before = house.table_id(TABLE), house.versions()[TABLE]
    change(house)
    with pytest.raises(
        ConfigError, match=r"gold.error_log is declared as .* run: oncelake rebuild gold.error_log|To b"
    ):
        house.run(spark)
    assert "build gold.error_log from silver.access_log beside" in house.tell(
        spark, "rebuild", "gold.error_log", "--dry-run"
    )
    assert house.versions()[TABLE] == before
    assert house.doubts(spark) == []  # by the declaration that its rows were counted by
    said = house.rebuild(spark, "gold.error_log")
    assert any("is now the new table" in line for line in said)
    assert house.versions()[TABLE] == before + 1
    assert house.table_id(TABLE) != old
    assert counted(house) == expected(LINES)
    assert not (house.lake / "_beside" / "gold.error_log").exists()
    proven(house, spark)

    assert house.run(spark) == []
    house.write("more.log", *MORE)
    reports = {report.stage: report.batch_id for report in house.run(spark)}
    assert reports["gold.error_log"] == 1
    newest = max((house.table(TABLE) / "_delta_log").glob("*.json"))
    assert '"engineInfo":"delta-rs' in newest.read_text()  # the new table is written as the old one was
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)
    (span,) = house.lakehouse(spark).history("gold.error_log")
    assert (span.batches, span.rules is not None) == ((0, 1), True)

    house.sets = []
    house.rebuild(spark, "gold.error_log")
    house.must_be(LINES + MORE)
    proven(house, spark)


def test_what_looks_at_a_lake_sees_an_old_table_by_its_own_declaration(tmp_path: Path, spark: SparkSession) -> None:
    """The columns that the table and the served one have are those of the old declaration."""
    house = House.with_error_log(tmp_path)
    serving = [f"serving.url=sqlite:///{tmp_path}/served.db", "serving.tables=[error_log]"]
    house.sets = [*serving]
    house.tell(spark, "serving", "init")
    house.write("lines.log", *LINES)
    house.run(spark)
    change(house)
    alert = {"when": "error_log.lines > 0", "to": {"kind": "webhook", "url": "http://127.0.0.1:9/none"}}
    house.sets += [f"alerts.many={json.dumps(alert)}"]

    assert "gold.error_log is declared as" in house.tell(spark, "doctor", expect=1)
    assert "gold.error_log is declared otherwise now" in house.tell(spark, "prove")
    facts = house.lakehouse(spark).report()
    assert (facts.troubles, [measure.measure for measure in facts.measures]) == ({}, ["log_count"])
    traced = house.lakehouse(spark).trace(f"lines.log:{LINES[0].decode()}").steps[-1]
    assert (traced.table, traced.row and traced.row["log_count"]) == ("gold.error_log", 4)
    assert "alert many: gold.error_log has no lines yet, as it was" in house.tell(spark, "alerts", "send")
    house.sets = [*serving]
    assert "ok  gold.error_log" in house.tell(spark, "doctor")


@contextmanager
def held(house: House) -> Iterator[None]:
    """Hold the lake's lock in another process, as a run does."""
    program = (
        "import sys\nfrom datetime import timedelta\nfrom oncelake.common.lake import Lake\nroot = sys.argv[1]\n"
        "from oncelake.exactly_once.lease import sole_writer\n"
        "with sole_writer(None, Lake(root, root), timedelta(0)):\n    print('held', flush=True)\n    input()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(house.lake)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        yield
    finally:
        holder.communicate("\n")


def built(house: House, spark: SparkSession) -> None:
    """Build the changed table beside the old one while another process holds the lake."""
    with (
        held(house),
        pytest.raises(LockedError, match=r"is built beside the old one.*process \d+.*rebuild gold.error_"),
    ):
        house.lakehouse(spark).rebuild("gold.error_log")


def test_a_run_of_the_old_declaration_goes_on_while_the_new_table_is_built(house: House, spark: SparkSession) -> None:
    house.sets = ["run.lock_wait=0 seconds"]
    versions, old = house.versions(), house.errors()
    change(house)
    built(house, spark)
    assert (house.versions(), house.errors()) == (versions, old)

    house.sets = []
    house.write("more.log", *MORE)
    house.run(spark)
    house.must_be(LINES + MORE)
    assert house.doubts(spark) == []
    change(house)
    house.rebuild(spark, "gold.error_log")
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)


def test_what_was_built_for_another_declaration_is_built_again(house: House, spark: SparkSession) -> None:
    """The old table has a planned batch and the checkpoint of one more besides."""
    house.sets = ["run.lock_wait=0 seconds"]
    change(house, where="level = 'WARN'")
    built(house, spark)
    house.sets = []
    house.write("more.log", *MORE)
    version = house.versions()[TABLE] + 1
    with (
        crashed(spark, f"{TABLE}/_delta_log/{version:020}.json", before=True),
        pytest.raises((StageError, Py4JJavaError)),
    ):
        house.run(spark)
    change(house)
    said = house.rebuild(spark, "gold.error_log")
    assert "removed what was built of another gold.error_log beside it" in said
    assert counted(house) == expected(LINES + MORE)
    # the other table's batch was committed before the crash, or it died with it
    assert {report.stage for report in house.run(spark)} <= {"gold.log_volume"}
    proven(house, spark)


def test_a_change_waits_for_an_unfinished_rebuild_and_trusts_only_the_log(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(house)
    before, marker = house.versions(), house.lake / "_rebuild.json"
    marker.write_text(json.dumps({"stages": ["silver"]}))
    with pytest.raises(StateError, match="a rebuild of silver is unfinished"):
        house.rebuild(spark, "gold.error_log")
    marker.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(tables, "replace", lambda *_: None)
        with pytest.raises(ReceiptError, match=r"gold.error_log was not replaced; run again"):
            house.rebuild(spark, "gold.error_log")
    assert house.versions() == before


def test_a_change_whose_checkpoint_cannot_be_written_is_not_finished(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(house)
    with monkeypatch.context() as patch:
        patch.setattr(
            beside, "recover", lambda *_, **__: RecoveryResult("gold.error_log", "fresh", refused="a disk is full")
        )
        with pytest.raises(StateError, match="a disk is full"):
            house.rebuild(spark, "gold.error_log")
    house.rebuild(spark, "gold.error_log")
    proven(house, spark)


def test_a_stopped_build_replaces_nothing(house: House, spark: SparkSession) -> None:
    change(house)
    stopping = threading.Event()
    stopping.set()
    before = house.versions()
    with pytest.raises(StoppedError, match=r"stopped before gold.error_log was built; to continue: oncelake rebuild"):
        house.lakehouse(spark).rebuild("gold.error_log", stopping=stopping)
    assert house.versions() == before


def test_another_change_before_the_last_one_is_finished(house: House, spark: SparkSession) -> None:
    change(house, where="level = 'WARN'")
    with died(r"error_log\.new-[^/]*/metadata$", before=True):
        house.rebuild(spark, "gold.error_log")
    house.sets = []
    change(house)
    house.rebuild(spark, "gold.error_log")
    assert counted(house) == expected(LINES)
    assert house.run(spark) == []
    proven(house, spark)


BESIDE = "_beside/gold.error_log"
BUILDING = [
    f"{BESIDE}/{TABLE}/_delta_log/{0:020}.json",
    f"{BESIDE}/_checkpoints/{TABLE}/metadata",
    f"{BESIDE}/_checkpoints/{TABLE}/offsets/0",
    f"{BESIDE}/{TABLE}/_delta_log/{1:020}.json",
    f"{BESIDE}/_checkpoints/{TABLE}/commits/0",
]
OWN = [
    r"error_log\.new-[^/]*/metadata$",
    r"error_log\.new-[^/]*/offsets/0$",
    r"error_log\.new-[^/]*/commits/0$",
    r"_checkpoints/gold/error_log\.aside-[^/]*$",
    r"_checkpoints/gold/error_log$",
    r"_rules/[0-9a-f]+\.json$",
    r"_beside/gold\.error_log$",
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("building", [pytest.param(True, marks=pytest.mark.long), False], ids=["whole", "taking over"])
def test_a_crash_at_any_durable_step_of_a_change_ends_right(
    house: House, spark: SparkSession, *, building: bool
) -> None:
    old, new = house.errors(), expected(LINES)
    version = house.versions()[TABLE] + 1
    taking = f"/{TABLE}/_delta_log/{version:020}.json"
    change(house)

    def is_whole() -> bool:
        is_new = "level" in house.rows(TABLE)[0]
        assert counted(house) == new if is_new else house.errors() == old
        return is_new

    for step in [*(BUILDING if building else []), f"lake{taking}"]:
        for before in (True, False):
            with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                house.rebuild(spark, "gold.error_log")
            assert is_whole() == (step == f"lake{taking}" and not before)
    with pytest.raises(StateError, match=r"recover gold.error_log"):
        house.run(spark)
    for step in OWN:
        for before in (True, False):
            with died(step, before=before):
                house.rebuild(spark, "gold.error_log")
            assert is_whole()
    assert house.versions()[TABLE] == version
    house.write("more.log", *MORE)
    house.run(spark)
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)


def served(house: House) -> list[tuple[str, int]]:
    with sqlite3.connect(house.root / "served.db") as connection:
        return sorted(connection.execute("SELECT log_time, log_count FROM error_log").fetchall())


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
def test_a_served_table_is_filled_again_after_the_change(tmp_path: Path, spark: SparkSession, mode: str) -> None:
    house = House.with_error_log(tmp_path)
    serving = [f"serving.url=sqlite:///{tmp_path}/served.db", "serving.tables=[error_log]", f"serving.mode={mode}"]
    house.sets = [*serving]
    house.tell(spark, "serving", "init")
    house.write("lines.log", *LINES)
    house.run(spark)
    assert [count for _, count in served(house)] == [count for _, count in sorted(house.errors().items())]

    change(house)  # other columns than the served table has
    with pytest.raises(ConfigError, match=r"has no column .*Drop the table"):
        house.rebuild(spark, "gold.error_log")
    assert "level" not in house.rows(TABLE)[0]

    house.sets = [*serving]
    change(house, where="level = 'WARN'", by={}, measures={"log_count": "count"})
    with died(r"error_log\.new-[^/]*/metadata$", before=True):
        house.rebuild(spark, "gold.error_log")
    with pytest.raises(StateError, match=r"a rebuild of serving.error_log is unfinished"):
        house.run(spark)
    with died(r"_beside/gold\.error_log$", before=True):  # the served table is empty, and filled by the next command
        house.rebuild(spark, "gold.error_log")
    assert served(house) == []
    (doubt,) = house.doubts(spark)  # its readers find nothing there
    assert re.search(r"^position of serving\.error_log: .* that wait .*Run: oncelake run$", doubt)
    house.rebuild(spark, "gold.error_log")
    assert served(house) == [("2017-07-30 14:00:00.000000", 1)]
    house.write("more.log", b"2017-07-30 14:11:00 WARN again")
    house.run(spark)
    assert [count for _, count in served(house)] == [2]
    proven(house, spark)


def counting_by_itself(root: Path, spark: SparkSession) -> House:
    """Fill a lake whose served table counts silver's lines by itself, then declare its gold table otherwise."""
    house = House.with_error_log(root)
    house.sets = [f"serving.url=sqlite:///{root}/served.db", "serving.tables=[error_log]"]
    house.sets += ["serving.mode=transactional"]
    house.tell(spark, "serving", "init")
    house.write("lines.log", *LINES)
    house.run(spark)
    change(house, where="level = 'WARN'", by={}, measures={"log_count": "count"})
    return house


def test_a_table_that_counts_by_itself_is_emptied_with_its_gold_table(tmp_path: Path, spark: SparkSession) -> None:
    """In transactional mode a served table reads silver, so it does not follow its gold table into a rebuild."""
    house = counting_by_itself(tmp_path, spark)
    with died(r"_checkpoints/gold/error_log$", before=False):
        house.rebuild(spark, "gold")
    house.rebuild(spark, "gold")
    assert served(house) == [("2017-07-30 14:00:00.000000", 1)]
    proven(house, spark)

    house.sets.pop()
    change(house, where="level = 'ERROR'", by={}, measures={"log_count": "count"})
    shutil.rmtree(house.table(TABLE))
    shutil.rmtree(house.checkpoint("gold.error_log"))
    assert "serving.error_log holds counts by another declaration" in house.tell(spark, "doctor", expect=1)
    with pytest.raises(ConfigError, match=r"by another declaration .* oncelake rebuild serving.error_log"):
        house.run(spark)
    house.rebuild(spark, "serving.error_log")
    house.run(spark)
    assert sum(count for _, count in served(house)) == sum(row["log_count"] for row in house.rows(TABLE)) > 1
    proven(house, spark)


@pytest.mark.parametrize(
    ("mode", "part", "order"), [("idempotent", "by", ["level", "length"]), ("transactional", "measures", ["n", "last"])]
)
def test_another_order_is_refused_where_served_rows_depend_on_it(
    tmp_path: Path, spark: SparkSession, mode: str, part: str, order: list[str]
) -> None:
    house = House.with_error_log(tmp_path)
    url = f"sqlite:///{tmp_path}/served.db"
    house.sets = [f"serving.url={url}", "serving.tables=[error_log]", f"serving.mode={mode}"]
    keys = {"level": "level", "length": "length(message)"}
    whole = {"by": keys, "measures": {"n": "count", "last": "max(log_time)"}}
    change(house, **whole)
    house.tell(spark, "serving", "init")
    house.write("lines.log", *LINES)
    house.run(spark)
    right = house.sets.pop()
    change(house, **{**whole, part: dict(reversed(whole[part].items()))})
    said = rf"gold\.error_log\.{part} has the order .*, but its table was built with .*{', '.join(order)}, and the rows"
    with pytest.raises(ConfigError, match=said):
        house.run(spark)
    assert "Put the old order back" in house.tell(spark, "doctor", expect=1)
    swapped = house.sets.pop()
    house.sets.append(right)
    house.write("more.log", *MORE)
    house.run(spark)
    proven(house, spark)
    house.sets[-1] = swapped
    house.rebuild(spark, "gold.error_log")
    house.write("again.log", *MORE)
    house.run(spark)
    proven(house, spark)


def test_a_rebuild_asks_for_the_sink_of_a_table_that_counts_by_itself(tmp_path: Path, spark: SparkSession) -> None:
    house = counting_by_itself(tmp_path, spark)
    house.sets[0] = f"serving.url=mysql+pymysql://u:p@127.0.0.1:{free_port()}/d"
    versions = house.versions()
    with pytest.raises(TargetAwayError):
        house.rebuild(spark, "gold")
    assert house.versions() == versions


def test_what_a_former_change_left_does_not_stop_a_rebuild(house: House, spark: SparkSession) -> None:
    change(house)
    with died(r"error_log\.new-[^/]*/metadata$", before=True):
        house.rebuild(spark, "gold.error_log")
    assert house.recover(spark, "gold.error_log")["gold.error_log"].refused is None
    house.write("more.log", *MORE)
    house.run(spark)
    assert (house.lake / BESIDE).exists()
    shutil.rmtree(house.table(TABLE))
    shutil.rmtree(house.checkpoint("gold.error_log"))
    house.rebuild(spark, "gold.error_log")
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)


@pytest.mark.long
def test_a_continuous_run_counts_on_until_the_new_table_takes_over(house: House, spark: SparkSession) -> None:
    process = house.start("run")
    try:
        until(lambda: writer(house.chain().lake) is not None, 120)
        change(house)
        house.sets += ["run.lock_wait=0 seconds"]
        with pytest.raises(LockedError, match="is built beside the old one"):
            house.rebuild(spark, "gold.error_log")
        before = sum(house.errors().values())
        house.write("more.log", *MORE)
        until(lambda: sum(house.errors().values()) == before + 2, 120)
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    house.rebuild(spark, "gold.error_log")
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)
