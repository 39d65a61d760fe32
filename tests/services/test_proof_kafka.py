"""The proof on a real Kafka broker: Kafka itself explains holes, but not a missing committed record."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import TopicPartition
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.bronze.transform import from_kafka
from oncelake.common.lake import BRONZE
from oncelake.exactly_once.link import Link
from oncelake.sources.kafka.admin import describe
from oncelake.sources.kafka.offsets import Client
from oncelake.sources.kafka.proof import kafka_rows
from tests.support.broker import Broker
from tests.support.made_table import MadeTable, taken

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "alog"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start a broker with one topic: lines, aborted and committed transactions, and lines again, in one partition."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        broker.make_topic(TOPIC, partitions=2)
        broker.send(TOPIC, [b"first"] * 5)
        producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": "t", "log_level": 0})
        producer.init_transactions()
        for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce(TOPIC, b"in a transaction", partition=0)
            producer.flush()
            end()
        broker.send(TOPIC, [b"last"] * 5)
        broker.send(TOPIC, [b"other"] * 3, partition=1)
        yield broker


class Proof:
    """Bronze as the chain reads it from the topic, without the given offsets."""

    def __init__(self, spark: SparkSession, broker: Broker, root: Path) -> None:
        self.spark = spark
        self.client = {"bootstrap.servers": broker.servers, "isolation.level": "read_committed"}
        self.bronze = MadeTable(spark, root, BRONZE, SCHEMA)

    def read(self, but: Sequence[int] = ()) -> None:
        reader = self.spark.read.format("kafka").option("subscribe", TOPIC).option("includeHeaders", "true")
        for key, value in self.client.items():
            reader = reader.option(f"kafka.{key}", value)
        left_out = ", ".join(map(str, [-1, *but]))
        records = from_kafka(reader.load()).where(f"NOT (partition = 0 AND offset IN ({left_out}))")
        end = json.dumps({TOPIC: dict(describe(self.spark, self.client, [TOPIC])[TOPIC].latest)})
        planned = records.selectExpr("* EXCEPT (ingested_at)", f"timestamp_millis({taken(0)}) AS ingested_at")
        self.bronze.batch(0, planned, json.dumps({TOPIC: {"0": 0, "1": 0}}), end)

    def link(self) -> Link:
        client = Client(describe(self.spark, self.client, [TOPIC]).get, self.client)
        return kafka_rows(self.spark, self.bronze.span(), client)


@pytest.fixture
def proof(spark: SparkSession, broker: Broker, tmp_path: Path) -> Proof:
    return Proof(spark, broker, tmp_path)


def test_holes_of_transactions_are_explained(proof: Proof) -> None:
    proof.read()
    link = proof.link()
    assert link.holds, link.said
    assert link.said == "16 rows of alog in 2 partitions, each offset once"
    assert link.notes == (
        "9 offsets hold no committed record: 6 of aborted transactions, "
        "3 control records of transactions or removed by compaction",
    )


def test_a_committed_record_that_was_never_ingested_is_a_lost_line(proof: Proof) -> None:
    proof.read(but=[2, 10, 17])
    link = proof.link()
    assert not link.holds
    assert link.said == (
        "alog/0/2, alog/0/10, alog/0/17 are committed records that Kafka holds and bronze lacks: lost lines"
    )


def test_a_row_deleted_from_bronze_is_named(proof: Proof) -> None:
    proof.read()
    proof.bronze.edit("DELETE FROM {} WHERE partition = 0 AND offset = 3")
    link = proof.link()
    assert not link.holds
    assert "wrote 16 rows, 15 are in the table" in link.said


def test_expired_holes_are_noted(proof: Proof, broker: Broker) -> None:
    proof.read(but=[2])
    broker.admin.delete_records([TopicPartition(TOPIC, 0, 7)])[TopicPartition(TOPIC, 0)].result(30)
    link = proof.link()
    assert link.holds, link.said
    assert [metadata.split(" were")[0] for metadata in link.notes if "older" in metadata] == ["alog/0/2, alog/0/5 to 6"]
