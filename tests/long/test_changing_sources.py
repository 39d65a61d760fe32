"""Three sources of three kinds, one declared and one taken out while a run goes on that is killed again and again."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from tests.support.house import kill_group, until
from tests.support.several import Several

pytestmark = [pytest.mark.chain, pytest.mark.kafka, pytest.mark.long]

# how often a run is killed with each set of sources, and up to how many seconds after its first batch of silver; the
# last kill comes before that batch
KILLS, AFTER = 5, 4.0
SILVER = "silver/access_log"
# what a proof and a start say while silver has not read all lines of a source that is not declared any more
REFUSED = "Put it back, run oncelake run --once, then remove it"


class Programs(threading.Thread):
    """Writes to a topic, to complete text files and to a growing file of JSON, until it is stopped.

    Attributes:
        written: how many lines each source got.
    """

    def __init__(self, lake: Several, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._lake, self._broker, self._chance = lake, broker, random.Random(11)
        self.written: Counter[str] = Counter()
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.wait(0.2):
            number += 1
            count = self._chance.randint(1, 40)
            lines = [f"2017-07-30 14:09:08 ERROR {number} {each}".encode() for each in range(count)]
            self._lake.write(f"files/{number}.log", *lines)
            self._broker.send("orders", lines, partition=number % 2)
            with (self._lake.logs / "json" / "app.log").open("ab") as file:
                for line in lines:
                    file.write(b'{"time": "2017-07-30T14:09:08Z", "level": "error", "message": "%s"}\n' % line)
            self.written += Counter({"files": count, "orders": count, "json": count})


def has_grown(lake: Several, version: int | None) -> bool:
    return lake.versions().get(SILVER) != version


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as broker:
        yield broker


@pytest.mark.timeout(1800)
def test_sources_that_are_changed_while_a_run_goes_on_count_once_after_each_kill(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.make_topic("orders", partitions=2)
    lake, chance = Several.at(tmp_path, "files"), random.Random(5)
    lake.java = ""
    (lake.logs / "json").mkdir()
    json: dict[str, Any] = {"kind": "tail", "path": str(lake.logs / "json"), "format": "json"}
    orders = {"kind": "kafka", "bootstrap_servers": broker.servers, "topic": "orders"}
    programs = Programs(lake, broker)
    programs.start()

    def kill_runs(before: dict[str, Any], after: dict[str, Any]) -> None:
        """Declare other sources while a run goes on with those before, and kill it and some runs after it."""
        lake.declare("files", **before)
        for number in range(KILLS):
            before_it = lake.versions().get(SILVER)
            process = lake.start("run")
            if number < KILLS - 1:
                until(partial(has_grown, lake, before_it))
            time.sleep(chance.uniform(0, AFTER))
            if number == 0:
                lake.declare("files", **after)
                time.sleep(1)
            assert process.poll() is None, process.communicate()
            kill_group(process)
            if REFUSED in lake.told(spark, "prove")[1]:
                lake.declare("files", **before)
                lake.tell(spark, "run", "--once")
                lake.declare("files", **after)
            assert lake.doubts(spark) == []

    kill_runs({"json": json}, {"json": json, "orders": orders})
    assert lake.counts().keys() == {"files", "json", "orders"}
    kill_runs({"json": json, "orders": orders}, {"orders": orders})
    without = lake.counts()["json"]
    lake.tell(spark, "run", "--once")
    assert lake.counts()["json"] == without
    kill_runs({"orders": orders}, {"json": json, "orders": orders})
    programs.stopping.set()
    programs.join()
    lake.tell(spark, "run", "--once")
    assert lake.counts() == programs.written
    assert lake.errors().total() == programs.written.total()
    assert "every one exactly once" in lake.tell(spark, "prove", "--deep", "--full")
