"""Check the rows of lines that have many events: each line has a row for each of its events, once."""

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from oncelake.common.lake import place_of
from oncelake.common.wording import count_of, listed, shown_name
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span, ingested_ms
from oncelake.silver.schema import EVENT_COUNT, EVENT_INDEX

_ORIGIN = ("topic", "partition", "offset", "file", "taken", EVENT_COUNT)


def events(rows: DataFrame, silver: Span) -> Link:
    """Prove that the events of each line have the numbers from 0 up to their count, each once.

    Each row has its number and the count. Lines of a file have no identity, so a batch's lines of one file with the
    same count are checked together: each number must occur once for each of these lines.

    Args:
        rows: the rows of silver that are compared.
        silver: the span of silver.
    """
    of_events = rows.where(F.coalesce(EVENT_INDEX, EVENT_COUNT).isNotNull()).withColumn("taken", ingested_ms())
    by_number = of_events.groupBy(*_ORIGIN, EVENT_INDEX).agg(F.count(F.lit(1)).alias("same"))
    is_number = F.coalesce((F.col(EVENT_INDEX) >= 0) & (F.col(EVENT_INDEX) < F.col(EVENT_COUNT)), F.lit(False))
    # guard: events-of-line-complete
    off = ~F.bool_and(is_number) | (F.count(F.lit(1)) != F.col(EVENT_COUNT)) | (F.min("same") != F.max("same"))
    by_line = by_number.groupBy(*_ORIGIN).agg(
        F.sum("same").alias("rows"), F.max("same").alias("lines"), F.coalesce(off, F.lit(True)).alias("off")
    )
    example = F.struct("topic", "partition", "offset", "file", EVENT_COUNT, "rows")
    counts = (F.coalesce(F.sum(name), F.lit(0)) for name in ("lines", "rows"))
    wrong = F.count_if("off"), F.min(F.when(F.col("off"), example))
    (seen,) = by_line.agg(*counts, *wrong).collect()
    lines, count, faults, first = seen
    messages = (
        [f"{silver.table}: {listed([_words(first)], faults)}; each event of a line must have one row"] if faults else []
    )
    well = f"{count_of(lines, 'line with events is', 'lines with events are')} {count_of(count, 'row')}, one for each"
    return Link.of(f"events of {silver.table}", silver.table, messages, well)


def _words(row: Row) -> str:
    origin = f"{row['topic']}/{row['partition']}/{row['offset']}"
    where = origin if row["file"] is None else f"of lines in {shown_name(place_of(row['file']))}"
    count = "without a count" if row[EVENT_COUNT] is None else f"with {count_of(row[EVENT_COUNT], 'event')}"
    return f"{count_of(row['rows'], 'row')} {where} {count}"
