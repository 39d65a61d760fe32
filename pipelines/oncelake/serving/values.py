"""One rule for the values that gold, the proof and every database share: which ones are held, equal, and in order.

A value is held if the database gives back the same value. Two values are equal if Python says so, and NaN equals NaN;
so 0.0 equals -0.0. The order is Spark's: NaN is larger than all numbers, decimals compare as numbers.

Sources: the ranges of MySQL's DATETIME and DATE; Python's datetime, which every driver uses; PostgreSQL's text without
U+0000; MySQL's and MariaDB's DOUBLE without NaN and infinity; SQLite, which stores NaN as NULL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import MAX_PREC, Context, Decimal, Inexact
from math import isnan
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, DoubleType, FloatType, StringType, TimestampType

from oncelake.gold.functions import OUT_OF_RANGE

# The name of SQLite's collation that compares decimals, which it stores as text, by their values.
DECIMALS = "oncelake_decimal"
# The name of SQLite's function that adds two of them; its own + makes floats of them.
ADDED = "oncelake_sum"
_EXACT = Context(prec=MAX_PREC, traps=[Inexact])
_DAY = 24 * 3600 * 1_000_000
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class ValueLimits:
    """The values that a sink can hold, where sinks differ.

    Attributes:
        first_year: the first year of a time or a date; the last one is 9999.
        nan: True if it holds NaN.
        infinity: True if it holds the infinities.
        nul: True if it holds the character U+0000 in text.
    """

    first_year: int = 1
    nan: bool = True
    infinity: bool = True
    nul: bool = True

    def refusals(self, column: Column, kind: DataType) -> list[tuple[Column, str]]:  # guard: values-fit-database
        """Return the conditions under which a value of a column is not held, each with the reason.

        Args:
            column: the values.
            kind: the type of the served column; a sum may be wider.
        """
        if isinstance(kind, (TimestampType, DateType)):
            days = [date(self.first_year, 1, 1).toordinal() - _EPOCH, date(9999, 12, 31).toordinal() - _EPOCH + 1]
            unit, at = (1, F.unix_date(column)) if isinstance(kind, DateType) else (_DAY, F.unix_micros(column))
            years = f"it is not within the years {self.first_year:04d} to 9999"
            return [((at < days[0] * unit) | (at >= days[1] * unit), years)]
        if isinstance(kind, (DoubleType, FloatType)):
            infinite = F.abs(column) == F.lit(float("inf"))
            specials = [(self.nan, F.isnan(column), "NaN"), (self.infinity, infinite, "infinity")]
            return [(condition, f"the database has no {what}") for is_held, condition, what in specials if not is_held]
        if isinstance(kind, DecimalType):
            fits = column.try_cast(kind).isNotNull()
            # guard: batch-sum-fits-column
            return [(column.isNotNull() & ~fits, out_of_range(f"decimal({kind.precision},{kind.scale})"))]
        if isinstance(kind, StringType) and not self.nul:
            return [(F.contains(column, F.lit("\0")), "the database has no character U+0000 in text")]
        return []


LIMITS = {
    "mysql": ValueLimits(1000, nan=False, infinity=False),
    "mariadb": ValueLimits(1000, nan=False, infinity=False),
    "postgresql": ValueLimits(nul=False),
    "sqlite": ValueLimits(nan=False),
}


def out_of_range(kind: str) -> str:
    """Return the reason why a sum is refused."""
    return f"it {OUT_OF_RANGE} {kind}"


def equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True if two rows have equal values."""
    return tuple(one) == tuple(other) or all(
        a == b or (_is_nan(a) and _is_nan(b)) for a, b in zip(one, other, strict=True)
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def exact_sum(one: Decimal, other: Decimal) -> Decimal:
    """Return the sum of two decimals with all of its digits."""
    return _EXACT.add(one, other)


def add_decimals(one: str | None, other: str | None) -> str | None:
    """Return the exact sum of two decimals, written as text; None if one of them is missing."""
    return None if one is None or other is None else format(exact_sum(Decimal(one), Decimal(other)), "f")


def compare_decimals(one: str, other: str) -> int:
    """Return -1, 0 or 1: how two decimals, written as text, compare as numbers."""
    first, second = Decimal(one), Decimal(other)
    return (first > second) - (first < second)
