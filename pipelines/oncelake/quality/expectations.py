"""This is where an expectation about rows becomes a Spark expression that tells which rows break it.

Each class stands for the expectation of Great Expectations that has its name, with that one's arguments, and gives
that one's verdict on Spark: a null is no value and breaks nothing, a comparison that gives null breaks nothing.
Source: great_expectations 1.24, `expectations/metrics/column_map_metrics` and `column_pair_map_metrics`.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import reduce
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

import pyspark.sql.types as spark_types
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StringType

from oncelake.common.models import Strict
from oncelake.quality.strftime import check_strftime, parses

Scalar = int | float | str
# Gives a column of the row by the name that a suite has for it.
Row = Callable[[str], Column]
Types = Mapping[str, DataType]


class RowExpectation(Strict):
    """An expectation that can be judged by one row alone.

    Attributes:
        mostly: the share of rows that must meet it, for the gate and the audit; no matter of a single row.
    """

    mostly: float | None = Field(None, ge=0, le=1, exclude=True)

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""

    @abstractmethod
    def judged(self, row: Row) -> Column:
        """Tell whether the row is judged at all; a null mostly is not."""

    @abstractmethod
    def expected(self, row: Row) -> Column:
        """Tell whether a judged row meets it; may be null."""

    def broken(self, row: Row) -> Column:
        """Tell whether the row breaks it; never null."""
        return F.coalesce(self.judged(row) & ~self.expected(row), F.lit(False))

    def check(self, types: Types) -> None:
        """Look whether it fits the types of its columns.

        Raises:
            ValueError: it does not; says why.
        """

    def patterns(self) -> tuple[str, ...]:
        """Give the regular expressions in it."""
        return ()


class ColumnExpectation(RowExpectation):
    """An expectation about one column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def judged(self, row: Row) -> Column:
        """Leave nulls out."""
        return row(self.column).isNotNull()

    def expected(self, row: Row) -> Column:
        """Judge the column's value."""
        return self.meets(row(self.column))

    @abstractmethod
    def meets(self, value: Column) -> Column:
        """Tell whether a value is as expected."""


class NotNull(ColumnExpectation):
    """expect_column_values_to_not_be_null."""

    def judged(self, row: Row) -> Column:
        """Judge every row."""
        return F.lit(True)

    def meets(self, value: Column) -> Column:
        """Take any value."""
        return value.isNotNull()


class Null(NotNull):
    """expect_column_values_to_be_null."""

    def meets(self, value: Column) -> Column:
        """Take no value."""
        return value.isNull()


class InSet(ColumnExpectation):
    """expect_column_values_to_be_in_set."""

    value_set: tuple[Scalar, ...] | None

    def meets(self, value: Column) -> Column:
        """Take what is in the set."""
        return F.lit(True) if self.value_set is None else value.isin(list(self.value_set))


class NotInSet(ColumnExpectation):
    """expect_column_values_to_not_be_in_set."""

    value_set: tuple[Scalar, ...]

    def meets(self, value: Column) -> Column:
        """Take what is not in the set."""
        return ~value.isin(list(self.value_set))


class MatchRegex(ColumnExpectation):
    """expect_column_values_to_match_regex: found anywhere in the value, as Java understands it."""

    regex: str

    def meets(self, value: Column) -> Column:
        """Take what the regular expression is found in."""
        return value.rlike(self.regex)

    def patterns(self) -> tuple[str, ...]:
        """Give the one."""
        return (self.regex,)


class NotMatchRegex(MatchRegex):
    """expect_column_values_to_not_match_regex."""

    def meets(self, value: Column) -> Column:
        """Take what the regular expression is not found in."""
        return ~value.rlike(self.regex)


class MatchRegexList(ColumnExpectation):
    """expect_column_values_to_match_regex_list."""

    regex_list: tuple[str, ...] = Field(min_length=1)
    match_on: Literal["any", "all"] = "any"

    def meets(self, value: Column) -> Column:
        """Take what one of them is found in, or all are."""
        if self.match_on == "any":
            return value.rlike("|".join(self.regex_list))
        return reduce(lambda one, other: one & other, (value.rlike(each) for each in self.regex_list))

    def patterns(self) -> tuple[str, ...]:
        """Give them as they are used."""
        return ("|".join(self.regex_list),) if self.match_on == "any" else self.regex_list


