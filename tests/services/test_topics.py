"""Several Kafka topics in one source: topics are added, removed and come back, and every line counts once."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, SourceError, StateError
from tests.support.broker import Broker
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.several import Several

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def chosen(house: House, broker: Broker, choice: str) -> None:
    """Set the house to read the topics of a choice, as `--set source.<choice>`."""
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.{choice}"]


def expire(broker: Broker, topic: str, before: int) -> None:
    """Let the records of partition 0 expire."""
    broker.admin.delete_records([TopicPartition(topic, 0, before)])[TopicPartition(topic, 0)].result(30)


def origins(house: House) -> dict[str, int]:
    """Count bronze's rows by topic; fails if a place is there twice."""
    places = [(row["topic"], row["partition"], row["offset"]) for row in house.rows("bronze/access_log")]
    assert len(set(places)) == len(places)
    return {topic: sum(place[0] == topic for place in places) for topic in sorted({place[0] for place in places})}


def test_topics_join_leave_and_come_back(broker: Broker, house: House, spark: SparkSession) -> None:
    for topic in ("web", "app", "late"):
        broker.make_topic(topic, partitions=2)
        broker.send(topic, LINES, partition=1)
    chosen(house, broker, "topic=web")
    house.run(spark)
    chosen(house, broker, "topic=[web, app]")
    broker.send("web", LINES)
    house.run(spark)
    assert origins(house) == {"app": 3, "web": 6}
    house.must_be(LINES * 3)
    assert house.doubts(spark) == []

    # a topic whose oldest records expired starts at the oldest one; the process dies after the commit of the change
    broker.send("late", LINES * 2)
    expire(broker, "late", 4)
    chosen(house, broker, "topic=[web, app, late]")
    broker.send("app", LINES)
    for before in (True, False):
        with crashed(spark, "bronze/access_log/_delta_log/*.json", before=before), pytest.raises(Py4JJavaError):
            house.run(spark)
        assert origins(house) == {"app": 3, "web": 6}
    assert "checkpoint behind" in house.tell(spark, "doctor", expect=1)
    house.run(spark)
    house.must_be([*LINES * 5, *LINES[1:]])
    assert house.doubts(spark) == []

    # a topic that is taken out keeps its rows and its place
    chosen(house, broker, "topic=[web, late]")
    broker.send("app", LINES, partition=1)
    broker.send("web", LINES)
    house.run(spark)
    assert origins(house) == {"app": 6, "late": 5, "web": 9}
    links = house.lakehouse(spark).prove(full=True).links
    assert [link.name for link in links if not link.holds] == []
    notes = " ".join(note for link in links for note in link.notes)
    assert "changes the topics: joined at late/0/4, late/1/0" in notes
    assert "changes the topics: left at app/0/3, app/1/3" in notes
    assert "app: read before, not read any more" in notes
    with pytest.raises(StateError, match=r"Kafka no longer holds app/.*; topics web, late does not include app"):
        house.rebuild(spark, "bronze")

    # without a checkpoint it is the table that knows all places
    shutil.rmtree(house.lake / "_checkpoints")
    chosen(house, broker, "topic=[web, app, late]")
    assert all(outcome.steps for outcome in house.recover(spark).values())
    broker.admin.create_partitions([NewPartitions("app", 3)])["app"].result(30)
    broker.send("app", LINES, partition=2)
    house.run(spark)
    assert origins(house) == {"app": 12, "late": 5, "web": 9}
    assert house.doubts(spark) == []
    proof = house.tell(spark, "prove", "--deep", "--full")
    assert "every one exactly once" in proof
    assert "from app/2/1" in " ".join(house.tell(spark, "trace", "app/2/1").split())
    versions = house.versions()
    assert house.run(spark) == []
    assert house.versions() == versions


def test_topics_that_match_a_pattern_are_found_and_missed(broker: Broker, house: House, spark: SparkSession) -> None:
    for topic in ("t-a", "t-b", "other-t-a"):
        broker.make_topic(topic, partitions=1)
        broker.send(topic, LINES)
    chosen(house, broker, "topic_pattern=t-.*")
    house.run(spark)
    broker.make_topic("t-c", partitions=2)
    broker.send("t-c", LINES, partition=1)
    house.run(spark)
    assert origins(house) == {"t-a": 3, "t-b": 3, "t-c": 3}
    assert house.doubts(spark) == []

    broker.delete_topic("t-b")
    broker.send("t-a", LINES)
    with pytest.raises(StateError, match=r"bronze: source trimmed: topic t-b is gone, which was read up to t-b/0/3"):
        house.run(spark)
    assert any("topic t-b is gone" in doubt for doubt in house.doubts(spark))
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].steps
    house.run(spark)
    assert origins(house) == {"t-a": 6, "t-b": 3, "t-c": 3}
    assert house.doubts(spark) == []

    broker.make_topic("t-b", partitions=1)
    broker.send("t-b", LINES * 2)
    with pytest.raises(StateError, match=r"bronze: source replaced: topic t-b has ID"):
        house.run(spark)
    chosen(house, broker, "topic_pattern=t-[ac]")
    broker.send("t-c", LINES)
    house.run(spark)
    assert origins(house) == {"t-a": 6, "t-b": 3, "t-c": 6}
    assert house.doubts(spark) == []


def test_a_choice_that_cannot_be_read_is_named(broker: Broker, house: House, spark: SparkSession) -> None:
    broker.make_topic("there", partitions=1)
    for choice, said in (
        ("topic=[there, gone]", "has no topic 'gone'; create it, or set source.topic"),
        ("topic_pattern=gone-.*", "has no topic that matches 'gone-.*'; create one, or set source.topic_pattern"),
    ):
        chosen(house, broker, choice)
        with pytest.raises(SourceError, match=re.escape(said)):
            house.run(spark)
    chosen(house, broker, "topic_pattern=(")
    with pytest.raises(ConfigError, match=r"source\.topic_pattern: '\(' is no Java regular expression: Unclosed group"):
        house.run(spark)


def test_no_two_sources_read_one_topic(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    lake = Several.at(tmp_path, "access_log")
    for topic in ("s-a", "s-b"):
        broker.make_topic(topic, partitions=1)
        broker.send(topic, LINES)
    common = {"kind": "kafka", "bootstrap_servers": broker.servers}
    lake.declare(one={**common, "topic_pattern": "s-.*"}, two={**common, "topic_pattern": ".-a"})
    with pytest.raises(StateError, match=r"(?s)sources\.two reads topics like \.-a, which bronze\.one reads"):
        lake.run(spark)
    lake.declare(one={**common, "topic": ["s-a", "s-b"]}, two={**common, "topic_pattern": "none|access_log"})
    broker.make_topic("none", partitions=1)
    lake.run(spark)
    assert lake.counts() == {"one": 4}

    # a topic that one source has read cannot go to another one
    lake.declare(one={**common, "topic": "s-b"}, two={**common, "topic_pattern": "none|s-a"})
    with pytest.raises(StateError, match=r"sources\.one and sources\.two both read topic s-a, or have read it"):
        lake.run(spark)
    assert lake.counts() == {"one": 4}
