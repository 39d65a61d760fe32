"""Where its stages cannot be woken, a continuous run counts new lines: each stage looks for them at its own trigger."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from oncelake.engine import runner
from tests.support.house import House, until

pytestmark = pytest.mark.spark
LINES = 2


def test_stages_that_cannot_be_woken_look_at_the_trigger_of_the_run(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "can_wake", lambda _: False)
    monkeypatch.setattr(runner, "WOKEN_TRIGGER", timedelta(hours=1))
    stopping = threading.Event()

    def has_counted(lines: int) -> bool:
        is_there = (house.table("gold/error_log") / "_delta_log").exists()
        return is_there and sum(house.errors().values()) == lines

    def feed() -> None:
        for number in range(1, LINES + 1):
            house.write(f"{number}.log", b"2017-07-30 14:00:08 ERROR order")
            until(partial(has_counted, number))
        stopping.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    house.lakehouse(spark).run(stopping=stopping)
    feeder.join()
    assert has_counted(LINES)
