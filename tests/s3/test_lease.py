"""One driver at a time has a lake in a bucket, whichever host it is on: killed, paused, moved, or two at once."""

import json
import os
import signal

import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.house import kill_group, until
from tests.support.processes import wait_for
from tests.support.s3_house import S3House, error_of

pytestmark = pytest.mark.chain

BRONZE = "bronze/access_log/_delta_log/"
LEASE = "lake/_oncelake/lease/"
MOVED = "as another host has run the lake"


def write_more(house: S3House, number: int) -> None:
    write_late_and_broken(house.logs / f"more-{number}", late=20, broken=6, seed=number)


def must_hold(house: S3House) -> None:
    """Compare every table with all lines, and prove the lake."""
    directories = [house.logs, *sorted(house.logs.glob("more-*"))]
    house.must_be([line for directory in directories for line in lines_of(directory)])
    assert '"holds": true' in house.call("prove", "--json")


def test_a_driver_that_moves_to_another_host_and_back_goes_on_exactly(house: S3House) -> None:
    write_log(house.logs, 300)
    for number, host in enumerate(("one", "two", "one")):
        house.host = host
        write_more(house, number)
        assert (MOVED in house.call("run", "--once")) == (number > 0)
    house.host = "two"
    must_hold(house)
    assert "ok  silver: checkpoint behind: " in house.call("doctor")


def test_a_start_waits_for_the_term_of_a_driver_that_was_killed(house: S3House) -> None:
    write_log(house.logs, 500)
    process = house.start("run")
    wait_for(process, lambda: house.newest(BRONZE) > 0)
    kill_group(process)
    said = house.call("run", "--once")
    assert said.count("does not renew its lease: waiting up to 15 s for its end") == 1
    must_hold(house)


def test_a_paused_driver_ends_when_it_wakes_after_another_one_took_over(house: S3House) -> None:
    write_log(house.logs, 500)
    first = house.start("run")
    try:
        wait_for(first, lambda: house.newest(BRONZE) > 0)
        os.killpg(first.pid, signal.SIGSTOP)
        house.host = "two"
        write_more(house, 1)
        assert MOVED in house.call("run", "--once")
        write_more(house, 2)
        os.killpg(first.pid, signal.SIGCONT)
        output, _ = first.communicate(timeout=240)
    finally:
        if first.poll() is None:
            kill_group(first)
    assert first.returncode == 1, output
    assert error_of(output)
    house.call("run", "--once")
    must_hold(house)


def test_of_two_starts_at_once_one_wins_and_frees_the_lease_at_its_end(house: S3House) -> None:
    write_log(house.logs, 300)
    drivers = []
    for house.host in ("one", "two"):
        drivers.append(house.start("run", "--set", "run.lock_wait=0 seconds"))
    try:
        until(lambda: house.newest(BRONZE) > 0 and any(driver.poll() is not None for driver in drivers), 240)
        loser = next(driver for driver in drivers if driver.poll() is not None)
        winner = next(driver for driver in drivers if driver is not loser)
        output, _ = loser.communicate()
        assert "is being written by process " in error_of(output)
        os.kill(winner.pid, signal.SIGTERM)
        winner.communicate(timeout=240)
    finally:
        for driver in drivers:
            if driver.poll() is None:
                kill_group(driver)
    newest = house.bucket.get(house.bucket.names(LEASE)[-1])
    assert newest is not None
    assert json.loads(newest.content)["free"] is True
    house.call("run", "--once")
    must_hold(house)
