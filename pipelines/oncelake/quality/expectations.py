"""Row expectations as Spark expressions: each one returns which rows break it.

Each class implements the expectation of Great Expectations that it names. It takes the same arguments and gives the
same result as Great Expectations on Spark: a null value breaks no rule, and a comparison that returns null breaks no
rule.
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
from oncelake.common.spark.line_functions import contains_match
from oncelake.quality.strftime import check_strftime, parses

Scalar = int | float | str
# Returns the Spark column for a column name in a suite.
Row = Callable[[str], Column]
Types = Mapping[str, DataType]


class RowExpectation(Strict):
    """An expectation that can be checked on a single row.

    Attributes:
        mostly: the share of rows that must meet it; only the gate and the audit use it.
    """

    mostly: float | None = Field(None, ge=0, le=1, exclude=True)

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the expectation reads."""

    @abstractmethod
    def judged(self, row: Row) -> Column:
        """Return True if the expectation applies to the row; it usually does not apply to a null."""

    @abstractmethod
    def expected(self, row: Row) -> Column:
        """Return True if a row to which the expectation applies meets it; may be null."""

    def broken(self, row: Row) -> Column:
        """Return True if the row breaks the expectation; never null."""
        return F.coalesce(self.judged(row) & ~self.expected(row), F.lit(False))

    def overruns(self, row: Row) -> Column | None:
        """Return True if a regular expression takes too many steps on the row, so it breaks the expectation."""
        return None

    def check(self, types: Types) -> None:
        """Check that the expectation fits the types of its columns.

        Raises:
            ValueError: it does not fit; the message says why.
        """

    def patterns(self) -> tuple[str, ...]:
        """Return the regular expressions that the expectation uses."""
        return ()


class ColumnExpectation(RowExpectation):
    """An expectation about one column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of the one column."""
        return (self.column,)

    def judged(self, row: Row) -> Column:
        """Return True for values that are not null."""
        return row(self.column).isNotNull()

    def expected(self, row: Row) -> Column:
        """Check the column's value."""
        return self.meets(row(self.column))

    @abstractmethod
    def meets(self, value: Column) -> Column:
        """Return True if a value is as expected."""


class NotNull(ColumnExpectation):
    """The expectation `expect_column_values_to_not_be_null` of Great Expectations, checked row by row."""

    def judged(self, row: Row) -> Column:
        """Return True for every row."""
        return F.lit(True)

    def meets(self, value: Column) -> Column:
        """Return True if the value is not null."""
        return value.isNotNull()


class Null(NotNull):
    """The expectation `expect_column_values_to_be_null` of Great Expectations, checked row by row."""

    def meets(self, value: Column) -> Column:
        """Return True if the value is null."""
        return value.isNull()


class InSet(ColumnExpectation):
    """The expectation `expect_column_values_to_be_in_set` of Great Expectations, checked row by row."""

    value_set: tuple[Scalar, ...] | None

    def meets(self, value: Column) -> Column:
        """Return True if the value is in the set, or if there is no set."""
        return F.lit(True) if self.value_set is None else value.isin(list(self.value_set))


class NotInSet(ColumnExpectation):
    """The expectation `expect_column_values_to_not_be_in_set` of Great Expectations, checked row by row."""

    value_set: tuple[Scalar, ...]

    def meets(self, value: Column) -> Column:
        """Return True if the value is not in the set."""
        return ~value.isin(list(self.value_set))


class RegexExpectation(ColumnExpectation):
    """An expectation about Java regular expressions; each is searched for on its own in the value.

    A value on which one of them takes too many steps breaks the expectation, unless the others decide.
    """

    def meets(self, value: Column) -> Column:
        """Return True if the value is as expected; False if that is not known."""
        return F.coalesce(self.matches(value), F.lit(False))  # guard: expression-steps-break-rule

    @abstractmethod
    def matches(self, value: Column) -> Column:
        """Return True if the value is as expected; null if a search takes too many steps."""

    def overruns(self, row: Row) -> Column | None:
        """Return True if a search takes too many steps and the others do not decide."""
        return self.judged(row) & self.matches(row(self.column)).isNull()


class MatchRegex(RegexExpectation):
    """expect_column_values_to_match_regex: a Java regular expression, found anywhere in the value."""

    regex: str

    def matches(self, value: Column) -> Column:
        """Return True if the regular expression is found in the value."""
        return contains_match(value, self.regex)

    def patterns(self) -> tuple[str, ...]:
        """Return the one regular expression."""
        return (self.regex,)


