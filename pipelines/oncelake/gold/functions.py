"""The functions that measures use: the types, aggregation and merge of each, and what it shows.

A measure must be additive: a batch's value is computed from the batch's rows alone, then merged with the table's
value. So neither a replayed nor a late batch has to read old rows again.

Types are chosen so that merging cannot wrap, round, or depend on the order of rows:

- A sum of integers is DECIMAL(38,0): it holds 10^19 rows of the largest bigint, more than a count can count.
- A sum of DECIMAL(p,s) is DECIMAL(37,s): Spark gives the sum of two DECIMAL(38,s) one digit of scale
  less, and would round at every merge; two DECIMAL(37,s) add up exactly. It holds a billion rows of the largest
  DECIMAL(28,s). A sum beyond that is an error of gold, and a refused row of a served table: never null, which would
  be no value.
- A sum of floats depends on the order of its terms, so a replay could differ: it is rejected.

What a measure shows may be computed from other values, which do merge so and are in hidden columns of the table: its
parts. A rate is shown from two counts.

Floats are ordered and compared as Spark does, here, in gold, and in the recount of a proof: NaN equals NaN and is above
all numbers, -0.0 is 0.0, null equals null as a key and is no value in a measure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.gold.buckets import PERCENTILE, bucket_of
from oncelake.silver.parsing.columns import FLOATS, one_zero

# How a batch's value is merged with the table's value. A null means no value; a count is never null and never below 0.
Merge = Literal["count", "sum", "least", "greatest", "sketch", "buckets"]
# The digits of one term of a sum: 28 leave ten for the number of rows in one batch.
TERM_DIGITS = 28
_INTEGER_SUM = DecimalType(38, 0)
DECIMAL_SUM_DIGITS = 37
# The digits of the sum of a batch's terms, which Spark adds up before it is merged.
BATCH_SUM_DIGITS = 38
# The digits of a value of stddev, before and after the point: decimals of 38 digits hold what is computed from the sum
# of a billion squares, exactly.
_WHOLE, _SCALE = 11, 3
_FLOAT_SUM = "a sum of floats depends on the order of rows, so a replay could differ"
# How a sum is refused that has more digits than its type.
OUT_OF_RANGE = "is not within the range of"
_PLAIN = (IntegralType, DecimalType, BooleanType, BinaryType, DateType, TimestampType)


def is_plain(kind: DataType) -> bool:
    """Return True if values of a type can be keys: each is one value, the same in every reader of the table."""
    return isinstance(kind, FLOATS) or _is_exact(kind)


def _is_exact(kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return kind == StringType()  # other collations treat different texts as equal
    return isinstance(kind, _PLAIN)


def _is_orderable(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_orderable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_orderable(field.dataType) for field in kind)
    return _is_exact(kind)


def _sum(kind: DataType, function: str = "sum") -> DataType | str:
    if isinstance(kind, IntegralType):
        return _INTEGER_SUM
    if isinstance(kind, FLOATS):
        return f"{_FLOAT_SUM}: write {function}(try_cast(… AS DECIMAL(18,3)))"
    if not isinstance(kind, DecimalType):
        return f"a sum needs integers or decimals: write {function}(try_cast(… AS BIGINT)) or … AS DECIMAL(18,3)"
    if kind.precision > TERM_DIGITS:
        return f"a sum accepts decimals of up to {TERM_DIGITS} digits, so that it cannot overflow: cast to fewer"
    return DecimalType(DECIMAL_SUM_DIGITS, kind.scale)


def _sum_type(kind: DataType) -> DataType:
    """Return the type of the sum of values, which are known to have one."""
    sum_type = _sum(kind)
    assert not isinstance(sum_type, str)
    return sum_type


def _mean(kind: DataType) -> DataType | str:
    sum_type = _sum(kind, "avg")
    return sum_type if isinstance(sum_type, str) else DoubleType()


def _deviation(kind: DataType) -> DataType | str:
    if isinstance(kind, DecimalType) and kind.scale <= _SCALE and kind.precision - kind.scale <= _WHOLE:
        return DoubleType()
    if isinstance(kind, IntegralType) and not isinstance(kind, LongType):
        return DoubleType()
    why = _FLOAT_SUM if isinstance(kind, FLOATS) else "squares need room"
    return f"{why}: write stddev(try_cast(… AS DECIMAL({_WHOLE + _SCALE},{_SCALE}))), or fewer digits"


def _extreme(kind: DataType) -> DataType | str:
    if isinstance(kind, FLOATS) or _is_orderable(kind):
        return kind
    return (
        "min and max need values with one order: string, number, boolean, binary, date, timestamp, "
        "or an array or struct of these without floats"
    )


def _distinct(kind: DataType) -> DataType | str:
    return LongType() if is_plain(kind) else "approx_distinct needs plain values: use a part of it or cast it to string"


def _ordered(kind: DataType) -> DataType | str:
    assert isinstance(kind, StructType)
    order, value = (field.dataType for field in kind)
    if not isinstance(order, (IntegralType, DecimalType, DateType, TimestampType)):
        return "its order must be a time, a date, an integer or a decimal"
    return value if is_plain(value) else "first and last need plain values: use a part of it or cast it to string"


def _with_order(value: Column, kind: DataType) -> Column:
    """Return the order and the value of a row, if it has both; of equal orders, the value decides."""
    assert isinstance(kind, StructType)
    order, plain = value.getField("at"), value.getField("value")
    pair = F.struct(order.alias("at"), one_zero(plain, kind["value"].dataType).alias("value"))
    return F.when(order.isNotNull() & plain.isNotNull(), pair)


def _summand(value: Column, sum_type: DataType) -> Column:
    assert isinstance(sum_type, DecimalType)
    return value.cast(DecimalType(TERM_DIGITS, sum_type.scale))


def _hashed(value: Column, _: DataType) -> Column:
    """Return a value's hash: the sketch accepts few types, and treats an empty string as no value."""
    return F.when(value.isNotNull(), F.xxhash64(value))


