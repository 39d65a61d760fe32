"""Line counts for the page, over time and by level."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oncelake.common.lake import SILVER, Table
from oncelake.common.table_rows import Between, TableRows, Values
from oncelake.engine.chain import Chain
from oncelake.engine.preflight import all_built_by
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.observe.report.facts import LinesFacts
from oncelake.observe.report.period import Period
from oncelake.silver.parsing.level import LEVELS

# At most this many bins are drawn.
MOST = 1500
OTHER = "other"
_HOUR, _DAY = 3600, 86_400
_BINS = (60, 300, 900, 1800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY)


@dataclass(frozen=True)
class TableQuery:
    """A query over a table, on which others are built.

    Attributes:
        rows: answers queries.
        at: the table's place.
        text: the query in SQL, with `{rows}` for the table.
        values: its values by name.
        between: only rows with these times are asked for; None for all.
        only_spark: see `TableRows.records`.
    """

    rows: TableRows
    at: str
    text: str
    values: Values = field(default_factory=dict)
    between: Between | None = None
    only_spark: bool = False

    def records(self, text: str, **values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query over this one, which `{query}` stands for in its text."""
        whole, values = text.replace("{query}", f"({self.text})"), {**self.values, **values}
        tables = {"rows": (self.at, None)}
        return self.rows.records(whole, tables, between=self.between, only_spark=self.only_spark, **values)


@dataclass(frozen=True)
class LineCounts:
    """Numbers of lines by time and level.

    Attributes:
        query: `at`, the start of a window in seconds since 1970; `level`, a text; `lines`, a number.
        table: the table that they come from.
        every: the length of a window, in seconds.
        key: the column of the level, if the table is one of gold; otherwise empty.
    """

    query: TableQuery
    table: str
    every: int
    key: str = ""


def counted(chain: Chain, rows: TableRows, period: Period | None = None) -> LineCounts | None:
    """Return line counts of the first gold table that counts all lines by level, else of silver; None without a table.

    Only files that can hold rows of the period are read.
    """
    for name, declared in all_built_by(chain).items():
        columns = _columns(declared)
        if columns and chain.commit_log(Table("gold", name)).newest() is not None:
            table = Table("gold", name)
            level, count = (f"t.{column}" for column in columns)
            query = _counts(rows, chain.lake.at(table), level, count, period)
            return LineCounts(query, str(table), declared.seconds, columns[0])
    if chain.commit_log(SILVER).newest() is None:
        return None
    return LineCounts(_counts(rows, chain.lake.at(SILVER), "t.level", "1", period), str(SILVER), 1)


def _counts(rows: TableRows, at: str, level: str, count: str, period: Period | None) -> TableQuery:
    columns = f"unix_seconds(t.{LOG_TIME}) AS at, {level} AS level, {count} AS lines"
    return in_period(rows, at, columns, period)


def in_period(rows: TableRows, at: str, columns: str, period: Period | None, by: str = LOG_TIME) -> TableQuery:
    """Return the query for a table's rows of a period; data files without such rows are left out by their statistics.

    Args:
        rows: answers queries.
        at: the table's place.
        columns: what is selected of the table `t`, in SQL.
        period: the period; None for all rows.
        by: the column of times.
    """
    text = f"SELECT {columns} FROM {{rows}} t"
    if period is None:
        return TableQuery(rows, at, text)
    text += f" WHERE t.{by} >= :period_since AND t.{by} < :period_until"
    values = {"period_since": period.since, "period_until": period.until}
    return TableQuery(rows, at, text, values, (by, period.since, period.until))


def lines_over_time(chain: Chain, rows: TableRows, period: Period | None = None) -> LinesFacts | None:
    """Count lines per bin and level, see `counted`; None if there are no lines."""
    counts = counted(chain, rows, period)
    if counts is None:
        return None
    seconds = bin_length(counts.query, counts.every)
    binned = counts.query.records(
        f"SELECT {bin_start(seconds)} AS start, {_level()} AS level, CAST(sum(c.lines) AS BIGINT) AS lines "
        "FROM {query} c GROUP BY 1, 2"
    )
    key = counts.key if seconds == counts.every else ""  # `oncelake lines` shows one window
    return replace(_facts(binned, counts.table, seconds), key=key) if binned else None


def _columns(declared: GoldTable) -> tuple[str, str] | None:
    """Return the level and count columns if a gold table counts all lines by level, per hour or finer."""
    level = next((name for name, text in declared.by.items() if text.strip() == "level"), None)
    count = next((measure.name for measure in declared.parsed if measure.function == "count"), None)
    counts_all = declared.where is None and declared.zone is None and declared.seconds <= _HOUR
    return (level, count) if counts_all and level and count else None


def bin_length(query: TableQuery, every: int, most: int = MOST) -> int:
    """Return the shortest bin length with at most `most` non-empty bins; empty bins are not drawn and cost nothing.

    Args:
        query: rows with a column `at`, in seconds since 1970.
        every: the length of their windows; a bin is a multiple of it.
        most: the largest number of bins.
    """
    bins = sorted({-(-length // every) * every for length in _BINS})
    used = ", ".join(f"count(DISTINCT {bin_start(length)}) AS bins_{length}" for length in bins)
    (counts,) = query.records(f"SELECT {used} FROM (SELECT DISTINCT q.at FROM {{query}} q) c")
    return next((length for length in bins if counts[f"bins_{length}"] <= most), bins[-1])


def bin_start(seconds: int) -> str:
    """Return in SQL the start of the bin that `at` of a row of `c` is in."""
    return f"c.at - pmod(c.at, {seconds})"


def _level() -> str:
    levels = ", ".join(f"'{level}'" for level in LEVELS)
    return f"CASE WHEN c.level IN ({levels}) THEN c.level ELSE '{OTHER}' END"


def _facts(rows: Sequence[Mapping[str, Any]], table: str, seconds: int) -> LinesFacts:
    starts = sorted({row["start"] for row in rows})
    counts = {(row["level"], row["start"]): int(row["lines"]) for row in rows}
    present = {level for level, _ in counts}
    levels = {level: tuple(counts.get((level, start), 0) for start in starts) for level in _order() if level in present}
    return LinesFacts(table, seconds, tuple(starts), levels)


def _order() -> Iterator[str]:
    yield OTHER
    yield from LEVELS
