"""Of two processes on one lake, one works, the other stops with a one-line error; no line is lost or counted twice."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from oncelake.exactly_once.lease import NAME
from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.house import House, kill_group
from tests.support.processes import newest, wait_for

pytestmark = pytest.mark.chain

LAST = "_checkpoints/gold/error_log/commits"
EVERYTHING = ("", "more")


@contextmanager
def running(house: House) -> Iterator[subprocess.Popen[str]]:
    """Start a process, and yield it when it has read all input and waits for more."""
    process = house.start("run")
    try:
        wait_for(process, lambda: newest(house.lake / LAST) >= 0)
        yield process
    finally:
        if process.poll() is None:
            kill_group(process)


def lines(house: House) -> list[bytes]:
    return [line for name in EVERYTHING for line in lines_of(house.logs / name)]


def ended(process: subprocess.Popen[str]) -> str:
    """Wait until a process has ended with an error, and return its one line."""
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    told = [line for line in said.splitlines() if line.startswith("oncelake: ")]
    assert len(told) == 1, said
    assert "Traceback" not in said
    return told[0]


@pytest.mark.long  # the next test suspends one within a batch
def test_a_suspended_process_changes_nothing_after_a_successor_took_the_lake(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 200)
    house.sets = ["run.lock_wait=0 seconds"]
    with running(house) as first:
        os.killpg(first.pid, signal.SIGSTOP)
        versions = house.versions()
        assert f"is being written by process {first.pid} on" in house.tell(spark, "run", "--once", expect=1)
        elsewhere = House(house.root, sets=[*house.sets, f"checkpoints={house.root}/elsewhere"])
        assert f"is being written by process {first.pid} on" in elsewhere.tell(spark, "run", "--once", expect=1)
        assert house.versions() == versions
        assert not (house.root / "elsewhere").exists()
        (house.lake / NAME).unlink()
        write_late_and_broken(house.logs / "more", late=20, broken=6)
        house.tell(spark, "run", "--once")
        versions = house.versions()
        os.killpg(first.pid, signal.SIGCONT)
        assert "no longer holds" in ended(first)
        assert house.versions() == versions
    house.must_be(lines(house))
    assert "no table was changed" in house.tell(spark, "run", "--once")


def test_a_process_suspended_during_a_batch_changes_nothing(house: House, spark: SparkSession) -> None:
    write_log(house.logs, 200)
    with running(house) as first:
        write_late_and_broken(house.logs / "more", late=20, broken=6)
        wait_for(first, lambda: newest(house.lake / "_checkpoints/bronze/offsets") >= 1)
        os.killpg(first.pid, signal.SIGSTOP)
        (house.lake / NAME).unlink()
        house.tell(spark, "run", "--once")
        versions = house.versions()
        os.killpg(first.pid, signal.SIGCONT)
        ended(first)
        assert house.versions() == versions
    house.must_be(lines(house))


def without_locks(house: House, checkpoints: str) -> House:
    """Return the same lake through Hadoop's ViewFs, which oncelake treats as a store without locks."""
    link = f"spark.conf.spark.hadoop.fs.viewfs.mounttable.local.link./lake=file:{house.lake}"
    house.lake.mkdir(exist_ok=True)
    sets = ["source.max_bytes_per_batch=50000", f"checkpoints=viewfs://local/lake/{checkpoints}", link]
    return House(house.root, sets=["lake.root=viewfs://local/lake", *sets])


@pytest.mark.long
def test_two_processes_on_one_checkpoint_without_a_lock_are_correct(house: House) -> None:
    write_log(house.logs, 1_000)
    lake = without_locks(house, "_checkpoints")
    processes = [lake.start("run", "--once") for _ in range(2)]
    said = [process.communicate(timeout=400)[0] for process in processes]
    for process, words in zip(processes, said, strict=True):
        assert process.returncode in (0, 1), words
        assert "Traceback" not in words
    if all(process.returncode for process in processes):
        lake.call("run", "--once")
    house.must_be(list(lines_of(house.logs)))


def test_two_processes_on_two_checkpoints_without_a_lock_do_not_both_succeed(house: House) -> None:
    write_log(house.logs, 1_000)
    processes = [without_locks(house, name).start("run", "--once") for name in ("one", "two")]
    said = [process.communicate(timeout=400)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert sorted(codes) in ([0, 1], [1, 1]), said
    assert not any("Traceback" in words for words in said)
    if "both are in the table" not in "".join(said) and 0 in codes:
        house.must_be(list(lines_of(house.logs)))
