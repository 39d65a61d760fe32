"""The quality gate: limits on the shares, counts and age of a whole batch, checked before or after the write.

Limits come from two places. The configuration (`quality.gate`) has the limits that no expectation can express. The
suite of silver has the others: a rule's `mostly`, the row count, a column's distinct values. `fail` and `critical`
stop the stage before it writes anything of the batch; `warn` and `warning` are recorded.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field
from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.common.models import Strict
from oncelake.common.wording import count_of, duration, listed, share, shown
from oncelake.quality.expectations import Bounded, Row, RowExpectation, Scalar
from oncelake.quality.reasons import at_micros
from oncelake.quality.settings import GateSettings
from oncelake.quality.split import at
from oncelake.quality.suite import Severity, Suite

Level = Literal["warn", "fail"]
# How many of the broken rules a refusal names.
_FREQUENT = 3
_LEVELS: Mapping[Severity, Level] = {"critical": "fail", "warning": "warn"}


@dataclass(frozen=True)
class RowConditions:
    """Spark conditions on a parsed row.

    Attributes:
        taken_apart: true if the log format parsed the line, so that the suite's rules were checked.
        accepted: true if the row broke no rule that refuses rows.
        applies: returns a condition that is given for a row's columns, for the row.
    """

    taken_apart: Column
    accepted: Column
    applies: Callable[[Callable[[Row], Column]], Column] = lambda judged: judged(at)


class BatchExpectation(Strict):
    """An expectation about the accepted rows of a batch, checked against counts from one pass."""

    @abstractmethod
    def measure(self, accepted: Column) -> Column:
        """Return the aggregate that `breach` checks.

        Args:
            accepted: true if a row is accepted.
        """

    @abstractmethod
    def breach(self, aggregate: Any) -> str | None:
        """Return what is wrong; None if nothing is."""


class RowCountBetween(Bounded[int], BatchExpectation):
    """The expectation `expect_table_row_count_to_be_between` of Great Expectations, checked on each batch."""

    def measure(self, accepted: Column) -> Column:
        """Count the accepted rows."""
        return F.count_if(accepted)

    def breach(self, aggregate: Any) -> str | None:
        """Compare the count with the bounds."""
        low, high = self.min_value, self.max_value
        short = low is not None and (aggregate <= low if self.strict_min else aggregate < low)
        long = high is not None and (aggregate >= high if self.strict_max else aggregate > high)
        if not (short or long):
            return None
        bounds = []
        if low is not None:
            bounds.append(f"{'more than' if self.strict_min else 'at least'} {low}")
        if high is not None:
            bounds.append(f"{'less than' if self.strict_max else 'at most'} {high}")
        accepted = count_of(aggregate, "row is accepted", "rows are accepted")
        return f"{accepted}, expected: {' and '.join(bounds)}"


class RowCountEqual(BatchExpectation):
    """The expectation `expect_table_row_count_to_equal` of Great Expectations, checked on each batch."""

    value: int

    def measure(self, accepted: Column) -> Column:
        """Count the accepted rows."""
        return F.count_if(accepted)

    def breach(self, aggregate: Any) -> str | None:
        """Compare the count with the expected count."""
        if aggregate == self.value:
            return None
        return f"{count_of(aggregate, 'row is accepted', 'rows are accepted')}, expected: {self.value:,}"


class DistinctInSet(BatchExpectation):
    """The expectation `expect_column_distinct_values_to_be_in_set`, checked on each batch: new levels, new hosts."""

    column: str
    value_set: tuple[Scalar, ...] = Field(min_length=1)

    def measure(self, accepted: Column) -> Column:
        """Count the rows whose value is not in the set, with the smallest and the largest such value."""
        value = at(self.column)
        unknown = F.when(accepted & ~value.isin(list(self.value_set)), value.cast("string"))
        return F.struct(F.count(unknown), F.min(unknown), F.max(unknown))

    def breach(self, aggregate: Any) -> str | None:
        """Return how many rows have unexpected values, and which values."""
        count, first, last = aggregate
        if not count:
            return None
        values = shown(first) if first == last else f"{shown(first)} to {shown(last)}"
        return f"{count_of(count, 'row has', 'rows have')} an unexpected {self.column}: {values}"


_BATCH_EXPECTATIONS: Mapping[str, type[BatchExpectation]] = {
    "expect_table_row_count_to_be_between": RowCountBetween,
    "expect_table_row_count_to_equal": RowCountEqual,
    "expect_column_distinct_values_to_be_in_set": DistinctInSet,
}


@dataclass(frozen=True)
class BatchCounts:
    """The counts of one batch.

    Attributes:
        lines: how many lines the batch has.
        refused: how many of them go to quarantine.
        rules: how many lines broke each rule; only rules that were broken.
        values: all aggregates, by name.
        planned: when the batch was planned, UTC.
        is_first: True if it is the first batch of its stage.
        events: how many rows of silver the accepted lines give; None if it is one each.
    """

    lines: int
    refused: int
    rules: Mapping[str, int]
    values: Mapping[str, Any]
    planned: datetime
    is_first: bool = False
    events: int | None = None

    @property
    def accepted(self) -> int:
        """The lines that go to silver."""
        return self.lines - self.refused

    @property
    def rows(self) -> int:
        """The rows of silver that the accepted lines give."""
        return self.accepted if self.events is None else self.events

    @property
    def frequent(self) -> str:
        """The rules that the most lines broke, and how many lines; empty if none was broken."""
        most = sorted(self.rules.items(), key=lambda entry: (-entry[1], entry[0]))
        return listed((f"{rule} {count:,}" for rule, count in most), most=_FREQUENT)


@dataclass(frozen=True)
class Check:
    """One limit: its name in reports, and whether a batch that exceeds it stops the stage or causes a warning."""

    limit: str
    level: Level

    def measures(self, rows: RowConditions) -> Mapping[str, Column]:
        """Return the aggregates that the check needs in addition to those that are always counted."""
        return {}

    @abstractmethod
    def breach(self, counted: BatchCounts) -> str | None:
        """Return what is wrong; None if nothing is."""


@dataclass(frozen=True)
class Quarantined(Check):
    """A limit on the share of refused lines.

    Attributes:
        from_lines: the lines of a batch from which on it is checked, unless it is the first one; None for every batch.
    """

    share: float
    from_lines: int | None = None

    def breach(self, counted: BatchCounts) -> str | None:
        """Compare the share of refused lines with the limit."""
        # guard: first-batch-checked
        is_small = self.from_lines is not None and counted.lines < self.from_lines and not counted.is_first
        if is_small or counted.refused <= self.share * counted.lines:  # guard: refused-share-limit
            return None
        quantity = f"of {count_of(counted.lines, 'line')} ({share(counted.refused, counted.lines)})"
        refused = count_of(counted.refused, f"{quantity} is refused", f"{quantity} are refused")
        return f"{refused}, the limit is {share(self.share)}"


@dataclass(frozen=True)
class Age(Check):
    """A limit on the age of the newest line when the batch is planned."""

    age: timedelta

    def measures(self, rows: RowConditions) -> Mapping[str, Column]:
        """Return the time of the newest accepted line, in microseconds."""
        return {"newest": F.max(F.when(rows.accepted, F.unix_micros("log_time")))}

    def breach(self, counted: BatchCounts) -> str | None:
        """Compare the newest line's time with the time when the batch was planned."""
        micros = counted.values["newest"]
        if micros is None:
            return None
        newest = at_micros(micros)
        if counted.planned - newest <= self.age:
            return None
        oldest = duration(round(self.age.total_seconds()))
        return f"the newest line is from {newest:%Y-%m-%d %H:%M:%S}, expected: at most {oldest} before the batch"


