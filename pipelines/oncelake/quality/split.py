"""Suite rules as Spark columns: the reasons why a row is refused, and the warnings on an accepted row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from oncelake.quality.expectations import Row
from oncelake.quality.suite import Rule

FIELDS = "fields"
# The column with the names of the warning rules that a row broke.
MARKS = "warnings"
_SHOWN = 80
_OVERRUN = "too many steps: "


def at(name: str) -> Column:
    """Return a column of silver by its name in a suite: `level`, or `fields.thread`."""
    outer, dot, key = name.partition(".")
    return F.col(FIELDS)[key] if dot and outer == FIELDS else F.col(f"`{name}`")


@dataclass(frozen=True)
class ColumnRule:
    """A rule as Spark columns.

    Attributes:
        rule: its name.
        column: the names of the columns that it checks.
        condition: true if a row breaks it; never null.
        value: what the columns hold.
    """

    rule: str
    column: str
    condition: Column
    value: Column

    def as_reason(self) -> Column:
        """Return the entry of a row that breaks the rule."""
        return reason(F.lit(self.rule), self.column, self.value)

    def as_name(self) -> Column:
        """Return the rule's name."""
        return F.lit(self.rule)


def broken_rules(rules: Iterable[Rule], severity: str, column_of: Row = at) -> list[ColumnRule]:
    """Return the rules of a severity.

    Args:
        rules: rules of a suite.
        severity: the severity.
        column_of: returns a column by its name in a suite.
    """
    return [
        ColumnRule(rule.id, rule.columns, rule.expectation.broken(column_of), _value_text(rule, column_of))
        for rule in rules
        if rule.severity == severity
    ]


def names_of(rules: Sequence[ColumnRule]) -> Column:
    """Return the names of the rules that a row breaks; null if it breaks none."""
    return listed(rules, ColumnRule.as_name, ArrayType(StringType()))


def listed(rules: Sequence[ColumnRule], what: Callable[[ColumnRule], Column], kind: ArrayType) -> Column:
    """Return an entry for each rule that a row breaks, null for none: most rows break none, and get no list.

    Args:
        rules: the rules.
        what: returns the entry of a rule.
        kind: the type of the list.
    """
    if not rules:
        return F.lit(None).cast(kind)
    nothing = F.array().cast(kind)
    anything = reduce(lambda one, other: one | other, (rule.condition for rule in rules))
    # a list for each rule, as Spark does not compile a filter of one list together with the rest of the plan
    return F.when(
        anything, F.concat(*(F.when(rule.condition, F.array(what(rule))).otherwise(nothing) for rule in rules))
    )


def _value_text(rule: Rule, column_of: Row) -> Column:
    values = [column_of(name).cast("string") for name in rule.expectation.columns]
    text = values[0] if len(values) == 1 else F.concat_ws(", ", *(F.coalesce(value, F.lit("NULL")) for value in values))
    overruns = rule.expectation.overruns(column_of)
    return text if overruns is None else F.when(overruns, F.concat(F.lit(_OVERRUN), text)).otherwise(text)


def reason(rule: Column, column: str, value: Column) -> Column:
    """Return one entry of a line's reasons: the rule, its columns, and their shortened values."""
    return F.struct(rule.alias("rule"), F.lit(column).alias("column"), shortened(value.cast("string")).alias("value"))


def shortened(value: Column) -> Column:
    """Return the part of a value that a reason shows."""
    return F.substring(value, 1, _SHOWN)
