"""The measures of the user's gold tables over time, as declared: the groups with the most, and all others together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NumericType, StructField

from oncelake.common import tables
from oncelake.common.lake import Table
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted, sketch_column
from oncelake.gold.measure import Measure, Merge
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
        column = sketch_column(measure) if measure.how.merge == "sketch" else measure.name
        placed = rows.select(at, group, F.col(quoted(column)).alias("value"))
        series = _measured(placed, measure.how.merge, seconds)
        if series is not None:
            how = f"{declared.measures[measure.name]} per {declared.every}{by}"
            yield MeasureFacts(table, measure.name, how, measure.function, seconds, *series)


def _words(key: StructField) -> Column:
    value = F.col(quoted(key.name))
    text = F.hex(value) if isinstance(key.dataType, BinaryType) else value.cast("string")
    return F.coalesce(text, F.lit(_NONE))


def _together(merge: Merge) -> Column:
    """Return the aggregate of a measure's values over windows and groups, which is the value of their lines together.

    Values of approx_distinct do not add up, as one value can be in several windows, but their sketches do.
    """
    value = F.col("value")
    if merge == "sketch":
        return F.hll_sketch_estimate(F.hll_union_agg(value, F.lit(True)))
    return {"least": F.min, "greatest": F.max}.get(merge, F.sum)(value)


Series = tuple[tuple[int, ...], dict[str, tuple[float | None, ...]], tuple[float | None, ...]]


def _measured(placed: DataFrame, merge: Merge, seconds: int) -> Series | None:
    """Return the starts of the bins, the values of the groups with the most, and those of all other groups.

    Of a minimum, the groups with the least come first.
    """
    value, ranked = _together(merge), F.col("value")
    order = ranked.asc_nulls_last() if merge == "least" else ranked.desc_nulls_last()
    sums = placed.groupBy("group").agg(value.alias("value")).orderBy(order, "group")
    top = [row["group"] for row in sums.limit(GROUPS).collect()]
    place = F.coalesce(*(F.when(F.col("group") == name, number) for number, name in enumerate(top)), F.lit(_OTHERS))
    binned = placed.groupBy(bin_start(seconds), place.alias("place")).agg(value.alias("value")).collect()
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
