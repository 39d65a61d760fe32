"""Check a gold table against silver's columns before its stream starts; needs Spark, reads no row.

An expression must be a pure function of one row. Catalyst calls `now()` and `current_user()` deterministic, so its
answer is not enough: the analyzed plan is also searched for everything that depends on more than the row.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, StructType

from oncelake.common.errors import ConfigError
from oncelake.common.spark.analysis import TODAY, Impurity, impurity, without_log
from oncelake.common.wording import did_you_mean, shown
from oncelake.gold.declaration import GoldTable
from oncelake.gold.expression import Walk, column, throwing
from oncelake.gold.schema import schema_over
from oncelake.gold.window import zone_difference

_AGGREGATE = "is an aggregate, but an expression sees one row; declare aggregates in measures"
_GENERATOR = "turns one row into several, so a line would count more than once"
_CLOCK = "depends on the clock, the user or the session, so a replay could differ; use only silver's columns"
_RANDOM = "gives another value at every run, so a replay would differ; use only silver's columns"
_WINDOW = "reads other rows, but an expression sees one row"

# Catalyst's names for the contents of a plan, the most specific first: a window function contains an aggregate.
_PATTERNS: Mapping[str, str] = {
    "PLAN_EXPRESSION": "has a subquery, whose result may change; use only silver's columns",
    "WINDOW_EXPRESSION": f"is a window function, which {_WINDOW}",
    "AGGREGATE_EXPRESSION": _AGGREGATE,
    "GENERATOR": _GENERATOR,
    "CURRENT_LIKE": _CLOCK,
    "PYTHON_UDF": "is a Python function, so a replay could differ; use Spark SQL's functions",
    "SCALA_UDF": "is not one of Spark's own functions, so a replay could differ; use Spark SQL's functions",
}
_CONDITIONS: Mapping[str, str] = {
    "MISSING_GROUP_BY": _AGGREGATE,
    "MISSING_AGGREGATION": _AGGREGATE,
    "UNSUPPORTED_GENERATOR": _GENERATOR,
}
_NODES: Mapping[Impurity, str] = {
    "random": _RANDOM,
    "clock": _CLOCK,
    "raises": "raises an error, so one line would stop the stream; use where to exclude lines",
}

_CLOCK_LITERAL = re.compile(
    rf"\b(?:date|timestamp(?:_ltz|_ntz)?)(?:\s|/\*.*?\*/|--[^\n]*\n)*r?['\"]{TODAY}",
    re.IGNORECASE | re.DOTALL,
)


def check(spark: SparkSession, name: str, table: GoldTable, silver_schema: StructType) -> None:
    """Reject a gold table that cannot be computed from silver, or that a replay could change.

    Raises:
        ConfigError: one line with the table, the key, the expression and the reason.
    """
    silver = spark.createDataFrame([], silver_schema)
    with without_log():
        try:
            for key, text in _expressions(table):
                _check_expression(silver, key, text)
            schema_over(silver, table)
            _check_zone(spark, table)
        except ConfigError as error:
            raise ConfigError(f"gold.{name}.{error}") from None


def _check_zone(spark: SparkSession, table: GoldTable) -> None:
    """Refuse a zone that the parts of oncelake with Spark and those without it put into different windows."""
    difference = zone_difference(spark, table.zone) if table.zone is not None else None
    if difference is not None:
        # guard: one-zone-data
        raise ConfigError(
            f"zone: {difference}, so windows would differ with Spark and without it; update Java, and tzdata (pip "
            "install --upgrade tzdata)"
        )


def _expressions(table: GoldTable) -> Iterator[tuple[str, str]]:
    if table.where is not None:
        yield "where", table.where
    yield from ((f"by.{name}", text) for name, text in table.by.items())
    yield from ((f"measures.{measure.name}", measure.expression) for measure in table.parsed if measure.argument)


def _check_expression(silver: DataFrame, key: str, text: str) -> None:
    try:
        selected = silver.select(column(text))
        reason = _impurity(selected, text) or throwing(selected, text, silver.schema)
    except PySparkException as error:
        reason = _failure(error, silver.columns)
    if reason is None and key == "where":
        kind = silver.select(column(text)).schema[0].dataType
        if not isinstance(kind, BooleanType):
            reason = f"is of type {kind.simpleString()}; where must be a condition, such as level = 'ERROR'"
    if reason is not None:
        raise ConfigError(f"{key}: {shown(text)} {reason}")


def _impurity(selected: DataFrame, text: str) -> str | None:
    """Return why the expression is not a function of one row, from the analyzed plan; None if it is one."""
    plan = selected._jdf.queryExecution().analyzed()
    jvm: Any = selected.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    for pattern, reason in _PATTERNS.items():
        if plan.containsPattern(getattr(patterns, pattern)()):
            return reason
    if not plan.deterministic():
        return _RANDOM
    if len(selected.columns) != 1:
        return "is several columns; an expression must give one value"
    if not plan.children().head().children().isEmpty():
        return _WINDOW  # Spark rewrites window(log_time, …) and similar functions to a plan with more steps
    if _CLOCK_LITERAL.search(text):
        return _CLOCK
    walked = Walk(selected.sparkSession).judged(plan.expressions().head())
    return next((_NODES[kind] for node, _ in walked if (kind := impurity(node)) is not None), None)


def _failure(error: PySparkException, columns: list[str]) -> str:
    condition = (error.getCondition() or "").split(".")[0]
    if condition == "UNRESOLVED_COLUMN":
        unknown = (error.getMessageParameters() or {}).get("objectName", "")
        return f"names {unknown}, which silver does not have; silver's columns are {', '.join(columns)}" + (
            did_you_mean(unknown.strip("`"), columns)
        )
    if condition in _CONDITIONS:
        return _CONDITIONS[condition]
    message = re.sub(r"^\[\S+\] ?| ?SQLSTATE: \w+.*", "", str(error).strip().splitlines()[0])
    verb = "cannot be used" if isinstance(error, AnalysisException) else "cannot be evaluated"
    return f"{verb}: {message}"
