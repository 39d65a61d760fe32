"""An S3 API that is slow, throttles, refuses or is away: each is waited for, or ends in one line; nothing is lost."""

import random

import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.s3_house import S3House, error_of

pytestmark = pytest.mark.chain

# The settings of Hadoop's client that bound how long it tries, so that a test ends.
_IMPATIENT = [
    "spark.conf.spark.hadoop.fs.s3a.attempts.maximum=2",
    "spark.conf.spark.hadoop.fs.s3a.retry.limit=2",
    "spark.conf.spark.hadoop.fs.s3a.connection.establish.timeout=5s",
]


def test_a_store_that_throttles_is_waited_for(house: S3House) -> None:
    chance = random.Random(5)
    house.bucket.refuses = lambda *_: (503, "SlowDown") if chance.random() < 0.05 else None
    write_log(house.logs, 300)
    house.call("run", "--once")
    house.bucket.refuses = lambda *_: None
    house.must_be([*lines_of(house.logs)])
    assert '"holds": true' in house.call("prove", "--json")


def test_credentials_that_expire_in_a_run_end_it_with_one_line(house: S3House) -> None:
    house.sets += _IMPATIENT
    write_log(house.logs, 300)
    house.call("run", "--once")
    write_late_and_broken(house.logs / "more", late=20, broken=6, seed=1)
    commits = house.bucket.names("lake/silver/access_log/_delta_log/")
    expired = False

    def refuses(command: str, key: str) -> tuple[int, str] | None:
        nonlocal expired
        expired = expired or (command == "PUT" and "silver/access_log/_delta_log/0" in key and key not in commits)
        return (400, "ExpiredToken") if expired else None

    house.bucket.refuses = refuses
    assert "Status Code: 400" in error_of(house.call("run", "--once", expect=1))
    house.bucket.refuses = lambda *_: None
    house.call("run", "--once")
    house.must_be([line for directory in (house.logs, house.logs / "more") for line in lines_of(directory)])


def test_a_server_that_is_away_and_a_key_that_is_refused_are_named(house: S3House) -> None:
    house.sets += _IMPATIENT
    write_log(house.logs, 10)
    house.bucket.refuses = lambda *_: (403, "InvalidAccessKeyId")
    assert "Status Code: 403" in error_of(house.call("run", "--once", expect=1))
    house.bucket.refuses = lambda *_: None
    house.bucket.__exit__(None, None, None)
    assert "S3 cannot be reached" in error_of(house.call("run", "--once", expect=1))
