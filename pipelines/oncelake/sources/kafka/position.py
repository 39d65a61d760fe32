"""Positions in Kafka topics, as Spark writes them.

Source: org.apache.spark.sql.kafka010.KafkaSourceOffset of Spark 4.0.
"""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Self

from oncelake.exactly_once.positions import SourcePosition


@dataclass(frozen=True)
class KafkaPosition(SourcePosition):
    """A position in one or more topics.

    Attributes:
        topics: the next offset of each partition, by topic.
    """

    topics: Mapping[str, Mapping[str, int]]
    before_all = True
    unit = "offset"

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one in topics.

        A topic can have any name, so only the form tells: each value maps numbers of partitions to offsets.
        """
        parts = value.values() if isinstance(value, dict) else [None]
        return cls(value) if all(map(_is_offsets, parts)) else None

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each partition, by `topic/partition`."""
        return self.numbers()

    def numbers(self) -> dict[str, int]:
        """Return the next offset of each partition, by `topic/partition`."""
        return {
            f"{topic}/{number}": int(next_) for topic, parts in self.topics.items() for number, next_ in parts.items()
        }

    def in_parts_of(self, other: SourcePosition) -> str | None:
        """Return the JSON of the position in the topics that another position has; None for another kind's."""
        return self.of_topics(other.topics.keys()).to_json() if isinstance(other, KafkaPosition) else None

    def parts_beside(self, other: SourcePosition | None) -> Mapping[str, int]:
        """Return the next offset of each partition of the topics that another position lacks."""
        others = other.topics.keys() if isinstance(other, KafkaPosition) else set[str]()
        return self.of_topics(self.topics.keys() - others).numbers()

    def of_topics(self, topics: Container[str]) -> Self:
        """Return the position in some of the topics."""
        return type(self)({topic: parts for topic, parts in self.topics.items() if topic in topics})

    def to_json(self) -> str:
        """Return the position as Spark spells it."""
        return json.dumps(self.topics, separators=(",", ":"))


def _is_offsets(value: Any) -> bool:
    return isinstance(value, dict) and all(
        number.isdecimal() and isinstance(next_, int) for number, next_ in value.items()
    )


def offsets_of(at: str | None, topic: str) -> Mapping[str, int]:
    """Return the next offset of each partition of a topic; empty before the first batch and for another topic."""
    position = KafkaPosition.parse(at)
    return position.topics.get(topic, {}) if position else {}