class NotMatchRegex(MatchRegex):
    """The expectation `expect_column_values_to_not_match_regex` of Great Expectations, checked row by row."""

    def matches(self, value: Column) -> Column:
        """Return True if the regular expression is not found in the value."""
        return ~contains_match(value, self.regex)


class MatchRegexList(RegexExpectation):
    """The expectation `expect_column_values_to_match_regex_list` of Great Expectations, checked row by row.

    Great Expectations joins the list with `|`, so that a flag or the number of a group reaches into the next one.
    """

    regex_list: tuple[str, ...] = Field(min_length=1)
    match_on: Literal["any", "all"] = "any"

    def matches(self, value: Column) -> Column:  # guard: expressions-searched-one-by-one
        """Return True if any or all of the regular expressions are found in the value, as match_on says."""
        conditions = [contains_match(value, regex) for regex in self.regex_list]
        if self.match_on == "any":
            return reduce(lambda one, other: one | other, conditions)
        return reduce(lambda one, other: one & other, conditions)

    def patterns(self) -> tuple[str, ...]:
        """Return the regular expressions."""
        return self.regex_list


class NotMatchRegexList(RegexExpectation):
    """The expectation `expect_column_values_to_not_match_regex_list` of Great Expectations, checked row by row."""

    regex_list: tuple[str, ...] = Field(min_length=1)

    def matches(self, value: Column) -> Column:
        """Return True if none of the regular expressions is found in the value."""
        return reduce(lambda one, other: one & other, (~contains_match(value, regex) for regex in self.regex_list))

    def patterns(self) -> tuple[str, ...]:
        """Return the regular expressions."""
        return self.regex_list


def _bound(value: Any) -> Any:
    """Parse a bound as Great Expectations does: a number (text too), a date, or a date and time (UTC if no zone)."""
    if not isinstance(value, str):
        return value
    with suppress(ValueError):
        return float(value)
    with suppress(ValueError):
        if _DATE.fullmatch(value):
            return date.fromisoformat(value)
        if _DATE.match(value):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo else at.replace(tzinfo=UTC)
    raise ValueError("is neither a number nor a date or time such as 2026-01-31 or 2026-01-31 08:00:00")


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
Bound = Annotated[float | date | datetime, BeforeValidator(_bound)]


B = TypeVar("B")


class Bounded(Strict, Generic[B]):
    """A lower and an upper bound; each is inclusive unless it is strict, and at least one is required."""

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
    """An expectation that a column's values lie between two bounds of one kind, the lower one first."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        bounds: tuple[Any, Any] = self.min_value, self.max_value
        low, high = bounds
        if low is not None and high is not None:
            if _kind(low) != _kind(high):
                raise ValueError(f"min_value is {_kind(low)} and max_value {_kind(high)}; use the same kind for both")
            if low > high:
                raise ValueError(f"min_value {low} is above max_value {high}")
        return self

    def within(self, value: Column) -> Column:
        """Return True if a value is between the bounds."""
        conditions = []
        if self.min_value is not None:
            low = F.lit(self.min_value)
            conditions.append(value > low if self.strict_min else value >= low)
        if self.max_value is not None:
            high = F.lit(self.max_value)
            conditions.append(value < high if self.strict_max else value <= high)
        return reduce(lambda one, other: one & other, conditions)


class Between(BoundedColumn[Bound]):
    """expect_column_values_to_be_between: numbers, dates, or times (UTC unless they name a zone)."""

    def meets(self, value: Column) -> Column:
        """Return True if the value is between the bounds; Spark orders NaN above all numbers."""
        return self.within(value)

    def check(self, types: Types) -> None:
        """Refuse to compare text or a boolean with a bound, as Great Expectations does."""
        bound = self.max_value if self.min_value is None else self.min_value
        if isinstance(types[self.column], (StringType, BooleanType)):
            raise ValueError(f"{self.column} is not a number, a date or a time, so it cannot be compared with {bound}")


class LengthBetween(BoundedColumn[int]):
    """expect_column_value_lengths_to_be_between: in characters."""

    def meets(self, value: Column) -> Column:
        """Return True if the value's length is between the bounds."""
        return self._surely().within(F.octet_length(value)) | self.within(F.length(value))

    def _surely(self) -> Self:
        """Return bounds in bytes that need no count of characters: a character has one to four bytes."""
        return self.model_copy(update={"min_value": None if self.min_value is None else 4 * self.min_value})


class LengthEqual(ColumnExpectation):
    """expect_column_value_lengths_to_equal: in characters."""

    value: int

    def meets(self, value: Column) -> Column:
        """Return True if the value has that length."""
        return F.length(value) == F.lit(self.value)


