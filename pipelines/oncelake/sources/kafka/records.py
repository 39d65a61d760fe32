"""Read records of Kafka topics again, and compare them with the rows that bronze has of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION, raw_length
from oncelake.bronze.mask_versions import MaskVersion, MaskVersions
from oncelake.bronze.records import why_not_on_class_path
from oncelake.bronze.transform import from_kafka, record_time
from oncelake.common.spark.runtime import on_databricks

_READER = "oncelake.Topics"
_PLACE = ["topic", "partition", "offset"]
# How far before bronze's position the last row of a partition is looked for: first in the last batch. Behind the last
# row there are only offsets without a record: ends of transactions, and aborted ones.
_REACH = (2**6, 2**14)

# Offsets by topic and partition.
Offsets = Mapping[str, Mapping[str, int]]


def format_of(spark: SparkSession) -> str:
    """Return the name of Spark's source for topics.

    Ours is Spark's own, and reads records with any timestamp; Spark's own fails on one that is too large. That one is
    used where our classes are not, and on Databricks, whose connector has other classes.
    """
    return "kafka" if on_databricks() or why_not_on_class_path(spark, _READER, "") is not None else _READER


def read_records(
    spark: SparkSession, client: Mapping[str, str], first: Offsets, end: Offsets, *, tasks: int = 0
) -> DataFrame:
    """Read ranges of topics as they are now, with Spark's columns of a Kafka record.

    Args:
        spark: the session.
        client: the Kafka client's settings.
        first: the first offset of each partition.
        end: the offset after the last one.
        tasks: read with at least this many tasks; 0 for one task per partition.
    """
    reader = spark.read.format(format_of(spark)).option("failOnDataLoss", "true").option("includeHeaders", "true")
    for key, value in client.items():
        reader = reader.option(f"kafka.{key}", value)
    if tasks:
        reader = reader.option("minPartitions", str(tasks))
    reader = reader.option("assign", json.dumps({topic: [*map(int, parts)] for topic, parts in first.items()}))
    return reader.option("startingOffsets", json.dumps(first)).option("endingOffsets", json.dumps(end)).load()


@dataclass(frozen=True)
class RecordComparison:
    """What a comparison of some rows of one partition with its records found.

    Attributes:
        topic: the topic.
        partition: the partition.
        rows: how many rows were looked for in the topic.
        absent: how many of them have no record there.
        differ: how many of them have another record there.
        first: the first offset with another record; None without one.
        first_absent: the first offset without a record; None without one.
        partly: why only the length and the timestamp could be compared; None if all of a record was.
    """

    topic: str
    partition: str
    rows: int
    absent: int
    differ: int
    first: int | None
    first_absent: int | None
    partly: str | None


def compare(
    rows: DataFrame, records: DataFrame, versions: MaskVersions, *, few: bool = False
) -> Iterator[RecordComparison]:
    """Compare rows of bronze with the records at their offsets: value, key, headers and timestamp.

    Masked rows are compared with the records as the same rules mask them. If these rules cannot be applied any more,
    only the length of the value and the timestamp are compared.

    Args:
        rows: rows of bronze.
        records: records of the topics, from `read_records`.
        versions: the versions of the rules that mask data.
        few: True if the records are few.
    """
    known = from_kafka(records)
    used = [row[0] for row in rows.select(VERSION).distinct().collect()] if VERSION in rows.columns else [None]
    for version in used:
        part = rows.where(F.col(VERSION).eqNullSafe(F.lit(version))) if VERSION in rows.columns else rows
        rules = versions.of(version) if version is not None else None
        partly = rules if isinstance(rules, str) else None
        now = rules.mask.rows(known, str(version)) if isinstance(rules, MaskVersion) else known
        then = _hashed(part, "then", whole=partly is None)
        current = _hashed(now, "now", whole=partly is None)
        joined = then.join(F.broadcast(current) if few else current, _PLACE, "left")
        absent, differs = F.col("now").isNull(), F.col("then") != F.col("now")  # guard: record-equals-row
        grouped = joined.groupBy("topic", "partition").agg(
            F.count("*").alias("rows"),
            F.count_if(absent).alias("absent"),
            F.count_if(differs).alias("differ"),
            F.min(F.when(differs, F.col("offset"))).alias("first"),
            F.min(F.when(absent, F.col("offset"))).alias("first_absent"),
        )
        for row in grouped.orderBy("topic", "partition").collect():
            yield RecordComparison(**{**row.asDict(), "partition": str(row["partition"])}, partly=partly)


def unread(rows: DataFrame, records: DataFrame) -> list[str]:  # guard: no-record-after-last-row
    """Return the first record of each partition that has no row, as `topic/partition/offset`."""
    first_unread = records.join(rows, _PLACE, "left_anti").groupBy("topic", "partition").agg(F.min("offset"))
    return ["/".join(map(str, row)) for row in first_unread.orderBy("topic", "partition").collect()]


def _hashed(rows: DataFrame, name: str, *, whole: bool) -> DataFrame:
    """Return a hash of each row; a part that is null, and one that is empty, are different."""
    parts = [F.unix_micros(record_time()), raw_length(rows)]
    if whole:
        header = F.transform("headers", lambda item: F.struct(item["key"], item["value"], item["value"].isNull()))
        parts += [F.col("value"), F.col("key"), header]
    hashed = F.xxhash64(*parts, *(part.isNull() for part in parts))
    return rows.select(*_PLACE, hashed.alias(name))


def last_rows(bronze: DataFrame, end: Offsets, planned_ms: int) -> tuple[DataFrame, dict[str, dict[str, int]]]:
    """Return the last row of each partition, and its offset; a partition without a row near its end is left out.

    The table is not scanned: Delta skips files by the bounds of their offsets, and of the times of their batches.

    Args:
        bronze: the bronze table.
        end: bronze's position in each partition.
        planned_ms: when the last batch was planned, in milliseconds.
    """
    in_last = F.col("ingested_at") == F.timestamp_millis(F.lit(planned_ms))
    open_ends = {(topic, part): at for topic, parts in end.items() for part, at in parts.items()}
    conditions: list[Column] = []
    offsets: dict[str, dict[str, int]] = {}
    for reach, where in ((_REACH[0], in_last), (_REACH[0], None), (_REACH[1], None)):
        if not open_ends:
            break
        near = [_of(*place, F.col("offset").between(at - reach, at - 1)) for place, at in open_ends.items()]
        rows = bronze.where(_any(near)) if where is None else bronze.where(where).where(_any(near))
        # guard: last-row-compared
        last = rows.groupBy("topic", "partition").agg(F.max("offset").alias("offset")).collect()
        for row in last:
            topic, part = row["topic"], str(row["partition"])
            offsets.setdefault(topic, {})[part] = row["offset"]
            at = _of(topic, part, F.col("offset") == row["offset"])
            conditions.append(at if where is None else at & where)
            open_ends.pop((topic, part))
    return bronze.where(_any(conditions)), offsets


def since(rows: DataFrame, first: Offsets) -> DataFrame:
    """Return the rows of bronze from these offsets on; no row of another partition."""
    parts = ((topic, part, at) for topic, parts in first.items() for part, at in parts.items())
    return rows.where(_any([_of(topic, part, F.col("offset") >= at) for topic, part, at in parts]))


def _of(topic: str, partition: str, offsets: Column) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == int(partition)) & offsets


def _any(conditions: list[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))
