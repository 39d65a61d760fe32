"""Aggregate lines into a gold table's rows, and merge two such rows into one.

Pure: the same rows give the same result in any order and partitioning, and merging the results of two
halves gives the result of the whole. `merge_condition` and `merge_update` are for
`DeltaTable.merge(batch, condition).whenMatchedUpdate(set=update).whenNotMatchedInsertAll()`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted, sketch_column
from oncelake.gold.expression import column
from oncelake.gold.measure import Measure, Merge
from oncelake.gold.schema import schema_over

# The windows of at most this many rows are listed one by one; for more rows, the first and the last window are given.
_NAMED = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MERGES: Mapping[Merge, str] = {
    "count": "{old} + {new}",
    "sum": "coalesce({old} + {new}, {old}, {new})",
    "least": "least({old}, {new})",
    "greatest": "greatest({old}, {new})",
    "sketch": "hll_union({old}, {new})",
}


def aggregate(silver: DataFrame, table: GoldTable) -> DataFrame:
    """Aggregate silver's rows to the gold table's columns and types, one row per window and keys.

    Lines of every age count, and a null key is its own group. No input row gives no output row.
    """
    schema = schema_over(silver, table)
    keys = [LOG_TIME, *table.by]
    partials = [each.how.aggregate(F.col(each.name)).alias(_held(each)) for each in table.parsed]
    groups = _terms(silver, table, schema).groupBy(*keys).agg(*partials)
    shown = [
        F.expr(_estimate(quoted(_held(each)))) if each.how.merge == "sketch" else F.col(each.name)
        for each in table.parsed
    ]
    sketches = [F.col(_held(each)) for each in table.parsed if each.how.merge == "sketch"]
    columns = [*(F.col(key) for key in keys), *shown, *sketches]
    return groups.select(
        *(column.cast(field.dataType).alias(field.name) for column, field in zip(columns, schema, strict=True))
    )


def merge_condition(table: GoldTable, touched: str | None = None) -> str:
    """Return the SQL condition that matches a row of `batch` with its row of `gold`; a null key equals a null key.

    Args:
        table: the declaration.
        touched: a condition on `gold` for the windows that the batch has, if it is known; see `windows`.
    """
    same = (f"gold.{key} <=> batch.{key}" for key in map(quoted, [LOG_TIME, *table.by]))
    return " AND ".join([*same, *([touched] if touched else [])])


def windows(counts: DataFrame) -> str | None:
    """Return a SQL condition on `gold` for the windows that a batch's counts have; None if there is none.

    The windows are literals because Delta can then skip each file that has none of them: the cost of a MERGE depends
    on the batch, not on the table. Source: Delta's `filterFiles`; a MERGE passes it only predicates on its target.
    """
    starts = [row[0] for row in counts.select(F.unix_micros(LOG_TIME)).limit(_NAMED + 1).collect()]
    if len(starts) > _NAMED:
        ((first, last),) = counts.agg(F.unix_micros(F.min(LOG_TIME)), F.unix_micros(F.max(LOG_TIME))).collect()
        texts = _timestamps([first, last])
        return f"gold.{quoted(LOG_TIME)} BETWEEN {' AND '.join(texts)}" if texts else None
    texts = _timestamps(sorted(set(starts)))
    return f"gold.{quoted(LOG_TIME)} IN ({', '.join(texts)})" if texts else None


def _timestamps(micros: Sequence[int]) -> list[str]:
    """Return times as SQL literals; an empty list if one of them is outside the years 1 to 9999."""
    try:
        times = [_EPOCH + timedelta(microseconds=each) for each in micros]
    except OverflowError:
        return []
    return [f"TIMESTAMP '{each.isoformat(sep=' ')}'" for each in times]


def merge_update(table: GoldTable) -> dict[str, str]:
    """Return column -> SQL expression over `gold` and `batch` that adds the batch's row to the table's row."""
    update: dict[str, str] = {}
    for measure in table.parsed:
        held = _held(measure)
        merged = _MERGES[measure.how.merge].format(old=f"gold.{quoted(held)}", new=f"batch.{quoted(held)}")
        update |= {measure.name: _estimate(merged), held: merged} if held != measure.name else {held: merged}
    return update


def _held(measure: Measure) -> str:
    """Return the name of the column by which two rows are merged."""
    return sketch_column(measure) if measure.how.merge == "sketch" else measure.name


def _estimate(sketch: str) -> str:
    """Return the SQL of an estimate from the sketch's union with itself.

    A sketch that saw rows one by one estimates by their order (HIP). The union forgets the order, so its estimate
    depends only on the set of values.
    """
    return f"hll_sketch_estimate(hll_union({sketch}, {sketch}))"


def _terms(silver: DataFrame, table: GoldTable, schema: StructType) -> DataFrame:
    rows = silver if table.where is None else silver.where(column(table.where))
    keys = [column(text).alias(name) for name, text in table.by.items()]
    terms = [_term(each, schema).alias(each.name) for each in table.parsed]
    return rows.select(_window_start(table.seconds).alias(LOG_TIME), *keys, *terms)


def _window_start(seconds: int) -> Column:
    """Return log_time rounded down to a multiple of the window since the epoch; before 1970, `div` would round up."""
    return F.expr(f"timestamp_micros(unix_micros(log_time) - pmod(unix_micros(log_time), {seconds * 1_000_000}L))")


def _term(measure: Measure, schema: StructType) -> Column:
    value = column(measure.argument) if measure.argument else F.lit(1)
    return measure.how.term(value, schema[measure.name].dataType)
