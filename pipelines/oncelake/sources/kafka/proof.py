"""Check bronze against Kafka topics: every offset is read, waiting or lost; each committed record is there once."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.lake import BRONZE, Table, bronze_stage
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.link import Link, Uncompared, first_to_last, offsets_listed
from oncelake.exactly_once.span import Span, ingested_ms, miscounted, rows_of
from oncelake.exactly_once.state import Diagnosis
from oncelake.sources.kafka import offsets
from oncelake.sources.kafka.admin import NEVER_COMPACTED
from oncelake.sources.kafka.offsets import Bucket, Client, Explained, Segment
from oncelake.sources.kafka.position import KafkaPosition, offsets_of
from oncelake.sources.kafka.records import RecordComparison, compare, read_records, since
from oncelake.sources.kafka.source import KafkaSource, LastRecords, PartitionCensus, TopicIds, census, refilled
from oncelake.sources.proof import Ingestion, StageView

# A concurrent run may advance bronze between two reads. Only a fault that persists is a fault.
LOOKS = 3
PAUSE = 0.3


def links(source: KafkaSource, ingestion: Ingestion, client: Client) -> Iterator[Link]:
    """Account for each offset, and check the rows that were read from the topics."""
    span, accounted = ingestion.span, kafka_offsets(ingestion.look, ingestion.table)
    if accounted.holds and span is not None and span.commits:  # guard: no-rows-of-another-topic
        yield kafka_rows(ingestion.spark, span, client)
    yield accounted
    if ingestion.deep and span is not None and span.rows_in_all:
        yield _kafka_records(span, source, client, ingestion.versions)


def kafka_offsets(look: Callable[[], StageView], bronze: Table = BRONZE) -> Link:
    """Prove that every offset of the topics is read, or waits for the next run.

    Args:
        look: returns the current source, metadata of bronze's last batch, and state of bronze.
        bronze: the bronze table of the topics.

    Raises:
        SourceError: Kafka cannot be reached.
    """
    for attempt in range(LOOKS):
        view = look()
        assert isinstance(view.source, KafkaSource)
        link = account(view.source, view.metadata, view.diagnosis, bronze)
        if link.holds or attempt == LOOKS - 1:  # guard: topic-checked-twice
            break
        time.sleep(PAUSE)
    return link


def account(source: KafkaSource, metadata: CommitMetadata | None, diagnosis: Diagnosis, bronze: Table = BRONZE) -> Link:
    """Compare the offsets that Kafka holds with the position of a bronze table."""
    name, now = f"{source.name} → {bronze}: offsets", source.describe()
    topics = TopicIds.of(metadata.source) if metadata else None
    for topic, was in (topics.ids if topics else {}).items():
        if topic in now and was != now[topic].topic_id:
            fault = (
                f"topic {topic} has ID {now[topic].topic_id}, bronze has read {was}: the topic's records are not read"
            )
            return Link(name, str(bronze), False, fault)  # guard: bronze-of-existing-topic
    first = source.first_position()
    at = source.continues(metadata.end if metadata else first)
    parts = {topic: census(topic, at, described, first) for topic, described in now.items()}
    behind = sum(len(part.behind) for _, part in _partitions(parts))
    waiting = behind + sum(len(part.waiting) for _, part in _partitions(parts))
    faults = [*source.vanished(metadata.end if metadata else None), *_lost(parts, bronze_stage(bronze.name))]
    faults += _beyond(parts)
    last = source.last_records() if not faults else LastRecords()  # guard: last-record-unchanged
    if last.others:
        faults.append(f"{refilled(last.others)}. See what to do with: oncelake doctor")
    if waiting and not diagnosis.may_start:  # guard: no-offset-wait-if-refused
        wait = count_of(waiting, "offset waits and no run reads it", "offsets wait and no run reads them")
        faults.append(f"{wait}, as bronze would not start: {diagnosis.state}")
    link = Link.of(name, bronze, faults, _counted(parts), (*_expired(parts), *_former_note(source)))
    return link.without(
        *Uncompared.waiting(waiting, "offset", "for the next run"),
        *Uncompared.waiting(behind, "offset", "for an open transaction"),
        *(
            Uncompared(count, f"the last record of {count_of(count, 'partition')} {why}")
            for why, count in last.uncompared.items()
            if count
        ),
    )


# The census of each partition, by topic.
_Censuses = Mapping[str, list[PartitionCensus]]


def _lost(parts: _Censuses, stage: str) -> list[str]:  # guard: no-offset-expired-unread
    gone = [_range(topic, part.partition, part.lost) for topic, part in _partitions(parts) if part.lost]
    if not gone:
        return []
    accept = f"To accept the loss, run: oncelake recover {stage} --accept-loss"
    return [f"{listed(gone)} are gone and bronze has not read them. {accept}"]


def _beyond(parts: _Censuses) -> list[str]:  # guard: bronze-within-topic
    return [
        f"{topic}/{part.partition} ends at {part.end}, but bronze has read up to {part.read}: it is another topic"
        for topic, part in _partitions(parts)
        if part.beyond
    ]


def _expired(parts: _Censuses) -> list[str]:
    before = [_range(topic, part.partition, range(part.first)) for topic, part in _partitions(parts) if part.first]
    return [f"{listed(before)} expired before the first run and were never read"] if before else []


def _former_note(source: KafkaSource) -> list[str]:
    """Return a note on the topics that bronze has read and the settings no longer choose."""
    topics = ", ".join(source.former_topics())
    return [f"{topics}: read before, not read any more, and not compared with Kafka"] if topics else []


def _counted(parts: _Censuses) -> str:
    partitions = ", ".join(f"{count_of(len(censuses), 'partition')} of {topic}" for topic, censuses in parts.items())
    waits = {
        "for the next run": [(topic, part.partition, part.waiting) for topic, part in _partitions(parts)],
        "for an open transaction": [(topic, part.partition, part.behind) for topic, part in _partitions(parts)],
    }
    waiting = []
    for what, ranges in waits.items():
        count, places = sum(len(numbers) for *_, numbers in ranges), [_range(*range_) for range_ in ranges if range_[2]]
        if count:
            waiting.append(f"{count_of(count, f'offset waits {what}', f'offsets wait {what}')}: {listed(places)}")
    return f"{partitions}, {'; '.join(waiting)}" if waiting else f"{partitions} read up to the end"


def _partitions(parts: _Censuses) -> Iterator[tuple[str, PartitionCensus]]:
    return ((topic, partition) for topic, partitions in parts.items() for partition in partitions)


def _range(topic: str, partition: str, numbers: range) -> str:
    return f"{topic}/{partition}/{first_to_last(numbers[0], numbers[-1])}"


def kafka_rows(spark: SparkSession, span: Span, client: Client) -> Link:
    """Prove that (topic, partition, offset) is unique and dense in bronze, over the offsets its positions cover.

    Kafka is read only where offsets are missing. An aborted transaction, a control record or a compacted record
    leaves a hole. A committed record that Kafka still holds at a missing offset is a lost line.

    Args:
        spark: the session.
        span: the span of bronze.
        client: describes and reads the source's topics; they are described once at most.

    Raises:
        SourceError: there are holes to explain, and Kafka cannot be reached.
    """
    rows, topics = rows_of(spark, span), list(_topics(span))
    faults = _miscounted(span, rows, topics)
    notes = [f"loss accepted in batch {metadata.batch_id}: {listed(metadata.lost)}" for metadata in span.losses]
    well, parts = [], list[Uncompared]()
    for topic in topics:
        of_topic = rows.where(F.col("topic") == topic)
        counted, (wrong, explained, expired) = _topic_rows(of_topic, span, topic, client, bool(faults))
        well.append(counted)
        faults += wrong
        notes += explained
        parts += expired
    source = ", ".join(topics)
    link = Link.of(f"{source} → {span.table}", span.table, faults, f"{', '.join(well)}, each offset once", notes)
    return link.without(*parts)


def _kafka_records(span: Span, source: KafkaSource, client: Client, versions: MaskVersions) -> Link:
    """Prove that each row of bronze is what its topic holds at its offset: read the topics again, and compare.

    Args:
        span: the span of bronze; all rows of its version are compared, also those that an earlier proof covers.
        source: the topics.
        client: describes and reads the topics.
        versions: the versions of the rules that mask data.

    Raises:
        SourceError: Kafka cannot be reached.
    """
    spark, metadata = versions.spark, source.last()
    ids = (TopicIds.of(metadata.source) if metadata else None) or TopicIds()
    rows = read_version(spark, span.path, span.version)
    bounds = rows.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset"), F.count("*"))
    first, end, total, away = dict[str, dict[str, int]](), dict[str, dict[str, int]](), 0, 0
    for topic, partition, lowest, highest, count in bounds.collect():
        now, part = client.describe(topic), str(partition)
        total += count
        if now is None or part not in now.latest or ids.all_ids.get(topic, now.topic_id) != now.topic_id:
            away += count
        elif max(lowest, now.earliest[part]) < min(highest + 1, now.latest[part]):
            first.setdefault(topic, {})[part] = max(lowest, now.earliest[part])
            end.setdefault(topic, {})[part] = min(highest + 1, now.latest[part])
    comparisons: list[RecordComparison] = []
    if first:
        records = read_records(spark, client.settings, first, end, tasks=spark.sparkContext.defaultParallelism)
        comparisons = [*compare(since(rows, first), records, versions)]
    policies = client.policies({comparison.topic for comparison in comparisons if comparison.absent})
    cut = [gap for gap in comparisons if gap.absent and policies.get(gap.topic) == NEVER_COMPACTED]
    faults = [
        f"{one.topic}/{one.partition}/{one.first}{_and_others(one.differ, 'record')} not what bronze has read there"
        for one in comparisons
        if one.differ
    ]
    faults += [
        f"{gap.topic}/{gap.partition}/{gap.first_absent}{_and_others(gap.absent, 'offset')} without a record, and "
        "bronze has read one there"
        for gap in cut
    ]
    compared = sum(comparison.rows for comparison in comparisons)
    absent = sum(comparison.absent for comparison in comparisons if comparison not in cut)
    uncompared = {
        "are of a topic or partition that Kafka no longer has": away,
        "are older than what Kafka holds": total - away - compared,
        "were removed by compaction, or their topic's cleanup.policy cannot be read": absent,
    }
    for comparison in comparisons:
        if comparison.partly:
            why = f"were compared only by their length and timestamp: {comparison.partly}"
            uncompared[why] = uncompared.get(why, 0) + comparison.rows - comparison.absent
    well = f"{count_of(compared - absent, 'row')} read again and equal"
    link = Link.of(f"{source.name} → {span.table}: records", span.table, faults, well)
    return link.without(*(part for why, count in uncompared.items() for part in Uncompared.of_lines(count, why)))


def _and_others(count: int, unit: str) -> str:
    """Return how many more of something there are than the one that is named, with the verb."""
    return f" and {count_of(count - 1, f'other {unit}')} are" if count > 1 else " is"


def _topic_rows(rows: DataFrame, span: Span, topic: str, client: Client, rows_changed: bool) -> tuple[str, Explained]:
    """Check the rows of one topic; return their number in words, and the faults and the explained holes."""
    faults, notes, expired = list[str](), list[str](), tuple[Uncompared, ...]()
    counted = offsets.buckets(rows)
    segments, lost = _covered(span, topic, counted)
    if offsets.reaches_outside(counted, segments):
        faults.append(_strangers(rows, topic, [*segments, *lost]))  # guard: offsets-in-batch-ranges
        rows = rows.where(offsets.inside([*segments, *lost]))
        counted = offsets.buckets(rows)
    faults += _duplicated(rows, topic, counted)
    lacking = offsets.gaps(counted, segments)
    if lacking:
        missing, total = offsets.holes(rows, segments, lacking), sum(lacking.values())
        topic_client = replace(client, topic=topic)
        settled = not faults and not rows_changed
        lost_lines, notes, expired = offsets.explain(missing, total, topic_client, settled=settled)
        faults += lost_lines
    rows_in_all = count_of(sum(bucket.rows for bucket in counted), "row")
    partitions = count_of(len({segment.partition for segment in segments}), "partition")
    return f"{rows_in_all} of {topic} in {partitions}", (faults, notes, expired)


def _moves(span: Span) -> list[CommitMetadata]:
    """Return the commits that moved the position without reading: accepted losses, and changes of the topics."""
    return [metadata for _, metadata in span.noted() if metadata.event in (CommitKind.LOSS, CommitKind.TOPICS)]


def _topics(span: Span) -> Iterable[str]:
    """Return the topics that a span's positions name, also those that were left in between."""
    moves = [at for metadata in _moves(span) for at in (metadata.before, metadata.end)]
    positions = map(KafkaPosition.parse, (span.before, *moves, span.end))
    former = _former_offsets(span) if span.includes_earlier else {}
    return dict.fromkeys([*(topic for at in positions if at for topic in at.topics), *former])


