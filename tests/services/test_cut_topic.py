"""A broker that lost the end of its log and has other records at those offsets is found, at a start and by a proof."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import TopicPartition
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.exactly_once.link import Uncompared
from oncelake.observe.status import status_sentence
from tests.support.broker import Broker
from tests.support.crashing import crashed
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
    broker.make_topic(name, partitions=2, retention_ms="-1")  # some of the records have an old timestamp
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


def test_records_in_the_place_of_an_aborted_transaction_are_found(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, FIRST)
    length = size(broker, topic)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, LOST[0], partition=0)
    producer.flush()
    producer.abort_transaction()
    house.run(spark)
    assert house.doubts(spark) == []
    cut(broker, topic, length)
    broker.send(topic, OTHERS[:5])
    with pytest.raises(StateError, match=f"{topic}/0/10 is a record, and bronze has read none there: the topic lost"):
        house.run(spark)


def test_a_planned_batch_reads_what_came_in_the_place_of_records_that_bronze_never_had(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, FIRST)
    house.run(spark)
    length = size(broker, topic)
    broker.send(topic, LOST)
    step = f"bronze/access_log/_delta_log/{house.versions()['bronze/access_log'] + 1:020}.json"
    with crashed(spark, step, before=True), pytest.raises(StageError):
        house.run(spark)
    cut(broker, topic, length)
    broker.send(topic, OTHERS[:5])
    with pytest.raises(StateError, match=f"{topic}/0 ends at 15, the stage has read up to 20"):
        house.run(spark)
    broker.send(topic, OTHERS[5:])
    house.run(spark)
    house.must_be([*FIRST, *OTHERS])
    assert house.doubts(spark) == []


def test_a_cut_within_a_masked_lake_is_found_in_the_masked_values(
    broker: Broker, topic: str, house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUT_KEY", "a key of more than sixteen bytes")
    house.sets.append("source.mask={key_variable: CUT_KEY, rules: [{find: email, action: hash}]}")
    at = 1_500_000_000_000
    sends(broker, topic, [b"2017-07-30 14:09:08 ERROR one@mail.example"], at)
    length = size(broker, topic)
    sends(broker, topic, [b"2017-07-30 14:09:09 ERROR two@mail.example"], at)
    house.run(spark)
    assert [link.said for link in house.lakehouse(spark).prove(deep=True).links if not link.holds] == []
    cut(broker, topic, length)
    sends(broker, topic, [b"2017-07-30 14:09:09 ERROR six@mail.example"], at)
    (doubt,) = house.doubts(spark)
    assert f"{topic}/0/1 is another record than bronze has read there" in doubt
    monkeypatch.delenv("CUT_KEY")
    links = house.lakehouse(spark).prove(full=True).links
    assert [link.said for link in links if not link.holds] == [], "the same length and timestamp"
    (part,) = [uncompared for link in links for uncompared in link.uncompared]
    assert part.count == 1
    assert "was compared only by its length and timestamp: masked with rules" in part.said
    assert "CUT_KEY with the key is not set" in part.said


def test_a_deep_proof_compares_each_record(broker: Broker, topic: str, house: House, spark: SparkSession) -> None:
    broker.send(topic, FIRST)
    length = size(broker, topic)
    producer = Producer({"bootstrap.servers": broker.servers})
    at = 1_500_000_000_000
    for value in (b"lost", b"the same"):
        producer.produce(topic, value, key=b"k", headers=[("h", b"1"), ("h", None)], partition=0, timestamp=at)
        producer.flush()
    producer.produce(topic, None, partition=1, timestamp=at)
    producer.flush()
    house.run(spark)
    (deep,) = [link for link in house.lakehouse(spark).prove(deep=True).links if link.name.endswith("records")]
    assert (deep.holds, deep.said, deep.uncompared) == (True, "13 rows read again and equal", ())
    cut(broker, topic, length)
    for value in (b"othr", b"the same"):
        producer.produce(topic, value, key=b"k", headers=[("h", b"1"), ("h", None)], partition=0, timestamp=at)
        producer.flush()
    assert house.doubts(spark) == [], "the last record is the same"
    (deep,) = [link for link in house.lakehouse(spark).prove(deep=True).links if link.name.endswith("records")]
    assert (deep.holds, deep.said) == (
        False,
        f"{topic}/0/10 is not what bronze has read there",
    )
    broker.admin.delete_records([TopicPartition(topic, 0, 11)])[TopicPartition(topic, 0)].result(30)
    (deep,) = [link for link in house.lakehouse(spark).prove(deep=True).links if link.name.endswith("records")]
    assert (deep.holds, deep.said) == (True, "2 rows read again and equal")
    assert deep.uncompared == Uncompared.of_lines(11, "are older than what Kafka holds")


def test_a_last_record_that_expired_or_was_compacted_is_not_compared(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, FIRST)
    broker.send(topic, FIRST, partition=1)
    house.run(spark)
    broker.admin.delete_records([TopicPartition(topic, 0, -1)])[TopicPartition(topic, 0)].result(30)
    links = house.lakehouse(spark).prove().links
    assert [link.said for link in links if not link.holds] == []
    assert [uncompared for link in links for uncompared in link.uncompared] == [
        Uncompared(1, "the last record of 1 partition has expired")
    ]


def test_records_behind_an_open_transaction_wait_and_are_named(
    broker: Broker, topic: str, house: House, spark: SparkSession
) -> None:
    broker.send(topic, FIRST)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    for value in LOST[:2]:
        producer.produce(topic, value, partition=0)
    producer.flush()
    broker.send(topic, OTHERS[:6])
    house.run(spark)
    house.must_be(FIRST)
    assert house.run(spark) == [], "a run ends while the transaction is open"
    bronze = house.lakehouse(spark).status()[0]
    assert (bronze.backlog, bronze.backlog_behind, bronze.may_start) == (8, 8, True)
    assert "backlog 8 records, 8 of them behind an open transaction" in status_sentence(bronze)
    links = house.lakehouse(spark).prove().links
    assert [link.said for link in links if not link.holds] == []
    waits = f"8 offsets wait for an open transaction: {topic}/0/10 to 17"
    assert any(waits in link.said for link in links)
    producer.commit_transaction()
    house.run(spark)
    house.must_be([*FIRST, *LOST[:2], *OTHERS[:6]])
    assert house.lakehouse(spark).status()[0].backlog == 0
    assert any(
        link.said == f"2 partitions of {topic} read up to the end" for link in house.lakehouse(spark).prove().links
    )


def test_a_timestamp_that_cannot_be_is_no_origin_and_stops_nothing(
    broker: Broker, house: House, spark: SparkSession
) -> None:
    name, most = "times", str(2**63 - 1)
    broker.make_topic(name, partitions=1, message_timestamp_after_max_ms=most, retention_ms="-1")
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={name}"]
    (house.root / "syslog.yaml").write_text(
        "pattern: '(?<time>\\w+ \\d+ [\\d:]+) (?<level>\\w+) (?<message>.*)'\ntime: MMM d HH:mm:ss\n"
    )
    house.sets.append(f"source.format={house.root / 'syslog.yaml'}")
    now = datetime.now(UTC)
    second, ms = int(now.timestamp()), int(now.timestamp() * 1000)
    line = f"{now:%b} {now.day} 00:00:00 ERROR x".encode()
    times = {second: True, -1: True, ms: True, ms * 1000: False, ms * 10**6: False, 2**63 - 1: False, -(2**63): False}
    for time in times:
        sends(broker, name, [line], time)
    house.run(spark)
    rows = sorted(house.rows("bronze/access_log"), key=lambda row: row["offset"])
    assert [row["timestamp"] is not None for row in rows] == [*times.values()]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows if row["timestamp"]] == [second, -1, ms]
    assert {row["log_time"].year for row in house.rows("silver/access_log")} <= {now.year, now.year - 1}
    assert house.size("silver/access_log") == len(times)
    assert [link.said for link in house.lakehouse(spark).prove(deep=True).links if not link.holds] == []


def sends(broker: Broker, topic: str, values: list[bytes], at: int) -> None:
    """Send records with a timestamp in milliseconds; librdkafka takes 0 for now."""
    producer = Producer({"bootstrap.servers": broker.servers})
    for value in values:
        producer.produce(topic, value, partition=0, timestamp=at)
        assert producer.flush(30) == 0