@dataclass(frozen=True)
class Mostly(Check):
    """A lower limit on the share of rows that meet a rule, out of the rows to which it applies."""

    mostly: float
    expectation: RowExpectation

    def measures(self, rows: RowConditions) -> Mapping[str, Column]:
        """Count the rows to which the rule applies."""
        return {f"judged {self.limit}": F.count_if(rows.taken_apart & rows.applies(self.expectation.judged))}

    def breach(self, counted: BatchCounts) -> str | None:
        """Compare the share of rows that meet the rule with the limit."""
        judged, broken = counted.values[f"judged {self.limit}"], counted.rules.get(self.limit, 0)
        if not judged or (judged - broken) / judged >= self.mostly:
            return None
        quantity = f"of {count_of(judged, 'row')} ({share(broken, judged)})"
        return f"{count_of(broken, f'{quantity} breaks it', f'{quantity} break it')}, {share(self.mostly)} must meet it"


@dataclass(frozen=True)
class Expected(Check):
    """An expectation about all accepted rows of a batch."""

    expectation: BatchExpectation

    def measures(self, rows: RowConditions) -> Mapping[str, Column]:
        """Return the expectation's aggregate."""
        return {f"found {self.limit}": self.expectation.measure(rows.accepted)}

    def breach(self, counted: BatchCounts) -> str | None:
        """Check the aggregate against the expectation."""
        return self.expectation.breach(counted.values[f"found {self.limit}"])


def batch_expectations(suite: Suite) -> Iterator[tuple[str, Level, BatchExpectation]]:
    """Yield the expectations of a suite that apply to a batch as a whole: name, level and expectation.

    Raises:
        ConfigError: an argument of an expectation is not accepted.
    """
    for number, declared in enumerate(suite.declared.expectations):
        level = _LEVELS.get(declared.severity)
        if level and (expectation := suite.as_one_of(_BATCH_EXPECTATIONS, number)):
            yield suite.ids[number], level, expectation


def checks(settings: GateSettings, suite: Suite | None) -> Iterator[Check]:
    """Yield all limits on a batch of silver."""
    levels: tuple[Level, ...] = ("fail", "warn")
    for level in levels:
        share, age = getattr(settings.quarantined, level), getattr(settings.age, level)
        if share is not None:
            least = settings.quarantined.fail_from if level == "fail" else None
            yield Quarantined(f"quality.gate.quarantined.{level}", level, share, least)
        if age is not None:
            yield Age(f"quality.gate.age.{level}", level, age)
    if suite is None:
        return
    for rule in suite.rules:
        if rule.expectation.mostly is not None:
            yield Mostly(rule.id, _LEVELS[rule.severity], rule.expectation.mostly, rule.expectation)
    for rule_id, level, expectation in batch_expectations(suite):
        yield Expected(rule_id, level, expectation)
