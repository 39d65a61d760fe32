"""A lake that was filled from a topic knows its positions and that topic, and reads no other topic of the same name."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE
from tests.frozen.lakes import FIRST, LAKES, MORE, SECOND, TOPIC, answering, reads
from tests.frozen.place import frozen
from tests.support.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("frozen")]

LAKE = next(lake for lake in LAKES if lake.name == "topic")


def test_its_positions_are_read_and_another_topic_is_refused(spark: SparkSession) -> None:
    with frozen(LAKE.name, spark) as house:
        lake = LAKE.of(house).lakehouse(spark)
        last = lake.chain.commit_log(BRONZE).state().metadata
        assert last is not None
        assert (last.batch_id, json.loads(last.end or "")) == (1, {TOPIC: {"0": len(FIRST), "1": len(SECOND)}})
        with answering(house):
            bronze, *_ = lake.status()
            assert (bronze.state, bronze.backlog) == ("aligned", len(MORE))
        with answering(house, topic_id="anotherTopicOfThatName"):
            bronze, *_ = lake.doctor().stages
            assert bronze.state == "source replaced"
            assert "topic alog has ID anotherTopicOfThatName, lines were read from" in bronze.detail
            with pytest.raises(StateError, match="bronze: source replaced"):
                house.run(spark)
        with answering(house, earliest={"0": len(FIRST) + 1, "1": 0}):
            assert lake.doctor().stages[0].state == "source trimmed"
        with answering(house, latest={"0": 1, "1": 0}):
            assert lake.doctor().stages[0].state == "source replaced"


@pytest.mark.kafka
def test_another_topic_with_its_name_is_refused_until_a_rebuild_accepts_it(spark: SparkSession, tmp_path: Path) -> None:
    with frozen(LAKE.name, spark) as house, Broker(tmp_path / "kafka") as broker:
        reads(LAKE.of(house), broker)
        broker.make_topic(TOPIC, partitions=2)
        broker.send(TOPIC, [*FIRST, *MORE])
        broker.send(TOPIC, SECOND, 1)
        versions = house.versions()
        with pytest.raises(StateError, match=f"bronze: source replaced: topic {TOPIC} has ID"):
            house.run(spark)
        with pytest.raises(StateError, match=f"bronze is not rebuilt: topic {TOPIC} was recreated"):
            house.rebuild(spark, "bronze")
        assert house.versions() == versions
        house.rebuild(spark, "bronze", accept_loss=True)
        house.must_be([*FIRST, *MORE, *SECOND])
        assert house.doubts(spark) == []
