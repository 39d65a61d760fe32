"""This is where what came out of a crash test is compared with what went in, row by row, and what its figures say."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table
from oncelake.common.wording import count_of, duration, share
from oncelake.gold.declaration import GoldTable
from oncelake.lab.demo.answer import LEVELS, read
from oncelake.lakehouse import Lakehouse

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


def tally(table: Table, expected: Rows, found: Rows) -> Tally:
    """Compare a table's rows, as a multiset, with those that must be there."""
    return Tally(str(table), expected.total(), (expected - found).total(), (found - expected).total())


def tallies(lake: Lakehouse, fed: Iterable[bytes]) -> list[Tally]:
    """Hold every table that plain Python can count against the lines that were fed."""
    gold = lake.settings.gold
    expected = expected_rows(fed, gold, datetime.now(UTC))
    return [tally(table, rows, _found(lake.table(str(table)), table, gold)) for table, rows in expected.items()]


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


def _found(frame: DataFrame, table: Table, gold: Mapping[str, GoldTable]) -> Rows:
    """Count a table's rows by the keys of `expected_rows`."""
    rows: Rows = Counter()
    if table.layer == "gold":
        (measure,) = gold[table.name].measures
        by = gold[table.name].by
        for *key, count in frame.select(F.unix_seconds("log_time"), *by, measure).toLocalIterator():
            rows[tuple(key)] += count
    elif table == SILVER:
        for row in frame.select(F.unix_seconds("log_time"), "level", "message").toLocalIterator():
            rows[tuple(row)] += 1
    else:
        for (value,) in frame.select("value").toLocalIterator():
            rows[None if value is None else bytes(value)] += 1
    return rows


CONFIDENCE = 0.95


@dataclass(frozen=True)
class CrashTestVerdict:
    """What a crash test came to.

    Attributes:
        kinds: kills, by the kind of moment.
        missed: kills at a durable step that did not come in time.
        kill_seconds: the time of the kills, with all starts in between.
        seconds: the time of the kills, the run to the end and the check.
        rows: lines that were fed, or that bronze held in the end where the source is the user's own.
        tallies: the tables that plain Python can count; none for the user's own source.
        proves: whether `oncelake prove` holds.
        doubts: the links that do not hold, in its words.
        lake: where all is kept, None when it was removed.
    """

    seed: int
    source: str
    kills: int
    kinds: Mapping[str, int]
    missed: int
    restarts: int
    kill_seconds: float
    seconds: float
    rows: int
    tallies: Sequence[Tally]
    proves: bool
    doubts: Sequence[str]
    lake: str | None = None

    @property
    def lost(self) -> int:
        """Rows that are missing, over all tables."""
        return sum(each.lost for each in self.tallies)

    @property
    def doubled(self) -> int:
        """Rows that are there too often, over all tables."""
        return sum(each.doubled for each in self.tallies)

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, nothing doubled, and the proof holds."""
        return self.proves and not self.lost and not self.doubled

    def at(self, lake: str | None) -> Self:
        """Say where all is kept."""
        return replace(self, lake=lake)

    def to_dict(self) -> dict[str, Any]:
        """Write the figures for programs."""
        return {
            "seed": self.seed,
            "source": self.source,
            "kills": self.kills,
            "kinds": dict(sorted(self.kinds.items())),
            "missed": self.missed,
            "restarts": self.restarts,
            "kill_seconds": round(self.kill_seconds, 1),
            "seconds": round(self.seconds, 1),
            "rows": self.rows,
            "lost": self.lost if self.tallies else None,
            "doubled": self.doubled if self.tallies else None,
            "tables": [each.to_dict() for each in self.tallies],
            "prove_holds": self.proves,
            "doubts": list(self.doubts),
            "bound": bound(self.kills) if self.clean else None,
            "clean": self.clean,
            "kept": self.lake,
        }

    def sentences(self) -> Iterator[str]:
        """Say the figures to people."""
        for kind, count in sorted(self.kinds.items()):
            yield f"   {count:>4} x {kind}"
        kills, restarts = count_of(self.kills, "kill"), count_of(self.restarts, "restart")
        pace = duration(self.kill_seconds / self.kills)
        yield f"{kills} and {restarts} in {duration(self.kill_seconds)} ({pace} each)"
        for each in self.tallies:
            rows = count_of(each.expected, "row")
            yield f"   {each.table}: {rows} expected, {each.lost:,} lost, {each.doubled:,} doubled"
        yield from (f"   {each}" for each in self.doubts)
        counted = f"lost {self.lost:,}, doubled {self.doubled:,}, " if self.tallies else ""
        proof = "prove holds" if self.proves else "PROVE DOES NOT HOLD"
        yield f"{count_of(self.rows, 'line')}, {counted}{proof}, {duration(self.seconds)} in all"
        if self.clean:
            cases, sure = share(bound(self.kills)), f"{100 * CONFIDENCE:.0f} %"
            yield f"a kill goes wrong in fewer than {cases} of cases, by {sure} confidence"
        if self.lake:
            yield f"all is kept in {self.lake}"


def bound(kills: int) -> float:
    """Give the chance of a bad kill that so many clean ones rule out: with a higher one, one in them had shown.

    Were the chance p, all of n kills would be clean with (1-p)^n; that is below 5 % from p = 1 - 0.05^(1/n) on.
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / kills))
