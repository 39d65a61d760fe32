"""The application object does what the commands do, in one process, and returns what they print."""

import threading
from collections import Counter
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import oncelake
from oncelake import ConfigError, Lakehouse, StateError
from oncelake.engine.chain import Chain
from oncelake.exactly_once.batch import CommittedBatch, Event
from tests.support.house import House, until

pytestmark = pytest.mark.spark

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]


def opened(house: House, spark: SparkSession) -> Lakehouse:
    return Lakehouse.open(house.conf, house.flags, spark=spark)


def test_a_lake_is_run_proven_and_inspected(shipped_house: House, spark: SparkSession) -> None:
    house = shipped_house
    house.write("a.log", *LINES)
    events: list[Event] = []
    with opened(house, spark) as lake:
        assert {stage.state for stage in lake.status()} == {"fresh"}
        assert lake.run(once=True, sink=events.append).batches == 4
        assert lake.run(once=True).batches == 0
        house.must_be(LINES)
        proven = lake.prove()
        assert proven.holds
        assert proven.lines == len(LINES)
        assert lake.doctor().may_start
        assert lake.versions().keys() >= {"bronze.access_log", "gold.error_log"}
        assert lake.table("gold.error_log").count() == 1
        assert lake.trace("a.log:broken").holds
        assert lake.quarantined()[0] == 1
        assert len(lake.record()["bronze"]) == 1
    reports = [event for event in events if isinstance(event, CommittedBatch)]
    assert Counter(report.stage for report in reports) == dict.fromkeys(house.stages, 1)
    assert spark.range(1).count() == 1, "a session that was given is left running"


def test_a_start_reads_the_state_of_the_chain_once(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    look = patch.object(Chain, "states", autospec=True, side_effect=Chain.states)
    with opened(house, spark) as lake, look as states:
        lake.run(once=True)
    states.assert_called_once()


def test_a_lost_checkpoint_is_recovered_and_a_stage_rebuilt(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    house.run(spark)
    with opened(house, spark) as lake:
        for path in house.checkpoint("silver").rglob("*"):
            path.unlink() if path.is_file() else None
        with pytest.raises(StateError, match="silver: checkpoint lost"):
            lake.run(once=True)
        (outcome,) = lake.recover("silver")
        assert outcome.refused is None
        assert lake.rebuild("gold") == ["gold.error_log"]
        assert lake.prove(full=True).holds
    house.must_be(LINES)


def test_a_continuous_run_ends_on_request(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    stopping = threading.Event()
    with opened(house, spark) as lake:
        thread = threading.Thread(target=lake.run, kwargs={"stopping": stopping})
        thread.start()
        until(lambda: house.table("gold/error_log").exists() and house.size("gold/error_log") > 0)
        stopping.set()
        thread.join(60)
        assert not thread.is_alive()
    house.must_be(LINES)


def test_opening_a_lake_checks_the_settings_and_starts_nothing(house: House) -> None:
    with pytest.raises(ConfigError, match="there is no such setting"):
        Lakehouse.open(house.conf, ["lake.rot=/tmp/x"])
    with pytest.raises(ConfigError, match="there is no stage 'golden'"):
        Lakehouse.open(house.conf, house.flags, spark=SparkSession.getActiveSession()).recover("golden")


def test_the_package_offers_what_its_users_need() -> None:
    assert all(getattr(oncelake, name) is not None for name in oncelake.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Lake'"):
        oncelake.Lake  # noqa: B018
