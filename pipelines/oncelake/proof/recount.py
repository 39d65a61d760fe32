"""Recompute a gold table from silver, and compare it with the table's rows."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, DateType, MapType, NumericType, StructField, TimestampType

from oncelake.common.lake import SILVER
from oncelake.common.table_rows import TableRows, TableVersion, Values
from oncelake.common.wording import HANDFUL, count_of, listed, shown
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.link import Link, Range, Uncompared, merged
from oncelake.exactly_once.positions import TablePosition
from oncelake.exactly_once.span import Span
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.groups import PlainGold
from oncelake.gold.transform import aggregate
from oncelake.gold.window import EPOCH, FixedWindow, in_ranges, span_of
from oncelake.silver.schema import EVENT_INDEX

_SIDES = ("gold", "silver")
# The line count, added to every table. Names of declared measures and keys start with a letter, so it is unique.
_LINES = "_lines"
# Types whose text cannot contain log text: it needs no escaping.
_BARE = (NumericType, BooleanType, TimestampType, DateType)
# At most this many windows are filtered; with more, all windows are compared.
MOST_WINDOWS = 100_000
_QUARTER = 900


def recount(rows: TableRows, silver_path: str, log: DeltaLog, gold: Span, declared: GoldTable) -> Link:
    """Prove that a gold table equals its declaration applied to the silver rows that it has read.

    Every row and every measure is compared: in all windows, or in those to which the span's batches added a line.
    A measure is compared by what it shows and by the parts that it is shown from; of a sketch, only what it shows.

    Args:
        rows: answers queries; Spark counts again what only Spark can compute, and names the rows that differ.
        silver_path: the path of silver.
        log: silver's Delta log.
        gold: the span of the gold table.
        declared: the declaration of the gold table.
    """
    name = f"{SILVER} → {gold.table}"
    end = TablePosition.parse(gold.end)
    if end is None:  # no batch yet: the table must be empty
        (counted,) = rows.records("SELECT count(*) AS rows FROM {rows}", {"rows": (gold.path, gold.version)})
        count = counted["rows"]
        wrote = count_of(count, "row, and no batch that wrote it", "rows, and no batch that wrote them")
        message = wrote if count else "no batch yet, no row"
        return Link(name, str(gold.table), not count, message)  # guard: gold-empty-without-batch
    version = log.last_alike(end.version - 1)
    if not log.holds(version):  # guard: gold-at-available-silver
        read = log.lines_up_to(end.version)
        lines = count_of(read, "line")
        parts = (Uncompared(read, f"{lines} up to a version of {SILVER} that is gone from its log", read),)
        message = f"NOT compared: {gold.table} has read {SILVER} up to version {version}, which is gone from its log"
        return Link(name, str(gold.table), holds=True, said=message, uncompared=parts)
    silver = silver_path, version
    chosen = _touched(log, rows, silver, gold, declared)
    compared = _Recount(rows, silver, (gold.path, gold.version), "TRUE" if chosen is None else chosen, declared)
    total, lines_again, differing = compared.counts()
    if differing:
        return Link(name, str(gold.table), holds=False, said=_differences(compared.differing(), declared, differing))
    unit = "event" if EVENT_INDEX in rows.columns(*silver) else "line"
    which = "" if chosen is None else " of the changed windows"
    message = f"{count_of(total, 'row')}{which} = {count_of(lines_again, unit)} counted again"
    return Link(name, str(gold.table), holds=True, said=message)


@dataclass(frozen=True)
class _Recount:
    """A gold table beside what silver gives, counted again.

    Attributes:
        rows: answers queries.
        silver, gold: the tables, each at the version to read.
        chosen: which windows are compared, as a condition on `log_time` in SQL.
        declared: the declaration of the gold table.
    """

    rows: TableRows
    silver: TableVersion
    gold: TableVersion
    chosen: str
    declared: GoldTable

    def counts(self) -> tuple[int, int, int]:
        """Return the number of rows, of lines counted again, and of rows that differ."""
        text = (
            "SELECT count(*) AS total, CAST(coalesce(sum(b._lines), 0) AS BIGINT) AS lines, "
            f"CAST(coalesce(sum(CASE WHEN {_differs(self.declared)} THEN 1 ELSE 0 END), 0) AS BIGINT) AS differing "
        )
        ((total, lines, differing),) = self._without_spark(text) or self._frame(text).collect()
        return total, lines, differing

    def differing(self) -> DataFrame:
        """Return the rows that differ, with the values of both sides."""
        return self._frame("SELECT * ").where(_differs(self.declared))

    def _without_spark(self, text: str) -> list[tuple[int, int, int]] | None:
        """Return the answer to a query over both sides; None if only Spark can count again, or read the tables."""
        plain, values = PlainGold.of(self.declared), Values()
        counted = plain.counting_sql("{silver}", self.chosen, _LINES, values) if plain is not None else None
        if counted is None:
            return None
        versions = {"gold": self.gold, "silver": self.silver}
        answer = self.rows.without_spark(f"{text}FROM ({self._both(f'({counted})')}) b", versions, **values)
        return None if answer is None else [tuple(row.values()) for row in answer]

    def _frame(self, text: str) -> DataFrame:
        """Return the answer to a query over both sides by Spark."""
        silver, gold = self.rows.frame(*self.silver), self.rows.frame(*self.gold)
        counting = self.declared.model_copy(update={"measures": {**self.declared.measures, _LINES: "count"}})
        counted = aggregate(silver.where(self.chosen), counting)
        query = f"{text}FROM ({self._both('{counted}')}) b"
        return self.rows.spark().sql(query, gold=_in_order(gold), counted=_in_order(counted))

    def _both(self, counted: str) -> str:
        """Return in SQL the rows of both sides by window and keys; a null key equals a null key.

        A declared name may be a word of SQL, so each stands behind a dot or AS.
        """
        keys, measures = [LOG_TIME, *self.declared.by], _compared(self.declared)
        sides = {
            "gold": (f"{{gold}} s WHERE {self.chosen}", "0"),
            "silver": (f"{counted} s", f"s.{_LINES}"),
        }
        columns = ", ".join(f"s.{name}" for name in (*keys, *measures))
        union = " UNION ALL ".join(
            f"SELECT {columns}, {lines} AS {_LINES}, "
            f"{int(side == 'gold')} AS _gold, {int(side == 'silver')} AS _silver FROM {source}"
            for side, (source, lines) in sides.items()
        )
        values = (
            f"max(CASE WHEN u._{side} = 1 THEN u.{measure} END) AS _{side}_{measure}"
            for side in _SIDES
            for measure in measures
        )
        by = ", ".join(f"u.{key}" for key in keys)
        sums = (f"sum(u.{name}) AS {name}" for name in (_LINES, *(f"_{side}" for side in _SIDES)))
        return f"SELECT {', '.join((by, *sums, *values))} FROM ({union}) u GROUP BY {by}"


def _touched(
    commit_log: DeltaLog, rows: TableRows, silver: TableVersion, gold: Span, declared: GoldTable
) -> str | None:
    """Return a condition on log_time that covers every window to which the span's batches added a line.

    Return None if all windows must be compared.
    """
    start, end = TablePosition.parse(gold.before), TablePosition.parse(gold.end)
    if gold.whole or start is None or end is None:
        return None
    ingestion_times = _ingestion_times(commit_log, range(start.version, end.version))
    if ingestion_times is None:
        return None
    # windows of a zone need not begin at multiples of anything: each is found by the times of a quarter of an hour
    length = (declared.seconds if isinstance(declared.window, FixedWindow) else _QUARTER) * 1_000_000
    at = "unix_micros(t.log_time)"
    starts = rows.records(
        f"SELECT DISTINCT {at} - pmod({at}, {length}) AS start FROM {{rows}} t "
        f"WHERE {in_ranges('t.ingested_at', ingestion_times, 1_000)} LIMIT {MOST_WINDOWS}",
        {"rows": silver},
    )
    if len(starts) == MOST_WINDOWS:
        return None
    try:
        spans = {span_of(start, start + length - 1, declared.window) for start in (row["start"] for row in starts)}
    except OverflowError:  # a window outside the years 1 to 9999
        return None
    return in_ranges(LOG_TIME, merged(sorted(spans)))


def _ingestion_times(commit_log: DeltaLog, versions: range) -> list[Range] | None:
    """Return the range of ingestion times per file that these commits added, in milliseconds.

    Return None if a file has no such statistics, or a commit's files are not known.
    """
    time_ranges: list[Range] = []
    for version in versions:
        added = commit_log.added(version)
        if added is None:
            return None
        for file in added:
            limits = _limits(file.get("stats"))
            if limits is None:
                return None
            time_ranges.append(limits)
    return time_ranges


def _limits(stats: str | None) -> Range | None:
    bounds = json.loads(stats) if stats else {}
    first, last = (bounds.get(name, {}).get("ingested_at") for name in ("minValues", "maxValues"))
    return (_ms(first), _ms(last)) if first and last else None


def _ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def _differs(declared: GoldTable) -> str:  # guard: gold-values-from-silver
    """Return in SQL whether the two sides of a row of `b` differ."""
    once = "b._gold = 1 AND b._silver = 1"  # guard: gold-windows-from-silver
    equal = (f"b._gold_{name} IS NOT DISTINCT FROM b._silver_{name}" for name in _compared(declared))
    return f"NOT ({' AND '.join((once, *equal))})"


def _compared(declared: GoldTable) -> list[str]:  # guard: gold-parts-from-silver
    """Return the columns to compare: the measures, and their hidden parts, but for sketches, whose bytes may differ."""
    parts = (name for measure in declared.parsed for name, part in measure.parts.items() if part.merge != "sketch")
    return [*dict.fromkeys([*declared.measures, *parts])]


def _in_order(rows: DataFrame) -> DataFrame:
    """Return rows whose columns can be compared: a map has no order."""
    maps = [field.name for field in rows.schema if isinstance(field.dataType, MapType)]
    return rows.withColumns({name: F.array_sort(F.map_entries(quoted(name))) for name in maps}) if maps else rows


def _differences(rows: DataFrame, declared: GoldTable, total: int) -> str:
    """Return how the first rows differ, in words; log text is shortened and escaped."""
    first = rows.orderBy(*(quoted(key) for key in (LOG_TIME, *declared.by))).limit(HANDFUL)
    bare = [name for name in _compared(declared) if isinstance(first.schema[f"_gold_{name}"].dataType, _BARE)]
    texts = [_text(name, first.schema[name]) for name in (LOG_TIME, *declared.by)]
    for side in _SIDES:
        values = [_text(name, first.schema[f"_{side}_{name}"]) for name in _compared(declared)]
        texts.append(F.when(F.col(f"_{side}") > 0, F.struct(*values)).alias(f"_{side}_text"))
    selected = first.select(*texts, F.col("_gold").alias("_times"), _LINES)
    differences = [_difference(row, declared, bare) for row in selected.collect()]
    if not differences:
        differ = count_of(total, "row differs", "rows differ")
        return f"{differ} as DuckDB reads the tables, and none as Spark does: one of them reads wrongly"
    return listed(differences, total, separator="; ")


def _text(name: str, field: StructField) -> Column:
    column = F.col(quoted(field.name))
    text = F.hex(column) if isinstance(field.dataType, BinaryType) else column.cast("string")
    return text.alias(name)


def _difference(row: Row, declared: GoldTable, bare: list[str]) -> str:
    where = row[LOG_TIME] + "".join(f", {name} {_shown(row[name])}" for name in declared.by)
    gold, silver = row["_gold_text"], row["_silver_text"]
    if row["_times"] > 1:
        return f"{where}: is in gold {row['_times']:,} times"
    if silver is None:
        return f"{where}: is in gold, but silver has no such line"
    if gold is None:
        return f"{where}: is missing in gold, but silver has {count_of(row[_LINES], 'line')}"
    return f"{where}: " + ", ".join(
        f"{name} is {_shown(gold[name], bare=name in bare)}, silver has {_shown(silver[name], bare=name in bare)}"
        for name in _compared(declared)
        if gold[name] != silver[name]
    )


def _shown(text: str | None, *, bare: bool = False) -> str:
    if text is None:
        return "null"
    return text if bare else shown(text)
