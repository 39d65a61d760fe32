"""This is where what came out is held against what went in, row by row."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake, Table
from oncelake.gold.declaration import GoldTable
from oncelake.lab.demo.answer import LEVELS, read

Rows = Counter[Hashable]


@dataclass(frozen=True)
class Tally:
    """One table against the lines that were fed.

    Attributes:
        expected: rows (for a gold table: counted lines) that must be there.
        lost: how many of them are not.
        doubled: how many are there that must not be, or once more than they must.
    """

    table: str
    expected: int
    lost: int
    doubled: int

    def to_dict(self) -> dict[str, str | int]:
        """Write the tally for programs."""
        return asdict(self)


def _declared(table: Table, gold: Mapping[str, GoldTable]) -> GoldTable | None:
    return gold[table.name] if table.layer == "gold" else None


def tally(table: Table, expected: Rows, found: Rows) -> Tally:
    """Compare a table's rows, as a multiset, with those that must be there."""
    return Tally(str(table), expected.total(), (expected - found).total(), (found - expected).total())


def tallies(spark: SparkSession, lake: Lake, gold: Mapping[str, GoldTable], fed: Iterable[bytes]) -> list[Tally]:
    """Hold every table that plain Python can count against the lines that were fed."""
    expected = expected_rows(fed, gold, datetime.now(UTC))
    return [
        tally(table, rows, _found(spark.read.format("delta").load(lake.at(table)), table, _declared(table, gold)))
        for table, rows in expected.items()
    ]


def expected_rows(fed: Iterable[bytes], gold: Mapping[str, GoldTable], now: datetime) -> dict[Table, Rows]:
    """Count by plain Python what must be in each table; gold tables that count other things are left out.

    Bronze and quarantine are counted by the lines' bytes, silver by (seconds since the epoch, level, message),
    gold by window and, where it has the key, level.
    """
    counted = {Table("gold", name): wanted for name, each in gold.items() if (wanted := _level_counter(each))}
    rows: dict[Table, Rows] = {table: Counter() for table in (BRONZE, SILVER, QUARANTINE, *counted)}
    for line in fed:
        rows[BRONZE][line] += 1
        parsed = read(line, now)
        if parsed is None:
            rows[QUARANTINE][line] += 1
            continue
        at, level = int(parsed[0].timestamp()), parsed[1]
        rows[SILVER][at, level, _message(line)] += 1
        for table, key in counted.items():
            if (found := key(at, level)) is not None:
                rows[table][found] += 1
    return rows


def _level_counter(declared: GoldTable) -> Callable[[int, str], Hashable] | None:
    """Give how a gold table counts a line: its key, or None for a line left out; None for other declarations."""
    wanted = next((level for level in LEVELS if declared.where == f"level = '{level}'"), None)
    known = (declared.where is None or wanted) and list(declared.by.values()) in ([], ["level"])
    if not known or list(declared.measures.values()) != ["count"]:
        return None

    def key(at: int, level: str) -> Hashable:
        if wanted is not None and level != wanted:
            return None
        return (at - at % declared.seconds, *([level] if declared.by else []))

    return key


def _message(line: bytes) -> str:
    return line.removesuffix(b"\r")[20:].partition(b" ")[2].decode("utf-8", "replace")


def _found(frame: DataFrame, table: Table, declared: GoldTable | None) -> Rows:
    """Count a table's rows by the keys of `expected_rows`."""
    rows: Rows = Counter()
    if declared is not None:
        (measure,) = declared.measures
        for *key, count in frame.select(F.unix_seconds("log_time"), *declared.by, measure).toLocalIterator():
            rows[tuple(key)] += count
    elif table == SILVER:
        for row in frame.select(F.unix_seconds("log_time"), "level", "message").toLocalIterator():
            rows[tuple(row)] += 1
    else:
        for (value,) in frame.select("value").toLocalIterator():
            rows[None if value is None else bytes(value)] += 1
    return rows