def _condition(result: DataType) -> Callable[[DataType], DataType | str]:
    """Return the function from the type of a condition to the type of its measure."""
    return lambda kind: result if isinstance(kind, BooleanType) else "where needs a condition, such as level = 'ERROR'"


@dataclass(frozen=True)
class Part:
    """One value that a table keeps of a measure: a batch's is merged with the table's.

    Attributes:
        merge: how a batch's value is merged with the table's.
        aggregate: combines the terms of a batch into one value; of buckets, those of one bucket.
        term: turns a row's value into the term to aggregate, given the part's type.
        prefix: the prefix of its hidden column's name; empty if it is what the measure shows.
        kind: its type over values of a type, if it is hidden.
        comment: its column's comment, with the measure's name.
    """

    merge: Merge
    aggregate: Callable[[Column], Column]
    term: Callable[[Column, DataType], Column] = lambda value, _: value
    prefix: str = ""
    kind: Callable[[DataType], DataType] | None = None
    comment: str = ""


@dataclass(frozen=True)
class Function:
    """A function that a measure can use.

    Attributes:
        form: how it is written in a declaration.
        over: returns the measure's type for values of a type; if there is none, a text with the reason and what to
            write.
        parts: what the table keeps of it.
        value: what it shows, as SQL over the columns of its parts, if these are hidden.
        never_null: True if it has a value in every row.
        in_datafusion: True if DataFusion computes the same value from the parts as Spark does.
    """

    form: str
    over: Callable[[DataType], DataType | str]
    parts: tuple[Part, ...]
    value: str = ""
    never_null: bool = False
    in_datafusion: bool = True

    @property
    def merge(self) -> Merge | None:
        """The merge of what it shows; None if that is computed from hidden parts."""
        return None if self.value else self.parts[0].merge


def _square(value: Column, _: DataType) -> Column:
    narrow = value.cast(DecimalType(_WHOLE + _SCALE, _SCALE))
    return (narrow * narrow).cast(DecimalType(TERM_DIGITS, 2 * _SCALE))


def _numeric(kind: DataType) -> DataType | str:
    if isinstance(kind, (IntegralType, DecimalType, *FLOATS)):
        return DoubleType()
    return "a percentile needs numbers: write percentile(try_cast(… AS DOUBLE), p)"


def _long(_: DataType) -> DataType:
    return LongType()


# A sketch that saw rows one by one estimates by their order (HIP). Its union with itself forgets the order, so the
# estimate depends only on the set of values.
_ESTIMATE = "hll_sketch_estimate(hll_union({0}, {0}))"
_SKETCH = Part("sketch", F.hll_sketch_agg, _hashed, "_sketch_", lambda _: BinaryType(), "HLL sketch of {}, mergeable")
_MET = Part("count", F.count, lambda value, _: F.when(value, 1))

_VALUES = Part("count", F.count, lambda value, _: value, "_count_", _long, "values in {}")

