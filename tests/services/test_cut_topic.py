"""A broker that lost the end of its log, and has other records at the same offsets, is found at a start and by proofs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from oncelake.common.errors import StateError
from oncelake.observe.status import status_sentence
from tests.support.broker import Broker
from tests.support.house import House

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIRST = [b"2017-07-30 14:09:%02d ERROR first %d" % (at, at) for at in range(10)]
LOST = [b"2017-07-30 14:10:%02d ERROR lost %d" % (at, at) for at in range(10)]
OTHERS = [b"2017-07-30 14:11:%02d ERROR others %d" % (at % 60, at) for at in range(50)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, house: House, request: pytest.FixtureRequest) -> str:
    """Create a topic of two partitions for one test, and set the house to read it."""
    name = f"cut-{abs(hash(request.node.name)) % 10**9}"
    broker.make_topic(name, partitions=2)
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={name}"]
    return name


def logs(broker: Broker, topic: str, partition: int = 0) -> Path:
    return broker.directory / "data" / f"{topic}-{partition}"


def size(broker: Broker, topic: str) -> int:
    (segment,) = logs(broker, topic).glob("*.log")
    return segment.stat().st_size


def cut(broker: Broker, topic: str, at: int) -> None:
    """Lose the end of a partition's log, as a follower that was behind loses it when it becomes the leader."""
    broker.stop()
    (segment,) = logs(broker, topic).glob("*.log")
    with segment.open("r+b") as log:
        log.truncate(at)
    for path in (*logs(broker, topic).glob("*index"), *(broker.directory / "data").glob("*-checkpoint")):
        path.unlink()
    broker.start()


def lines(values: list[bytes]) -> list[bytes]:
    return sorted(values)


@pytest.mark.parametrize("refill", [10, 50], ids=["as long", "longer"])
def test_a_refilled_log_is_refused_until_a_rebuild_accepts_the_loss(
    broker: Broker, topic: str, house: House, spark: SparkSession, refill: int
) -> None:
    broker.send(topic, FIRST)
    length = size(broker, topic)
    broker.send(topic, LOST)
    house.run(spark)
    assert house.doubts(spark) == []
    cut(broker, topic, length)
    broker.send(topic, OTHERS[:refill])
    said = f"{topic}/0/19 is another record than bronze has read there"
    versions = house.versions()
    with pytest.raises(StateError, match=f"bronze: source replaced: {said}: the topic lost the end of its log"):
        house.run(spark)
    assert house.versions() == versions
    (doubt,) = house.doubts(spark)
    assert said in doubt
    assert "oncelake rebuild bronze" in house.tell(spark, "doctor", expect=1)
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .* is another record .* --accept-loss"):
        house.rebuild(spark, "bronze")
    house.rebuild(spark, "bronze", accept_loss=True)
    house.must_be([*FIRST, *OTHERS[:refill]])
    assert [link.said for link in house.lakehouse(spark).prove(full=True, deep=True).links if not link.holds] == []
