"""Line counts for the page: over time, by level, and late lines.

A line is late if an earlier batch contained a line with a later time. Its lateness is the difference between its own
time and the latest time in all earlier batches. The result depends only on the log and the batches, not on the clock:
if you ingest last year's log today, the same lines are late as last year. Lines that are out of order within one batch
are not late.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from oncelake.common import tables
from oncelake.common.lake import SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.engine.preflight import all_built_by
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.observe.report.facts import LateFacts, LinesFacts
from oncelake.observe.report.period import Period
from oncelake.silver.parsing.level import LEVELS

# At most this many bins are drawn.
MOST = 1500
OTHER = "other"
_HOUR, _DAY = 3600, 86_400
_BINS = (60, 300, 900, 1800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY)


@dataclass(frozen=True)
class LineCounts:
    """Numbers of lines by time and level.

    Attributes:
        rows: `at` bigint, the start of a window in seconds since 1970; `level` string; `lines` bigint.
        table: the table that they come from.
        every: the length of a window, in seconds.
        key: the column of the level, if the table is one of gold; otherwise empty.
    """

    rows: DataFrame
    table: str
    every: int
    key: str = ""


def counted(chain: Chain, spark: SparkSession, period: Period | None = None) -> LineCounts | None:
    """Return line counts of the first gold table that counts all lines by level, else of silver; None without a table.

    Only files that can hold rows of the period are read.
    """
    for name, declared in all_built_by(chain).items():
        columns = _columns(declared)
        if columns and chain.commit_log(Table("gold", name)).newest() is not None:
            table = Table("gold", name)
            level, count = (F.col(column) for column in columns)
            rows = in_period(tables.read(spark, chain.lake.at(table)), period)
            return LineCounts(_counts(rows, level, count), str(table), declared.seconds, columns[0])
    if chain.commit_log(SILVER).newest() is None:
        return None
    rows = in_period(tables.read(spark, chain.lake.at(SILVER)), period)
    return LineCounts(_counts(rows, F.col("level"), F.lit(1)), str(SILVER), 1)


def in_period(rows: DataFrame, period: Period | None, by: str = LOG_TIME) -> DataFrame:
    """Return the rows of a period; a literal bound lets Delta skip files by their statistics."""
    if period is None:
        return rows
    return rows.where((F.col(by) >= timestamp(period.since)) & (F.col(by) < timestamp(period.until)))


def timestamp(at: datetime) -> Column:
    """Return a time as a literal of Spark SQL, which no session's zone changes."""
    return F.expr(f"TIMESTAMP '{at.isoformat(sep=' ')}'")


def lines_over_time(chain: Chain, spark: SparkSession, period: Period | None = None) -> LinesFacts | None:
    """Count lines per bin and level, see `counted`; None if there are no lines."""
    counts = counted(chain, spark, period)
    if counts is None:
        return None
    seconds = bin_length(counts.rows, counts.every)
    rows = counts.rows.groupBy(bin_start(seconds), _level()).agg(F.sum("lines").alias("lines")).collect()
    key = counts.key if seconds == counts.every else ""  # `oncelake lines` shows one window
    return replace(_facts(rows, counts.table, seconds), key=key) if rows else None


def _columns(declared: GoldTable) -> tuple[str, str] | None:
    """Return the level and count columns if a gold table counts all lines by level, per hour or finer."""
    level = next((name for name, text in declared.by.items() if text.strip() == "level"), None)
    count = next((measure.name for measure in declared.parsed if measure.function == "count"), None)
    counts_all = declared.where is None and declared.zone is None and declared.seconds <= _HOUR
    return (level, count) if counts_all and level and count else None


def _counts(rows: DataFrame, level: Column, count: Column) -> DataFrame:
    return rows.select(F.unix_seconds(LOG_TIME).alias("at"), level.alias("level"), count.alias("lines"))


def bin_length(rows: DataFrame, every: int, most: int = MOST) -> int:
    """Return the shortest bin length with at most `most` non-empty bins; empty bins are not drawn and cost nothing.

    Args:
        rows: rows with a column `at`, in seconds since 1970.
        every: the length of their windows; a bin is a multiple of it.
        most: the largest number of bins.
    """
    bins = sorted({-(-length // every) * every for length in _BINS})
    used = [F.approx_count_distinct(F.floor(F.col("at") / length)).alias(str(length)) for length in bins]
    counts = rows.agg(*used).collect()[0]
    return next((length for length in bins if counts[str(length)] <= most), bins[-1])


def bin_start(seconds: int) -> Column:
    """Return the column `start` of the bin that a row's `at` is in."""
    return (F.floor(F.col("at") / seconds) * seconds).alias("start")


def _level() -> Column:
    return F.when(F.col("level").isin(list(LEVELS)), F.col("level")).otherwise(F.lit(OTHER)).alias("level")


def _facts(rows: Sequence[Row], table: str, seconds: int) -> LinesFacts:
    starts = sorted({row["start"] for row in rows})
    counts = {(row["level"], row["start"]): int(row["lines"]) for row in rows}
    present = {level for level, _ in counts}
    levels = {level: tuple(counts.get((level, start), 0) for start in starts) for level in _order() if level in present}
    return LinesFacts(table, seconds, tuple(starts), levels)


def _order() -> Iterator[str]:
    yield OTHER
    yield from LEVELS


# The spans of lateness, each with its upper bound in seconds; a span starts where the one before ends.
SPANS = {"up to a minute": 60, "up to an hour": 3600, "up to a day": 86_400, "more than a day": 2**62}


def late_lines(chain: Chain, spark: SparkSession) -> LateFacts | None:
    """Count the late lines of silver, in two passes over two narrow columns; None if there is no silver table."""
    if chain.commit_log(SILVER).newest() is None:
        return None
    rows = tables.read(spark, chain.lake.at(SILVER)).select("ingested_at", F.unix_seconds(LOG_TIME).alias("at"))
    before = Window.orderBy("ingested_at").rowsBetween(Window.unboundedPreceding, -1)
    newest = rows.groupBy("ingested_at").agg(F.max("at").alias("at"))
    known = newest.select("ingested_at", F.max("at").over(before).alias("newest"))
    late = rows.join(F.broadcast(known), "ingested_at").withColumn("late", F.col("newest") - F.col("at"))
    bounds = zip(SPANS.items(), [0, *SPANS.values()], strict=False)
    counts = [F.count_if((F.col("late") > low) & (F.col("late") <= high)).alias(name) for (name, high), low in bounds]
    totals = late.agg(
        F.count(F.lit(1)).alias("lines"),
        F.max("late").alias("most"),
        F.count_distinct(F.when(F.col("late") > 0, F.col("ingested_at"))).alias("batches"),
        *counts,
    ).collect()[0]
    by = {name: int(totals[name]) for name in SPANS}
    return LateFacts(int(totals["lines"]), by, max(int(totals["most"] or 0), 0), int(totals["batches"]))