def _bound(given: Any) -> Any:
    """Read a bound as Great Expectations does: a number, also as text, or a date, or a date and time, in UTC."""
    if not isinstance(given, str):
        return given
    with suppress(ValueError):
        return float(given)
    with suppress(ValueError):
        if _DATE.fullmatch(given):
            return date.fromisoformat(given)
        if _DATE.match(given):
            at = datetime.fromisoformat(given)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
    raise ValueError("is neither a number nor a date or time such as 2026-01-31 or 2026-01-31 08:00:00")


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
Bound = Annotated[float | date | datetime, BeforeValidator(_bound)]


B = TypeVar("B")


class Bounded(Strict, Generic[B]):
    """Two bounds, each part of what is taken unless it is strict; one of them is required."""

    min_value: B | None = None
    max_value: B | None = None
    strict_min: bool = False
    strict_max: bool = False

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min_value is None and self.max_value is None:
            raise ValueError("one of min_value and max_value is required")
        return self


class BoundedColumn(ColumnExpectation, Bounded[B], Generic[B]):
    """An expectation about where a column's values are between two bounds of one kind, in their order."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        bounds: tuple[Any, Any] = self.min_value, self.max_value
        low, high = bounds
        if low is not None and high is not None:
            if _kind(low) != _kind(high):
                raise ValueError(f"min_value is {_kind(low)} and max_value {_kind(high)}; give two of one kind")
            if low > high:
                raise ValueError(f"min_value {low} is above max_value {high}")
        return self

    def within(self, value: Column) -> Column:
        """Tell whether a value is between the bounds."""
        held = []
        if self.min_value is not None:
            low = F.lit(self.min_value)
            held.append(value > low if self.strict_min else value >= low)
        if self.max_value is not None:
            high = F.lit(self.max_value)
            held.append(value < high if self.strict_max else value <= high)
        return reduce(lambda one, other: one & other, held)


class Between(BoundedColumn[Bound]):
    """expect_column_values_to_be_between: numbers, dates, or times (UTC unless they name a zone)."""

    def meets(self, value: Column) -> Column:
        """Take what is between the bounds; Spark puts NaN above all numbers."""
        return self.within(value)

    def check(self, types: Types) -> None:
        """Refuse to hold a text against a bound, as Great Expectations does."""
        bound = self.max_value if self.min_value is None else self.min_value
        if isinstance(types[self.column], (StringType, BooleanType)):
            raise ValueError(f"{self.column} is no number and no time, and is to be compared with {bound}")


class LengthBetween(BoundedColumn[int]):
    """expect_column_value_lengths_to_be_between: in characters."""

    def meets(self, value: Column) -> Column:
        """Take what is of such a length."""
        return self._surely().within(F.octet_length(value)) | self.within(F.length(value))

    def _surely(self) -> Self:
        """Give the bounds on bytes within which no character need be counted: one has one to four of them."""
        return self.model_copy(update={"min_value": None if self.min_value is None else 4 * self.min_value})


class LengthEqual(ColumnExpectation):
    """expect_column_value_lengths_to_equal: in characters."""

    value: int

    def meets(self, value: Column) -> Column:
        """Take what is of that length."""
        return F.length(value) == F.lit(self.value)


class MatchStrftime(ColumnExpectation):
    """expect_column_values_to_match_strftime_format: Python's strptime reads it."""

    strftime_format: str

    @field_validator("strftime_format")
    @classmethod
    def _known(cls, given: str) -> str:
        check_strftime(given)
        return given

    def meets(self, value: Column) -> Column:
        """Take what can be read."""
        return parses(value, self.strftime_format)

    def check(self, types: Types) -> None:
        """Refuse what is no text."""
        if not isinstance(types[self.column], StringType):
            raise ValueError(f"{self.column} is no text, only a text can be read by strftime_format")


