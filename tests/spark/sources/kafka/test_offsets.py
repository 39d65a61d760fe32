"""An offset that bronze lacks is a lost line if Kafka has a committed record there: with a topic of Spark rows."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.common.lake import BRONZE
from oncelake.exactly_once.link import Link, Range
from oncelake.sources.kafka import offsets as module
from oncelake.sources.kafka.offsets import Client
from oncelake.sources.kafka.proof import kafka_rows
from oncelake.sources.kafka.source import Topic
from tests.support.made_table import MadeTable

pytestmark = pytest.mark.spark

# bronze has these of the offsets 0 to 9; the others are committed, aborted, or without a record
HELD, COMMITTED, ABORTED = (0, 1, 2, 5, 8, 9), (3,), (6, 7)


@pytest.fixture
def bronze(spark: SparkSession, tmp_path: Path) -> MadeTable:
    made = MadeTable(spark, tmp_path, BRONZE, SCHEMA)
    rows = [{"batch": 0, "topic": "alog", "partition": 0, "offset": offset, "value": b"x"} for offset in HELD]
    made.batch(0, rows, json.dumps({"alog": {"0": 0}}), json.dumps({"alog": {"0": 10}}))
    return made


def proven(
    spark: SparkSession,
    bronze: MadeTable,
    monkeypatch: pytest.MonkeyPatch,
    committed: tuple[int, ...],
    earliest: int = 0,
) -> Link:
    """Prove bronze against a topic that has these committed records in addition to bronze's."""

    def read(spark: SparkSession, _: object, ranges: Mapping[int, Range], level: str) -> DataFrame:
        (first, last) = ranges[0]
        there = {*HELD, *committed, *(ABORTED if level == "read_uncommitted" else ())}
        rows = [(0, offset) for offset in sorted(there) if first <= offset <= last]
        return spark.createDataFrame(rows, "partition int, offset bigint")

    monkeypatch.setattr(module, "read", read)
    return kafka_rows(spark, bronze.span(), Client(lambda _: Topic("id", {"0": earliest}, {"0": 10}), {}))


@pytest.mark.usefixtures("compiled_expressions")
def test_a_committed_record_that_bronze_lacks_is_a_lost_line(
    spark: SparkSession, bronze: MadeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = proven(spark, bronze, monkeypatch, COMMITTED)
    assert not link.holds
    assert link.said == "alog/0/3 are committed records that Kafka holds and bronze lacks: lost lines"


def test_offsets_without_a_committed_record_are_explained(
    spark: SparkSession, bronze: MadeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = proven(spark, bronze, monkeypatch, ())
    assert link.holds, link.said
    assert link.notes == (
        "4 offsets hold no committed record: 2 of aborted transactions, "
        "2 control records of transactions or removed by compaction",
    )


def test_a_lost_line_that_expired_in_kafka_cannot_be_detected(
    spark: SparkSession, bronze: MadeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = proven(spark, bronze, monkeypatch, COMMITTED, earliest=4)
    assert link.holds, link.said
    assert link.notes[-1].startswith("alog/0/3 were missing when their batches were written")
