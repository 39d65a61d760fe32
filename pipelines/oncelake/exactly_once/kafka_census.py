"""What becomes of each offset of a topic: bronze has read it, will read it, or it is lost."""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelake.exactly_once.kafka_source import Topic, next_offsets


@dataclass(frozen=True)
class PartitionCensus:
    """The offsets of one partition, each in one of four ranges.

    Attributes:
        read: below it, every offset was read or its loss accepted.
        oldest: the oldest offset that Kafka holds.
        end: the offset after the newest committed record.
        first: the offset that the query began at; what is below it expired before the first run.
    """

    partition: str
    read: int
    oldest: int
    end: int
    first: int = 0

    @property
    def lost(self) -> range:
        """The offsets that expired before bronze read them."""
        return range(self.read, max(self.read, self.oldest))

    @property
    def waiting(self) -> range:
        """The offsets that the next run reads."""
        return range(self.lost.stop, max(self.lost.stop, self.end))

    @property
    def beyond(self) -> range:
        """The offsets that bronze has read and that the partition never had: it is another topic's."""
        return range(self.end, max(self.end, self.read))


def census(topic: str, at: str | None, now: Topic, first: str | None = None) -> list[PartitionCensus]:
    """Return what becomes of each offset of a topic, per partition.

    Args:
        topic: its name.
        at: bronze's position, None before the first batch: then nothing is lost, only expired.
        now: what Kafka holds.
        first: the position before the first batch, None where it is not known.
    """
    begun = next_offsets(first, topic, now)
    known: Mapping[str, int] = next_offsets(at, topic, now) or now.earliest
    return [
        PartitionCensus(
            partition,
            read=read,
            oldest=now.earliest.get(partition, 0),
            end=now.latest.get(partition, 0),
            first=now.earliest.get(partition, 0) if at is None else begun.get(partition, 0),
        )
        for partition, read in sorted(known.items(), key=lambda each: int(each[0]))
    ]
