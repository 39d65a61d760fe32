"""Measures of a gold table: the types, aggregation and merge of each function, and why other functions are rejected.

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

A percentile is estimated from buckets, as a DDSketch does: bucket k counts the values v with w(k-1) < ln v <= wk. Each
of its values is within tanh(w/2) of 2/(e^-w + 1) e^(w(k-1)), which is shown, whatever the other values are. Counts add
up, so that no order of rows or batches changes a bit of them.
"""

import re
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

from oncelake.common.wording import did_you_mean
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


# The width of a bucket of logarithms: values are at most 0.995% from what is shown for them.
_WIDTH = 0.0199
_SHOWN_OF_UPPER = 0.9900503283452888
# The buckets: that of 1, by its number; those of infinity and NaN; values nearer to 0 than this are in that of 0.
_OF_ONE, _OF_INFINITY, _OF_NAN, _NEAREST = 40_000, 100_000, 100_001, 1e-300


def _numeric(kind: DataType) -> DataType | str:
    if isinstance(kind, (IntegralType, DecimalType, *FLOATS)):
        return DoubleType()
    return "a percentile needs numbers: write percentile(try_cast(… AS DOUBLE), p)"


def _bucket(value: Column, _: DataType) -> Column:
    """Return the number of a value's bucket; these are in the order of the values."""
    number = value.cast(DoubleType())
    size, sign = F.abs(number), F.signum(number).cast("int")
    place = F.lit(_OF_ONE) + F.ceil(F.log(size) / F.lit(_WIDTH)).cast("int")
    known = F.when(F.isnan(number), F.lit(_OF_NAN)).when(size == F.lit(float("inf")), sign * F.lit(_OF_INFINITY))
    return known.when(size < F.lit(_NEAREST), F.lit(0)).otherwise(sign * place)


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

# The first bucket with which at least the rank's share of all values is reached, and the value that is shown for it.
_OF_BUCKET = f"""CASE state.bucket WHEN 0 THEN 0D
    WHEN {_OF_INFINITY} THEN double('Infinity') WHEN -{_OF_INFINITY} THEN double('-Infinity')
    WHEN {_OF_NAN} THEN double('NaN')
    ELSE signum(state.bucket) * least(
        exp((abs(state.bucket) - {_OF_ONE}) * {_WIDTH}D) * {_SHOWN_OF_UPPER}D, 1.7976931348623157E308D) END"""
_PERCENTILE = f"""aggregate(
    array_sort(map_entries({{0}})),
    named_struct(
        'rest', CAST(greatest(1, ceil(
            CAST({{extra}} AS DECIMAL(7,6)) * aggregate(map_values({{0}}), 0L, (total, lines) -> total + lines)
        )) AS BIGINT),
        'bucket', CAST(NULL AS INT)
    ),
    (state, entry) -> named_struct(
        'rest', state.rest - entry.value,
        'bucket', if(state.bucket IS NULL AND state.rest <= entry.value, entry.key, state.bucket)
    ),
    state -> {_OF_BUCKET}
)"""
_BUCKETS = Part(
    *("buckets", F.count, _bucket, "_buckets_"), lambda _: MapType(IntegerType(), LongType()), "values in {} by bucket"
)

_ORDERED = ("first", "last")


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
    "percentile": Function("percentile(x, p)", _numeric, (_BUCKETS,), _PERCENTILE, in_datafusion=False),
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

_DISTINCT = "exact distinct values of two batches do not add up; use approx_distinct(x)"
_QUANTILE = "it has another form; use percentile(x, 0.95)"
_TOP = "it is not exact over batches; declare x as a key in `by` and a count, and sort when reading, or read silver"
_FIRST = "it has another form; use first(x), by log_time, or first(x, order)"
_LAST = "it has another form; use last(x), by log_time, or last(x, order)"
_VARIANCE = "it is the square of another measure; use stddev(x)"
_MOMENTS = "it is not additive; declare sums of the products, and compute it when reading"
_LIST = "a list grows without bound and has no defined order; read silver for the values"
_COUNT_IF = "it is a count of lines; use count where CONDITION"

NOT_ADDITIVE: Mapping[str, str] = {
    **dict.fromkeys(("mean", "try_avg"), "it has another name; use avg(x)"),
    **dict.fromkeys(("count_distinct", "countdistinct", "distinct"), _DISTINCT),
    "approx_count_distinct": "its result keeps no sketch to merge with; use approx_distinct(x)",
    "median": "it has another form; use percentile(x, 0.5)",
    **dict.fromkeys(("percentile_approx", "approx_percentile", "percentile_cont", "percentile_disc"), _QUANTILE),
    **dict.fromkeys(("mode", "approx_top_k", "histogram_numeric"), _TOP),
    **dict.fromkeys(("first_value", "any_value", "min_by"), _FIRST),
    **dict.fromkeys(("last_value", "max_by"), _LAST),
    **dict.fromkeys(("std", "stddev_samp"), "it has another name; use stddev(x)"),
    **dict.fromkeys(("stddev_pop", "variance", "var_pop", "var_samp"), _VARIANCE),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "skewness", "kurtosis"), _MOMENTS),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg", "listagg", "string_agg"), _LIST),
    **dict.fromkeys(("count_if", "countif"), _COUNT_IF),
    "try_sum": "sum(x) cannot overflow here; use sum(x)",
}

