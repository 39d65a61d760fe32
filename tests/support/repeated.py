"""A lake whose producer repeats lines, and what each table must then hold."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.house import House

SETS = ["silver.deduplicate.key=[message]", "silver.deduplicate.within=1 hour"]
BROKEN = b"no line of any format"


@dataclass(frozen=True)
class Sent:
    """A line as the producer sent it.

    Attributes:
        event: what it is about; a repeat has the event of another line.
        minute: its time, in minutes after midnight.
    """

    event: str
    minute: int

    @property
    def line(self) -> bytes:
        return f"2017-07-30 {self.minute // 60:02}:{self.minute % 60:02}:00 ERROR {self.event}".encode()


def repeating(root: Path) -> House:
    """Return a lake of one gold table that drops repeats of a message within an hour."""
    house = House.with_error_log(root)
    house.sets += SETS
    return house


def must_hold(house: House, spark: SparkSession, kept: Iterable[Sent], repeats: Iterable[tuple[Sent, Sent]]) -> None:
    """Check silver's events, each dropped line with its twin, gold's counts, and the proof.

    Args:
        house: the lake.
        spark: the session.
        kept: the lines that silver holds.
        repeats: each dropped line with its twin.
    """
    events = sorted((each.event, each.minute) for each in kept)
    held = house.rows("silver/access_log")
    assert sorted((row["message"], _minute(row)) for row in held) == events
    dropped = [(row["value"], row["twin"]["log_time"], row["twin"]["file"]) for row in house.rows("silver/duplicates")]
    files = {(row["message"], row["log_time"]): row["file"] for row in held}
    found = sorted((line, _minute({"log_time": at})) for line, at, _ in dropped)
    assert found == sorted((line.line, twin.minute) for line, twin in repeats)
    twins = {(line.line, twin.minute): twin.event for line, twin in repeats}
    for line, at, file in dropped:
        assert files[twins[line, _minute({"log_time": at})], at] == file
    assert sum(house.errors().values()) == len(events)
    assert house.doubts(spark) == []


def _minute(row: dict[str, object]) -> int:
    at = row["log_time"]
    return at.hour * 60 + at.minute  # type: ignore[attr-defined, no-any-return]