def _former_offsets(span: Span) -> Mapping[str, Mapping[str, int]]:
    """Return the next offsets of the topics that bronze no longer reads, by topic."""
    ids = TopicIds.of(span.commits[-1].metadata.source) if span.commits else None
    return {topic: former.offsets for topic, former in ids.former.items()} if ids else {}


def _covered(span: Span, topic: str, counted: list[Bucket]) -> tuple[list[Segment], list[Segment]]:
    """Return the offsets that a span's positions cover, and the offsets that were skipped.

    An accepted loss skips offsets, and so does a topic that joins at a later offset than it was read up to.
    """
    before, lost = _offsets(span.before, topic), list[Segment]()
    reached = dict(before)
    for metadata in _moves(span):
        reached |= _offsets(metadata.before, topic)
        right = _offsets(metadata.end, topic)
        lost += [Segment(part, reached.get(part, 0), at) for part, at in right.items() if at > reached.get(part, 0)]
        reached |= right
    end = reached | _offsets(span.end, topic)
    if span.includes_earlier and not end:
        end = {int(part): offset for part, offset in _former_offsets(span).get(topic, {}).items()}
    # Where reading began is not recorded: nothing before the first row was read.
    # guard: offsets-below-oldest-commit
    if span.before is None or span.includes_earlier:
        first = {part: [bucket.first for bucket in counted if bucket.partition == part] for part in end}
        before = {part: min(first[part], default=at) for part, at in end.items()}
    segments = [Segment(part, before.get(part, 0), at) for part, at in sorted(end.items())]
    for gone in lost:
        segments = [part for segment in segments for part in _without(segment, gone)]
    return segments, lost


