"""The measures of the user's gold tables over time, as declared: the groups with the most, and all others together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NumericType, StructField

from oncelake.common import tables
from oncelake.common.lake import Table
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.functions import Merge
from oncelake.gold.measure import Measure
from oncelake.observe.report.facts import GROUPS, MeasureFacts
from oncelake.observe.report.lines import bin_length, bin_start, in_period
from oncelake.observe.report.period import Period

# At most this many bins and plots are drawn.
BINS, PLOTS = 240, 12
_NONE = "(none)"
_OTHERS = -1


@dataclass
class Measures:
    """Collects the measures of a lake's gold tables.

    Attributes:
        not_drawn: the measures that have no plot, each with the reason.
    """

    chain: Chain
    spark: SparkSession
    period: Period | None = None
    not_drawn: list[str] = field(default_factory=list)

    def of(self, name: str, declared: GoldTable, room: int = PLOTS) -> Iterator[MeasureFacts]:
        """Yield the measures of one gold table that are numbers, at most `room`; none if the table has no rows."""
        table = Table("gold", name)
        if self.chain.commit_log(table).newest() is None:
            return
        rows = in_period(tables.read(self.spark, self.chain.lake.at(table)), self.period)
        columns = {field.name: field.dataType for field in rows.schema}
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
        yield from over_time(rows, str(table), declared, numbers[:room])


def over_time(rows: DataFrame, table: str, declared: GoldTable, measures: Sequence[Measure]) -> Iterator[MeasureFacts]:
    """Yield measures of a gold table's rows over time; none without rows.

    Args:
        rows: the rows, with the table's columns.
        table: the table's name, for the page.
        declared: its declaration.
        measures: those of its measures that are numbers.
    """
    at, keys = F.unix_seconds(LOG_TIME).alias("at"), [_words(rows.schema[key]) for key in declared.by]
    group = (F.concat_ws(" · ", *keys) if keys else F.lit("")).alias("group")
    seconds = bin_length(rows.select(at), declared.seconds, BINS)
    by = f" by {', '.join(declared.by)}" if declared.by else ""
    for measure in measures:
        parts = [F.col(quoted(name)).alias(part) for name, part in zip(measure.parts, _places(measure), strict=True)]
        series = _measured(rows.select(at, group, *parts), measure, seconds)
        if series is not None:
            how = f"{declared.measures[measure.name]} per {declared.every}{by}"
            yield MeasureFacts(table, measure.name, how, measure.function, seconds, *series)


def _words(key: StructField) -> Column:
    value = F.col(quoted(key.name))
    text = F.hex(value) if isinstance(key.dataType, BinaryType) else value.cast("string")
    return F.coalesce(text, F.lit(_NONE))


# The aggregate of a part's values over windows and groups, which is the value of their lines together.
_TOGETHER: Mapping[Merge, Callable[[str], Column]] = {
    "count": F.sum,
    "sum": F.sum,
    "least": F.min,
    "greatest": F.max,
    "sketch": lambda sketch: F.hll_union_agg(sketch, F.lit(True)),
}


def _together(rows: DataFrame, measure: Measure, *by: str | Column) -> DataFrame:
    """Return a measure's value for the lines of several windows and groups together.

    What a measure shows may not add up, as one value of approx_distinct can be in several windows; its parts do.
    """
    places = _places(measure)
    value = F.expr(measure.shown(*places)).alias("value")
    if measure.how.parts[0].merge == "buckets":
        lines = rows.select(*by, F.explode(places[0]).alias("bucket", "count"))
        keys = lines.columns[: len(by)]
        counts = lines.groupBy(*keys, "bucket").agg(F.sum("count").alias("count"))
        entries = F.map_from_entries(F.array_sort(F.collect_list(F.struct("bucket", "count"))))
        return counts.groupBy(*keys).agg(entries.alias(places[0])).select(*keys, value)
    parts = [_TOGETHER[part.merge](place).alias(place) for place, part in zip(places, measure.how.parts, strict=True)]
    grouped = rows.groupBy(*by).agg(*parts)
    return grouped.select(*grouped.columns[: len(by)], value)


def _places(measure: Measure) -> list[str]:
    """Return a name for the column of each part, which is not the name of another column."""
    return [f"part_{number}" for number in range(len(measure.how.parts))]


Series = tuple[tuple[int, ...], dict[str, tuple[float | None, ...]], tuple[float | None, ...]]


def _measured(placed: DataFrame, measure: Measure, seconds: int) -> Series | None:
    """Return the starts of the bins, the values of the groups with the most, and those of all other groups.

    Of a minimum, the groups with the least come first.
    """
    ranked, merge = F.col("value"), measure.how.merge
    order = ranked.asc_nulls_last() if merge == "least" else ranked.desc_nulls_last()
    sums = _together(placed, measure, "group").orderBy(order, "group")
    top = [row["group"] for row in sums.limit(GROUPS).collect()]
    place = F.coalesce(*(F.when(F.col("group") == name, number) for number, name in enumerate(top)), F.lit(_OTHERS))
    binned = _together(placed, measure, bin_start(seconds), place.alias("place")).collect()
    starts = sorted({row["start"] for row in binned})
    values = {(row["place"], row["start"]): _number(row["value"]) for row in binned}
    if not starts:
        return None
    empty = 0 if merge in ("count", "sum") else None
    lines = {at: tuple(values.get((at, start), empty) for start in starts) for at in {at for at, _ in values}}
    return tuple(starts), {name: lines[number] for number, name in enumerate(top)}, lines.get(_OTHERS, ())


def _number(value: Any) -> float | None:
    """Return a value as JSON can hold it: a whole number as int; None for a null, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(value)
