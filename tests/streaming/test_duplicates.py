"""Repeats of a line are dropped once, listed with their twin, and proven, whatever dies on the way."""

import shutil
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import forget_commits
from tests.support.repeated import BROKEN, SETS, Sent, must_hold, repeating
from tests.support.several import Several

pytestmark = pytest.mark.spark

# ten lines in a hundred are repeats: within a batch, of an earlier batch, out of order, and after a lost checkpoint
FIRST = [Sent(f"event {number}", 600 + number) for number in range(18)]
SECOND = [Sent(f"event {number}", 600 + number) for number in range(18, 36)]
THIRD = [Sent(f"event {number}", 700 + number) for number in range(36, 54)]
AGAIN = Sent("event 2", 720)  # two hours later: another event
SENT = (
    [*FIRST, Sent("event 3", 605), Sent("event 3", 660)],
    [*SECOND, Sent("event 20", 625), Sent("event 9", 600), AGAIN],
    [*THIRD, Sent("event 2", 725), Sent("event 30", 631)],
)
REPEATS = (
    [(Sent("event 3", 605), FIRST[3]), (Sent("event 3", 660), FIRST[3])],
    [(Sent("event 20", 625), SECOND[2]), (Sent("event 9", 600), FIRST[9])],
    [(Sent("event 2", 725), AGAIN), (Sent("event 30", 631), SECOND[12])],
)
KEPT = (FIRST, [*SECOND, AGAIN], THIRD)
OWN_CODE = """
from pyspark.sql import functions as F
def add(rows):
    return rows.withColumn("size", F.length("message"))
"""
STEPS = (
    "_checkpoints/silver/offsets/1",
    f"silver/access_log/_delta_log/{2:020}.json",
    f"silver/duplicates/_delta_log/{2:020}.json",
    f"silver/quarantine/_delta_log/{2:020}.json",
    "_checkpoints/silver/commits/1",
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return repeating(tmp_path)


def send(house: House, number: int) -> None:
    house.write(f"{number}.log", *(sent.line for sent in SENT[number]), BROKEN)


def must_be(house: House, spark: SparkSession, batches: int) -> None:
    kept = [line for some in KEPT[:batches] for line in some]
    must_hold(house, spark, kept, [line for some in REPEATS[:batches] for line in some])
    assert house.size("silver/quarantine") == batches


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("small_batch", "kind"),
    [("32MiB", ""), ("1", "_delta_log/"), pytest.param("0", "_delta_log/", marks=pytest.mark.long)],
    ids=["small batches", "large batches", "spark's writer"],
)
def test_a_crash_at_any_step_drops_each_repeat_once(
    house: House, spark: SparkSession, small_batch: str, kind: str
) -> None:
    (house.conf.parent / "own_code.py").write_text(OWN_CODE)
    house.sets += [f"run.small_batch={small_batch}", "silver.transform=own_code:add"]
    house.sets += ["source.mask={rules: [{pattern: 'any format', action: drop}]}"]
    send(house, 0)
    house.run(spark)
    send(house, 1)
    for step in (name for name in STEPS if kind in name):
        for before in (True, False):
            with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                house.run(spark)
            if step == STEPS[1] and not before:  # between the tables of a batch, maintenance rewrites silver's files
                spark.sql(f"OPTIMIZE delta.`{house.table('silver/access_log')}`")
    house.run(spark)
    must_be(house, spark, 2)
    shutil.rmtree(house.checkpoint("silver"))
    house.recover(spark, "silver")
    send(house, 2)
    house.run(spark)
    must_be(house, spark, 3)
    assert {row["value"] for row in house.rows("silver/quarantine")} == {BROKEN.removesuffix(b"any format")}
    assert all(row["size"] == len(row["message"]) for row in house.rows("silver/access_log"))


DOTTED = (
    r"pattern: '^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d)"
    r" (?<level>[^ ]+)(?: (?<message>.*))?$'"
    "\ntime: [yyyy-MM-dd HH:mm:ss, dd.MM.yyyy HH:mm:ss]\n"
)


