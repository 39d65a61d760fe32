"""Recompute a gold table from silver, and compare it with the table's rows."""

import json
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, DateType, NumericType, StructField, StructType, TimestampType

from oncelake.common.lake import SILVER
from oncelake.common.tables import read_version
from oncelake.common.wording import HANDFUL, count_of, listed, shown
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.link import Link, Range, Uncompared, joined, ranges
from oncelake.exactly_once.positions import TablePosition
from oncelake.exactly_once.span import Span
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.transform import aggregate
from oncelake.silver.schema import EVENT_INDEX

_SIDES = ("gold", "silver")
# The line count, added to every table. Names of declared measures and keys start with a letter, so it is unique.
_LINES = "_lines"
# Types whose text cannot contain log text: it needs no escaping.
_BARE = (NumericType, BooleanType, TimestampType, DateType)
# At most this many windows are filtered; with more, all windows are compared.
_MOST_WINDOWS = 100_000
# At most this many time ranges are in one filter; the nearest ones are joined.
_MOST_STRETCHES = 64


def recount(spark: SparkSession, silver_path: str, log: DeltaLog, gold: Span, declared: GoldTable) -> Link:
    """Prove that a gold table equals its declaration applied to the silver rows that it has read.

    Every row and every measure is compared: in all windows, or in those to which the span's batches added a line.
    An estimated measure is compared by its estimate.

    Args:
        spark: the session.
        silver_path: the path of silver.
        log: silver's Delta log.
        gold: the span of the gold table.
        declared: the declaration of the gold table.
    """
    name = f"{SILVER} → {gold.table}"
    end = TablePosition.parse(gold.end)
    rows = read_version(spark, gold.path, gold.version)
    if end is None:  # no batch yet: the table must be empty
        count = rows.count()
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
    silver = read_version(spark, silver_path, version)
    chosen = _touched(log, silver, gold, declared)
    if chosen is not None:
        rows, silver = rows.where(chosen), silver.where(chosen)
    counting = declared.model_copy(update={"measures": {**declared.measures, _LINES: "count"}})
    both = _beside(rows, aggregate(silver, counting), declared)
    differs = _differs(declared)
    counts = both.agg(F.count("*"), F.coalesce(F.sum(_LINES), F.lit(0)), F.count_if(differs)).first()
    assert counts is not None
    if counts[2]:
        return Link(name, str(gold.table), holds=False, said=_differences(both.where(differs), declared, counts[2]))
    unit = "event" if EVENT_INDEX in silver.columns else "line"
    which = "" if chosen is None else " of the changed windows"
    message = f"{count_of(counts[0], 'row')}{which} = {count_of(counts[1], unit)} counted again"
    return Link(name, str(gold.table), holds=True, said=message)


def _touched(commit_log: DeltaLog, silver: DataFrame, gold: Span, declared: GoldTable) -> Column | None:
    """Return a condition on log_time that covers every window to which the span's batches added a line.

    Return None if all windows must be compared.
    """
    start, end = TablePosition.parse(gold.before), TablePosition.parse(gold.end)
    if gold.whole or start is None or end is None:
        return None
    ingestion_times = _ingestion_times(commit_log, range(start.version, end.version))
    if ingestion_times is None:
        return None
    rows = silver.where(_among("ingested_at", ingestion_times, 1_000))
    length, at = declared.seconds * 1_000_000, "unix_micros(log_time)"
    window = F.expr(f"({at} - pmod({at}, {length}L)) div {length}L")
    windows = rows.select(window.alias("window")).distinct().limit(_MOST_WINDOWS).collect()
    if len(windows) == _MOST_WINDOWS:
        return None
    return _among(LOG_TIME, ranges(sorted(row["window"] for row in windows)), length)


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
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _among(column: str, time_ranges: list[Range], unit: int) -> Column:
    """Return the condition that a time is in one of the ranges, which count in units of `unit` microseconds."""
    conditions = [
        f"({column} >= timestamp_micros({first * unit}L) AND {column} < timestamp_micros({(last + 1) * unit}L))"
        for first, last in joined(sorted(time_ranges), _MOST_STRETCHES)
    ]
    return F.expr(" OR ".join(conditions) or "false")


def _beside(gold: DataFrame, silver: DataFrame, declared: GoldTable) -> DataFrame:
    """Join the rows of both sides by window and keys; a null key equals a null key."""
    keys = [quoted(key) for key in (LOG_TIME, *declared.by)]
    values = F.struct(*(F.col(quoted(measure)) for measure in declared.measures)).alias("_values")
    sides = {"gold": gold.withColumn(_LINES, F.lit(0)), "silver": silver}
    frames = [
        frame.select(*keys, _LINES, *(F.lit(int(side == name)).alias(f"_{side}") for side in _SIDES), values)
        for name, frame in sides.items()
    ]
    counts = [F.sum(name).alias(name) for name in (_LINES, *(f"_{side}" for side in _SIDES))]
    measures = [F.max(F.when(F.col(f"_{side}") == 1, F.col("_values"))).alias(f"_{side}_values") for side in _SIDES]
    return reduce(DataFrame.unionByName, frames).groupBy(*keys).agg(*counts, *measures)


def _differs(declared: GoldTable) -> Column:  # guard: gold-values-from-silver
    once = (F.col("_gold") == 1) & (F.col("_silver") == 1)  # guard: gold-windows-from-silver
    equal = [
        F.col(f"_gold_values.{quoted(measure)}").eqNullSafe(F.col(f"_silver_values.{quoted(measure)}"))
        for measure in declared.measures
    ]
    return ~reduce(Column.__and__, equal, once)


def _differences(rows: DataFrame, declared: GoldTable, total: int) -> str:
    """Return how the first rows differ, in words; log text is shortened and escaped."""
    first = rows.orderBy(*(quoted(key) for key in (LOG_TIME, *declared.by))).limit(HANDFUL)
    bare = [field.name for field in _fields(first, declared) if isinstance(field.dataType, _BARE)]
    texts = [_text(F.col(quoted(name)), first.schema[name]) for name in (LOG_TIME, *declared.by)]
    for side in _SIDES:
        values = [_text(F.col(f"_{side}_values.{quoted(field.name)}"), field) for field in _fields(first, declared)]
        texts.append(F.when(F.col(f"_{side}") > 0, F.struct(*values)).alias(f"_{side}_text"))
    selected = first.select(*texts, F.col("_gold").alias("_times"), _LINES)
    differences = [_difference(row, declared, bare) for row in selected.collect()]
    return listed(differences, total, separator="; ")


def _fields(rows: DataFrame, declared: GoldTable) -> list[StructField]:
    values = rows.schema["_gold_values"].dataType
    assert isinstance(values, StructType)
    return [values[name] for name in declared.measures]


def _text(column: Column, field: StructField) -> Column:
    text = F.hex(column) if isinstance(field.dataType, BinaryType) else column.cast("string")
    return text.alias(field.name)


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
        for name in declared.measures
        if gold[name] != silver[name]
    )


def _shown(text: str | None, *, bare: bool = False) -> str:
    if text is None:
        return "null"
    return text if bare else shown(text)
