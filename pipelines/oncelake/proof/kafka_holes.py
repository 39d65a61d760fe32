"""This is where Kafka itself explains the offsets that bronze lacks.

A few ranges that hold the holes are read again, by Spark's batch source: once as bronze reads, committed
records alone, and once with all records. What Kafka gives at a hole the first time is a lost line; what it
gives only the second time is of an aborted transaction; where it gives nothing there is a control record,
or one that compaction took.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.exactly_once.kafka_source import Topic
from oncelake.proof.link import Range, joined, offsets_listed
from oncelake.proof.offsets import extent, first_of

# Ranges per partition that are read again; holes are joined over the smallest gaps until they are so few.
MOST_RANGES = 8


@dataclass(frozen=True)
class Client:
    """How a topic is asked and read: its name, what describes it now, and the client's settings."""

    topic: str
    describe: Callable[[], Topic]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Holes:
    """What the holes come to: those that nothing explains, and those that something does."""

    faults: list[str]
    notes: list[str]


def explain(found: DataFrame, total: int, client: Client, *, settled: bool) -> Holes:
    """Explain offsets that bronze lacks.

    Args:
        found: the holes (see `offsets.holes`).
        total: how many they are.
        client: how Kafka is asked.
        settled: whether the batches still have all rows that they wrote.
    """
    found.persist()
    try:
        if settled:
            return _asked(found, client)
        # rows were taken away after they were written, and these are among what is missing
        return Holes([f"{offsets_listed(client.topic, first_of(found), total)} are missing"], [])
    finally:
        found.unpersist()


def _asked(found: DataFrame, client: Client) -> Holes:
    now = client.describe()
    oldest = {int(part): offset for part, offset in now.earliest.items()}
    still = " OR ".join(f"(partition = {part} AND offset >= {offset}L)" for part, offset in oldest.items()) or "false"
    held, gone = found.where(still), found.where(f"NOT ({still})")
    faults, notes = _read_again(held, client)
    unheld = gone.count()
    if unheld:
        where = offsets_listed(client.topic, first_of(gone), unheld)
        notes.append(
            f"{where} were not there when their batches were written, and are older than the oldest record that "
            "Kafka holds: whether they were committed records can no longer be told"
        )
    return Holes(faults, notes)


def _read_again(held: DataFrame, client: Client) -> tuple[list[str], list[str]]:
    ranges: dict[int, list[Range]] = {}
    total = 0
    for row in extent(held):
        ranges.setdefault(row["partition"], []).append((row["first"], row["last"]))
        total += row["rows"]
    if not total:
        return [], []
    few = {part: joined(each, MOST_RANGES) for part, each in ranges.items()}
    committed, written = (
        _records(held.sparkSession, client, few, level).join(held, ["partition", "offset"], "left_semi")
        for level in ("read_committed", "read_uncommitted")
    )
    lost = committed.count()
    aborted = written.count() - lost
    faults = []
    if lost:
        where = offsets_listed(client.topic, first_of(committed), lost)
        faults.append(f"{where} are committed records that Kafka holds and bronze does not: lost lines")
    explained = {
        "of aborted transactions": aborted,
        "control records of transactions or taken by compaction": total - lost - aborted,
    }
    kinds = [f"{count:,} {what}" for what, count in explained.items() if count]
    return faults, [f"{total - lost:,} offsets hold no committed record: {', '.join(kinds)}"] if kinds else []


def _records(spark: SparkSession, client: Client, ranges: Mapping[int, list[Range]], level: str) -> DataFrame:
    """Read the ranges of a topic; one read takes one range of every partition."""
    rounds = max(map(len, ranges.values()))
    reads = [{part: each[at] for part, each in ranges.items() if at < len(each)} for at in range(rounds)]
    return reduce(DataFrame.unionByName, (read(spark, client, each, level) for each in reads))


def read(spark: SparkSession, client: Client, ranges: Mapping[int, Range], level: str) -> DataFrame:
    """Read one range of each partition as it is now: `partition` int, `offset` bigint, one row a record.

    Args:
        spark: the session.
        client: how the topic is read.
        ranges: by partition, the first and the last offset.
        level: Kafka's isolation level.
    """
    reader = spark.read.format("kafka").option("failOnDataLoss", "true")
    for key, value in {**client.settings, "isolation.level": level}.items():
        reader = reader.option(f"kafka.{key}", value)
    reader = reader.option("assign", json.dumps({client.topic: sorted(ranges)}))
    reader = reader.option("startingOffsets", json.dumps({client.topic: {part: at[0] for part, at in ranges.items()}}))
    reader = reader.option(
        "endingOffsets", json.dumps({client.topic: {part: at[1] + 1 for part, at in ranges.items()}})
    )
    spread = reader.option("minPartitions", str(spark.sparkContext.defaultParallelism)).load()
    return spread.select(F.col("partition"), F.col("offset"))
