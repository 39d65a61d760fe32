"""After kills, suspensions and replacements of a process that serves a real MariaDB, the served table equals gold."""

import os
import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.exactly_once.lease import NAME
from oncelake.lab.demo.made_log import write_log
from tests.support.house import House, events, kill_group
from tests.support.mariadb import MariaDB
from tests.support.processes import SMALL, newest, wait_for
from tests.support.serving_house import STAGE, ServingHouse, lines, modes, more

pytestmark = [pytest.mark.database, pytest.mark.chain]


def settled(place: ServingHouse, spark: SparkSession) -> None:
    """Process all input in one run, and compare everything with the lines."""
    place.house.tell(spark, "run", "--once")
    place.must_be(lines(place.house))
    assert "proven" in place.house.tell(spark, "prove")


def batch(place: ServingHouse) -> int:
    position = place.position()
    return int(str(position[0])) if position else -1


@pytest.mark.long  # test_crash_matrix.py crashes there; test_database.py cuts each statement
@pytest.mark.timeout(900)
@modes("idempotent", "transactional")
def test_a_kill_between_the_two_commits_loses_and_doubles_nothing(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    house.sets += SMALL
    write_log(house.logs, 600)
    process = house.start("run")
    wait_for(process, lambda: batch(place) >= 0)  # MySQL has committed, Spark may not have recorded it
    kill_group(process)
    assert batch(place) >= newest(house.checkpoint(STAGE) / "commits")
    more(house, 0)
    settled(place, spark)


@pytest.mark.long  # tests/streaming/test_fencing.py suspends a process, test_database.py one within its transaction
@pytest.mark.timeout(900)
@modes("transactional", "idempotent")
def test_a_suspended_process_changes_nothing_after_its_successor_worked(
    place: ServingHouse, spark: SparkSession
) -> None:
    house = place.house
    write_log(house.logs, 200)
    house.sets.append("run.lock_wait=0 seconds")
    process = house.start("run")
    wait_for(process, lambda: batch(place) >= 0)
    os.killpg(process.pid, signal.SIGSTOP)
    (house.lake / NAME).unlink()
    more(house, 0)
    house.tell(spark, "run", "--once")
    before = place.errors(), place.position()
    os.killpg(process.pid, signal.SIGCONT)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "no longer holds" in said
    assert (place.errors(), place.position()) == before
    settled(place, spark)


@pytest.mark.long  # test_database.py and test_serving.py stop the server for a batch and for a run
@pytest.mark.timeout(900)
@modes("idempotent", "transactional")
def test_serving_catches_up_after_the_server_was_away_under_load(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 200)
    process = house.start("run", "--json")
    try:
        wait_for(process, lambda: batch(place) >= 0)
        for number, how in enumerate((signal.SIGKILL, signal.SIGTERM)):
            place.server.stop(how)
            gold = newest(house.lake / "gold/error_log/_delta_log")
            more(house, 2 * number)
            until = time.monotonic() + (20 if number else 5)
            wait_for(process, lambda gold=gold: newest(house.lake / "gold/error_log/_delta_log") > gold)  # type: ignore[misc]
            more(house, 2 * number + 1)
            time.sleep(max(0.0, until - time.monotonic()))
            place.server.start()
            wait_for(process, lambda: place.errors() == house.errors())
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    told = [event for event in events(said) if event["event"] == "waiting"]
    assert told
    assert told[0]["stage"] == STAGE
    assert "the batch waits for it" in told[0]["text"]
    settled(place, spark)


def test_errors_of_a_wrong_database_are_clear_and_show_no_secret(
    house: House, mariadb: MariaDB, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also: the password comes from the environment, and is in nothing that is printed or left behind."""
    name = "person"
    mariadb.make_database(name, password="canary-word", rights="ALL")
    monkeypatch.setenv("ONCELAKE_SERVING__PASSWORD", "canary-word")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    house.sets += [f"serving.url=mysql://{name}@127.0.0.1:{mariadb.port}/{name}", "serving.wait=2 seconds"]
    write_log(house.logs, 50)
    said = [house.call("run", "--once", expect=2)]
    assert "Run: oncelake serving init" in said[-1]
    said.append(house.tell(spark, "serving", "init", "--sql"))
    assert "CREATE TABLE IF NOT EXISTS error_log" in said[-1]
    said.append(house.tell(spark, "serving", "init"))
    said.append(house.tell(spark, "run", "--once"))
    said.append(house.tell(spark, "status"))
    said.append(house.tell(spark, "doctor"))
    mariadb.stop()
    try:
        more(house, 0)
        said.append(house.tell(spark, "run", "--once", expect=1))
        assert "serving.error_log stopped in batch 1: mysql 127.0.0.1" in said[-1]
        said.append(house.tell(spark, "doctor", expect=1))
        assert "serving.error_log: target away" in said[-1]
        said.append(house.tell(spark, "prove", expect=1))
        assert "is unavailable" in said[-1]
        said.append(house.tell(spark, "recover", "serving", expect=1))
    finally:
        mariadb.start()
    said.append(house.tell(spark, "run", "--once"))
    said.append(house.tell(spark, "prove", "--json"))
    house.sets.append("serving.tables=[nothing]")
    said.append(house.tell(spark, "doctor", expect=2))
    house.sets.append("serving.url=nonsense://canary-word@x/y")
    said.append(house.call("run", "--once", "-v", expect=2))
    assert "canary-word" not in " ".join(said)
    assert "Traceback" not in " ".join(said[:-1])
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"canary-word" not in path.read_bytes(), path
