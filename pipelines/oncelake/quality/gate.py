"""This is where a batch is judged as a whole, before or after it is written: limits on shares, counts and age.

Limits come from two places. The configuration has those that no expectation says (`quality.gate`); the suite of
silver has the others: `mostly` of a rule, the row count, the distinct values of a column. `fail` and `critical` stop
the stage before it writes anything of the batch, `warn` and `warning` are recorded.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field
from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.common.models import Strict, shown
from oncelake.common.wording import count_of, duration, share
from oncelake.quality.expectations import Bounded, RowExpectation, Scalar
from oncelake.quality.settings import GateSettings
from oncelake.quality.split import at
from oncelake.quality.suite import Severity, Suite

Level = Literal["warn", "fail"]
_LEVELS: Mapping[Severity, Level] = {"critical": "fail", "warning": "warn"}


@dataclass(frozen=True)
class Judged:
    """What tells of a parsed row how far it came.

    Attributes:
        taken_apart: whether the format took it apart, and the suite's rules were asked.
        accepted: whether it broke no rule.
    """

    taken_apart: Column
    accepted: Column


class BatchExpectation(Strict):
    """An expectation about the accepted rows of a batch, judged from what is counted in one pass."""

    @abstractmethod
    def measure(self, accepted: Column) -> Column:
        """Give the aggregate that it is judged by.

        Args:
            accepted: tells whether a row is accepted.
        """

    @abstractmethod
    def breach(self, found: Any) -> str | None:
        """Say what is wrong, None when nothing is."""


class RowCountBetween(Bounded[int], BatchExpectation):
    """expect_table_row_count_to_be_between."""

    def measure(self, accepted: Column) -> Column:
        """Count the rows."""
        return F.count_if(accepted)

    def breach(self, found: Any) -> str | None:
        """Hold the count against the bounds."""
        low, high = self.min_value, self.max_value
        short = low is not None and (found <= low if self.strict_min else found < low)
        long = high is not None and (found >= high if self.strict_max else found > high)
        if not (short or long):
            return None
        bounds = f"{'from' if low is None else low} {'up' if low is None else ''}to {'any' if high is None else high}"
        accepted = count_of(found, "row is accepted", "rows are accepted")
        return f"{accepted}, {' '.join(bounds.split())} are expected"


class RowCountEqual(BatchExpectation):
    """expect_table_row_count_to_equal."""

    value: int

    def measure(self, accepted: Column) -> Column:
        """Count the rows."""
        return F.count_if(accepted)

    def breach(self, found: Any) -> str | None:
        """Hold the count against the one that is expected."""
        if found == self.value:
            return None
        expected = count_of(self.value, "is expected", "are expected")
        return f"{count_of(found, 'row is accepted', 'rows are accepted')}, {expected}"


class DistinctInSet(BatchExpectation):
    """expect_column_distinct_values_to_be_in_set: new levels, new hosts."""

    column: str
    value_set: tuple[Scalar, ...] = Field(min_length=1)

    def measure(self, accepted: Column) -> Column:
        """Count the rows whose value is not in the set, and take its first and last one."""
        value = at(self.column)
        unknown = F.when(accepted & ~value.isin(list(self.value_set)), value.cast("string"))
        return F.struct(F.count(unknown), F.min(unknown), F.max(unknown))

    def breach(self, found: Any) -> str | None:
        """Name the values."""
        count, first, last = found
        if not count:
            return None
        values = shown(first) if first == last else f"{shown(first)} to {shown(last)}"
        return f"{count_of(count, 'row has', 'rows have')} another {self.column} than is expected: {values}"


BATCH_EXPECTATIONS: Mapping[str, type[BatchExpectation]] = {
    "expect_table_row_count_to_be_between": RowCountBetween,
    "expect_table_row_count_to_equal": RowCountEqual,
    "expect_column_distinct_values_to_be_in_set": DistinctInSet,
}


@dataclass(frozen=True)
class Counted:
    """What is known of a batch that was counted.

    Attributes:
        rules: how many rows broke each rule, for those that any did.
        values: the other aggregates, by name.
    """

    lines: int
    refused: int
    rules: Mapping[str, int]
    values: Mapping[str, Any]
    planned: datetime


@dataclass(frozen=True)
class Check:
    """One limit: what reports call it, and whether a batch that does not keep it is stopped or warned of."""

    limit: str
    level: Level

    def measures(self, rows: Judged) -> Mapping[str, Column]:
        """Give the aggregates that it needs beside those that are counted anyway."""
        return {}

    @abstractmethod
    def breach(self, counted: Counted) -> str | None:
        """Say what is wrong, None when nothing is."""


@dataclass(frozen=True)
class Quarantined(Check):
    """At most such a share of the lines may be refused."""

    share: float

    def breach(self, counted: Counted) -> str | None:
        """Hold the share against the limit."""
        if counted.refused <= self.share * counted.lines:
            return None
        of = f"of {count_of(counted.lines, 'line')} ({share(counted.refused, counted.lines)})"
        refused = count_of(counted.refused, f"{of} is refused", f"{of} are refused")
        return f"{refused}, at most {share(self.share)} may be"


@dataclass(frozen=True)
class Age(Check):
    """The newest line may be so old at most when the batch is planned."""

    age: timedelta

    def measures(self, rows: Judged) -> Mapping[str, Column]:
        """Find the newest line."""
        return {"newest": F.max(F.when(rows.accepted, F.unix_micros("log_time")))}

    def breach(self, counted: Counted) -> str | None:
        """Hold the newest line against the batch's time."""
        micros = counted.values["newest"]
        if micros is None:
            return None
        newest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
        if counted.planned - newest <= self.age:
            return None
        oldest = duration(round(self.age.total_seconds()))
        return f"the newest line is of {newest:%Y-%m-%d %H:%M:%S}, {oldest} before the batch at most is expected"


