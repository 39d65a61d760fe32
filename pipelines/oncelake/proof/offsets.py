"""This is where it is found which Kafka offsets bronze lacks, and which it holds twice.

64 offsets are one word of bits, 512 words one bucket: rows are counted per word while they are read, and
only the buckets that are off are looked at again. Exact, and no row is sorted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

_WORD, _BUCKET = 6, 15
# How many single offsets are looked at for a message.
SHOWN = 1_000


@dataclass(frozen=True, order=True)
class Segment:
    """Offsets of a partition, from the first to the one before the end."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True)
class Bucket:
    """What bronze holds of 32,768 offsets of a partition."""

    partition: int
    number: int
    rows: int
    distinct: int
    first: int
    last: int


def buckets(rows: DataFrame) -> list[Bucket]:
    """Count rows and distinct offsets per bucket; one line per 32,768 offsets comes back."""
    words = _words(rows)
    found = words.groupBy("partition", _bucket("word", _BUCKET - _WORD)).agg(
        F.sum("rows").alias("rows"),
        F.sum(F.bit_count("bits")).alias("distinct"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    return [Bucket(*row) for row in found.select("partition", "bucket", "rows", "distinct", "first", "last").collect()]


def duplicates(rows: DataFrame, found: list[Bucket]) -> list[tuple[int, int]]:
    """Give the first offsets that are there more than once, from the first of the buckets that have such."""
    off = [each for each in found if each.rows > each.distinct][:SHOWN]
    twice = _in(rows, [(each.partition, each.number) for each in off]).groupBy("partition", "offset").count()
    return _shown(twice.where("count > 1"))


def inside(segments: Iterable[Segment]) -> str:
    """Write the condition that a row's offset is in one of the segments."""
    each = [f"(partition = {part.partition} AND offset >= {part.first}L AND offset < {part.end}L)" for part in segments]
    return f"coalesce({' OR '.join(each) or 'false'}, false)"


def beyond(found: Iterable[Bucket], segments: Iterable[Segment]) -> bool:
    """Tell whether a bucket reaches before the first or after the last of its partition's segments."""
    limits: dict[int, tuple[int, int]] = {}
    for each in segments:
        first, end = limits.get(each.partition, (each.first, each.end))
        limits[each.partition] = min(first, each.first), max(end, each.end)
    return any(
        each.partition not in limits or each.first < limits[each.partition][0] or each.last >= limits[each.partition][1]
        for each in found
    )


def gaps(found: Iterable[Bucket], segments: Iterable[Segment]) -> dict[tuple[int, int], int]:
    """Give the buckets that lack offsets, each with how many."""
    lacking: Counter[tuple[int, int]] = Counter()
    for bucket, part in _cut(segments):
        lacking[bucket] += part.end - part.first
    lacking.subtract({(each.partition, each.number): each.distinct for each in found})
    return {bucket: count for bucket, count in lacking.items() if count}


def holes(
    spark: SparkSession, rows: DataFrame, segments: Iterable[Segment], lacking: Mapping[tuple[int, int], int]
) -> DataFrame:
    """Give every offset (partition int, offset bigint) of these buckets that should be there and is not."""
    parts = [(part.partition, part.first, part.end) for bucket, part in _cut(segments) if bucket in lacking]
    limits = spark.createDataFrame(parts, "partition int, lo bigint, hi bigint")
    words = F.explode(F.sequence(F.shiftright("lo", _WORD), F.shiftright(F.col("hi") - 1, _WORD)))
    there = _words(_in(rows, list(lacking))).select("partition", "word", "bits")
    found = limits.withColumn("word", words).join(there, ["partition", "word"], "left")
    lacks = found.withColumn("bits", F.coalesce("bits", F.lit(0))).where("bits != -1")
    each = F.explode(F.sequence(F.col("word") * 64, F.col("word") * 64 + 63))
    absent = "(shiftrightunsigned(bits, cast(offset & 63 AS int)) & 1) = 0 AND offset >= lo AND offset < hi"
    return lacks.withColumn("offset", each).where(absent).select("partition", "offset")


def _cut(segments: Iterable[Segment]) -> Iterator[tuple[tuple[int, int], Segment]]:
    """Cut segments at the limits of buckets."""
    for part in segments:
        for number in range(part.first >> _BUCKET, (part.end - 1 >> _BUCKET) + 1):
            first, end = max(part.first, number << _BUCKET), min(part.end, number + 1 << _BUCKET)
            if first < end:
                yield (part.partition, number), Segment(part.partition, first, end)


def first_of(found: DataFrame) -> list[tuple[int, int]]:
    """Give the first offsets of a frame that has `partition` and `offset`."""
    return _shown(found)


def extent(found: DataFrame) -> list[Row]:
    """Give partition, first, last and count of a frame's offsets, per bucket."""
    grouped = found.groupBy("partition", _bucket("offset", _BUCKET))
    limits = grouped.agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows"))
    return limits.orderBy("partition", "first").collect()


def _words(rows: DataFrame) -> DataFrame:
    bit = F.expr("shiftleft(1L, cast(offset & 63 AS int))")
    return rows.groupBy("partition", _bucket("offset", _WORD, "word")).agg(
        F.count("*").alias("rows"),
        F.bit_or(bit).alias("bits"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )


def _bucket(column: str, bits: int, name: str = "bucket") -> Column:
    return F.shiftright(column, bits).alias(name)


def _in(rows: DataFrame, wanted: list[tuple[int, int]]) -> DataFrame:
    """Choose the rows of some buckets."""
    by_partition: dict[int, list[int]] = {}
    for part, number in wanted:
        by_partition.setdefault(part, []).append(number)
    each = [
        f"(partition = {part} AND offset BETWEEN {min(numbers) << _BUCKET}L AND {(max(numbers) + 1 << _BUCKET) - 1}L "
        f"AND shiftright(offset, {_BUCKET}) IN ({', '.join(map(str, numbers))}))"
        for part, numbers in by_partition.items()
    ]
    return rows.where(" OR ".join(each) or "false")


def _shown(found: DataFrame) -> list[tuple[int, int]]:
    first = found.orderBy("partition", "offset").limit(SHOWN).collect()
    return [(row["partition"], row["offset"]) for row in first]
