"""A producer repeats a tenth of its lines while the pipeline is killed at random moments, with both writers."""

import os
import random
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House, kill_group
from tests.support.processes import SMALL, newest, wait_for
from tests.support.repeated import Sent, must_hold, repeating

pytestmark = [pytest.mark.chain, pytest.mark.long]

KILLS, FILES, LINES = 6, 30, 100


def has_planned(house: House, batch: int) -> bool:
    return newest(house.checkpoint("silver") / "offsets") >= batch


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("small_batch", ["32MiB", "1", "0"])
def test_each_event_is_kept_once_and_each_repeat_has_its_twin(
    tmp_path: Path, spark: SparkSession, small_batch: str
) -> None:
    house, chance = repeating(tmp_path), random.Random(26)
    house.sets += [*SMALL, f"run.small_batch={small_batch}"]
    kept: list[Sent] = []
    repeats: list[tuple[Sent, Sent]] = []
    for number in range(FILES):
        new = [Sent(f"event {number}-{each}", 60 + number) for each in range(LINES)]
        kept += new
        # each line is repeated once at most, or its repeats could not be told apart
        known = {twin.event for _, twin in repeats}
        chosen = [each for each in chance.sample(kept, len(new)) if each.event not in known][: len(new) // 10]
        again = [(Sent(each.event, each.minute + 20), each) for each in chosen]
        repeats += again
        sent = [each.line for each in (*new, *(line for line, _ in again))]
        house.write(f"{number:02}.log", *sent)
        # Spark reads the oldest file first, and files of one millisecond in any order: an event comes before its repeat
        os.utime(house.logs / f"{number:02}.log", (1_500_000_000 + number,) * 2)
    for _ in range(KILLS):
        process = house.start("run")
        before = newest(house.checkpoint("silver") / "commits")
        wait_for(process, partial(has_planned, house, max(before, 0)))
        time.sleep(chance.uniform(0, 3))
        kill_group(process)
    house.tell(spark, "run", "--once")
    must_hold(house, spark, kept, repeats)
