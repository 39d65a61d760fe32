"""Repeats of a line are found by the rule, in Spark and in this process alike."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.schema import BRONZE
from oncelake.common.spark.collect import SmallBatches
from oncelake.exactly_once.table_version import TableVersion
from oncelake.silver import collected, collected_duplicates
from oncelake.silver.duplicates import dropped, stored_near, with_twin
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.rules import Silver
from oncelake.silver.settings import Deduplicate
from oncelake.silver.transform import TimeLimits, accepted

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FORMAT = LogFormat.model_validate(
    {
        "json": {"time": "time", "level": "level", "message": "message"},
        "time": "epoch_millis",
        "default_level": "INFO",
        "columns": {"request": "string", "size": "decimal(9,2)"},
    }
)
MINUTE = Deduplicate(key=("request",), within=timedelta(minutes=1))
Line = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """A line: its key, its time in seconds after noon, and where it came from."""

    key: str | None
    at: float
    batch: int = 0
    offset: int = 0

    @property
    def row(self) -> tuple[Any, ...]:
        said = f'{{"time": {round((NOON.timestamp() + self.at) * 1000)}, "message": "m"'
        said += f', "request": "{self.key}"}}' if self.key is not None else "}"
        ingested = NOON + timedelta(days=1, seconds=self.batch)
        values = {
            "value": said.encode(),
            "topic": "alog",
            "partition": 0,
            "offset": self.offset,
            "ingested_at": ingested,
        }
        return tuple(values.get(name) for name in BRONZE.fieldNames())


def silver(declared: Deduplicate = MINUTE) -> Silver:
    return Silver({"access_log": Parser(FORMAT)}, TimeLimits(), deduplicate=declared)


def parsed(spark: SparkSession, events: Iterable[Event], declared: Deduplicate = MINUTE) -> DataFrame:
    return silver(declared).parse(spark.createDataFrame([event.row for event in events], BRONZE))


def by_rule(held: Sequence[Event], events: Sequence[Event], within: float) -> dict[int, int]:
    """Return for the offset of each repeat the offset of its twin, by the rule as docs/duplicates.md says it."""
    kept, twins = list(held), dict[int, int]()
    for line in sorted(events, key=lambda event: (event.batch, event.offset)):
        near = [each for each in kept if each.key == line.key and abs(each.at - line.at) <= within]
        if line.key is None or not near:
            kept.append(line)
        else:
            twins[line.offset] = near[0].offset
    return twins


def made_silver(spark: SparkSession, events: Iterable[Event], path: Path) -> TableVersion:
    accepted(parsed(spark, events)).write.format("delta").mode("append").save(str(path))
    table = DeltaTable(path)
    return TableVersion(str(path), "silver.access_log", table.version(), table)


def both_ways(before: TableVersion, lines: DataFrame, declared: Deduplicate = MINUTE) -> list[list[Line]]:
    """Return the repeats that Spark finds, and those that this process finds."""
    judged = with_twin(lines, stored_near(before, lines, declared), declared.within).localCheckpoint()
    small = SmallBatches(10**6, 10**9).collect(lines)
    assert small is not None
    kept, repeats = collected_duplicates.split(collected.unbroken(small), before, declared)
    in_spark = [row.asDict(recursive=True) for row in dropped(judged).collect()]
    assert judged.count() == lines.count()
    assert kept.rows.num_rows + repeats.rows.num_rows == accepted(lines).count()
    return [in_spark, repeats.rows.to_pylist()]


def twins_of(rows: Iterable[Line]) -> dict[int, int]:
    return {row["offset"]: row["twin"]["offset"] for row in rows}


def keys(spark: SparkSession, key: str | tuple[str, ...], *rows: dict[str, Any]) -> list[bytes | None]:
    """Return the keys of lines with these columns of bronze."""
    said = b'{"time": 1767268800000, "message": "m", "request": "r"}'
    given = [tuple({"value": said, **row}.get(name) for name in BRONZE.fieldNames()) for row in rows]
    declared = Deduplicate.model_validate({"key": key, "within": "1 minute"})
    return [row["event_key"] for row in silver(declared).parse(spark.createDataFrame(given, BRONZE)).collect()]


def test_a_key_is_null_without_a_part_and_different_for_other_parts(spark: SparkSession) -> None:
    headers = [[("id", b"1"), ("id", b"2")], [("id", b"2"), ("other", b"9")], [("id", None)], [("ID", b"2")], None]
    last, one, *lacking = keys(spark, ("header:id",), *({"headers": header} for header in headers))
    assert last is not None
    assert last == one != keys(spark, ("request", "header:id"), {"headers": headers[0]})[0]
    assert lacking == [None, None, None]
    ab, a_b = keys(
        spark, ("header:a", "header:b"), *({"headers": [("a", x), ("b", y)]} for x, y in ((b"a", b"b1"), (b"ab", b"1")))
    )
    assert ab != a_b
    said = b'{"time": 1767268800000, "request": "%s", "message": "%s"}'
    parts = ((b"a", b"b:c"), (b"a:b", b"c"), (b"a:1:b", b"c"), (b"a", b"b:1:c"))
    of_texts = keys(spark, ("request", "message"), *({"value": said % part} for part in parts))
    assert len({bytes(text) for text in of_texts if text is not None}) == len(parts)
    first, other, equal = keys(spark, "hash:record", {"offset": 1}, {"value": b"not a line"}, {"offset": 2})
    assert first == equal != other


CASES: dict[str, tuple[list[float], list[float], dict[int, int]]] = {
    "a line as far as the window": ([0], [60], {1: 0}),
    "a line further than the window": ([0], [60.001], {}),
    "a line before its twin": ([60], [0], {1: 0}),
    "a chain of repeats does not go on": ([], [0, 40, 80], {1: 0}),
    "the first to arrive stays, not the earliest": ([], [50, 0], {1: 0}),
    "the twin that arrived first": ([100, 0], [50], {2: 0}),
}


def test_both_find_what_the_rule_says(spark: SparkSession, tmp_path: Path) -> None:
    old: list[Event] = []
    new: list[Event] = []
    expected: dict[int, int] = {}
    for number, (name, (held, lines, twins)) in enumerate(CASES.items()):
        place = 1_000 * (number + 1)
        old += [Event(name, at, 0, place + each) for each, at in enumerate(held)]
        new += [Event(name, at, 1, place + len(held) + each) for each, at in enumerate(lines)]
        expected |= {place + line: place + twin for line, twin in twins.items()}
    new += [Event("batch", 0, 2, 1), Event("batch", 1, 1, 2)]  # an earlier batch of bronze arrived first
    expected |= {1: 2}
    assert by_rule(old, new, 60) == expected
    chance = random.Random(26)
    old += [Event(key, at, 0, 10 * at + ord(key)) for key in "abc" for at in (0, 70, 140)]
    new += [
        Event(
            chance.choice("abcdef") if number % 10 else None, chance.randrange(900), 1 + number // 40, 100_000 + number
        )
        for number in range(120)
    ]
    expected = by_rule(old, new, 60)
    assert 20 < len(expected) < 110
    before = made_silver(spark, old, tmp_path / "silver")
    for found in both_ways(before, parsed(spark, chance.sample(new, len(new)))):
        assert twins_of(found) == expected
