"""Find the offsets that are missing or duplicated in bronze, and explain the missing ones from Kafka."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.wording import count_of
from oncelake.exactly_once.link import Range, Uncompared, joined, offsets_listed
from oncelake.sources.kafka.records import read_records
from oncelake.sources.kafka.source import Topic

# 64 offsets are one word of bits, 512 words are one bucket. Rows are counted per word while they are read, and
# only the buckets with a wrong count are read again. This is exact, and sorts no rows.
_WORD, _BUCKET = 6, 15
# At most this many single offsets are fetched for a message.
_SHOWN = 1_000
# At most this many ranges per partition are read again; holes are joined over the smallest gaps between them.
_MOST_RANGES = 8


@dataclass(frozen=True, order=True)
class Segment:
    """Offsets of a partition, from `first` up to but not including `end`."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True)
class Bucket:
    """Counts of the rows that bronze holds of 32,768 offsets of a partition."""

    partition: int
    number: int
    rows: int
    distinct: int
    first: int
    last: int


@dataclass(frozen=True)
class Client:
    """Access to topics.

    Attributes:
        describe: describes a topic as it is now; None if Kafka does not have it.
        policies: returns the cleanup policies of topics.
        settings: the client settings without `kafka.`.
        topic: the topic to read.
    """

    describe: Callable[[str], Topic | None]
    settings: Mapping[str, str]
    topic: str = ""
    policies: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}


