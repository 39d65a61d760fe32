"""This is where a gold table is checked against silver before it starts; needs Spark, reads no row.

An expression must be a pure function of one row. Catalyst calls `now()` and `current_user()` deterministic,
so its own answer is not enough: the analysed plan is searched for what depends on more than the row.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, StructType

from oncelake.common.errors import ConfigError
from oncelake.common.models import shown
from oncelake.gold.declaration import GoldTable
from oncelake.gold.expression import Walk, column, throwing
from oncelake.gold.schema import schema_over

_AGGREGATE = "is an aggregate; an expression sees one row, and what is aggregated is declared in measures"
_GENERATOR = "makes several rows of one, and a line would count more than once"
_CLOCK = "depends on the clock, the user or the session, so a replay could differ; use silver's columns alone"
_RANDOM = "gives another value at every run, so a replay would differ; use silver's columns alone"
_WINDOW = "looks at other rows; an expression sees one row"

# Catalyst's names of what a plan contains, most telling first: a window function has an aggregate in it.
_PATTERNS: Mapping[str, str] = {
    "PLAN_EXPRESSION": "has a subquery, and what it reads may change; use silver's columns alone",
    "WINDOW_EXPRESSION": f"is a window function, which {_WINDOW}",
    "AGGREGATE_EXPRESSION": _AGGREGATE,
    "GENERATOR": _GENERATOR,
    "CURRENT_LIKE": _CLOCK,
    "PYTHON_UDF": "is a Python function, and nobody can vouch for its result; use Spark SQL's",
    "SCALA_UDF": "is no function of Spark's own, and nobody can vouch for its result; use Spark SQL's",
}
_CONDITIONS: Mapping[str, str] = {
    "MISSING_GROUP_BY": _AGGREGATE,
    "MISSING_AGGREGATION": _AGGREGATE,
    "UNSUPPORTED_GENERATOR": _GENERATOR,
}
_NODES: Mapping[str, str] = {
    "AesEncrypt": _RANDOM,  # a random initialisation vector, which Catalyst calls deterministic
    "SparkVersion": _CLOCK,
    "RaiseError": "raises an error, and one line would stop the stream; use where to leave lines out",
}

# Spark reads these words as the present day when it casts them, and at once in a typed literal.
_TODAY = r"\s*(?:now|today|tomorrow|yesterday)\b"
_CLOCK_WORD = re.compile(_TODAY, re.IGNORECASE)
_CLOCK_LITERAL = re.compile(
    rf"\b(?:date|timestamp(?:_ltz|_ntz)?)(?:\s|/\*.*?\*/|--[^\n]*\n)*r?['\"]{_TODAY}",
    re.IGNORECASE | re.DOTALL,
)


def check(spark: SparkSession, name: str, table: GoldTable, silver_schema: StructType) -> None:
    """Refuse a gold table that silver cannot give, or that a replay could change.

    Raises:
        ConfigError: one line with the table, the key, the expression and the reason.
    """
    silver = spark.createDataFrame([], silver_schema)
    with _without_log():
        try:
            for key, text in _expressions(table):
                _check_expression(silver, key, text)
            schema_over(silver, table)
        except ConfigError as error:
            raise ConfigError(f"gold.{name}.{error}") from None


def _expressions(table: GoldTable) -> Iterator[tuple[str, str]]:
    if table.where is not None:
        yield "where", table.where
    yield from ((f"by.{name}", text) for name, text in table.by.items())
    yield from ((f"measures.{each.name}", each.argument) for each in table.parsed if each.argument)


def _check_expression(silver: DataFrame, key: str, text: str) -> None:
    try:
        selected = silver.select(column(text))
        reason = _impurity(selected, text) or throwing(selected, text)
    except PySparkException as error:
        reason = _failure(error, silver.columns)
    if reason is None and key == "where":
        kind = silver.select(column(text)).schema[0].dataType
        if not isinstance(kind, BooleanType):
            reason = f"is of type {kind.simpleString()}; where is a condition, such as level = 'ERROR'"
    if reason is not None:
        raise ConfigError(f"{key}: {shown(text)} {reason}")


def _impurity(selected: DataFrame, text: str) -> str | None:
    """Say why this is no function of one row, from the plan as analysed; None where it is."""
    plan = selected._jdf.queryExecution().analyzed()
    jvm: Any = selected.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    for pattern, reason in _PATTERNS.items():
        if plan.containsPattern(getattr(patterns, pattern)()):
            return reason
    if not plan.deterministic():
        return _RANDOM
    if len(selected.columns) != 1:
        return "is several columns; an expression gives one value"
    if not plan.children().head().children().isEmpty():
        return _WINDOW  # window(log_time, …) and its like, which Spark rewrites to a plan of more steps
    if _CLOCK_LITERAL.search(text):
        return _CLOCK
    walked = Walk(selected.sparkSession).judged(plan.expressions().head())
    return next(filter(None, (_node_impurity(node) for node, _ in walked)), None)


def _node_impurity(node: Any) -> str | None:
    kind = node.getClass().getSimpleName()
    if kind == "Cast" and node.dataType().typeName().startswith(("date", "timestamp")):
        word = node.child()
        if word.foldable() and _CLOCK_WORD.match(str(word.eval(None))):
            return _CLOCK
    return _NODES.get(kind)


def _failure(error: PySparkException, columns: list[str]) -> str:
    condition = (error.getCondition() or "").split(".")[0]
    if condition == "UNRESOLVED_COLUMN":
        unknown = (error.getMessageParameters() or {}).get("objectName", "")
        return f"names {unknown}, which silver does not have; its columns are {', '.join(columns)}"
    if condition in _CONDITIONS:
        return _CONDITIONS[condition]
    said = re.sub(r"^\[\S+\] ?| ?SQLSTATE: \w+.*", "", str(error).strip().splitlines()[0])
    verb = "cannot be used" if isinstance(error, AnalysisException) else "cannot be evaluated"
    return f"{verb}: {said}"


@contextmanager
def _without_log() -> Iterator[None]:
    """Keep PySpark from printing a failed analysis as JSON before the one line that says it."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
