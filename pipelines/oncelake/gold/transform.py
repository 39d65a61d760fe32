"""Aggregate lines into a gold table's rows, and merge two such rows into one.

Pure: the same rows give the same result in any order and partitioning, and merging the results of two
halves gives the result of the whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.common.spark.rows import Collected
from oncelake.common.spark.valid_text import INVALID_PREFIX, has_text, is_invalid, marks_of, may_be_invalid, valid
from oncelake.exactly_once.writers import Dialect, MergeSql, Windows
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.expression import column
from oncelake.gold.functions import BATCH_SUM_DIGITS, OUT_OF_RANGE, Merge, Part, can_overflow
from oncelake.gold.measure import Measure
from oncelake.gold.schema import schema_over
from oncelake.gold.window import EPOCH
from oncelake.silver.parsing.columns import FLOATS

# At most this many rows of a batch have their windows listed one by one; of more, the range from the first to the last.
NAMED = 100
_SAME_ORDER = (TimestampType, DateType, StringType, IntegralType, DecimalType)
_MICROSECONDS = 'Timestamp(Microsecond, Some("UTC"))'
# A map has its entries in one order, so that the same buckets are the same bytes.
_SORTED = "map_from_entries(array_sort(map_entries({})))"
_MERGES: Mapping[Merge, str] = {
    "count": "{old} + {new}",
    "sum": "coalesce({old} + {new}, {old}, {new})",
    "least": "least({old}, {new})",
    "greatest": "greatest({old}, {new})",
    "sketch": "hll_union({old}, {new})",
    "buckets": _SORTED.format(
        "map_zip_with({old}, {new}, (bucket, old, new) -> coalesce(old, 0L) + coalesce(new, 0L))"
    ),
}
# The hidden column of the number of all lines, beside those of lines with an invalid text; no column has this name.
LINES = INVALID_PREFIX
# The column that says what a row of `_by_bucket` is for; no other column has this name.
_ROW = "_row"
# The key in the metadata of a wide sum: its digits in gold.
_DIGITS = "digits"
# The parts whose value is one of the terms.
_EXTREMES = ("least", "greatest")


def aggregate(silver: DataFrame, table: GoldTable, *, counting: bool = False, wide: bool = False) -> DataFrame:
    """Aggregate silver's rows to the gold table's columns and types, one row per window and keys.

    Lines of every age count, and a null key is its own group. No input row gives no output row.

    Args:
        silver: silver's rows.
        table: the declaration.
        counting: add, for each column whose texts may be invalid, how many lines had one that was made valid, and the
            number of all lines.
        wide: leave sums of decimals wider than they are in gold, see `in_gold`, where a sum that gold cannot hold is
            to be refused; without it, such a sum is an error.
    """
    schema = schema_over(silver, table)
    keys = [F.col(quoted(key)) for key in (LOG_TIME, *table.by)]
    parts = {name: part for measure in table.parsed for name, part in measure.parts.items()}
    sums = {name for name, part in parts.items() if can_overflow(part, schema[name].dataType)}
    partials = [
        _partial(name, part, schema[name].dataType if name in sums else None).alias(name)
        for name, part in parts.items()
    ]
    terms = _terms(silver, table, schema)
    marks = marks_of(terms.columns) if counting else []
    counts = [F.count_if(name).alias(name) for name in marks]
    counts += [F.count(F.lit(1)).alias(LINES)] if marks else []
    buckets = [name for name, part in parts.items() if part.merge == "buckets"]
    aggregates = (*partials, *counts)
    groups = _by_bucket(terms, keys, buckets, aggregates) if buckets else terms.groupBy(*keys).agg(*aggregates)
    form = _wide if wide else _narrow
    merged = groups.select(
        *keys,
        *(
            form(F.col(quoted(name)), schema[name])
            if name in sums
            else F.col(quoted(name)).cast(schema[name].dataType).alias(name)
            for name in parts
        ),
        *groups.columns[len(keys) + len(parts) :],
    )
    shown = [F.expr(measure.shown(*map(quoted, measure.parts))) for measure in table.parsed]
    columns = [*keys, *shown, *(F.col(name) for name, part in parts.items() if part.prefix)]
    return merged.select(
        *(
            column.alias(field.name) if field.name in sums else column.cast(field.dataType).alias(field.name)
            for column, field in zip(columns, schema, strict=True)
        ),
        *merged.columns[len(keys) + len(parts) :],
    )


def _by_bucket(
    terms: DataFrame, keys: Sequence[Column], buckets: Sequence[str], aggregates: Sequence[Column]
) -> DataFrame:
    """Aggregate terms by keys, and count the lines of each bucket, without a list of all lines of a group.

    A line is one row for all other aggregates, and one for each part with buckets in which it has a value. These rows
    are counted by bucket first, as Spark does for several distinct counts.

    Args:
        terms: the lines, with a column for the term of each part.
        keys: the columns of the groups.
        buckets: the parts with buckets.
        aggregates: the aggregates of all parts, which for those with buckets are the counts of one bucket.
    """
    parts = [F.lit(None).cast("int"), *(F.col(quoted(name)) for name in buckets)]
    kinds = (F.struct(F.lit(number).alias("part"), part.alias("bucket")) for number, part in enumerate(parts))
    rows = terms.withColumn(_ROW, F.explode(F.array(*kinds)))
    of_line, bucket = F.col(f"{_ROW}.part") == 0, F.col(f"{_ROW}.bucket")
    names = terms.columns[len(keys) :]
    masked = [name if name in buckets else F.when(of_line, F.col(quoted(name))).alias(name) for name in names]
    counted = (
        rows.where(of_line | bucket.isNotNull()).select(*keys, _ROW, *masked).groupBy(*keys, _ROW).agg(*aggregates)
    )
    together = []
    for name in counted.columns[len(keys) + 1 :]:
        value = F.col(quoted(name))
        if name in buckets:
            entry = F.when(F.col(f"{_ROW}.part") == buckets.index(name) + 1, F.struct(bucket, value))
            together.append(F.map_from_entries(F.array_sort(F.collect_list(entry))).alias(name))
        else:
            of_lines = F.first(F.when(of_line, value), ignorenulls=True)  # guard: lines-once-beside-buckets
            together.append(of_lines.alias(name))
    return counted.groupBy(*keys).agg(*together)


def in_gold(field: StructField) -> StructField:
    """Return a column of `aggregate` as it is in gold: a wide sum has fewer digits there."""
    digits = field.metadata.get(_DIGITS)
    if digits is None:
        return field
    assert isinstance(field.dataType, DecimalType)
    return StructField(field.name, DecimalType(digits, field.dataType.scale), field.nullable)


def _partial(name: str, part: Part, kind: DataType | None) -> Column:
    """Return the value of a batch's terms.

    Args:
        name: the column of a part of a measure.
        part: the part.
        kind: the type of a sum that can overflow: Spark's sum of too many digits is null, as that of no value is.
    """
    term = F.col(quoted(name))
    value = part.aggregate(term)
    if not isinstance(kind, DecimalType):
        return value
    largest = F.lit("9" * (BATCH_SUM_DIGITS - kind.scale) + "." + "9" * kind.scale)
    return F.coalesce(value, F.when(F.count(term) > 0, largest.cast(_wider(kind))))  # guard: batch-sum-is-exact


def _wider(kind: DecimalType) -> DecimalType:
    return DecimalType(BATCH_SUM_DIGITS, kind.scale)


def _wide(column: Column, field: StructField) -> Column:
    assert isinstance(field.dataType, DecimalType)
    kind = _wider(field.dataType)
    return column.cast(kind).alias(field.name, metadata={_DIGITS: field.dataType.precision})


def _narrow(column: Column, field: StructField) -> Column:
    value = column.try_cast(field.dataType)
    error = F.raise_error(F.lit(f"a sum of {field.name} {OUT_OF_RANGE} {field.dataType.simpleString()}"))
    # guard: batch-sum-fits-gold
    return F.when(column.isNull() | value.isNotNull(), value).otherwise(error.cast(field.dataType)).alias(field.name)


@dataclass(frozen=True)
class _Dialect:
    """What differs between the SQL of two engines."""

    quote: str
    same: str
    timestamp: Callable[[datetime], str]

    def column(self, alias: str, name: str) -> str:
        """Return a table's column; a declared name has no quote in it."""
        return f"{alias}.{self.quote}{name}{self.quote}"


