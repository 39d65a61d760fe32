"""Two drivers on one lake in a bucket: one wins, the other ends with one line, and every line counts once."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.house import kill_group
from tests.support.processes import SMALL
from tests.support.s3_house import WRITERS, S3House, error_of
from tests.support.s3_server import BUCKET, Server

pytestmark = pytest.mark.chain

ROUNDS = 4
BRONZE = "bronze/access_log/_delta_log/"


def wait_until(house: S3House, version: int, drivers: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until bronze has a version, which one of two drivers commits."""
    until = time.monotonic() + 240
    while house.newest(BRONZE) < version:
        assert any(driver.poll() is None for driver in drivers), [driver.communicate()[0] for driver in drivers]
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def unleased(tmp_path: Path) -> Iterator[S3House]:
    """Yield a lake whose lease keeps nobody apart, with checkpoints that all drivers share."""
    with Server(apart=True) as server:
        yield S3House(tmp_path, sets=[*SMALL, f"checkpoints=s3://{BUCKET}/lake/_checkpoints"], server=server)


@WRITERS
def test_two_drivers_at_once_lose_and_double_nothing(unleased: S3House, writer: list[str]) -> None:
    house = replace(unleased, sets=[*unleased.sets, *writer])
    write_log(house.logs, 500)
    for number in range(ROUNDS):
        write_late_and_broken(house.logs / f"more-{number}", late=20, broken=6, seed=10 + number)
        before = house.newest(BRONZE)
        drivers = []
        for house.host in ("one", "two"):
            drivers.append(house.start("run"))
        one, other = drivers[number % 2], drivers[1 - number % 2]
        try:
            wait_until(house, max(1, before + 1), drivers)
            for more in range(3):
                seed = 100 + 10 * number + more  # no file begins with bytes that set it aside
                write_late_and_broken(house.logs / f"more-{seed}", late=20, broken=6, seed=seed)
                time.sleep(2)
            if one.poll() is None:
                kill_group(one)
            if other.poll() is not None:
                output, _ = other.communicate()
                assert error_of(output)
                assert other.returncode == 1, output
        finally:
            for driver in drivers:
                if driver.poll() is None:
                    kill_group(driver)
    house.call("recover")
    house.call("run", "--once")
    directories = [house.logs, *sorted(house.logs.glob("more-*"))]
    house.must_be([line for directory in directories for line in lines_of(directory)])
    assert '"holds": true' in house.call("prove", "--json")


def test_a_store_that_lets_a_put_replace_another_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with Server(honours=False) as server:
        house = S3House(tmp_path, sets=[*SMALL], server=server)
        write_log(house.logs, 10)
        assert "two drivers would overwrite each other's commits" in house.call("run", "--once", expect=2)
        assert server.names() in ([], ["lake/"])  # Hadoop leaves the mark of a directory


@WRITERS
def test_lost_answers_to_commits_and_to_the_lease_change_nothing(tmp_path: Path, writer: list[str]) -> None:
    lost: list[str] = []

    def loses(key: str) -> bool:
        is_commit = "/_delta_log/0" in key and key.endswith(".json")
        is_lost = (is_commit or "/_oncelake/lease/" in key) and key not in lost
        lost.extend([key] if is_lost else [])
        return is_lost

    with Server(loses=loses) as server:
        house = S3House(tmp_path, sets=[*SMALL, *writer], server=server)
        write_log(house.logs, 200)
        house.call("run", "--once")
        house.must_be([*lines_of(house.logs)])
        assert len([key for key in lost if "/_delta_log/" in key]) > 5
        assert len([key for key in lost if "/_oncelake/" in key]) > 1
        clients = {
            request.client.partition("/")[0]
            for request in server.requests
            if request.method == "PUT" and request.key in lost and not request.key.endswith(f"{0:020}.json")
        }
        assert ("object_store" in clients) is (not writer)
        assert '"holds": true' in house.call("prove", "--json")
