"""This is where a gold table is counted again from silver, and held against what it says."""

from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, DateType, NumericType, StructField, StructType, TimestampType

from oncelake.common.lake import SILVER
from oncelake.common.models import shown
from oncelake.common.tables import read_version
from oncelake.exactly_once.ledger import Ledger
from oncelake.exactly_once.positions import TablePosition
from oncelake.gold.declaration import LOG_TIME, GoldTable, quoted
from oncelake.gold.transform import aggregate
from oncelake.proof.link import HANDFUL, Link, listed
from oncelake.proof.span import Span
from oncelake.proof.windows import touched

_SIDES = ("gold", "silver")
# Types whose text cannot come from a log.
_BARE = (NumericType, BooleanType, TimestampType, DateType)


def recount(spark: SparkSession, silver_path: str, log: Ledger, gold: Span, declared: GoldTable) -> Link:
    """Prove that a gold table is what its declaration gives of the silver that it has read.

    Every row and every measure are compared: all, or those of the windows to which the span's batches added
    a line. A measure that is estimated is compared by its estimate.

    Args:
        spark: the session.
        silver_path: where silver is.
        log: its log.
        gold: the gold table's.
        declared: what the table is declared as.
    """
    name = f"{SILVER} → {gold.table}"
    end = TablePosition.parse(gold.end)
    rows = read_version(spark, gold.path, gold.version)
    if end is None:  # no batch yet: the table must be empty
        count = rows.count()
        said = f"{count:,} rows, and no batch that wrote them" if count else "no batch yet, no row"
        return Link(name, str(gold.table), not count, said)
    silver = read_version(spark, silver_path, end.version - 1)
    chosen = touched(log, silver, gold, declared)
    if chosen is not None:
        rows, silver = rows.where(chosen), silver.where(chosen)
    both = _beside(rows, aggregate(silver, _with_lines(declared)), declared)
    differs = _differs(declared)
    counts = both.agg(F.count("*"), F.coalesce(F.sum(_lines(declared)), F.lit(0)), F.count_if(differs)).first()
    assert counts is not None
    if counts[2]:
        return Link(name, str(gold.table), holds=False, said=_differences(both.where(differs), declared, counts[2]))
    which = "" if chosen is None else " of the windows that were added to"
    return Link(
        name, str(gold.table), holds=True, said=f"{counts[0]:,} rows{which} = {counts[1]:,} lines counted again"
    )


def _lines(declared: GoldTable) -> str:
    """Name the count of lines, which no table needs to declare, as no measure or key is named."""
    taken = {*declared.by, *declared.measures}
    return next(name for name in (f"lines{'_' * more}" for more in range(len(taken) + 1)) if name not in taken)


def _with_lines(declared: GoldTable) -> GoldTable:
    return declared.model_copy(update={"measures": {**declared.measures, _lines(declared): "count"}})


def _beside(gold: DataFrame, silver: DataFrame, declared: GoldTable) -> DataFrame:
    """Put the rows of both sides beside each other by window and keys; a null key equals a null key."""
    lines = _lines(declared)
    keys = [quoted(each) for each in (LOG_TIME, *declared.by)]
    values = F.struct(*(F.col(quoted(each)) for each in declared.measures)).alias("_values")
    sides = {"gold": gold.withColumn(lines, F.lit(0)), "silver": silver}
    each = [
        frame.select(*keys, quoted(lines), *(F.lit(int(side == name)).alias(f"_{side}") for side in _SIDES), values)
        for name, frame in sides.items()
    ]
    counts = [F.sum(name).alias(name) for name in (lines, *(f"_{side}" for side in _SIDES))]
    measures = [F.max(F.when(F.col(f"_{side}") == 1, F.col("_values"))).alias(f"_{side}_values") for side in _SIDES]
    return reduce(DataFrame.unionByName, each).groupBy(*keys).agg(*counts, *measures)


def _differs(declared: GoldTable) -> Column:
    once = (F.col("_gold") == 1) & (F.col("_silver") == 1)
    equal = [
        F.col(f"_gold_values.{quoted(each)}").eqNullSafe(F.col(f"_silver_values.{quoted(each)}"))
        for each in declared.measures
    ]
    return ~reduce(Column.__and__, equal, once)


def _differences(rows: DataFrame, declared: GoldTable, total: int) -> str:
    """Say how the first rows differ; what comes from a log is shortened and escaped."""
    first = rows.orderBy(*(quoted(each) for each in (LOG_TIME, *declared.by))).limit(HANDFUL)
    bare = [field.name for field in _fields(first, declared) if isinstance(field.dataType, _BARE)]
    texts = [_text(F.col(quoted(name)), first.schema[name]) for name in (LOG_TIME, *declared.by)]
    for side in _SIDES:
        values = [_text(F.col(f"_{side}_values.{quoted(each.name)}"), each) for each in _fields(first, declared)]
        texts.append(F.when(F.col(f"_{side}") > 0, F.struct(*values)).alias(f"_{side}_text"))
    found = first.select(*texts, F.col("_gold").alias("_times"), F.col(quoted(_lines(declared))).alias("_lines"))
    said = [_difference(row, declared, bare) for row in found.collect()]
    return listed(said, total, separator="; ")


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
        return f"{where}: is there {row['_times']:,} times"
    if silver is None:
        return f"{where}: is in gold, silver has no such line"
    if gold is None:
        return f"{where}: is missing in gold, silver has {row['_lines']:,} lines"
    return f"{where}: " + ", ".join(
        f"{name} is {_shown(gold[name], bare=name in bare)}, silver has {_shown(silver[name], bare=name in bare)}"
        for name in declared.measures
        if gold[name] != silver[name]
    )


def _shown(text: str | None, *, bare: bool = False) -> str:
    if text is None:
        return "null"
    return text if bare else shown(text)