_DIALECTS: Mapping[Dialect, _Dialect] = {
    "spark": _Dialect("`", "{one} <=> {other}", lambda at: f"TIMESTAMP '{at.isoformat(sep=' ')}'"),
    "datafusion": _Dialect(
        '"',
        "({one} IS NOT DISTINCT FROM {other})",
        lambda at: f"arrow_cast('{at.replace(tzinfo=None).isoformat(sep=' ')}', '{_MICROSECONDS}')",
    ),
}


def merge_into(table: GoldTable, schema: StructType, touched: Windows, engine: Dialect) -> MergeSql | None:
    """Return the MERGE that adds a batch's rows (alias `batch`) to the table's rows (alias `gold`).

    A null key equals a null key.

    Args:
        table: the declaration.
        schema: the table's columns and types.
        touched: the windows of the batch, see `windows`; empty to look at the whole table.
        engine: the engine that runs it.

    Returns:
        None if the engine would not merge the values exactly as Spark does.
    """
    if engine == "datafusion" and not _merges_as_spark(table, schema):
        return None
    dialect = _DIALECTS[engine]
    condition = " AND ".join(
        [same_group(table, engine), *_in_windows(dialect.column("gold", LOG_TIME), touched, dialect)]
    )
    update: dict[str, str] = {}
    for measure in table.parsed:
        merged = {
            name: _MERGES[part.merge].format(old=dialect.column("gold", name), new=dialect.column("batch", name))
            for name, part in measure.parts.items()
        }
        update |= {measure.name: measure.shown(*merged.values()), **merged}  # guard: shown-from-merged-parts
    return MergeSql(condition, update, touched)


