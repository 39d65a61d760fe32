"""Bronze of a topic is not emptied if Kafka cannot return its lines again: with made answers of a broker."""

import json

import pytest
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.common.errors import StateError
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.writers.spark import append
from oncelake.sources.kafka import kind as kafka
from oncelake.sources.kafka.source import LastRecords, Topic
from tests.support.house import House
from tests.support.made_table import frame
from tests.support.memory import metadata, offsets

pytestmark = pytest.mark.spark

# bronze holds this many offsets of each of two partitions
HELD = 10


@pytest.fixture
def house(house: House, spark: SparkSession) -> House:
    """Make bronze of one batch, with its checkpoint; there is no broker."""
    house.sets = ["source.kind=kafka", "source.topic=alog", "source.bootstrap_servers=nowhere:1"]
    source = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    end = offsets({"alog": {"0": HELD, "1": HELD}})
    rows = [
        {"batch": 0, "topic": "alog", "partition": part, "offset": offset, "value": b"x"}
        for part in (0, 1)
        for offset in range(HELD)
    ]
    said = metadata(0, "bronze.access_log", stage="bronze", before=None, after=end, source=source)
    append(frame(spark, SCHEMA, rows), str(house.table("bronze/access_log")), said)
    checkpoint = house.checkpoint("bronze")
    texts = {"metadata": json.dumps({"id": said.query_id}), "offsets/0": end, "commits/0": "v1\n{}"}
    for name, text in texts.items():
        LocalFiles().write(f"{checkpoint}/{name}", text)
    return house


def refused(
    house: House, spark: SparkSession, patch: pytest.MonkeyPatch, earliest: dict[str, int], topic: str, *others: str
) -> str:
    """Rebuild bronze while Kafka has records from these offsets on; return the reason of the refusal."""
    latest = dict.fromkeys(("0", "1"), 2 * HELD)
    patch.setattr(kafka, "describe", lambda *_: {"alog": Topic(topic, earliest, latest)})
    patch.setattr(kafka, "compare_last", lambda *_: lambda *_: LastRecords(others))
    with pytest.raises(StateError, match=r"bronze is not rebuilt: .* Nothing was changed") as error:
        house.rebuild(spark, "bronze")
    assert DeltaLog(LocalFiles(), str(house.table("bronze/access_log"))).state().rows == 2 * HELD
    assert not (house.lake / "_rebuild.json").exists()
    return str(error.value)


def test_bronze_is_not_emptied_while_kafka_has_expired_its_records(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(house, spark, monkeypatch, {"0": 0, "1": 4}, "id")
    assert "Kafka no longer holds alog/1/0 to 3" in said


def test_bronze_is_not_emptied_after_its_topic_was_recreated(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(house, spark, monkeypatch, {"0": 0, "1": 0}, "another")
    assert "its ID is another, bronze's lines are of ID id" in said


def test_bronze_is_not_emptied_after_its_topic_was_cut_and_refilled(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(house, spark, monkeypatch, {"0": 0, "1": 0}, "id", "alog/1/9 is another record")
    assert "alog/1/9 is another record: the topic lost the end of its log" in said
