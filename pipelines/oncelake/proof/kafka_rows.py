"""This is where Kafka's offsets are followed into bronze: each committed record is there, and once."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.exactly_once.kafka_source import Topic
from oncelake.exactly_once.positions import offsets_of
from oncelake.proof.kafka_holes import Client, explain
from oncelake.proof.link import Link, listed, offsets_listed
from oncelake.proof.offsets import Bucket, Segment, beyond, buckets, duplicates, first_of, gaps, holes, inside
from oncelake.proof.span import Span, miscounted, rows_of, taken


def kafka_rows(
    spark: SparkSession, span: Span, topic: str, describe: Callable[[], Topic], client: Mapping[str, str]
) -> Link:
    """Prove that (topic, partition, offset) is unique and dense in bronze, over what its positions cover.

    Kafka is asked only where offsets are missing: an aborted transaction, a control record or a compacted
    record leaves a hole, and a committed record that Kafka still holds there is a lost line.

    Args:
        spark: the session.
        span: bronze's.
        topic: the source's topic.
        describe: gives the topic as it is now; asked once at most.
        client: the Kafka client's settings, without `kafka.` before the keys.

    Raises:
        SourceError: there are holes to explain, and Kafka cannot be reached.
    """
    rows = rows_of(spark, span)
    faults = [*_miscounted(span, rows, topic)]
    rows = rows.where(F.col("topic") == topic)
    found = buckets(rows)
    segments, lost = covered(span, topic, found)
    if beyond(found, segments):
        faults.append(_strangers(rows, topic, [*segments, *lost]))
        rows = rows.where(inside([*segments, *lost]))
        found = buckets(rows)
    faults += _duplicated(rows, topic, found)
    notes = [f"loss accepted in batch {note.batch_id}: {listed(note.lost)}" for note in span.losses]
    lacking = gaps(found, segments)
    if lacking:
        missing, total = holes(spark, rows, segments, lacking), sum(lacking.values())
        explained = explain(missing, total, Client(topic, describe, client), settled=not faults)
        faults += explained.faults
        notes += explained.notes
    rows_in_all, count = sum(each.rows for each in found), len({each.partition for each in segments})
    well = f"{rows_in_all:,} rows of {topic} in {count} partitions, each offset once"
    return Link(
        f"{topic} → {span.table}", str(span.table), not faults, listed(faults, separator="; ") or well, tuple(notes)
    )


def covered(span: Span, topic: str, found: list[Bucket]) -> tuple[list[Segment], list[Segment]]:
    """Give the offsets that a span's positions cover, and those of them that an accepted loss moved over."""
    before, end = _offsets(span.before, topic), _offsets(span.end, topic)
    if span.before is None:  # where the query began is not recorded; nothing before its first row was read
        before = {
            part: min((each.first for each in found if each.partition == part), default=at) for part, at in end.items()
        }
    segments = [Segment(part, before.get(part, 0), at) for part, at in sorted(end.items())]
    lost: list[Segment] = []
    for note in span.losses:
        left, right = _offsets(note.before, topic), _offsets(note.end, topic)
        lost += [Segment(part, left.get(part, 0), at) for part, at in right.items() if at > left.get(part, 0)]
    for gone in lost:
        segments = [part for each in segments for part in _without(each, gone)]
    return segments, lost


def _without(segment: Segment, gone: Segment) -> list[Segment]:
    if segment.partition != gone.partition:
        return [segment]
    parts = [(segment.first, min(segment.end, gone.first)), (max(segment.first, gone.end), segment.end)]
    return [Segment(segment.partition, first, end) for first, end in parts if first < end]


def _offsets(position: str | None, topic: str) -> dict[int, int]:
    return {int(part): int(offset) for part, offset in offsets_of(position, topic).items()}


def _miscounted(span: Span, rows: DataFrame, topic: str) -> list[str]:
    """Count per batch, and the rows that are not of this topic."""
    strange = F.count_if(~F.col("topic").eqNullSafe(F.lit(topic)))
    counts = rows.groupBy(taken().alias("taken")).agg(F.count("*").alias("rows"), strange.alias("strange")).collect()
    others = sum(row["strange"] for row in counts)
    said = [f"{others:,} rows are of another topic than {topic}"] if others else []
    return [*said, *miscounted(span, {row["taken"]: row["rows"] for row in counts})]


def _strangers(rows: DataFrame, topic: str, segments: list[Segment]) -> str:
    strangers = rows.where(f"NOT {inside(segments)}")
    said = offsets_listed(topic, first_of(strangers), strangers.count())
    return f"{said} are outside of what the batches' positions cover"


def _duplicated(rows: DataFrame, topic: str, found: list[Bucket]) -> list[str]:
    extra = sum(each.rows - each.distinct for each in found)
    if not extra:
        return []
    twice = duplicates(rows, found)
    return [f"{offsets_listed(topic, twice, len(twice))} are there more than once: {extra:,} rows too many"]
