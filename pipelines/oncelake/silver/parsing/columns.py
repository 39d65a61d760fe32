"""Typed columns of silver: their types, and how the text of a value is read.

A text is read exactly, or it is a misfit: nothing is cut off or rounded, except that a double has the precision of a
double. Only try_ functions are used, so no value can stop the stream.
"""

import re
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from oncelake.silver.parsing.times import is_near, time_of

_TYPES = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
FLOATS = (FloatType, DoubleType)
_OTHER_NAMES = {"integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_MAX_DIGITS = 38
_NUMBER = r"\A[+-]?+(?=\.?\d)\d*+(?:\.\d*+)?+(?:[eE][+-]?+\d++)?+\z"
# Two different decimal numbers of at most 15 digits are also different as doubles.
_DIGITS_OF_DOUBLE = 15
_MAX_DOUBLE = 1.7976931348623157e308
_DAY = r"\A\d{4}-\d\d-\d\d\z"
# The structs of the texts and of the values of a format's columns, before they are columns.
TEXTS, VALUES = "texts", "values"


def checked_type(name: str) -> str:
    """Return the name of a column's type as Spark spells it.

    Raises:
        ValueError: there is no such type.
    """
    spelling = name.strip().lower()
    spelling = _OTHER_NAMES.get(spelling, spelling)
    if spelling in _TYPES:
        return spelling
    if match := _DECIMAL.fullmatch(spelling):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= _MAX_DIGITS and scale <= precision:
            return f"decimal({precision},{scale})"
    cut = "; inside {} put it in quotes" if spelling.startswith("decimal(") and not spelling.endswith(")") else ""
    known = ", ".join(_TYPES)
    raise ValueError(f"must be one of {known} or decimal(p,s), with p at most {_MAX_DIGITS} and s at most p{cut}")


def type_of(name: str) -> DataType:
    """Return Spark's type for a name that `checked_type` returned."""
    match = _DECIMAL.fullmatch(name)
    return DecimalType(int(match[1]), int(match[2])) if match else _TYPES[name]


def has_exact_digits(kind: str) -> bool:
    """Return True if a type holds the digits of a fraction as they are written."""
    return isinstance(type_of(kind), DecimalType)


def text_of(name: str) -> Column:
    """Return the text of a column, of rows that were taken apart."""
    return F.col(TEXTS)[name]


def value_of(name: str) -> Column:
    """Return the value of a column, of rows whose columns were read."""
    return F.col(VALUES)[name]


def cleared(text: Column, kind: str, nulls: Sequence[str]) -> Column:
    """Return a column's text without spaces around it; null if it means that there is no value.

    Args:
        text: the text.
        kind: the column's type.
        nulls: the texts that mean that there is no value.
    """
    if kind != "string":
        text = F.nullif(F.trim(text), F.lit(""))
    return F.when(~text.isin(list(nulls)), text) if nulls else text


def read_value(text: Column, kind: str, times: tuple[str, ...], zone: str) -> Column:
    """Read a text as a value of a type; null if it does not fit.

    Args:
        text: the text, without spaces around it unless the type is string.
        kind: the type's name.
        times: for a timestamp, the time patterns; the first one that fits is used.
        zone: the zone of times without one.
    """
    if kind == "string":
        return text
    if kind == "timestamp":
        return time_of(text, times, zone)
    if kind == "double":
        value = F.when(text.rlike(_NUMBER), text).try_cast(kind)
        return one_zero(F.when(F.abs(value) <= _MAX_DOUBLE, value), DoubleType())
    if kind == "date":
        return F.when(text.rlike(_DAY), text).try_cast(kind)
    data_type = type_of(kind)
    return _decimal(text, data_type) if isinstance(data_type, DecimalType) else text.try_cast(kind)


def one_zero(value: Column, kind: DataType) -> Column:
    """Return a float with 0.0 for -0.0; another value as it is.

    The two are equal. But Spark, looking for one of them, passes over a Parquet file that has only the other; and the
    order of rows would decide which of them is an extreme.
    """
    return F.when(value == F.lit(0), F.lit(0).cast(kind)).otherwise(value) if isinstance(kind, FLOATS) else value


def _decimal(text: Column, decimal_type: DecimalType) -> Column:
    """Read a decimal of no more digits than its type has.

    A number with an exponent may have as many digits as a double tells apart: then a double shows whether reading it
    has rounded it.
    """
    plain = rf"\A[+-]?+(?=\.?\d)\d*+(?:\.\d{{0,{decimal_type.scale}}}0*+)?+\z"
    power = rf"\A[+-]?+(?=(?:\.?\d){{1,{_DIGITS_OF_DOUBLE}}}\.?[eE])[\d.]++[eE][+-]?+0*+\d{{1,2}}\z"
    value = F.when(is_near(text), text).try_cast(decimal_type)
    same = text.rlike(power) & (value.cast("double") == text.try_cast("double"))
    return F.when(text.rlike(plain) | same, value)  # guard: exact-decimal
