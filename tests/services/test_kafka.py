"""The guarantee on a real Kafka broker: committed records once each, and no start after records were lost."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.cimpl import Consumer, NewPartitions, TopicPartition
from pyspark.sql import SparkSession

from oncelake.common.errors import SourceError, StateError
from oncelake.lab.demo.server import free_port
from oncelake.observe.lake_watch import LakeWatch
from oncelake.observe.log_cache import cached
from oncelake.observe.progress import JsonLines
from oncelake.sources.kafka.admin import TIMEOUT_MS
from tests.support.broker import Broker
from tests.support.house import House, events, kill_group, until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = [
    b"2017-07-30 14:09:08 ERROR some message",
    b"2017-07-30 14:09:59 error \xf0\x9f\x94\xa5",
    b"",
    b"2017-06-20 00:00:01 ERROR 40 days late",
    b"broken \xff\xfe",
    b"2017-07-30 14:10:00 INFO <b>html</b>" + b"x" * 5_000,
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, house: House, request: pytest.FixtureRequest) -> str:
    """Create a topic of two partitions for one test, and set the house to read it."""
    name = f"alog-{request.node.name.replace('[', '-').strip(']')}"
    broker.make_topic(name, partitions=2)
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={name}"]
    return name


def test_every_committed_record_counts_once(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    house.sets.append("source.max_offsets_per_batch=5")
    broker.send(topic, LINES)
    broker.send(topic, LINES, partition=1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": "t", "log_level": 0})
    producer.init_transactions()
    for number, end in enumerate((producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, b"2017-07-30 14:11:00 ERROR transaction %d" % number, partition=0)
        producer.flush()
        end()
    reports = house.run(spark)
    assert [report.batch_id for report in reports if report.stage == "bronze"] == [0, 1, 2, 3]
    lines = [*LINES, *LINES, b"2017-07-30 14:11:00 ERROR transaction 1"]
    house.must_be(lines)
    places = [(row["topic"], row["partition"], row["offset"]) for row in house.rows("bronze/access_log")]
    assert len(set(places)) == len(lines)
    broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    broker.send(topic, LINES, partition=2)
    house.run(spark)
    house.must_be([*lines, *LINES])
    versions = house.versions()
    assert house.run(spark) == []
    assert house.versions() == versions


def test_a_watch_reports_waiting_records_and_each_batch(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    said: list[str] = []
    follow = LakeWatch(cached(house.chain(spark)), JsonLines(said.append))
    broker.send(topic, LINES)
    follow.look()
    assert events(said[0])[0].items() >= {"event": "status", "stage": "bronze", "state": "fresh", "backlog": 6}.items()
    house.run(spark)
    broker.send(topic, LINES[:2])
    follow.look()
    batch = next(event for line in said for event in events(line) if event["event"] == "batch")
    assert batch.items() >= {"stage": "bronze", "batch_id": 0, "backlog": 2, "backlog_unit": "records"}.items()
    assert batch["position"] == {topic: {"0": 6, "1": 0}}
    assert batch["rows"] == {"bronze.access_log": 6}


def test_bronze_keeps_key_headers_and_tombstones(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(
        topic, None, key=b"k", headers=[("h", b"1"), ("h", b"\xff")], partition=1, timestamp=1_500_000_000_123
    )
    producer.produce(topic, b"", partition=1)
    producer.flush()
    house.run(spark)
    tombstone, blank = sorted(house.rows("bronze/access_log"), key=lambda row: row["offset"])
    assert (tombstone["value"], blank["value"]) == (None, b"")
    assert tombstone["key"] == b"k"
    assert tombstone["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": b"\xff"}]
    assert tombstone["timestamp"].timestamp() == 1_500_000_000.123
    reasons = {row["offset"]: row["reasons"][0]["rule"] for row in house.rows("silver/quarantine")}
    assert reasons == {0: "null_value", 1: "blank"}


def test_a_recreated_topic_is_refused_even_if_it_is_longer(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, LINES)
    house.run(spark)
    broker.delete_topic(topic)
    broker.make_topic(topic, partitions=2)
    broker.send(topic, LINES * 3)
    versions = house.versions()
    with pytest.raises(StateError, match=r"bronze: source replaced: topic .* has ID"):
        house.run(spark)
    assert house.versions() == versions


def test_expired_records_are_named(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    broker.send(topic, LINES)
    house.run(spark)
    broker.send(topic, LINES * 2)
    broker.admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(30)
    with pytest.raises(StateError, match=rf"bronze: source trimmed: offsets {topic}/0/6 to 9 are gone"):
        house.run(spark)
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].steps
    house.run(spark)
    house.must_be([*LINES, *(LINES * 2)[4:]])
    assert house.doubts(spark) == []


def test_a_new_partition_whose_first_records_expired_is_recovered(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, LINES)
    (waits,) = [link for link in house.lakehouse(spark).prove().links if "offsets" in link.name]
    assert (waits.holds, "6 offsets wait for the next run" in waits.said) == (True, True)
    house.run(spark)
    broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    broker.send(topic, LINES, partition=2)
    broker.admin.delete_records([TopicPartition(topic, 2, 4)])[TopicPartition(topic, 2)].result(30)
    gone = f"{topic}/2/0 to 3"
    assert any(f"{gone} are gone and bronze has not read them" in doubt for doubt in house.doubts(spark))
    with pytest.raises(StateError, match=f"bronze: source trimmed: offsets {gone} are gone"):
        house.run(spark)
    assert house.recover(spark, "bronze", accept_loss=True)["bronze"].steps
    house.run(spark)
    house.must_be([*LINES, *LINES[4:]])
    links = house.lakehouse(spark).prove(full=True).links
    assert [link.name for link in links if not link.holds] == []
    assert any(f"accepts a loss: {gone}" in metadata for link in links for metadata in link.notes)
    assert any(link.said == f"3 partitions of {topic} read up to the end" for link in links)


def published(broker: Broker, topic: str, group: str = "lag") -> dict[int, int]:
    """Return the offsets of a group, by partition."""
    (asked,) = broker.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {
        partition.partition: partition.offset
        for partition in asked.result(30).topic_partitions
        if partition.topic == topic
    }


def test_committed_offsets_are_published_to_the_lag_group_and_never_read(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    house.sets += ["source.group_id=lag", "source.kafka.group.id=lag"]  # the group as reader and as publisher: no harm
    broker.send(topic, LINES)
    house.run(spark)
    assert published(broker, topic) == {0: 6, 1: 0}
    for wrong in (2, 999):
        by_hand = ConsumerGroupTopicPartitions(
            "lag", [TopicPartition(topic, 0, wrong), TopicPartition(topic, 1, wrong)]
        )
        broker.admin.alter_consumer_group_offsets([by_hand])["lag"].result(30)
        assert published(broker, topic) == {0: wrong, 1: wrong}
        versions = house.versions()
        assert house.run(spark) == []
        assert house.versions() == versions
        assert published(broker, topic) == {0: 6, 1: 0}
    broker.admin.alter_consumer_group_offsets([by_hand])["lag"].result(30)
    broker.send(topic, LINES, partition=1)
    house.run(spark)
    house.must_be(LINES * 2)
    assert published(broker, topic) == {0: 6, 1: 6}
    shutil.rmtree(house.lake / "_checkpoints")
    broker.admin.delete_consumer_groups(["lag"])["lag"].result(30)
    house.recover(spark)
    house.run(spark)
    house.must_be(LINES * 2)
    assert published(broker, topic) == {0: 6, 1: 6}


def test_a_lag_group_with_members_is_a_warning_and_stops_nothing(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    house.sets.append("source.group_id=busy")
    broker.send(topic, LINES)
    member = Consumer({"bootstrap.servers": broker.servers, "group.id": "busy", "enable.auto.commit": False})
    member.subscribe([topic])
    until(lambda: member.poll(0.1) is None and bool(member.assignment()))
    house.run(spark)
    house.must_be(LINES)
    assert published(broker, topic, "busy") == {}
    (said,) = house.said
    assert said == (
        "bronze: warning: consumer group busy: offsets could not be published, which does not affect the tables: "
        f"Kafka at {broker.servers}: the group has active members; "
        "set source.group_id to a group that nothing else uses"
    )
    member.close()
    house.run(spark)
    assert published(broker, topic, "busy") == {0: 6, 1: 0}


def test_a_missing_topic_is_named(broker: Broker, house: House, spark: SparkSession) -> None:
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", "source.topic=none"]
    with pytest.raises(SourceError, match=r"has no topic 'none'; create it, or set source\.topic"):
        house.run(spark)


def test_a_broker_that_does_not_answer_is_reported(house: House, spark: SparkSession) -> None:
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers=127.0.0.1:{free_port()}"]
    house.sets.append("source.kafka={default.api.timeout.ms: '2000', request.timeout.ms: '1000'}")
    with pytest.raises(SourceError, match=r"did not answer in 2 s; check that it is running"):
        house.run(spark)
    assert TIMEOUT_MS == 20_000, "the documented time without that setting"


def test_no_error_shows_a_secret(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    house.sets += ["source.kafka.security.protocol=SASL_PLAINTEXT", "source.kafka.sasl.mechanism=PLAIN"]
    house.sets.append("source.kafka.sasl.jaas.config=canary-4711 is no module")
    with pytest.raises(Exception, match=r"Kafka|kafka") as caught:
        house.run(spark)
    assert "canary" not in str(caught.value)
    del broker, topic


@pytest.mark.long
@pytest.mark.chain
def test_a_kill_at_a_random_moment_loses_nothing(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    house.sets += ["source.max_offsets_per_batch=400", "run.max_bytes_per_batch=20000", "run.trigger=0 seconds"]
    sent: list[bytes] = []
    for partition in (0, 1):
        rows = [chance.choice(LINES) for _ in range(1_500)]
        broker.send(topic, rows, partition)
        sent += rows
    process = house.start("run")
    wait_for_offsets(house.checkpoint("bronze") / "offsets")
    time.sleep(chance.uniform(0, 12))
    kill_group(process)
    house.tell(spark, "run", "--once")
    house.must_be(sent)


def wait_for_offsets(directory: Path) -> None:
    until = time.monotonic() + 120
    while not directory.exists() or not any(path.name.isdigit() for path in directory.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.05)
