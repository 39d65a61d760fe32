"""Check the repeats that silver dropped: each has its twin in silver, and silver has no two lines of one event."""

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from oncelake.common.lake import DUPLICATES, SILVER, place_of
from oncelake.common.tables import read_version
from oncelake.common.wording import HANDFUL, count_of, listed, shown_name
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span, rows_of
from oncelake.proof.balance import BronzeSpans
from oncelake.silver.duplicates import ORIGIN
from oncelake.silver.schema import EVENT_KEY, EVENT_WINDOW, TWIN

_TWIN = TWIN.name
# Columns of a twin, and where the row of its repeat has the same values.
_SAME = {EVENT_KEY: EVENT_KEY, "log_time": f"{_TWIN}.log_time"}


def repeats(spark: SparkSession, bronze: BronzeSpans, silver: Span, duplicates: Span) -> Link:
    """Prove that each dropped line repeats a line of silver within its window, and that no line of silver does.

    The window of each line is in its row. Lines that were made with different windows are not compared.

    Args:
        spark: the session.
        bronze: the spans of bronze, cut to what silver's span has read.
        silver: the span of silver.
        duplicates: the span of the table of repeats.
    """
    name = f"{duplicates.table} → {silver.table}"
    silver_rows = read_version(spark, silver.path, silver.version)
    if EVENT_KEY not in silver_rows.columns:
        return Link(name, str(duplicates.table), holds=True, said="no line is compared with others yet")
    times = {ms for span in bronze.values() for ms in span.by_time()}
    dropped = rows_of(spark, duplicates, times).localCheckpoint()
    count, lonely = dropped.count(), _without_twin(dropped, silver_rows)
    lines = rows_of(spark, silver, times)
    keys, unkeyed = lines.agg(
        F.count(EVENT_KEY), F.count_if(F.col(EVENT_WINDOW).isNotNull() & F.col(EVENT_KEY).isNull())
    ).collect()[0]
    keyed = lines.select(EVENT_KEY).distinct()
    near = _too_near(silver_rows if silver.whole else silver_rows.join(keyed, EVENT_KEY, "left_semi"))
    well = (
        f"{count_of(count, 'repeat has its twin', 'repeats have their twins')} in {silver.table}; "
        f"{count_of(keys, 'line with a key repeats', 'lines with a key repeat')} no other"
    )
    notes = (count_of(unkeyed, "line has no key and is not compared", "lines have no key and are not compared"),)
    faults = [*_named(lonely, "has no twin"), *_named(near, "repeats a line that is there too")]
    return Link.of(name, duplicates.table, faults, well, notes if unkeyed else ())


def _without_twin(dropped: DataFrame, silver_rows: DataFrame) -> DataFrame:  # guard: dropped-line-has-twin
    """Return the dropped lines without a row of silver that is their twin, of their key and within their window."""
    twin = [
        F.col(f"held.{name}").eqNullSafe(F.col(f"dropped.{_TWIN}.{name}"))
        for name in ORIGIN
        if name in silver_rows.columns
    ]
    same = [F.col(f"held.{name}") == F.col(f"dropped.{other}") for name, other in _SAME.items()]
    apart = F.abs(F.unix_micros("held.log_time") - F.unix_micros("dropped.log_time")) <= F.col(
        f"dropped.{EVENT_WINDOW}"
    )
    condition: Column = reduce(and_, [*same, *twin, apart])  # guard: twin-within-window
    return dropped.alias("dropped").join(silver_rows.alias("held"), condition, "left_anti")


def _too_near(silver_rows: DataFrame) -> DataFrame:  # guard: no-repeat-in-silver
    """Return the rows of silver within the window of another one of their key, made with the same window."""
    at = F.unix_micros("log_time")
    by_time = Window.partitionBy(EVENT_KEY, EVENT_WINDOW).orderBy("at")
    rows = silver_rows.where(F.col(EVENT_KEY).isNotNull()).withColumn("at", at)
    return rows.withColumn("apart", F.col("at") - F.lag("at").over(by_time)).where(f"apart <= {EVENT_WINDOW}")


def _named(rows: DataFrame, what: str) -> list[str]:  # guard: repeats-named-in-proof
    """Return a fault that names a handful of rows; none without rows."""
    total = rows.count()
    if not total:
        return []
    first = rows.orderBy("ingested_at", "topic", "partition", "offset", "file").limit(HANDFUL).collect()
    table = DUPLICATES if _TWIN in rows.columns else SILVER
    return [f"{table}: {listed([_origin(row) for row in first], total)} {what}"]


def _origin(row: Row) -> str:
    if row["file"] is not None:
        return f"a line of {shown_name(place_of(row['file']))} at {row['log_time']:%Y-%m-%d %H:%M:%S}"
    return f"{row['topic']}/{row['partition']}/{row['offset']}"