def buckets(rows: DataFrame) -> list[Bucket]:
    """Count rows and distinct offsets per bucket; returns one entry per 32,768 offsets."""
    counted = (
        _words(rows)
        .groupBy("partition", _bucket("word", _BUCKET - _WORD))
        .agg(
            F.sum("rows").alias("rows"),
            F.sum(F.bit_count("bits")).alias("distinct"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )
    results = counted.select("partition", "bucket", "rows", "distinct", "first", "last").collect()
    return [Bucket(*row) for row in results]


def duplicates(rows: DataFrame, counted: list[Bucket]) -> list[tuple[int, int]]:
    """Return the first duplicated offsets, from the first buckets that have any."""
    off = [bucket for bucket in counted if bucket.rows > bucket.distinct][:_SHOWN]
    twice = _in(rows, [(bucket.partition, bucket.number) for bucket in off]).groupBy("partition", "offset").count()
    return first_of(twice.where("count > 1"))


def inside(segments: Iterable[Segment]) -> str:
    """Return the SQL condition that a row's offset is in one of the segments."""
    conditions = [
        f"(partition = {part.partition} AND offset >= {part.first}L AND offset < {part.end}L)" for part in segments
    ]
    return f"coalesce({' OR '.join(conditions) or 'false'}, false)"


def reaches_outside(counted: Iterable[Bucket], segments: Iterable[Segment]) -> bool:
    """Return True if a bucket reaches before the first or after the last of its partition's segments."""
    limits: dict[int, tuple[int, int]] = {}
    for segment in segments:
        first, end = limits.get(segment.partition, (segment.first, segment.end))
        limits[segment.partition] = min(first, segment.first), max(end, segment.end)
    return any(
        bucket.partition not in limits
        or bucket.first < limits[bucket.partition][0]
        or bucket.last >= limits[bucket.partition][1]
        for bucket in counted
    )


# guard: every-offset-there
def gaps(counted: Iterable[Bucket], segments: Iterable[Segment]) -> dict[tuple[int, int], int]:
    """Return the buckets that lack offsets, each with the number of missing offsets."""
    lacking: Counter[tuple[int, int]] = Counter()
    for bucket, part in _cut(segments):
        lacking[bucket] += part.end - part.first
    lacking.subtract({(entry.partition, entry.number): entry.distinct for entry in counted})
    return {bucket: count for bucket, count in lacking.items() if count}


def holes(rows: DataFrame, segments: Iterable[Segment], lacking: Mapping[tuple[int, int], int]) -> DataFrame:
    """Return every missing offset of these buckets (partition int, offset bigint)."""
    parts = [(part.partition, part.first, part.end) for bucket, part in _cut(segments) if bucket in lacking]
    limits = rows.sparkSession.createDataFrame(parts, "partition int, lo bigint, hi bigint")
    words = F.explode(F.sequence(F.shiftright("lo", _WORD), F.shiftright(F.col("hi") - 1, _WORD)))
    present = _words(_in(rows, list(lacking))).select("partition", "word", "bits")
    checked = limits.withColumn("word", words).join(present, ["partition", "word"], "left")
    lacks = checked.withColumn("bits", F.coalesce("bits", F.lit(0))).where("bits != -1")
    offsets = F.explode(F.sequence(F.col("word") * 64, F.col("word") * 64 + 63))
    absent = "(shiftrightunsigned(bits, cast(offset & 63 AS int)) & 1) = 0 AND offset >= lo AND offset < hi"
    return lacks.withColumn("offset", offsets).where(absent).select("partition", "offset")


def first_of(offsets: DataFrame) -> list[tuple[int, int]]:
    """Return the first offsets of a frame with columns `partition` and `offset`."""
    first = offsets.orderBy("partition", "offset").limit(_SHOWN).collect()
    return [(row["partition"], row["offset"]) for row in first]


def _cut(segments: Iterable[Segment]) -> Iterator[tuple[tuple[int, int], Segment]]:
    """Yield the segments cut at bucket limits, each with its bucket."""
    for part in segments:
        for number in range(part.first >> _BUCKET, (part.end - 1 >> _BUCKET) + 1):
            first, end = max(part.first, number << _BUCKET), min(part.end, number + 1 << _BUCKET)
            if first < end:
                yield (part.partition, number), Segment(part.partition, first, end)


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


def _in(rows: DataFrame, chosen: list[tuple[int, int]]) -> DataFrame:
    """Return the rows of the wanted buckets."""
    by_partition: dict[int, list[int]] = {}
    for part, number in chosen:
        by_partition.setdefault(part, []).append(number)
    conditions = [
        f"(partition = {part} AND offset BETWEEN {min(numbers) << _BUCKET}L AND {(max(numbers) + 1 << _BUCKET) - 1}L "
        f"AND shiftright(offset, {_BUCKET}) IN ({', '.join(map(str, numbers))}))"
        for part, numbers in by_partition.items()
    ]
    return rows.where(" OR ".join(conditions) or "false")


# The faults, the notes, and what is not compared.
Explained = tuple[list[str], list[str], tuple[Uncompared, ...]]


def explain(missing: DataFrame, total: int, client: Client, *, settled: bool) -> Explained:
    """Explain the offsets that bronze lacks; return the unexplained ones (faults), and the explained ones (notes).

    A few ranges that hold the holes are read again with Spark's batch source: first as bronze reads, committed
    records only, then with all records. A record found at a hole by the first read is a lost line. A record found
    only by the second read belongs to an aborted transaction. If no record is found, the offset is a control
    record, or compaction removed its record.

    Args:
        missing: the holes (see `holes`).
        total: the number of holes.
        client: describes and reads the topic.
        settled: True if the batches still have all rows that they wrote.
    """
    missing.persist()
    try:
        if settled:  # guard: removed-offset-not-explained
            return _explained_by_kafka(missing, client)
        # rows were deleted after they were written, and are among the missing ones
        return [f"{offsets_listed(client.topic, first_of(missing), total)} are missing"], [], ()
    finally:
        missing.unpersist()


def _explained_by_kafka(missing: DataFrame, client: Client) -> Explained:
    now = client.describe(client.topic)
    oldest = now.earliest if now is not None else {}
    still = " OR ".join(f"(partition = {int(part)} AND offset >= {at}L)" for part, at in oldest.items()) or "false"
    retained, gone = missing.where(still), missing.where(f"NOT ({still})")
    faults, notes = _read_again(retained, client)
    unheld, parts = gone.count(), tuple[Uncompared, ...]()
    if unheld:
        where = offsets_listed(client.topic, first_of(gone), unheld)
        notes.append(
            f"{where} were missing when their batches were written, and are older than the oldest record that "
            "Kafka holds: it can no longer be checked whether they were committed records"
        )
        expired = count_of(unheld, f"offset of {client.topic} that expired", f"offsets of {client.topic} that expired")
        parts = (Uncompared(unheld, f"{expired} and that no row has", lasting=True),)  # guard: expired-offset-is-number
    return faults, notes, parts


def _read_again(retained: DataFrame, client: Client) -> tuple[list[str], list[str]]:
    limits = retained.groupBy("partition", _bucket("offset", _BUCKET)).agg(
        F.min("offset").alias("first"), F.max("offset").alias("last"), F.count("*").alias("rows")
    )
    ranges: dict[int, list[Range]] = {}
    total = 0
    for row in limits.orderBy("partition", "first").collect():
        ranges.setdefault(row["partition"], []).append((row["first"], row["last"]))
        total += row["rows"]
    if not total:
        return [], []
    few = {part: joined(spans, _MOST_RANGES) for part, spans in ranges.items()}
    committed, written = (
        _records(retained.sparkSession, client, few, level).join(retained, ["partition", "offset"], "left_semi")
        for level in ("read_committed", "read_uncommitted")
    )
    lost = committed.count()
    aborted = written.count() - lost
    faults = []
    if lost:
        where = offsets_listed(client.topic, first_of(committed), lost)
        # guard: kafka-explains-missing-offsets
        faults.append(f"{where} are committed records that Kafka holds and bronze lacks: lost lines")
    others = count_of(total - lost - aborted, "control record", "control records")
    explained = {
        f"{aborted:,} of aborted transactions": aborted,
        f"{others} of transactions or removed by compaction": total - lost - aborted,
    }
    kinds = ", ".join(text for text, count in explained.items() if count)
    hold = count_of(total - lost, "offset holds no committed record", "offsets hold no committed record")
    return faults, [f"{hold}: {kinds}"] if kinds else []


def _records(spark: SparkSession, client: Client, ranges: Mapping[int, list[Range]], level: str) -> DataFrame:
    """Read the ranges of a topic; one read covers one range of every partition."""
    rounds = max(map(len, ranges.values()))
    reads = [{part: spans[at] for part, spans in ranges.items() if at < len(spans)} for at in range(rounds)]
    return reduce(DataFrame.unionByName, (read(spark, client, part_ranges, level) for part_ranges in reads))


def read(spark: SparkSession, client: Client, ranges: Mapping[int, Range], level: str) -> DataFrame:
    """Read one range of each partition as it is now. Columns `partition` int and `offset` bigint, one row per record.

    Args:
        spark: the session.
        client: reads the topic.
        ranges: the first and the last offset, by partition.
        level: Kafka's isolation level.
    """
    starts = {str(part): first for part, (first, _) in ranges.items()}
    ends = {str(part): last + 1 for part, (_, last) in ranges.items()}
    settings, tasks = {**client.settings, "isolation.level": level}, spark.sparkContext.defaultParallelism
    records = read_records(spark, settings, {client.topic: starts}, {client.topic: ends}, tasks=tasks)
    return records.select("partition", "offset")