def same_group(table: GoldTable, engine: Dialect = "spark") -> str:
    """Return the condition that a row of `gold` and a row of `batch` have the same window and keys."""
    dialect = _DIALECTS[engine]
    keys = [LOG_TIME, *table.by]
    return " AND ".join(
        dialect.same.format(one=dialect.column("gold", key), other=dialect.column("batch", key)) for key in keys
    )


def _in_windows(column: str, windows: Windows, dialect: _Dialect) -> list[str]:
    """Return a condition for the windows, as literals: the engine then skips each file that has none of them.

    The cost of a MERGE so depends on the batch, not on the table. Source: Delta's `filterFiles`; a MERGE passes it only
    predicates on its target.
    """
    if not windows:
        return []
    if all(first == last for first, last in windows):
        return [f"{column} IN ({', '.join(dialect.timestamp(first) for first, _ in windows)})"]
    ((first, last),) = windows
    return [f"{column} BETWEEN {dialect.timestamp(first)} AND {dialect.timestamp(last)}"]


def windows(counts: DataFrame) -> Windows:
    """Return the windows of a batch's counts as ranges: each window, or, of many rows, one range over all windows.

    Returns:
        Nothing if there is no window, or one is outside the years 1 to 9999.
    """
    starts = [row[0] for row in counts.select(F.unix_micros(LOG_TIME)).limit(NAMED + 1).collect()]
    if len(starts) <= NAMED:  # guard: range-over-many-rows
        return _each_window(sorted(set(starts)))
    ((first, last),) = counts.agg(F.unix_micros(F.min(LOG_TIME)), F.unix_micros(F.max(LOG_TIME))).collect()
    return windows_within(first, last)


def windows_within(first: int | None, last: int | None) -> Windows:
    """Return one range from a first to a last window, in microseconds since 1970, as `windows` does."""
    ends = [] if first is None or last is None else _times([first, last])
    return [(ends[0], ends[-1])] if ends else []


