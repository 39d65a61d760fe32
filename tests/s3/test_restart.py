"""A lake and its checkpoints on an S3 API: killed, started again, and every line counts once. `make test-s3`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.house import House, kill_group
from tests.s3.proxy import BUCKET, S3Proxy
from tests.streaming.test_kill import SMALL, newest, wait_for

pytestmark = pytest.mark.chain

STEPS = ("_checkpoints/bronze/offsets", "silver/access_log/_delta_log", "_checkpoints/gold/error_log/commits")


@dataclass
class S3House(House):
    """A lake in a bucket, which tests look at as the files that its objects are."""

    objects: Path = Path()

    @property
    def lake(self) -> Path:
        return self.objects / BUCKET / "lake"

    @property
    def flags(self) -> list[str]:
        return [f"source.path={self.logs}", f"lake.root=s3a://{BUCKET}/lake", *self.sets]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[S3House]:
    (tmp_path / "s3").mkdir()
    with S3Proxy(tmp_path / "s3") as proxy:
        yield S3House(tmp_path, sets=[*SMALL, *proxy.sets], objects=proxy.objects)


def test_kills_in_the_middle_of_each_stage_and_then_one_run(house: S3House) -> None:
    write_log(house.logs, 1_000)
    for number, step in enumerate(STEPS):
        write_late_and_broken(house.logs / f"more-{number}", late=20, broken=6, seed=number)
        before = newest(house.lake / step)
        process = house.start("run")
        wait_for(process, lambda step=step, before=before: newest(house.lake / step) > before)  # type: ignore[misc]
        kill_group(process)
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, *house.logs.glob("more-*")) for line in lines_of(directory)])
    assert '"holds": true' in house.call("prove", "--json")


def test_a_lost_checkpoint_is_written_again_in_the_bucket(house: S3House) -> None:
    write_log(house.logs, 500)
    house.call("run", "--once")
    for path in sorted((house.lake / "_checkpoints/silver").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert "checkpoint lost" in house.call("run", "--once", expect=1)
    house.call("recover")
    write_late_and_broken(house.logs / "more", late=20, broken=6, seed=1)
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])
