"""Repeats of a line are dropped once, listed with their twin, and proven, whatever dies on the way."""

import shutil
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.repeated import BROKEN, Sent, must_hold, repeating

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
    house.write(f"{number}.log", *(each.line for each in SENT[number]), BROKEN)


def must_be(house: House, spark: SparkSession, batches: int) -> None:
    kept = [each for some in KEPT[:batches] for each in some]
    must_hold(house, spark, kept, [each for some in REPEATS[:batches] for each in some])
    assert house.size("silver/quarantine") == batches


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("small_batch", "kind"), [("32MiB", ""), ("0", "_delta_log/")], ids=["small batches", "spark's writer"]
)
def test_a_crash_at_any_step_drops_each_repeat_once(
    house: House, spark: SparkSession, small_batch: str, kind: str
) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    send(house, 0)
    house.run(spark)
    send(house, 1)
    for step in (each for each in STEPS if kind in each):
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
