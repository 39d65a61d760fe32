"""Compare the tables of a crash test with its input, row by row, and report the figures."""

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
    """One table compared with the input lines.

    Attributes:
        expected: rows (for a gold table: counted lines) that the table must have.
        lost: expected rows that are missing.
        doubled: rows in the table beyond the expected ones.
    """

    table: str
    expected: int
    lost: int
    doubled: int

    def to_dict(self) -> dict[str, str | int]:
        """Return the tally as a dict for JSON."""
        return asdict(self)


def tally(table: Table, expected: Rows, actual: Rows) -> Tally:
    """Compare a table's rows with the expected ones, as multisets."""
    return Tally(str(table), expected.total(), (expected - actual).total(), (actual - expected).total())


def tallies(lake: Lakehouse, fed: Iterable[bytes]) -> list[Tally]:
    """Compare every table that plain Python can count with the input lines."""
    gold = lake.settings.gold
    expected = expected_rows(fed, gold, datetime.now(UTC))
    return [tally(table, rows, _actual_rows(lake.table(str(table)), table, gold)) for table, rows in expected.items()]


def expected_rows(fed: Iterable[bytes], gold: Mapping[str, GoldTable], now: datetime) -> dict[Table, Rows]:
    """Return the expected rows of each table, counted in plain Python; gold tables that are not counts are skipped.

    The keys are the line's bytes for bronze and quarantine, (seconds since the epoch, level, message) for silver, and
    the window for gold, with the level if the table has that key.
    """
    counted = {Table("gold", name): counter for name, declared in gold.items() if (counter := _level_counter(declared))}
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
            if (group := key(at, level)) is not None:
                rows[table][group] += 1
    return rows


def _level_counter(declared: GoldTable) -> Callable[[int, str], Hashable] | None:
    """Return a function from a line to its key in a gold table; None if plain Python cannot count the table.

    The function returns None for a line that the table does not count.
    """
    only_level = next((level for level in LEVELS if declared.where == f"level = '{level}'"), None)
    known = (declared.where is None or only_level) and list(declared.by.values()) in ([], ["level"])
    if declared.zone is not None or not known or list(declared.measures.values()) != ["count"]:
        return None

    def key(at: int, level: str) -> Hashable:
        if only_level is not None and level != only_level:
            return None
        return (at - at % declared.seconds, *([level] if declared.by else []))

    return key


def _message(line: bytes) -> str:
    return line.removesuffix(b"\r")[20:].partition(b" ")[2].decode("utf-8", "replace")


def _actual_rows(frame: DataFrame, table: Table, gold: Mapping[str, GoldTable]) -> Rows:
    """Return a table's actual rows, with the keys of `expected_rows`."""
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
    """The result of a crash test.

    Attributes:
        kinds: the number of kills, by kind of moment.
        missed: kills whose durable step did not happen in time.
        kill_seconds: the time of the kills, including all starts in between.
        seconds: the time of the kills, the last run and the check.
        rows: rows in bronze at the end.
        tallies: the tables that plain Python can count; empty for the user's own source.
        proves: True if `oncelake prove` holds.
        doubts: the links that do not hold, in the words of `oncelake prove`.
        lake: the directory with the kept files; None if it was deleted.
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
        """Return the number of missing rows, over all tables."""
        return sum(table.lost for table in self.tallies)

    @property
    def doubled(self) -> int:
        """Return the number of surplus rows, over all tables."""
        return sum(table.doubled for table in self.tallies)

    @property
    def clean(self) -> bool:
        """Return True if nothing was lost, nothing doubled, and the proof holds."""
        return self.proves and not self.lost and not self.doubled

    def at(self, lake: str | None) -> Self:
        """Return the verdict with the directory of the kept files."""
        return replace(self, lake=lake)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a dict for JSON."""
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
            "tables": [table.to_dict() for table in self.tallies],
            "prove_holds": self.proves,
            "doubts": list(self.doubts),
            "bound": bound(self.kills) if self.clean else None,
            "clean": self.clean,
            "kept": self.lake,
        }

    def sentences(self) -> Iterator[str]:
        """Yield the figures as lines of text."""
        for kind, count in sorted(self.kinds.items()):
            yield f"   {count:>4} x {kind}"
        kills, restarts = count_of(self.kills, "kill"), count_of(self.restarts, "restart")
        pace = duration(self.kill_seconds / self.kills)
        yield f"{kills} and {restarts} in {duration(self.kill_seconds)} ({pace} each)"
        for table in self.tallies:
            rows = count_of(table.expected, "row")
            yield f"   {table.table}: {rows} expected, {table.lost:,} lost, {table.doubled:,} doubled"
        yield from (f"   {doubt}" for doubt in self.doubts)
        counted = f"lost {self.lost:,}, doubled {self.doubled:,}, " if self.tallies else ""
        proof = "prove holds" if self.proves else "PROVE DOES NOT HOLD"
        yield f"{count_of(self.rows, 'line')}, {counted}{proof}, {duration(self.seconds)} in total"
        if self.clean:
            cases, sure = share(bound(self.kills)), f"{100 * CONFIDENCE:.0f} %"
            yield f"with {sure} confidence, fewer than {cases} of kills lose or double a row"
        if self.lake:
            yield f"the files are kept in {self.lake}"


def bound(kills: int) -> float:
    """Return the upper bound of the probability that a kill does harm, after a number of kills without harm.

    If a kill does harm with probability p, all of n kills are clean with probability (1-p)^n. This is below 5 % for
    every p above 1 - 0.05^(1/n), so with 95 % confidence p is not higher.
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / kills))
