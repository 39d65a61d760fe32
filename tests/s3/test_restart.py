"""A lake and its checkpoints on an S3 API: after kills and restarts, every line counts once. `make test-s3`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.s3.hadoop import settings
from tests.s3.server import BUCKET, Server
from tests.support.house import House, kill_group
from tests.support.processes import SMALL, wait_for

pytestmark = pytest.mark.chain

STEPS = ("_checkpoints/bronze/offsets/", "silver/access_log/_delta_log/", "_checkpoints/gold/error_log/commits/")


@dataclass
class S3House(House):
    """A lake in a bucket, read back by delta-rs."""

    server: Server | None = None

    @property
    def bucket(self) -> Server:
        assert self.server is not None
        return self.server

    @property
    def flags(self) -> list[str]:
        return [f"source.path={self.logs}", f"lake.root=s3a://{BUCKET}/lake", *self.sets]

    def newest(self, step: str) -> int:
        """Return the highest number in a directory of the lake, -1 if there is none."""
        names = (name.rpartition("/")[2] for name in self.bucket.names(f"lake/{step}"))
        return max((int(name.partition(".")[0]) for name in names if re.match(r"[0-9]+(\.json)?$", name)), default=-1)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._open(table).to_pyarrow_table().to_pylist()
        return rows

    def size(self, table: str) -> int:
        return int(self._open(table).to_pyarrow_table().num_rows)

    def _open(self, table: str) -> deltalake.DeltaTable:
        options = {
            "AWS_ENDPOINT_URL": self.bucket.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true",
            "AWS_REGION": "us-east-1",
        }
        return deltalake.DeltaTable(f"s3://{BUCKET}/lake/{table}", storage_options=options)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[S3House]:
    with Server() as server:
        yield S3House(tmp_path, sets=[*SMALL, *settings(server.endpoint)], server=server)


def test_kills_in_each_stage_lose_and_double_nothing(house: S3House) -> None:
    write_log(house.logs, 1_000)
    for number, step in enumerate(STEPS):
        write_late_and_broken(house.logs / f"more-{number}", late=20, broken=6, seed=number)
        before = house.newest(step)
        process = house.start("run")
        wait_for(process, lambda step=step, before=before: house.newest(step) > before)  # type: ignore[misc]
        kill_group(process)
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, *house.logs.glob("more-*")) for line in lines_of(directory)])
    assert '"holds": true' in house.call("prove", "--json")


def test_a_lost_checkpoint_is_recovered_in_the_bucket(house: S3House) -> None:
    write_log(house.logs, 500)
    house.call("run", "--once")
    house.bucket.delete("lake/_checkpoints/silver/")
    assert "checkpoint lost" in house.call("run", "--once", expect=1)
    house.call("recover")
    write_late_and_broken(house.logs / "more", late=20, broken=6, seed=1)
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])