def test_a_line_from_quarantine_may_repeat_one_that_came_meanwhile(house: House, spark: SparkSession) -> None:
    late = [
        b"30.07.2017 10:02:00 ERROR event 1",
        b"30.07.2017 10:50:00 ERROR other",
        b"30.07.2017 10:51:00 ERROR other",
    ]
    house.write("0.log", *late)
    house.run(spark)
    first = Sent("event 1", 601)
    house.write("1.log", first.line)
    house.run(spark)
    (house.root / "both.yaml").write_text(DOTTED)
    house.sets.append(f"source.format={house.root / 'both.yaml'}")
    said = house.tell(spark, "quarantine", "replay", "--dry-run")
    assert "1 of 3 lines would move to silver.access_log, 2 to silver.duplicates" in said
    with crashed(spark, f"silver/duplicates/_delta_log/{1:020}.json", before=True):
        assert house.told(spark, "quarantine", "replay")[0] != 0
    house.tell(spark, "quarantine", "replay")
    kept = [first, Sent("other", 650)]
    rows = sorted((row["value"], row["twin"]["log_time"].minute) for row in house.rows("silver/duplicates"))
    assert rows == [(late[0], 1), (late[2], 50)]
    assert sorted(row["message"] for row in house.rows("silver/access_log")) == [line.event for line in kept]
    assert house.size("silver/quarantine") == 0
    assert house.doubts(spark) == []
    forget_commits(house, "silver")  # the last batch is replayed over the same range, after the replay of quarantine
    house.run(spark)
    assert house.size("silver/duplicates") == 2
    assert house.doubts(spark) == []


def test_turned_off_it_keeps_the_lines_and_the_proof_holds(house: House, spark: SparkSession) -> None:
    send(house, 0)
    house.run(spark)
    must_be(house, spark, 1)
    way = house.lakehouse(spark).trace("0.log:2017-07-30 10:05:00 ERROR event 3")
    assert [(step.table, step.at) for step in way.steps][1:] == [("silver.duplicates", "dropped")]
    assert "repeats      the line of 2017-07-30T10:03:00Z in file:" in house.tell(
        spark, "trace", "0.log:2017-07-30 10:05:00 ERROR event 3"
    )
    assert house.tell(spark, "status").splitlines()[0].split()[4:6] == ["quarantine", "duplicates"]
    house.sets = []
    house.write("1.log", Sent("event 3", 606).line)
    house.run(spark)
    assert (house.size("silver/access_log"), house.size("silver/duplicates")) == (19, 2)
    assert house.doubts(spark) == []
    house.sets = [SETS[0], "silver.deduplicate.within=30 minutes"]
    house.write("2.log", Sent("event 3", 607).line, Sent("event 4", 620).line)
    house.run(spark)
    assert (house.size("silver/access_log"), house.size("silver/duplicates")) == (19, 4)
    assert house.doubts(spark) == []
    assert "within: PT30M" in house.tell(spark, "history", "silver.access_log", "--rules")
    house.sets = []
    house.rebuild(spark, "silver")
    assert (house.size("silver/access_log"), house.size("silver/duplicates")) == (23, 0)
    assert house.doubts(spark) == []


def test_repeats_in_another_source_are_dropped(tmp_path: Path, spark: SparkSession) -> None:
    house = Several.at(tmp_path, "web", "app")
    house.sets += SETS
    house.write("web/0.log", Sent("event 1", 601).line)
    house.write("app/0.log", Sent("event 2", 602).line)
    house.run(spark)
    house.write("web/1.log", Sent("event 2", 603).line)
    house.write("app/1.log", Sent("event 1", 604).line)
    house.run(spark)
    dropped = {(row["source"], row["twin"]["source"]) for row in house.rows("silver/duplicates")}
    assert dropped == {("web", "app"), ("app", "web")}
    assert house.doubts(spark) == []


def test_a_half_written_batch_whose_earlier_version_is_gone_writes_nothing(house: House, spark: SparkSession) -> None:
    send(house, 0)
    house.run(spark)
    send(house, 1)
    with crashed(spark, STEPS[2], before=True), pytest.raises((StageError, Py4JJavaError)):
        house.run(spark)
    silver = house.table("silver/access_log")
    spark.sql(f"OPTIMIZE delta.`{silver}`")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM delta.`{silver}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(
        StageError, match=r"must be compared with version 1 of silver.access_log.*oncelake rebuild silver"
    ):
        house.run(spark)
    house.rebuild(spark, "silver")
    must_be(house, spark, 2)
