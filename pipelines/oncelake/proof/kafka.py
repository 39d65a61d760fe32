"""Check bronze against a Kafka topic: every offset is read, waiting or lost; each committed record is there once."""

import time
from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE, Table, bronze_stage
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.kafka_source import KafkaSource, PartitionCensus, census
from oncelake.exactly_once.positions import offsets_of
from oncelake.exactly_once.state import Diagnosis
from oncelake.proof import offsets
from oncelake.proof.link import Link, first_to_last, offsets_listed
from oncelake.proof.offsets import Bucket, Client, Segment
from oncelake.proof.span import Span, miscounted, rows_of, taken

# A concurrent run may advance bronze between two reads. Only a fault that persists is a fault.
LOOKS = 3
PAUSE = 0.3


def kafka_offsets(
    look: Callable[[], tuple[KafkaSource, CommitMetadata | None, Diagnosis]], bronze: Table = BRONZE
) -> Link:
    """Prove that every offset of the topic is read, or waits for the next run.

    Args:
        look: returns the current source, metadata of bronze's last batch, and state of bronze.
        bronze: the bronze table of the topic.

    Raises:
        SourceError: Kafka cannot be reached.
    """
    for each in range(LOOKS):
        link = account(*look(), bronze)
        if link.holds or each == LOOKS - 1:
            break
        time.sleep(PAUSE)
    return link


def account(source: KafkaSource, metadata: CommitMetadata | None, diagnosis: Diagnosis, bronze: Table = BRONZE) -> Link:
    """Compare the offsets that Kafka holds with the position of a bronze table."""
    name, now = f"{source.topic} → {bronze}: offsets", source.describe()
    was = metadata.source.get("topic_id") if metadata else None
    if was and was != now.topic_id:
        said = f"topic {source.topic} has ID {now.topic_id}, bronze has read {was}: the topic's records are not read"
        return Link(name, str(bronze), False, said)
    first = source.first_position()
    parts = census(source.topic, metadata.end if metadata else first, now, first)
    waiting = sum(len(each.waiting) for each in parts)
    faults = [*_lost(source.topic, parts, bronze_stage(bronze.name)), *_beyond(source.topic, parts)]
    if waiting and not diagnosis.may_start:
        wait = count_of(waiting, "offset waits and no run reads it", "offsets wait and no run reads them")
        faults.append(f"{wait}, as bronze would not start: {diagnosis.state}")
    return Link.of(name, bronze, faults, _counted(source.topic, parts, waiting), _expired(source.topic, parts))


def _lost(topic: str, parts: Iterable[PartitionCensus], stage: str) -> list[str]:
    gone = [_range(topic, each.partition, each.lost) for each in parts if each.lost]
    if not gone:
        return []
    accept = f"To accept the loss, run: oncelake recover {stage} --accept-loss"
    return [f"{listed(gone)} are gone and bronze has not read them. {accept}"]


def _beyond(topic: str, parts: Iterable[PartitionCensus]) -> list[str]:
    return [
        f"{topic}/{each.partition} ends at {each.end}, but bronze has read up to {each.read}: it is another topic"
        for each in parts
        if each.beyond
    ]


def _expired(topic: str, parts: Iterable[PartitionCensus]) -> list[str]:
    before = [_range(topic, each.partition, range(each.first)) for each in parts if each.first]
    return [f"{listed(before)} expired before the first run and were never read"] if before else []


def _counted(topic: str, parts: list[PartitionCensus], waiting: int) -> str:
    partitions = count_of(len(parts), "partition")
    if not waiting:
        return f"{partitions} of {topic} read up to the end"
    there = [_range(topic, each.partition, each.waiting) for each in parts if each.waiting]
    wait = count_of(waiting, "offset waits for the next run", "offsets wait for the next run")
    return f"{partitions} of {topic}, {wait}: {listed(there)}"


def _range(topic: str, partition: str, numbers: range) -> str:
    return f"{topic}/{partition}/{first_to_last(numbers[0], numbers[-1])}"


def kafka_rows(spark: SparkSession, span: Span, client: Client) -> Link:
    """Prove that (topic, partition, offset) is unique and dense in bronze, over the offsets its positions cover.

    Kafka is read only where offsets are missing. An aborted transaction, a control record or a compacted record
    leaves a hole. A committed record that Kafka still holds at a missing offset is a lost line.

    Args:
        spark: the session.
        span: the span of bronze.
        client: describes and reads the source's topic; the topic is described once at most.

    Raises:
        SourceError: there are holes to explain, and Kafka cannot be reached.
    """
    rows, topic = rows_of(spark, span), client.topic
    faults = _miscounted(span, rows, topic)
    rows = rows.where(F.col("topic") == topic)
    found = offsets.buckets(rows)
    segments, lost = _covered(span, topic, found)
    if offsets.reaches_outside(found, segments):
        faults.append(_strangers(rows, topic, [*segments, *lost]))
        rows = rows.where(offsets.inside([*segments, *lost]))
        found = offsets.buckets(rows)
    faults += _duplicated(rows, topic, found)
    notes = [f"loss accepted in batch {metadata.batch_id}: {listed(metadata.lost)}" for metadata in span.losses]
    lacking = offsets.gaps(found, segments)
    if lacking:
        missing, total = offsets.holes(rows, segments, lacking), sum(lacking.values())
        lost_lines, explained = offsets.explain(missing, total, client, settled=not faults)
        faults += lost_lines
        notes += explained
    rows_in_all = count_of(sum(each.rows for each in found), "row")
    partitions = count_of(len({each.partition for each in segments}), "partition")
    well = f"{rows_in_all} of {topic} in {partitions}, each offset once"
    return Link.of(f"{topic} → {span.table}", span.table, faults, well, notes)


def _covered(span: Span, topic: str, found: list[Bucket]) -> tuple[list[Segment], list[Segment]]:
    """Return the offsets that a span's positions cover, and the offsets that an accepted loss skipped."""
    before, end = _offsets(span.before, topic), _offsets(span.end, topic)
    if span.before is None:  # the query's start is not recorded; nothing before its first row was read
        before = {
            part: min((each.first for each in found if each.partition == part), default=at) for part, at in end.items()
        }
    segments = [Segment(part, before.get(part, 0), at) for part, at in sorted(end.items())]
    lost: list[Segment] = []
    for metadata in span.losses:
        left, right = _offsets(metadata.before, topic), _offsets(metadata.end, topic)
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
    """Return faults in the row count per batch, and the rows that belong to another topic."""
    strange = F.count_if(~F.col("topic").eqNullSafe(F.lit(topic)))
    counts = rows.groupBy(taken().alias("taken")).agg(F.count("*").alias("rows"), strange.alias("strange")).collect()
    others = sum(row["strange"] for row in counts)
    strangers = count_of(others, "row belongs", "rows belong")
    said = [f"{strangers} to another topic than {topic}"] if others else []
    return [*said, *miscounted(span, {row["taken"]: row["rows"] for row in counts})]


def _strangers(rows: DataFrame, topic: str, segments: list[Segment]) -> str:
    strangers = rows.where(f"NOT {offsets.inside(segments)}")
    said = offsets_listed(topic, offsets.first_of(strangers), strangers.count())
    return f"{said} are outside the offsets that the batches cover"


def _duplicated(rows: DataFrame, topic: str, found: list[Bucket]) -> list[str]:
    extra = sum(each.rows - each.distinct for each in found)
    if not extra:
        return []
    twice = offsets.duplicates(rows, found)
    return [f"{offsets_listed(topic, twice, len(twice))} are there more than once: {count_of(extra, 'row')} too many"]
