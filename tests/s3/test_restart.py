"""A lake and its checkpoints on an S3 API: after kills and restarts, every line counts once. `make test-s3`."""

import pytest
import yaml

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.house import error_log_conf, kill_group
from tests.support.processes import wait_for
from tests.support.s3_house import WRITERS, S3House
from tests.support.s3_server import BUCKET, Request, rounds

pytestmark = pytest.mark.chain

MOST_REQUESTS, MOST_ROUNDS = 90, 70
STEPS = ("_checkpoints/bronze/offsets/", "silver/access_log/_delta_log/", "_checkpoints/gold/error_log/commits/")


@WRITERS
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
    assert f"the checkpoints of this host are in {house.checkpoints}" in house.call("status")
    assert house.bucket.names("lake/_checkpoints") == []


def test_a_lost_checkpoint_is_recovered_in_the_bucket(house: S3House) -> None:
    write_log(house.logs, 500)
    house.call("run", "--once", "--set", f"checkpoints=s3://{BUCKET}/lake/_checkpoints")
    house.bucket.delete("lake/_checkpoints/silver/")
    assert "checkpoint lost" in house.call("run", "--once", expect=1)
    house.call("recover")
    write_late_and_broken(house.logs / "more", late=20, broken=6, seed=1)
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])
    assert not house.checkpoints.exists(), "a lake that has its checkpoints in the bucket keeps them there"


def test_files_in_the_bucket_are_read_once(house: S3House) -> None:
    house.sets.append(f"source.path=s3://{BUCKET}/logs")
    write_log(house.logs, 300)
    for _ in range(3):
        for path in house.logs.rglob("*.log"):
            if house.bucket.get(f"logs/{path.name}") is None:
                house.bucket.put(f"logs/{path.name}", path.read_bytes(), {}, absent=True, tag=None)
        house.call("run", "--once")
        write_late_and_broken(house.logs, late=20, broken=6)
    house.must_be([*lines_of(house.logs)])
    assert '"holds": true' in house.call("prove", "--json")


def test_a_batch_takes_few_requests_and_rounds(house: S3House) -> None:
    """A batch took 74 to 78 requests in 57 rounds."""
    house.conf = house.root / "local.yaml"
    house.conf.write_text(yaml.safe_dump(error_log_conf()))
    house.sets.append(f"checkpoints={house.root / 'checkpoints'}")
    write_log(house.logs, 100)
    process = house.start("run")
    requests = house.bucket.requests
    gold = "gold/error_log/_delta_log/"
    wait_for(process, lambda: house.newest(gold) >= 1)
    batches = list[list[Request]]()
    for seed in (10, 11, 12, 100, 101):  # no file begins with bytes that set it aside
        begun, before = len(requests), house.newest(gold)
        write_late_and_broken(house.logs / f"more-{seed}", late=20, broken=6, seed=seed)
        wait_for(process, lambda before=before: house.newest(gold) > before)  # type: ignore[misc]
        batches.append(requests[begun:])
    kill_group(process)
    taken = sorted((len(batch), rounds(batch)) for batch in batches)
    assert taken[0][0] <= MOST_REQUESTS, taken
    assert taken[0][1] <= MOST_ROUNDS, taken