@dataclass(frozen=True)
class Mostly(Check):
    """At least such a share of the rows that a rule judges must meet it."""

    mostly: float
    expectation: RowExpectation

    def measures(self, rows: Judged) -> Mapping[str, Column]:
        """Count the rows that are judged."""
        return {f"judged {self.limit}": F.count_if(rows.taken_apart & self.expectation.judged(at))}

    def breach(self, counted: Counted) -> str | None:
        """Hold the share against the limit."""
        judged, broken = counted.values[f"judged {self.limit}"], counted.rules.get(self.limit, 0)
        if not judged or (judged - broken) / judged >= self.mostly:
            return None
        of = f"of {count_of(judged, 'row')} ({share(broken, judged)})"
        return f"{count_of(broken, f'{of} breaks it', f'{of} break it')}, {share(self.mostly)} must meet it"


@dataclass(frozen=True)
class Expected(Check):
    """What an expectation says of all accepted rows."""

    expectation: BatchExpectation

    def measures(self, rows: Judged) -> Mapping[str, Column]:
        """Ask the expectation."""
        return {f"found {self.limit}": self.expectation.measure(rows.accepted)}

    def breach(self, counted: Counted) -> str | None:
        """Ask the expectation."""
        return self.expectation.breach(counted.values[f"found {self.limit}"])


def batch_expectations(suite: Suite) -> Iterator[tuple[str, Level, BatchExpectation]]:
    """Give the expectations of a suite that a batch is held to as a whole.

    Raises:
        ConfigError: an argument of one is not accepted.
    """
    for number, each in enumerate(suite.declared.expectations):
        level = _LEVELS.get(each.severity)
        if level and (expectation := suite.as_one_of(BATCH_EXPECTATIONS, number)):
            yield suite.ids[number], level, expectation


def checks(settings: GateSettings, suite: Suite | None) -> Iterator[Check]:
    """Give all limits on a batch of silver."""
    levels: tuple[Level, ...] = ("fail", "warn")
    for level in levels:
        share, age = getattr(settings.quarantined, level), getattr(settings.age, level)
        if share is not None:
            yield Quarantined(f"quality.gate.quarantined.{level}", level, share)
        if age is not None:
            yield Age(f"quality.gate.age.{level}", level, age)
    if suite is None:
        return
    for rule in suite.rules:
        if rule.expectation.mostly is not None:
            yield Mostly(rule.id, _LEVELS[rule.severity], rule.expectation.mostly, rule.expectation)
    for rule_id, level, expectation in batch_expectations(suite):
        yield Expected(rule_id, level, expectation)
