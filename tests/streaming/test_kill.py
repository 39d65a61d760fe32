"""After a process is killed, told to end, or out of disk space, the next run gives the same answer.

A process of its own is killed; the next run is in the tests' process, whose Spark is warm.
"""

import os
import random
import resource
import signal
import time

import psutil
import pytest
from pyspark.sql import SparkSession

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.house import House, events, kill_group, until
from tests.support.packed import damaged_bz2
from tests.support.processes import SMALL, has_unread_data, newest, wait_for

pytestmark = pytest.mark.chain


def test_a_kill_at_a_random_moment_loses_nothing(shipped_house: House, spark: SparkSession) -> None:
    house = shipped_house
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    house.sets = SMALL
    write_log(house.logs, 1_500)
    process = house.start("run")
    wait_for(process, lambda: newest(house.lake / "_checkpoints/bronze/offsets") >= 0)
    time.sleep(random.Random(seed).uniform(0, 12))
    kill_group(process)
    write_late_and_broken(house.logs / "more", late=20, broken=6)
    house.tell(spark, "run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])
    versions = house.versions()
    assert "no table was changed" in house.tell(spark, "run", "--once")
    assert house.versions() == versions


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_to_the_whole_group_ends_between_two_batches(
    house: House, spark: SparkSession, number: signal.Signals
) -> None:
    write_log(house.logs, 500)
    process = house.start("run", "--json")
    wait_for(process, lambda: newest(house.lake / "_checkpoints/gold/error_log/commits") >= 0)
    write_late_and_broken(house.logs / "more", late=20, broken=6)
    os.killpg(process.pid, number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert events(said)[-1]["event"] == "end"
    assert "Traceback" not in said
    for stage in house.stages:
        checkpoint = house.checkpoint(stage)
        assert newest(checkpoint / "offsets") - newest(checkpoint / "commits") in (0, 1)
    house.tell(spark, "run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])


def test_a_stage_that_fails_ends_the_run_with_one_line(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 20)
    (house.logs / "broken.log.bz2").write_bytes(damaged_bz2())
    said = house.tell(spark, "run", "--once", expect=1)
    assert said.count("\n") == 1
    assert said.startswith("oncelake: bronze stopped in batch 0: ")
    assert "broken.log.bz2" in said


def test_a_jvm_that_dies_ends_the_run_with_one_line(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 200)
    process = house.start("run")
    wait_for(process, lambda: newest(house.lake / "_checkpoints/bronze/commits") >= 0)
    (jvm,) = (child for child in psutil.Process(process.pid).children() if child.name() == "java")
    jvm.suspend()
    wait_for(process, lambda: has_unread_data(jvm.pid))  # now a call is active, which the end of the JVM interrupts
    jvm.kill()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Spark's JVM ended" in said
    assert "Traceback" not in said
    house.tell(spark, "run", "--once")
    house.must_be(list(lines_of(house.logs)))


def test_a_run_waits_for_a_jvm_that_outlives_its_python(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 400)
    house.sets = ["run.lock_wait=60 seconds"]
    first = house.start("run")
    wait_for(first, lambda: newest(house.lake / "_checkpoints/bronze/offsets") >= 0)
    os.kill(first.pid, signal.SIGKILL)
    house.tell(spark, "run", "--once")
    house.must_be(list(lines_of(house.logs)))


def test_a_stopped_python_whose_jvm_died_still_holds_the_lake(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 400)
    house.sets = ["run.lock_wait=0 seconds"]
    first = house.start("run")
    wait_for(first, lambda: newest(house.lake / "_checkpoints/gold/error_log/commits") >= 0)
    (java,) = (child for child in psutil.Process(first.pid).children() if "java" in child.name())
    os.kill(first.pid, signal.SIGSTOP)
    java.kill()
    until(lambda: java.status() == psutil.STATUS_ZOMBIE)  # its parent is stopped
    write_late_and_broken(house.logs / "more", late=20, broken=6)
    versions = house.versions()
    assert f"is being written by process {first.pid} on" in house.tell(spark, "run", "--once", expect=1)
    os.kill(first.pid, signal.SIGCONT)
    said, _ = first.communicate(timeout=120)
    assert first.returncode == 1, said
    assert "Traceback" not in said
    assert house.versions() == versions
    house.tell(spark, "run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])


def test_a_full_disk_fails_the_stage_and_loses_nothing(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 400)
    house.tell(spark, "run", "--once")
    random_text = [f"2017-07-30 14:09:08 ERROR {random.Random(n).getrandbits(4000):x}".encode() for n in range(200)]
    house.write("large.log", *random_text)
    process = house.start("run", "--once")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    house.tell(spark, "run", "--once")
    house.must_be(list(lines_of(house.logs)))