_WHERE = re.compile(r"(?P<function>count|rate)\s+where\b(?P<condition>.*)", re.DOTALL | re.IGNORECASE)
_SHARE = re.compile(r"0|1|0?\.[0-9]{1,6}|1\.0{1,6}", re.ASCII)
_CALL = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<argument>.*)\))?", re.DOTALL | re.ASCII)
_QUOTED = re.compile(
    r"""(?<![A-Za-z0-9_])[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL
)


@dataclass(frozen=True)
class Measure:
    """One measure of a gold table.

    Attributes:
        name: its name.
        function: the function that it uses.
        argument: a Spark SQL expression over silver; empty for count.
        extra: what the function takes besides: the share of a percentile, the order of a first or last.
        kept_as: the measure of whose parts it is shown; None for its own.
    """

    name: str
    function: str
    argument: str = ""
    extra: str = ""
    kept_as: str | None = None

    @property
    def how(self) -> Function:
        """The function that the measure uses."""
        return FUNCTIONS[self.function]

    @property
    def expression(self) -> str:
        """The expression over silver that is aggregated; empty for count."""
        if self.function in _ORDERED:
            return f"named_struct('at', {self.extra or 'log_time'}, 'value', {self.argument})"
        return self.argument

    @property
    def text(self) -> str:
        """The measure as it is written."""
        function, where, _ = self.function.partition(" where")
        if where:
            return f"{self.function} {self.argument}"
        return f"{function}({', '.join(filter(None, (self.argument, self.extra)))})"

    @property
    def parts(self) -> Mapping[str, Part]:
        """The measure's parts by the names of their columns; a declared name begins with a letter, a hidden one not."""
        return {f"{part.prefix}{self.kept_as or self.name}": part for part in self.how.parts}

    def shown(self, *parts: str) -> str:
        """Return the SQL of what the measure shows, from the SQL of its parts."""
        return self.how.value.format(*parts, extra=self.extra) if self.how.value else parts[0]


def can_overflow(part: Part, kind: DataType) -> bool:
    """Return True if a part's type holds only some billions of its largest terms: a sum of decimals."""
    return part.merge == "sum" and kind != _INTEGER_SUM


def parse_measure(name: str, text: str) -> Measure:
    """Parse a measure such as `max(log_time)`.

    Raises:
        ValueError: it is not an accepted measure; the message lists those that are, or says why this one is not.
    """
    where = _WHERE.fullmatch(text.strip())
    if where is not None:
        function = f"{where['function'].lower()} where"
        if not where["condition"].strip():
            raise ValueError(f"a condition over silver is needed: {FUNCTIONS[function].form}")
        return Measure(name, function, where["condition"].strip())
    call = _CALL.fullmatch(text.strip())
    if call is None:
        raise ValueError(f"a measure is one of {ACCEPTED}, where x is an expression over silver")
    function, argument = call["name"].lower(), call["argument"]
    _check_function(function)
    if argument is not None and re.match(r"\s*distinct\b", argument, re.IGNORECASE):
        raise ValueError(f"{function}(distinct …) is refused: {_DISTINCT}")
    if function == "percentile":
        value, _, extra = (argument or "").rpartition(",")
        if not _SHARE.fullmatch(extra.strip()):
            raise ValueError("percentile needs a number from 0 to 1 with up to 6 digits, such as percentile(x, 0.95)")
        return Measure(name, function, _argument(function, value), extra.strip())
    if function in _ORDERED:
        value, order = _split(argument or "")
        return Measure(name, function, _argument(function, value), order)
    if function != "count":
        return Measure(name, function, _argument(function, argument or ""))
    if argument is not None:
        raise ValueError(
            "count counts lines and is written without parentheses; to count lines where x is not null, "
            "declare count where x IS NOT NULL"
        )
    return Measure(name, function)


def _check_function(function: str) -> None:
    if function in NOT_ADDITIVE:
        raise ValueError(f"{function} is refused: {NOT_ADDITIVE[function]}")
    if function not in FUNCTIONS:
        raise ValueError(f"there is no measure {function}; use one of {ACCEPTED}{did_you_mean(function, FUNCTIONS)}")


def _argument(function: str, text: str) -> str:
    argument = text.strip()
    if not argument:
        raise ValueError(f"{function} needs one expression over silver: {FUNCTIONS[function].form}")
    _check_one_expression(function, argument)
    return argument


def _split(text: str) -> tuple[str, str]:
    """Return two expressions that a comma separates; the second is empty if there is only one."""
    depth, hidden = 0, _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    for place, mark in enumerate(hidden):
        depth += (mark in "([") - (mark in ")]")
        if depth == 0 and mark == ",":
            order = _argument("first", text[place + 1 :])
            return text[:place], order
    return text, ""


def _check_one_expression(function: str, argument: str) -> None:
    """Raise ValueError for `a) + min(b`, which is two calls, and for `a, b`; quoted text is ignored."""
    depth = 0
    for mark in _QUOTED.sub("", argument):
        depth += (mark in "([") - (mark in ")]")
        if depth < 0 or (depth == 0 and mark == ",") or mark in "'\"`":
            break
    else:
        if depth == 0:
            return
    raise ValueError(
        f"a measure is one function around one expression, {FUNCTIONS[function].form}, with balanced parentheses"
    )
