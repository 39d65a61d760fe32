"""A crash test on files ends clean and leaves nothing behind, also if it is interrupted."""

import json
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from oncelake.lab.crash_test.verdict import tallies
from oncelake.lab.demo.made_log import lines_of, write_log
from oncelake.lakehouse import Lakehouse
from tests.support.house import House, until

pytestmark = pytest.mark.chain


@pytest.fixture
def temporary(house: House, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which the program creates its temporary ones."""
    path = house.root / "temporary"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def processes(text: str) -> list[str]:
    """Return the processes that have a text in their arguments."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if text in line]


@pytest.mark.spark
def test_kills_lose_nothing_and_leave_nothing(house: House, temporary: Path, spark: SparkSession) -> None:
    house.write("own.log", b"2017-07-30 14:09:08 ERROR the user's own")
    house.sets.append("serving.url=mysql://nobody@127.0.0.1:1/nothing")  # the test serves a database of its own
    said = house.tell(spark, "crash-test", "--kills", "1", "--seed", "5", "--json")
    figures = json.loads(said.splitlines()[-1])
    assert (figures["lost"], figures["doubled"], figures["prove_holds"]) == (0, 0, True)
    assert (figures["kills"], figures["restarts"], figures["rows"]) == (1, 1, 600)
    assert sum(figures["kinds"].values()) == 1
    tables = {table["table"]: table["expected"] for table in figures["tables"]}
    assert tables["bronze.access_log"] == tables["silver.access_log"] + tables["silver.quarantine"] == 600
    assert "gold.error_log" in tables
    assert said.startswith("seed 5\n1 kill, half of them right after one of 13 kinds of durable steps")
    assert not house.lake.exists()
    assert [path.name for path in house.logs.iterdir()] == ["own.log"]
    assert list(temporary.glob("oncelake-crash-test-*")) == []
    until(lambda: not processes(str(temporary)), 10)  # Spark's JVM ends a moment after the program that started it
    assert processes(str(temporary)) == []


@pytest.mark.long  # test_kill.py sends signals to a run
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_crash_test_leaves_nothing(house: House, temporary: Path, number: signal.Signals) -> None:
    process = house.start("crash-test", "--kills", "3")
    end = time.monotonic() + 120
    while not list(temporary.glob("oncelake-crash-test-*/checkpoints/bronze/offsets/*")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.2)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert list(temporary.glob("oncelake-crash-test-*")) == []
    assert processes(f"{temporary}/oncelake-crash-test-") == []


@pytest.mark.spark
def test_a_tampered_lake_is_detected(shipped_house: House, spark: SparkSession) -> None:
    house = shipped_house
    write_log(house.logs, 200)
    house.run(spark)
    lake, lines = Lakehouse.open(house.conf, house.flags, spark=spark), list(lines_of(house.logs))
    results = tallies(lake, lines)
    assert {result.table for result in results} >= {"bronze.access_log", "silver.access_log", "gold.error_log"}
    assert all(result.lost == result.doubled == 0 for result in results)
    bronze, volume = f"delta.`{house.lake}/bronze/access_log`", f"delta.`{house.lake}/gold/log_volume`"
    spark.sql(f"UPDATE {volume} SET log_count = log_count + 1 WHERE level = 'INFO'")
    spark.sql(f"INSERT INTO {bronze} SELECT * FROM {bronze} LIMIT 2")
    seen = {tally.table: tally for tally in tallies(lake, [*lines, b"never ingested"])}
    assert (seen["bronze.access_log"].lost, seen["bronze.access_log"].doubled) == (1, 2)
    assert (seen["silver.quarantine"].lost, seen["silver.quarantine"].doubled) == (1, 0)
    assert seen["gold.log_volume"].doubled > 0
    assert seen["gold.error_log"].lost == seen["gold.error_log"].doubled == 0