# Text of a decimal is exact, and every engine reads it as the nearest double; DataFusion's own cast is not the nearest.
_AVERAGE = "CAST(CAST({0} AS STRING) AS DOUBLE) / CAST(nullif({1}, 0) AS DOUBLE)"

# The count n, the sum and the sum of squares give Σ(x - m)² without a rounding for any m of few digits. With the m that
# is nearest to the mean, what is then taken off for m not being the mean is at most half of it: no digits cancel out.
_N, _SUM, _SQUARES = "CAST({0} AS DECIMAL(20,0))", "CAST({1} AS DECIMAL(37,3))", "CAST({2} AS DECIMAL(37,6))"
_NEAR = f"CAST(round({_SUM} / nullif({_N}, 0), {_SCALE}) AS DECIMAL(15,3))"
_OFF = f"({_SUM} - {_NEAR} * {_N})"
_AROUND = f"CAST({_SQUARES} - {_NEAR} * {_SUM} - {_NEAR} * {_OFF} AS DOUBLE)"
_SPREAD = (
    f"sqrt(({_AROUND} - CAST({_OFF} AS DOUBLE) * CAST({_OFF} AS DOUBLE) / CAST(nullif({{0}}, 0) AS DOUBLE))"
    " / CAST(nullif({0} - 1, 0) AS DOUBLE))"
)

_BUCKETS = Part(
    *("buckets", F.count, bucket_of, "_buckets_"),
    lambda _: MapType(IntegerType(), LongType()),
    "values in {} by bucket",
)

ORDERED = ("first", "last")


def _nullable(kind: DataType) -> DataType:
    assert isinstance(kind, StructType)
    return StructType([StructField(field.name, field.dataType) for field in kind])


def _pair(merge: Merge, aggregate: Callable[[Column], Column], prefix: str) -> Part:
    """Return the part of a first or last: the order, and the value in that place."""
    return Part(merge, aggregate, _with_order, prefix, _nullable, "value of {}, and its place in the order")


FUNCTIONS: Mapping[str, Function] = {
    "count": Function("count", _long, (Part("count", F.count),), never_null=True),
    "count where": Function("count where CONDITION", _condition(LongType()), (_MET,), never_null=True),
    "rate where": Function(
        "rate where CONDITION",
        _condition(DoubleType()),
        (
            replace(_MET, prefix="_count_", kind=_long, comment="lines that {} counts"),
            Part("count", F.count, lambda *_: F.lit(1), "_lines_", _long, "all lines of {}"),
        ),
        "CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE)",
        never_null=True,
    ),
    "sum": Function("sum(x)", _sum, (Part("sum", F.sum, _summand),)),
    "avg": Function(
        "avg(x)", _mean, (Part("sum", F.sum, _summand, "_sum_", _sum_type, "sum of {}"), _VALUES), _AVERAGE
    ),
    "stddev": Function(
        "stddev(x)",
        _deviation,
        (
            _VALUES,
            Part("sum", F.sum, _summand, "_sum_", lambda _: DecimalType(DECIMAL_SUM_DIGITS, _SCALE), "sum of {}"),
            Part(
                *("sum", F.sum, _square, "_squares_"),
                lambda _: DecimalType(DECIMAL_SUM_DIGITS, 2 * _SCALE),
                "sum of squares of {}",
            ),
        ),
        _SPREAD,
        in_datafusion=False,
    ),
    "percentile": Function("percentile(x, p)", _numeric, (_BUCKETS,), PERCENTILE, in_datafusion=False),
    "first": Function(
        "first(x, order)", _ordered, (_pair("least", F.min, "_first_"),), "{0}.value", in_datafusion=False
    ),
    "last": Function(
        "last(x, order)", _ordered, (_pair("greatest", F.max, "_last_"),), "{0}.value", in_datafusion=False
    ),
    "min": Function("min(x)", _extreme, (Part("least", F.min, one_zero),)),
    "max": Function("max(x)", _extreme, (Part("greatest", F.max, one_zero),)),
    "approx_distinct": Function(
        "approx_distinct(x)", _distinct, (_SKETCH,), _ESTIMATE, never_null=True, in_datafusion=False
    ),
}
ACCEPTED = ", ".join(function.form for function in FUNCTIONS.values())


def can_overflow(part: Part, kind: DataType) -> bool:
    """Return True if a part's type holds only some billions of its largest terms: a sum of decimals."""
    return part.merge == "sum" and kind != _INTEGER_SUM
