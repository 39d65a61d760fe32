"""A proof finds each Kafka offset that bronze lacks, has twice, or should not have; without asking Kafka for it."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.common.lake import BRONZE
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span
from oncelake.sources.kafka.offsets import Client
from oncelake.sources.kafka.proof import kafka_rows
from oncelake.sources.kafka.source import Topic, TopicIds, TopicLeftBehind
from tests.support.made_table import MadeTable

pytestmark = pytest.mark.spark


def at(*offsets: int) -> str:
    return json.dumps({"alog": {str(part): offset for part, offset in enumerate(offsets)}})


def records(batch: int, partition: int, offsets: Iterable[int], topic: str = "alog") -> list[dict[str, Any]]:
    return [
        {"batch": batch, "topic": topic, "partition": partition, "offset": offset, "value": b"x"} for offset in offsets
    ]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> MadeTable:
    """Make two batches of two partitions, of which one begins at offset 60, so that offsets cross a word of 64."""
    made = MadeTable(spark, tmp_path_factory.mktemp("lake"), BRONZE, SCHEMA)
    made.batch(0, [*records(0, 0, range(60, 130)), *records(0, 1, range(40))], at(60, 0), at(130, 40))
    made.batch(1, [*records(1, 0, range(130, 200)), *records(1, 1, range(40, 80))], at(130, 40), at(200, 80))
    return made


@pytest.fixture
def bronze(made: MadeTable, tmp_path: Path) -> MadeTable:
    return made.copied(tmp_path)


def proven(spark: SparkSession, span: Span) -> Link:
    return kafka_rows(spark, span, Client(asked, {}))


def asked(_: str) -> Topic:
    pytest.fail("Kafka was asked, and nothing is to be explained")


@pytest.mark.usefixtures("compiled_expressions")
def test_each_offset_once_holds(spark: SparkSession, bronze: MadeTable) -> None:
    link = proven(spark, bronze.span())
    assert (link.holds, link.said) == (True, "220 rows of alog in 2 partitions, each offset once")
    assert proven(spark, bronze.span(after=0)).said == "110 rows of alog in 2 partitions, each offset once"


def test_deleted_offsets_are_named(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.edit("DELETE FROM {} WHERE partition = 0 AND offset IN (140, 141, 142, 150)")
    link = proven(spark, bronze.span())
    assert not link.holds
    assert "batch 1, ingested at 2017-07-14 02:40:01.000, wrote 110 rows, 106 are in the table" in link.said
    assert "alog/0/140 to 142, alog/0/150 are missing" in link.said
    assert proven(spark, bronze.span(after=0)).said == link.said


def test_a_repeated_offset_is_named(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.edit("INSERT INTO {0} SELECT * FROM {0} WHERE partition = 1 AND offset = 7")
    link = proven(spark, bronze.span())
    assert not link.holds
    assert "alog/1/7 are there more than once: 1 row too many" in link.said


@pytest.mark.usefixtures("compiled_expressions")
def test_an_offset_replaced_by_another_is_found(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.edit("UPDATE {} SET offset = 8 WHERE partition = 1 AND offset = 7")
    said = proven(spark, bronze.span()).said
    assert "alog/1/8 are there more than once" in said
    assert "alog/1/7 are missing" in said


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("offset = 59 WHERE partition = 0 AND offset = 60", "alog/0/59"),
        ("offset = 200 WHERE partition = 0 AND offset = 199", "alog/0/200"),
        ("partition = 2 WHERE partition = 1 AND offset = 3", "alog/2/3"),
        ("offset = -1 WHERE partition = 1 AND offset = 3", "alog/1/-1"),
    ],
)
def test_a_row_outside_the_positions_is_named(spark: SparkSession, bronze: MadeTable, edit: str, named: str) -> None:
    bronze.edit(f"UPDATE {{}} SET {edit}")
    link = proven(spark, bronze.span())
    assert not link.holds
    assert f"{named} are outside the offsets that the batches cover" in link.said
    assert "are missing" in link.said


def test_a_row_of_another_topic_is_found(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.edit("UPDATE {} SET topic = 'other' WHERE partition = 1 AND offset = 7")
    assert "1 row belongs to another topic than alog" in proven(spark, bronze.span()).said


def test_a_missing_batch_is_named(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.edit("DELETE FROM {} WHERE offset >= 0 AND ingested_at = timestamp_millis(1500000001000)")
    said = proven(spark, bronze.span()).said
    assert "batch 1, ingested at 2017-07-14 02:40:01.000, wrote 110 rows, 0 are in the table" in said
    assert "alog/0/130 to 199, alog/1/40 to 79 are missing" in said


def test_an_accepted_loss_holds_and_is_noted(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.metadata(2, at(200, 80), at(1_000_000, 80), 0, CommitKind.LOSS)
    bronze.batch(3, records(3, 0, range(1_000_000, 1_000_010)), at(1_000_000, 80), at(1_000_010, 80))
    link = proven(spark, bronze.span())
    assert link.holds, link.said
    assert link.notes[0].startswith("loss accepted in batch 2")


def test_holes_older_than_kafkas_oldest_record_are_noted(spark: SparkSession, bronze: MadeTable) -> None:
    bronze.batch(2, records(2, 0, [200, 203]), at(200, 80), at(204, 80))
    now = Topic("id", {"0": 204, "1": 80}, {"0": 204, "1": 80})
    link = kafka_rows(spark, bronze.span(), Client(lambda _: now, {}))
    assert link.holds, link.said
    assert link.notes[0].startswith("alog/0/201 to 202 were missing when their batches were written")
    assert [(part.count, part.lasting) for part in link.uncompared] == [(2, True)]


def test_rows_whose_commits_are_gone_are_compared_offset_by_offset(spark: SparkSession, bronze: MadeTable) -> None:
    cut = bronze.span(after=0)
    assert cut.start
    span = replace(cut, start=replace(cut.start, rows=110), includes_earlier=True)
    assert proven(spark, span).said == "220 rows of alog in 2 partitions, each offset once"
    bronze.edit("DELETE FROM {} WHERE partition = 1 AND offset = 20")
    said = proven(spark, replace(span, version=bronze.version)).said
    assert "alog/1/20 are missing" in said
    assert "109 rows" in said


def test_rows_of_a_topic_that_was_left_in_a_commit_that_is_gone_are_compared(
    spark: SparkSession, bronze: MadeTable
) -> None:
    bronze.batch(2, records(2, 0, range(5), "other"), at(200, 80), at(200, 80))
    bronze.batch(3, records(3, 0, range(200, 210)), at(200, 80), at(210, 80))
    source = TopicIds({"alog": "id"}, {"other": TopicLeftBehind("id2", {"0": 5})}).to_source()
    last = bronze.commits[-1]
    cut = bronze.span(after=2)
    assert cut.start
    known = (replace(last, metadata=replace(last.metadata, source=source)),)
    span = replace(cut, commits=known, start=replace(cut.start, rows=225), includes_earlier=True)
    link = proven(spark, span)
    assert (link.holds, link.said) == (
        True,
        "230 rows of alog in 2 partitions, 5 rows of other in 1 partition, each offset once",
    )


def test_offsets_of_far_buckets_hold(spark: SparkSession, bronze: MadeTable) -> None:
    many = spark.range(200, 70_000).selectExpr("2L AS batch", "id AS offset")
    rows = many.selectExpr(
        "cast('x' AS binary) AS value", "'alog' AS topic", "0 AS partition", "offset",
        "timestamp_millis(1500000002000) AS ingested_at",
    )  # fmt: skip
    for each in SCHEMA:
        if each.name not in rows.columns:
            rows = rows.selectExpr("*", f"cast(NULL AS {each.dataType.simpleString()}) AS {each.name}")
    bronze.batch(2, rows.select(*SCHEMA.names), at(200, 80), at(70_000, 80))
    assert proven(spark, bronze.span()).holds
    bronze.edit("DELETE FROM {} WHERE partition = 0 AND offset IN (32767, 32768, 65535)")
    said = proven(spark, bronze.span()).said
    assert "alog/0/32767 to 32768, alog/0/65535 are missing" in said
