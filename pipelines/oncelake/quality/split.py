"""Suite rules as Spark columns: the reasons why a row is refused, and the warnings on an accepted row."""

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.quality.suite import Rule

FIELDS = "fields"
# The column with the names of the warning rules that a row broke.
MARKS = "warnings"
_SHOWN = 80


def at(name: str) -> Column:
    """Return a column of silver by its name in a suite: `level`, or `fields.thread`."""
    outer, dot, key = name.partition(".")
    return F.col(FIELDS)[key] if dot and outer == FIELDS else F.col(f"`{name}`")


def broken_rules(rules: Iterable[Rule], empty: Column) -> Column:
    """Return the rules that a row breaks, each with its columns and their shortened values.

    Args:
        rules: the rules.
        empty: an empty list of the right type.
    """
    broken = [(rule.expectation.broken(at), _broken(rule)) for rule in rules]
    return _listed(broken, empty)


def marks(rules: Iterable[Rule]) -> Column:
    """Return the names of the rules that a row breaks; null if it breaks none."""
    nothing = F.lit(None).cast("array<string>")
    return _listed([(rule.expectation.broken(at), F.lit(rule.id)) for rule in rules], nothing)


def _listed(broken: list[tuple[Column, Column]], empty: Column) -> Column:
    """Return the values whose conditions are true; most rows break no rule, and no list is built for them."""
    if not broken:
        return empty
    anything = reduce(lambda one, other: one | other, (condition for condition, _ in broken))
    listed = F.array(*(F.when(condition, what) for condition, what in broken))
    return F.when(anything, F.filter(listed, lambda each: each.isNotNull())).otherwise(empty)


def _broken(rule: Rule) -> Column:
    values = [at(name).cast("string") for name in rule.expectation.columns]
    value = values[0] if len(values) == 1 else F.concat_ws(", ", *(F.coalesce(each, F.lit("NULL")) for each in values))
    return reason(F.lit(rule.id), rule.columns, value)


def reason(rule: Column, column: str, value: Column) -> Column:
    """Return one entry of a line's reasons: the rule, its columns, and their shortened values."""
    shortened = F.substring(value.cast("string"), 1, _SHOWN)
    return F.struct(rule.alias("rule"), F.lit(column).alias("column"), shortened.alias("value"))