class PairExpectation(RowExpectation):
    """An expectation about two columns of a row."""

    column_A: str  # noqa: N815 - the library's name
    column_B: str  # noqa: N815
    ignore_row_if: Literal["both_values_are_missing", "either_value_is_missing", "neither"] = "both_values_are_missing"

    @property
    def columns(self) -> tuple[str, ...]:
        """Both."""
        return self.column_A, self.column_B

    def judged(self, row: Row) -> Column:
        """Leave out rows as ignore_row_if says."""
        nulls = row(self.column_A).isNull(), row(self.column_B).isNull()
        if self.ignore_row_if == "neither":
            return F.lit(True)
        return ~(nulls[0] & nulls[1]) if self.ignore_row_if == "both_values_are_missing" else ~(nulls[0] | nulls[1])

    def expected(self, row: Row) -> Column:
        """Judge the two values."""
        return self.meets(row(self.column_A), row(self.column_B))

    @abstractmethod
    def meets(self, one: Column, other: Column) -> Column:
        """Tell whether two values are as expected."""


class PairEqual(PairExpectation):
    """expect_column_pair_values_to_be_equal."""

    def meets(self, one: Column, other: Column) -> Column:
        """Take what is the same."""
        return one.eqNullSafe(other)


class PairGreater(PairExpectation):
    """expect_column_pair_values_a_to_be_greater_than_b."""

    or_equal: bool | None = None

    def meets(self, one: Column, other: Column) -> Column:
        """Take what is greater, or as great."""
        return (one >= other) | one.eqNullSafe(other) if self.or_equal else one > other


class PairInSet(PairExpectation):
    """expect_column_pair_values_to_be_in_set."""

    value_pairs_set: tuple[tuple[Scalar | None, Scalar | None], ...] = Field(min_length=1)

    def meets(self, one: Column, other: Column) -> Column:
        """Take the pairs that are listed."""
        pairs = [one.eqNullSafe(F.lit(a)) & other.eqNullSafe(F.lit(b)) for a, b in self.value_pairs_set]
        return reduce(lambda some, more: some | more, pairs)


class OfType(ColumnExpectation):
    """expect_column_values_to_be_of_type: the column's own type, by its class in pyspark.sql.types."""

    type_: str

    @property
    def wanted(self) -> tuple[str, ...]:
        """The types that are taken."""
        return (self.type_,)

    def meets(self, value: Column) -> Column:
        """Take every value: `check` has refused the rule where the column's type is another."""
        return F.lit(True)

    def check(self, types: Types) -> None:
        """Refuse a column of another type: every row would break the rule."""
        known = [found for name in self.wanted if (found := getattr(spark_types, name, None)) is not None]
        if not isinstance(types[self.column], tuple(known)):
            wanted = ", ".join(self.wanted)
            raise ValueError(f"{self.column} is of type {type(types[self.column]).__name__}, not {wanted}")


class InTypeList(OfType):
    """expect_column_values_to_be_in_type_list."""

    type_: str = ""
    type_list: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """The types that are taken."""
        return self.type_list


EXPECTATIONS: Mapping[str, type[RowExpectation]] = {
    "expect_column_values_to_not_be_null": NotNull,
    "expect_column_values_to_be_null": Null,
    "expect_column_values_to_be_in_set": InSet,
    "expect_column_values_to_not_be_in_set": NotInSet,
    "expect_column_values_to_match_regex": MatchRegex,
    "expect_column_values_to_not_match_regex": NotMatchRegex,
    "expect_column_values_to_match_regex_list": MatchRegexList,
    "expect_column_values_to_be_between": Between,
    "expect_column_value_lengths_to_be_between": LengthBetween,
    "expect_column_value_lengths_to_equal": LengthEqual,
    "expect_column_values_to_match_strftime_format": MatchStrftime,
    "expect_column_values_to_be_of_type": OfType,
    "expect_column_values_to_be_in_type_list": InTypeList,
    "expect_column_pair_values_to_be_equal": PairEqual,
    "expect_column_pair_values_a_to_be_greater_than_b": PairGreater,
    "expect_column_pair_values_to_be_in_set": PairInSet,
}


def _kind(bound: Any) -> str:
    if isinstance(bound, datetime):
        return "a time"
    return "a date" if isinstance(bound, date) else "a number"
