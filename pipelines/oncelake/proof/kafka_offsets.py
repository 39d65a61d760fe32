"""Account for every offset of the topic: read, waiting for the next run, or lost."""

import time
from collections.abc import Callable, Iterable

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.commit import Note
from oncelake.exactly_once.finding import Finding
from oncelake.exactly_once.kafka_census import PartitionCensus, census
from oncelake.exactly_once.kafka_source import KafkaSource
from oncelake.proof.link import Link, first_to_last, listed

# A run beside the proof moves bronze on between two questions; a fault that stays is one.
LOOKS = 3
PAUSE = 0.3


def kafka_offsets(look: Callable[[], tuple[KafkaSource, Note | None, Finding]]) -> Link:
    """Prove that every offset of the topic is read, or waits and is read by the next run.

    Args:
        look: returns the source, the note of bronze's last batch, and bronze's state, all as they are now.

    Raises:
        SourceError: Kafka cannot be reached.
    """
    for each in range(LOOKS):
        link = account(*look())
        if link.holds or each == LOOKS - 1:
            break
        time.sleep(PAUSE)
    return link


def account(source: KafkaSource, note: Note | None, finding: Finding) -> Link:
    """Compare what Kafka holds with where bronze is."""
    name, now = f"{source.topic} → {BRONZE}: offsets", source.describe()
    was = note.source.get("topic_id") if note else None
    if was and was != now.topic_id:
        said = f"topic {source.topic} has id {now.topic_id}, bronze's lines are of {was}: its records are not read"
        return Link(name, str(BRONZE), False, said)
    first = source.first_position()
    parts = census(source.topic, note.end if note else first, now, first)
    waiting = sum(len(each.waiting) for each in parts)
    faults = [*_lost(source.topic, parts), *_beyond(source.topic, parts)]
    if waiting and not finding.may_start:
        faults.append(f"{waiting:,} offsets wait and no run reads them, as bronze would not start: {finding.state}")
    said = listed(faults, separator="; ") or _counted(source.topic, parts, waiting)
    return Link(name, str(BRONZE), not faults, said, tuple(_expired(source.topic, parts)))


def _lost(topic: str, parts: Iterable[PartitionCensus]) -> list[str]:
    gone = [_range(topic, each.partition, each.lost) for each in parts if each.lost]
    if not gone:
        return []
    return [f"{listed(gone)} are gone and bronze has not read them; accept it: oncelake recover bronze --accept-loss"]


def _beyond(topic: str, parts: Iterable[PartitionCensus]) -> list[str]:
    return [
        f"{topic}/{each.partition} ends at {each.end}, bronze has read up to {each.read}: it is another topic"
        for each in parts
        if each.beyond
    ]


def _expired(topic: str, parts: Iterable[PartitionCensus]) -> list[str]:
    before = [_range(topic, each.partition, range(each.first)) for each in parts if each.first]
    return [f"{listed(before)} expired before the first run and were never read"] if before else []


def _counted(topic: str, parts: list[PartitionCensus], waiting: int) -> str:
    partitions = "1 partition" if len(parts) == 1 else f"{len(parts):,} partitions"
    if not waiting:
        return f"{partitions} of {topic} read up to the end"
    there = [_range(topic, each.partition, each.waiting) for each in parts if each.waiting]
    return f"{partitions} of {topic}, {waiting:,} offsets wait for the next run: {listed(there)}"


def _range(topic: str, partition: str, offsets: range) -> str:
    return f"{topic}/{partition}/{first_to_last(offsets[0], offsets[-1])}"
