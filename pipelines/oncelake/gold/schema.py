"""The contract of a gold table: the window's start, the keys, the measures, then the hidden sketches.

Types are chosen so that merging cannot wrap, round, or depend on the order of rows:

- A sum of integers is DECIMAL(38,0): it holds 10^19 rows of the largest bigint.
- A sum of DECIMAL(p,s) is DECIMAL(37,s): Spark types the sum of two DECIMAL(38,s) with one digit of
  the scale less, and would round it off at every merge; two DECIMAL(37,s) add up exactly.
- A sum of floats depends on the order of its terms, so a replay could differ: refused.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.common.errors import ConfigError
from oncelake.common.models import shown
from oncelake.gold.declaration import LOG_TIME, GoldTable, sketch_column
from oncelake.gold.expression import column
from oncelake.gold.measure import Measure

# One term of a sum: 28 digits leave ten for the number of rows in one batch.
TERM_DIGITS = 28
INTEGER_SUM = DecimalType(38, 0)
DECIMAL_SUM_DIGITS = 37

FLOATS = (FloatType, DoubleType)
_PLAIN = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, DecimalType),
    *(StringType, BinaryType, DateType, TimestampType),
)


def gold_schema(spark: SparkSession, table: GoldTable, silver_schema: StructType) -> StructType:
    """Give a gold table's columns and types: log_time, keys, measures, then one sketch per approx_distinct.

    Raises:
        ConfigError: an expression is of a type that cannot be a key or measured so; says the way out.
    """
    return schema_over(spark.createDataFrame([], silver_schema), table)


def schema_over(silver: DataFrame, table: GoldTable) -> StructType:
    """Give a gold table's columns and types over this silver; only analyses, reads no row."""
    keys = [_key(silver, name, text) for name, text in table.by.items()]
    measures = [_measure(silver, each) for each in table.parsed]
    sketches = [
        StructField(sketch_column(each), BinaryType(), metadata={"comment": f"HLL sketch of {each.name}, mergeable"})
        for each in table.parsed
        if each.function == "approx_distinct"
    ]
    window = StructField(LOG_TIME, TimestampType(), metadata={"comment": f"start of the window of {table.every}, UTC"})
    return StructType([window, *keys, *measures, *sketches])


def _key(silver: DataFrame, name: str, text: str) -> StructField:
    kind = _type_of(silver, text)
    if not (isinstance(kind, FLOATS) or _is_plain(kind)):
        raise ConfigError(
            f"by.{name}: {shown(text)} is of type {kind.simpleString()}; a key is a plain value "
            "(string, number, boolean, binary, date or timestamp): take a part of it or cast it to string"
        )
    return StructField(name, kind)


def _measure(silver: DataFrame, measure: Measure) -> StructField:
    if measure.function == "count":
        return StructField(measure.name, LongType())
    kind = _type_of(silver, measure.argument)
    made = _RULES[measure.function](kind)
    if isinstance(made, str):
        text = shown(f"{measure.function}({measure.argument})")
        raise ConfigError(f"measures.{measure.name}: {text} is over type {kind.simpleString()}; {made}")
    return StructField(measure.name, made)


def _sum(kind: DataType) -> DataType | str:
    if isinstance(kind, IntegralType):
        return INTEGER_SUM
    if isinstance(kind, FLOATS):
        return (
            "a sum of floats depends on the order of rows, so a replay could differ: "
            "write sum(try_cast(… AS DECIMAL(18,3)))"
        )
    if not isinstance(kind, DecimalType):
        return "a sum is over integers or decimals: write sum(try_cast(… AS BIGINT)) or … AS DECIMAL(18,3)"
    if kind.precision > TERM_DIGITS:
        return f"a sum takes decimals of up to {TERM_DIGITS} digits, so that it cannot overflow: cast to fewer"
    return DecimalType(DECIMAL_SUM_DIGITS, kind.scale)


def _extreme(kind: DataType) -> DataType | str:
    if isinstance(kind, FLOATS) or _is_orderable(kind):
        return kind
    return (
        "min and max are over values with one order: string, number, boolean, binary, date, timestamp, "
        "or an array or struct of these without floats"
    )


def _distinct(kind: DataType) -> DataType | str:
    if isinstance(kind, FLOATS) or _is_plain(kind):
        return LongType()
    return "approx_distinct is over plain values: take a part of it or cast it to string"


_RULES: Mapping[str, Callable[[DataType], DataType | str]] = {
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "approx_distinct": _distinct,
}


def _is_orderable(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_orderable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_orderable(field.dataType) for field in kind)
    return _is_plain(kind)


def _is_plain(kind: DataType) -> bool:
    """Tell whether equal values of this type are the same value, in every reader of the table."""
    if isinstance(kind, StringType):
        return kind == StringType()  # another collation calls different texts equal
    return type(kind) in _PLAIN


def _type_of(silver: DataFrame, text: str) -> DataType:
    return silver.select(column(text)).schema[0].dataType