def _without(segment: Segment, gone: Segment) -> list[Segment]:
    if segment.partition != gone.partition:
        return [segment]
    parts = [(segment.first, min(segment.end, gone.first)), (max(segment.first, gone.end), segment.end)]
    return [Segment(segment.partition, first, end) for first, end in parts if first < end]


def _offsets(position: str | None, topic: str) -> dict[int, int]:
    return {int(part): int(offset) for part, offset in offsets_of(position, topic).items()}


def _miscounted(span: Span, rows: DataFrame, topics: list[str]) -> list[str]:
    """Return faults in the row count per batch, and the rows that belong to another topic."""
    strange = F.count_if(~F.coalesce(F.col("topic").isin(topics), F.lit(False)))
    grouped = rows.groupBy(ingested_ms().alias("ingested"))
    counts = grouped.agg(F.count("*").alias("rows"), strange.alias("strange")).collect()
    others = sum(row["strange"] for row in counts)
    strangers = count_of(others, "row belongs", "rows belong")
    names = ", ".join(topics)
    faults = [f"{strangers} to another topic than {names}"] if others else []  # guard: bronze-of-own-topic
    return [*faults, *miscounted(span, {row.ingested: row.rows for row in counts})]  # guard: topic-rows-as-recorded


def _strangers(rows: DataFrame, topic: str, segments: list[Segment]) -> str:
    strangers = rows.where(f"NOT {offsets.inside(segments)}")
    places = offsets_listed(topic, offsets.first_of(strangers), strangers.count())
    return f"{places} are outside the offsets that the batches cover"


def _duplicated(rows: DataFrame, topic: str, counted: list[Bucket]) -> list[str]:  # guard: offset-appears-once
    extra = sum(bucket.rows - bucket.distinct for bucket in counted)
    if not extra:
        return []
    twice = offsets.duplicates(rows, counted)
    return [f"{offsets_listed(topic, twice, len(twice))} are there more than once: {count_of(extra, 'row')} too many"]