class MatchStrftime(ColumnExpectation):
    """expect_column_values_to_match_strftime_format: Python's strptime can parse the value."""

    strftime_format: str

    @field_validator("strftime_format")
    @classmethod
    def _known(cls, text: str) -> str:
        check_strftime(text)
        return text

    def meets(self, value: Column) -> Column:
        """Return True if strptime can parse the value."""
        return parses(value, self.strftime_format)

    def check(self, types: Types) -> None:
        """Refuse a column that is not text."""
        if not isinstance(types[self.column], StringType):
            raise ValueError(f"{self.column} is not text; strftime_format can only parse text")


class PairExpectation(RowExpectation):
    """An expectation about two columns of a row."""

    column_A: str  # noqa: N815 - the library's name
    column_B: str  # noqa: N815
    ignore_row_if: Literal["both_values_are_missing", "either_value_is_missing", "neither"] = "both_values_are_missing"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the two columns."""
        return self.column_A, self.column_B

    def judged(self, row: Row) -> Column:
        """Return False for the rows that ignore_row_if excludes."""
        nulls = row(self.column_A).isNull(), row(self.column_B).isNull()
        if self.ignore_row_if == "neither":
            return F.lit(True)
        return ~(nulls[0] & nulls[1]) if self.ignore_row_if == "both_values_are_missing" else ~(nulls[0] | nulls[1])

    def expected(self, row: Row) -> Column:
        """Check the two values."""
        return self.meets(row(self.column_A), row(self.column_B))

    @abstractmethod
    def meets(self, one: Column, other: Column) -> Column:
        """Return True if two values are as expected."""


class PairEqual(PairExpectation):
    """The expectation `expect_column_pair_values_to_be_equal` of Great Expectations, checked row by row."""

    def meets(self, one: Column, other: Column) -> Column:
        """Return True if both values are equal, or both are null."""
        return one.eqNullSafe(other)


class PairGreater(PairExpectation):
    """The expectation `expect_column_pair_values_a_to_be_greater_than_b` of Great Expectations, checked row by row."""

    or_equal: bool | None = None

    def meets(self, one: Column, other: Column) -> Column:
        """Return True if the first value is greater; with or_equal, also if both are equal."""
        return (one >= other) | one.eqNullSafe(other) if self.or_equal else one > other


class PairInSet(PairExpectation):
    """The expectation `expect_column_pair_values_to_be_in_set` of Great Expectations, checked row by row."""

    value_pairs_set: tuple[tuple[Scalar | None, Scalar | None], ...] = Field(min_length=1)

    def meets(self, one: Column, other: Column) -> Column:
        """Return True if the pair is in the set."""
        pairs = [one.eqNullSafe(F.lit(a)) & other.eqNullSafe(F.lit(b)) for a, b in self.value_pairs_set]
        return reduce(lambda some, more: some | more, pairs)


class OfType(ColumnExpectation):
    """expect_column_values_to_be_of_type: the column's own type, named by its class in pyspark.sql.types."""

    type_: str

    @property
    def accepted_types(self) -> tuple[str, ...]:
        """The accepted types."""
        return (self.type_,)

    def meets(self, value: Column) -> Column:
        """Return True for every value: `check` has refused columns of another type."""
        return F.lit(True)

    def check(self, types: Types) -> None:
        """Refuse a column of another type, as every row would break the rule."""
        known = [kind for name in self.accepted_types if (kind := getattr(spark_types, name, None)) is not None]
        if not isinstance(types[self.column], tuple(known)):
            accepted = ", ".join(self.accepted_types)
            raise ValueError(f"{self.column} is of type {type(types[self.column]).__name__}, not {accepted}")


class InTypeList(OfType):
    """The expectation `expect_column_values_to_be_in_type_list` of Great Expectations, checked row by row."""

    type_: str = ""
    type_list: tuple[str, ...]

    @property
    def accepted_types(self) -> tuple[str, ...]:
        """The accepted types."""
        return self.type_list


EXPECTATIONS: Mapping[str, type[RowExpectation]] = {
    "expect_column_values_to_not_be_null": NotNull,
    "expect_column_values_to_be_null": Null,
    "expect_column_values_to_be_in_set": InSet,
    "expect_column_values_to_not_be_in_set": NotInSet,
    "expect_column_values_to_match_regex": MatchRegex,
    "expect_column_values_to_not_match_regex": NotMatchRegex,
    "expect_column_values_to_match_regex_list": MatchRegexList,
    "expect_column_values_to_not_match_regex_list": NotMatchRegexList,
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
