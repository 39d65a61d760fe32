"""The measures of the user's gold tables over time, as declared: the groups with the most, and all others together."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.types import BinaryType, BooleanType, DataType, IntegralType, NumericType, StringType, StructType

from oncelake.common.lake import Table
from oncelake.common.table_rows import TableRows, Values, named
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.functions import Merge
from oncelake.gold.measure import Measure
from oncelake.observe.report.facts import GROUPS, MeasureFacts
from oncelake.observe.report.lines import TableQuery, bin_length, bin_start, in_period
from oncelake.observe.report.period import Period

# At most this many bins and plots are drawn.
BINS, PLOTS = 240, 12
_NONE = "(none)"
_OTHERS = -1
# Functions whose parts DuckDB adds up, and whose values it computes, as Spark does.
_IN_DUCKDB = frozenset({"count", "count where", "rate where", "sum", "avg", "min", "max"})
# Types of keys whose values DuckDB writes as text as Spark does.
_SAME_TEXT = (StringType, IntegralType, BooleanType, BinaryType)
_TIME = f"unix_seconds(t.{LOG_TIME})"
# The aggregate of a part's values over windows and groups, which is the value of their lines together.
_TOGETHER: Mapping[Merge, str] = {
    "count": "sum({})",
    "sum": "sum({})",
    "least": "min({})",
    "greatest": "max({})",
    "sketch": "hll_union_agg({}, true)",
}


@dataclass
class Measures:
    """Collects the measures of a lake's gold tables.

    Attributes:
        rows: answers queries over the tables; Spark answers what DuckDB computes otherwise.
        not_drawn: the measures that have no plot, each with the reason.
    """

    chain: Chain
    rows: TableRows
    period: Period | None = None
    not_drawn: list[str] = field(default_factory=list)

    def of(self, name: str, declared: GoldTable, room: int = PLOTS) -> Iterator[MeasureFacts]:
        """Yield the measures of one gold table that are numbers, at most `room`; none if the table has no rows."""
        table = Table("gold", name)
        metadata = self.chain.commit_log(table).metadata()
        if metadata is None:
            return
        columns = {entry.name: entry.dataType for entry in StructType.fromJson(json.loads(metadata["schemaString"]))}
        if declared.zone is not None:
            self.not_drawn.append(f"{table}: its windows have no fixed length, as they are those of a zone")
            return
        numbers = [measure for measure in declared.parsed if isinstance(columns.get(measure.name), NumericType)]
        for measure in declared.parsed:
            if measure not in numbers:
                why = "is not a number" if measure.name in columns else "is not in the table yet"
                self.not_drawn.append(f"{table}: {measure.name} {why}")
        self.not_drawn += [
            f"{table}: {number.name}, as {PLOTS} measures are drawn already" for number in numbers[room:]
        ]
        if not numbers[:room]:
            return
        gold = GoldRows(self.rows, self.chain.lake.at(table), columns, declared, self.period)
        yield from gold.over_time(str(table), numbers[:room])


@dataclass(frozen=True)
class GoldRows:
    """The rows of a gold table.

    Attributes:
        rows: answers queries.
        at: the place of the table.
        columns: the types of its columns, by name.
        declared: its declaration.
        period: the period to read; None for all rows.
    """

    rows: TableRows
    at: str
    columns: Mapping[str, DataType]
    declared: GoldTable
    period: Period | None = None

    def over_time(self, table: str, measures: Sequence[Measure]) -> Iterator[MeasureFacts]:
        """Yield measures over time; none without rows.

        Args:
            table: the table's name, for the page.
            measures: those measures of the table that are numbers.
        """
        seconds = bin_length(self._query(f"{_TIME} AS at"), self.declared.seconds, BINS)
        by = f" by {', '.join(self.declared.by)}" if self.declared.by else ""
        for measure in measures:
            series = _measured(self._of(measure), measure, seconds)
            if series is not None:
                how = f"{self.declared.measures[measure.name]} per {self.declared.every}{by}"
                yield MeasureFacts(table, measure.name, how, measure.function, seconds, *series)

    def _query(self, columns: str, *, only_spark: bool = False) -> TableQuery:
        return replace(in_period(self.rows, self.at, columns, self.period), only_spark=only_spark)

    def _of(self, measure: Measure) -> TableQuery:
        """Return the query for the time, the keys in words, and the parts of a measure."""
        names = zip(measure.parts, _places(measure), strict=True)
        parts = "".join(f", t.{name} AS {part}" for name, part in names)
        kinds = [self.columns[key] for key in self.declared.by]
        # guard: measures-as-spark-has-them
        is_plain = measure.function in _IN_DUCKDB and all(isinstance(kind, _SAME_TEXT) for kind in kinds)
        return self._query(f"{_TIME} AS at, {self._words()} AS label{parts}", only_spark=not is_plain)

    def _words(self) -> str:
        """Return the keys of a row in words, in SQL."""
        texts = {
            key: f"hex(t.{key})" if isinstance(self.columns[key], BinaryType) else f"CAST(t.{key} AS STRING)"
            for key in self.declared.by
        }
        words = (f"coalesce({text}, '{_NONE}')" for text in texts.values())
        return f"concat_ws(' · ', {', '.join(words)})" if texts else "''"


def _together(measure: Measure, by: Mapping[str, str]) -> str:
    """Return in SQL a measure's value for the lines of several windows and groups together.

    What a measure shows may not add up, as one value of approx_distinct can be in several windows; its parts do.

    Args:
        measure: the measure.
        by: what is grouped by, in SQL, by the name of its column.
    """
    places, names = _places(measure), ", ".join(by)
    keys = ", ".join(f"{text} AS {name}" for name, text in by.items())
    if measure.how.parts[0].merge == "buckets":
        entries = f"SELECT {keys}, explode(map_entries(c.{places[0]})) AS entry FROM {{query}} c"
        counts = f"SELECT {names}, entry.key AS bucket, sum(entry.value) AS lines FROM ({entries}) GROUP BY ALL"
        buckets = f"map_from_entries(array_sort(collect_list(struct(bucket, lines)))) AS {places[0]}"
        parts = f"SELECT {names}, {buckets} FROM ({counts}) GROUP BY {names}"
    else:
        merged = zip(places, measure.how.parts, strict=True)
        sums = ", ".join(f"{_TOGETHER[part.merge].format(f'c.{place}')} AS {place}" for place, part in merged)
        parts = f"SELECT {keys}, {sums} FROM {{query}} c GROUP BY ALL"
    return f"SELECT {names}, {measure.shown(*places)} AS value FROM ({parts})"


def _places(measure: Measure) -> list[str]:
    """Return a name for the column of each part, which is not the name of another column."""
    return [f"part_{number}" for number in range(len(measure.how.parts))]


Series = tuple[tuple[int, ...], dict[str, tuple[float | None, ...]], tuple[float | None, ...]]


def _measured(query: TableQuery, measure: Measure, seconds: int) -> Series | None:
    """Return the starts of the bins, the values of the groups with the most, and those of all other groups.

    Of a minimum, the groups with the least come first.
    """
    merge = measure.how.merge
    order = "ASC" if merge == "least" else "DESC"
    sums = f"SELECT s.label FROM ({_together(measure, {'label': 'c.label'})}) s"
    ranked = query.records(f"{sums} ORDER BY s.value {order} NULLS LAST, s.label LIMIT {GROUPS}")
    top, values = [row["label"] for row in ranked], Values()
    cases = " ".join(f"WHEN c.label = {named(values, name)} THEN {number}" for number, name in enumerate(top))
    place = f"CASE {cases} ELSE {_OTHERS} END" if top else str(_OTHERS)
    binned = query.records(_together(measure, {"start": bin_start(seconds), "place": place}), **values)
    starts = sorted({row["start"] for row in binned})
    numbers = {(row["place"], row["start"]): _number(row["value"]) for row in binned}
    if not starts:
        return None
    empty = 0 if merge in ("count", "sum") else None
    lines = {at: tuple(numbers.get((at, start), empty) for start in starts) for at in {at for at, _ in numbers}}
    return tuple(starts), {name: lines[number] for number, name in enumerate(top)}, lines.get(_OTHERS, ())


def _number(value: Any) -> float | None:
    """Return a value as JSON can hold it: a whole number as int; None for a null, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(value)
