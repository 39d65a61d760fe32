"""A log that is written to and rotated for ten minutes, while the pipeline is killed every twenty seconds."""

import random
import shutil
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House, kill_group
from tests.support.tailing import pack

pytestmark = [pytest.mark.chain, pytest.mark.long]

SECONDS, KILLED_EVERY, KEPT = 600.0, 20.0, 150


class Program(threading.Thread):
    """Writes about 600 lines a second to a log, and rotates it every few seconds as logrotate can be told to.

    Attributes:
        lines: what was written.
    """

    def __init__(self, logs: Path) -> None:
        super().__init__(daemon=True)
        self._logs, self._chance = logs, random.Random(7)
        self.lines: list[bytes] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        rotation = time.monotonic() + self._chance.uniform(4, 8)
        while not self.stopping.wait(0.05):
            first, count = len(self.lines), self._chance.randint(1, 60)
            new = [f"2017-07-30 14:09:08 ERROR {first + each}".encode() for each in range(count)]
            with (self._logs / "app.log").open("ab") as file:
                file.write(b"".join(line + b"\n" for line in new))
            self.lines += new
            if time.monotonic() > rotation:
                self._rotate()
                rotation = time.monotonic() + self._chance.uniform(4, 8)

    def _rotate(self) -> None:
        """Rename the log, or copy and cut it; compress the one before; delete the oldest."""
        log = self._logs / "app.log"
        found = sorted(self._logs.glob("app.log.*"), key=lambda path: int(path.name.split(".")[2]), reverse=True)
        for path in found:
            parts = path.name.split(".")
            path.rename(path.with_name(".".join(["app.log", str(int(parts[2]) + 1), *parts[3:]])))
        if self._chance.random() < 0.5:
            log.rename(self._logs / "app.log.1")
        else:
            shutil.copyfile(log, self._logs / "app.log.1")
            log.write_bytes(b"")
        before = self._logs / "app.log.2"
        if before.exists():
            pack(before)
        (self._logs / f"app.log.{KEPT}.gz").unlink(missing_ok=True)


@pytest.mark.timeout(3600)
def test_a_log_that_rotates_counts_once_through_thirty_kills(house: House, spark: SparkSession) -> None:
    house.sets, house.java = ["source.kind=tail"], ""
    program = Program(house.logs)
    program.start()
    end, kills = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        process = house.start("run")
        time.sleep(KILLED_EVERY)
        assert process.poll() is None, process.communicate()
        kill_group(process)
        kills += 1
    program.stopping.set()
    program.join()
    house.run(spark)
    assert kills >= 25
    house.must_be(program.lines)
    assert house.doubts(spark) == []