def windows_of(counts: Collected) -> Windows:
    """Return the windows of a batch's collected counts, as `windows` does."""
    starts = sorted(set(counts.rows[LOG_TIME].cast("int64").to_pylist()))
    return _each_window(starts) if len(starts) <= NAMED else windows_within(starts[0], starts[-1])


def _each_window(starts: Iterable[int]) -> Windows:
    return [(start, start) for start in _times(starts)]


def _times(micros: Iterable[int]) -> list[datetime]:
    """Return times in microseconds since 1970; none of them if one is outside the years 1 to 9999."""
    try:
        return [EPOCH + timedelta(microseconds=micro) for micro in micros]
    except OverflowError:
        return []


def _merges_as_spark(table: GoldTable, schema: StructType) -> bool:
    """Return True if DataFusion matches a table's keys and merges its values exactly as Spark does.

    It has no sketches, and it orders floats, lists, structs and binary values in another way.
    """
    if not all(measure.how.in_datafusion for measure in table.parsed):
        return False
    values, keys = [name for measure in table.parsed for name in measure.parts], [LOG_TIME, *table.by]
    return all(isinstance(schema[name].dataType, _SAME_ORDER) for name in values) and all(
        isinstance(schema[name].dataType, (*_SAME_ORDER, BooleanType)) for name in keys
    )


def _terms(silver: DataFrame, table: GoldTable, schema: StructType) -> DataFrame:
    rows = matching(silver, table)
    extremes = {
        name: measure for measure in table.parsed for name, part in measure.parts.items() if part.merge in _EXTREMES
    }
    texts = {**table.by, **{name: measure.expression for name, measure in extremes.items()}}
    unsure = {
        name: schema[name].dataType for name, text in texts.items() if _may_be_invalid(silver, text, schema[name])
    }
    keys = {name: column(text) for name, text in table.by.items()}
    terms = {**keys, **{name: term for measure in table.parsed for name, term in _measured(measure, schema)}}
    shown = {name: measure.name for name, measure in extremes.items()}
    marks = [
        is_invalid(column(texts[name]), kind).alias(f"{INVALID_PREFIX}{shown.get(name, name)}")
        for name, kind in unsure.items()
    ]
    # guard: gold-texts-valid
    values = [(valid(term, unsure[name]) if name in unsure else term).alias(name) for name, term in terms.items()]
    return rows.select(F.expr(table.window.sql).alias(LOG_TIME), *values, *marks)


def _may_be_invalid(silver: DataFrame, text: str, field: StructField) -> bool:
    """Return True if texts that an expression computes may have to be made valid."""
    if not has_text(field.dataType):
        return False
    plan = silver.select(column(text))._jdf.queryExecution().analyzed()
    return may_be_invalid(silver.sparkSession, plan.expressions().head())


def matching(silver: DataFrame, table: GoldTable) -> DataFrame:
    """Return the rows of silver that a gold table counts."""
    rows = by_value(silver)
    return rows if table.where is None else rows.where(column(table.where))


def by_value(silver: DataFrame) -> DataFrame:
    """Return silver's rows so that Spark judges floats by their values, not by the bounds of Parquet files.

    A file of delta-rs may have bounds that leave out a NaN. Spark pushes a filter down to them only if it compares a
    column itself.
    """
    floats = [field.name for field in silver.schema if isinstance(field.dataType, FLOATS)]
    opaque = {name: F.nanvl(quoted(name), F.lit(float("nan")).cast(silver.schema[name].dataType)) for name in floats}
    return silver.withColumns(opaque) if opaque else silver


def _measured(measure: Measure, schema: StructType) -> Iterator[tuple[str, Column]]:
    """Yield the columns of a measure's parts, and their terms."""
    value = column(measure.expression) if measure.argument else F.lit(1)
    for name, part in measure.parts.items():
        yield name, part.term(value, schema[name].dataType)
