"""Add the columns of the user's own code to silver's rows, and refuse code that a replay or a lost row could betray.

The code is a function from DataFrame to DataFrame. Its plan is checked each time it is built: only projections may be
between the rows that it gets and those that it returns, and silver's own columns must come through as they are.
"""

import pickletools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.common.errors import ConfigError, reason
from oncelake.common.spark.analysis import Impurity, impurity, without_log
from oncelake.common.spark.jvm import elements, jvm
from oncelake.common.spark.valid_text import INVALID_PREFIX, has_text, is_invalid, marks_of, may_be_invalid, valid
from oncelake.common.wording import shown
from oncelake.silver.parsing.columns import one_zero
from oncelake.silver.parsing.format import COLUMN_NAME, TAKEN
from oncelake.silver.user_code import KEY, UserCode

_ROW_BY_ROW = "each column must be computed from the columns of its own row, as in rows.withColumn(...)"
_RANDOM = "gives another value at every run, so a replay would differ"
_CLOCK = "depends on the clock, the user or the session, so a replay could differ"
_PURE = (
    "columns must not depend on the clock or the machine's zone. Compute them from the line's own, such as log_time, "
    "and give each datetime a zone, as in datetime(2020, 1, 1, tzinfo=UTC)"
)
# Where the function is called again: days from now, and the zone. They lie on both sides of now and of UTC.
_ELSEWHERE = ((2753, "Pacific/Chatham"), (-1377, "America/St_Johns"))
# What differs between two pickles of one function: an ID of each class, and where a value is stored or found again.
_CLASS_ID = re.compile(r"[0-9a-f]{32}")
_PLACES = frozenset({"FRAME", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"})
# Nodes of a plan that may be between the given and the returned rows.
_ALLOWED = frozenset({"Project", "SubqueryAlias"})
# Catalyst's names for the contents of an expression.
_PATTERNS: Mapping[str, str] = {
    "PLAN_EXPRESSION": "has a subquery, whose result may change",
    "CURRENT_LIKE": _CLOCK,
}
_NODES: Mapping[Impurity, str] = {"random": _RANDOM, "clock": _CLOCK}
_TYPES = (
    *(BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType),
    *(ShortType, TimestampType),
)


@dataclass(frozen=True)
class UserTransform:
    """The function of `silver.transform`."""

    code: UserCode
    _known: dict[str, Sequence[StructField]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def fields(self, spark: SparkSession, silver: StructType) -> Sequence[StructField]:
        """Return the columns that the function adds to silver's.

        Raises:
            ConfigError: the function cannot be used; the message says why and what is accepted.
        """
        known = self._known.get(silver.json())
        if known is None:
            empty = spark.createDataFrame([], silver)
            once = self._transformed(empty)
            first = _texts(empty, once)
            if first != _texts(empty, self._transformed(empty)):
                # guard: same-plan-again
                raise self._refused(f"{_RANDOM}: two calls with the same rows give two different plans")
            for days, zone in _ELSEWHERE:
                self._compare(empty, first, days, zone)
            comment = {"comment": f"by {self.code.name}"}
            known = [StructField(column.name, column.dataType, metadata=comment) for column in _added(empty, once)]
            self._known[silver.json()] = known
        return known

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Return silver's rows with the function's columns after their own: texts made valid, 0.0 for -0.0.

        Raises:
            ConfigError: the function cannot be used; the message says why and what is accepted.
        """
        result = self.marked(rows)
        return result.drop(*marks_of(result.columns))

    def marked(self, rows: DataFrame) -> DataFrame:
        """Return the result with a hidden column for each that may have invalid texts: whether one was made valid."""
        result = self._transformed(rows)
        added = _added(rows, result)
        texts = [column for column in added if has_text(column.dataType)]
        unsure = {text.name: text.dataType for text in texts} if texts and _may_be_invalid(rows, result) else {}
        values = (
            # guard: transform-values-valid
            valid(result[column.name], column.dataType)
            if column.name in unsure
            else one_zero(result[column.name], column.dataType)
            for column in added
        )
        marks = (is_invalid(result[name], kind).alias(f"{INVALID_PREFIX}{name}") for name, kind in unsure.items())
        named = (value.alias(column.name) for value, column in zip(values, added, strict=True))
        return result.select(*rows.columns, *named, *marks)

    def _compare(self, rows: DataFrame, first: Sequence[tuple[str, ...]], days: int, zone: str) -> None:
        """Raise ConfigError if the function, imported and called at another time in another zone, gives another plan.

        Only Python's clock is moved, and only in this process: before any stream starts, nothing else depends on it.
        """
        import time_machine  # noqa: PLC0415 - few lakes need it

        moment = datetime.now(ZoneInfo(zone)) + timedelta(days=days, hours=5, minutes=7)
        with self.code.imported_again(), time_machine.travel(moment):  # guard: module-imported-again
            try:
                expressions = _texts(rows, self._transformed(rows))
            except ConfigError as error:
                raise ConfigError(f"{error}. This was with the clock at {moment:%Y-%m-%d} {zone}: {_PURE}") from None
        for one, other in zip_longest(first, expressions, fillvalue=("no column",)):
            if one != other:
                what = shown(one[0])
                differs = f"would be {shown(other[0])}" if one[0] != other[0] else "has another Python function"
                # guard: plan-without-clock-or-zone
                raise self._refused(f"has {what}, which {differs} on {moment:%Y-%m-%d} in the zone {zone}; {_PURE}")

    def _transformed(self, rows: DataFrame) -> DataFrame:
        function = self.code.function()
        with without_log():
            result = self._called(function, rows)
            try:
                fault = next(_faults(rows, result), None)
            except (PySparkException, Py4JJavaError) as error:
                fault = f"cannot be used: {_first_line(error)}"
        if fault is not None:
            raise self._refused(fault)
        return result

    def _called(self, function: Callable[[DataFrame], Any], rows: DataFrame) -> DataFrame:
        try:
            result = function(rows)
        except (PySparkException, Py4JJavaError) as error:
            raise self._refused(f"cannot be used: {_first_line(error)}") from error
        except (Exception, SystemExit) as error:
            raise self._refused(f"raised {type(error).__name__}: {_first_line(error)}") from error
        if not isinstance(result, DataFrame):
            raise self._refused(
                f"returned {shown(result)}; it must return the DataFrame that it gets, with more columns"
            )
        return result

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"{KEY} {self.code.name} {why}")


def _faults(rows: DataFrame, result: DataFrame) -> Iterator[str]:
    """Yield why the returned rows are not the given ones with columns that depend on each row alone."""
    nodes = _steps(rows, result)
    for node in nodes:
        kind = str(node.getClass().getSimpleName())
        if kind not in _ALLOWED:  # guard: one-row-per-row
            away = "does not return the DataFrame that it gets" if node.children().isEmpty() else f"uses {kind}"
            yield f"{away}; {_ROW_BY_ROW}"
            return
    yield from _impure(rows.sparkSession, nodes)  # guard: same-columns-again
    yield from _changed(rows, result)  # guard: silver-columns-unchanged
    yield from _unfit(_added(rows, result))


def _steps(rows: DataFrame, result: DataFrame) -> list[Any]:
    """Return the nodes of a plan above that of the given rows, the last one first; all of them if it is not there."""
    node, start, nodes = _plan(result), _plan(rows), []
    while not node.fastEquals(start):
        nodes.append(node)
        if str(node.getClass().getSimpleName()) not in _ALLOWED:
            break
        node = node.children().head()
    return nodes


def _expressions(nodes: Sequence[Any]) -> Iterator[Any]:
    return (expression for node in nodes for expression in elements(node.expressions()))


def _may_be_invalid(rows: DataFrame, result: DataFrame) -> bool:
    """Return True if one of the expressions of a plan above that of the given rows may have invalid texts."""
    expressions = _expressions(_steps(rows, result))
    return any(may_be_invalid(rows.sparkSession, expression) for expression in expressions)


def _impure(spark: SparkSession, nodes: Sequence[Any]) -> Iterator[str]:
    patterns = jvm(spark).org.apache.spark.sql.catalyst.trees.TreePattern
    for expression in _expressions(nodes):
        what = shown(str(expression.sql()))
        for pattern, why in _PATTERNS.items():
            if expression.containsPattern(getattr(patterns, pattern)()):
                yield f"has {what}, which {why}"
        if not expression.deterministic():
            yield f"has {what}, which {_RANDOM}"
        impurities = {impurity(node) for node in _all_nodes(expression)}
        yield from (f"has {what}, which {why}" for kind, why in _NODES.items() if kind in impurities)


def _changed(rows: DataFrame, result: DataFrame) -> Iterator[str]:
    """Yield a fault for each given column that is not returned as it is: Spark gives each column an ID."""
    returned = elements(_plan(result).output())
    for original in elements(_plan(rows).output()):
        name = str(original.name())
        same = [column for column in returned if str(column.name()).lower() == name.lower()]
        if not same:
            yield f"drops silver's column {name}; return the DataFrame with all of its columns"
        elif len(same) > 1 or not same[0].exprId().equals(original.exprId()) or str(same[0].name()) != name:
            yield f"changes silver's column {name}; give your column another name"


def _unfit(added: Sequence[StructField]) -> Iterator[str]:
    """Yield a fault for each new column whose name or type silver's table cannot have."""
    if not added:
        yield f"adds no column; {_ROW_BY_ROW}"
    seen: set[str] = set()
    for column in added:
        if not COLUMN_NAME.fullmatch(column.name):
            yield f"names a column {shown(column.name)}; use a letter, then letters, digits or _"
        if column.name.lower() in TAKEN:
            yield f"names a column {column.name}, which is a column of bronze or silver; give it another name"
        if column.name.lower() in seen:
            yield f"names two columns {column.name}; upper and lower case do not differ in a column's name"
        seen.add(column.name.lower())
        if not _is_plain(column.dataType):
            yield (
                f"gives {column.name} the type {column.dataType.simpleString()}; a column must be a plain value "
                "(string, number, boolean, binary, date or timestamp): cast it, or use to_json"
            )


def _is_plain(kind: DataType) -> bool:
    return isinstance(kind, _TYPES) or (isinstance(kind, StringType) and kind == StringType())


def _added(rows: DataFrame, result: DataFrame) -> Sequence[StructField]:
    return [column for column in result.schema if column.name not in rows.columns]


def _texts(rows: DataFrame, result: DataFrame) -> list[tuple[str, ...]]:
    """Return the expressions of a plan above that of the given rows: as SQL, which has no IDs, and their constants."""
    return [
        (str(expression.sql()), *map(_constants, _python_functions(expression)))
        for expression in _expressions(_steps(rows, result))
    ]


def _python_functions(expression: Any) -> list[Any]:
    return [node.func() for node in _all_nodes(expression) if str(node.getClass().getSimpleName()) == "PythonUDF"]


def _constants(function: Any) -> str:
    """Return the names and constants in a pickled Python function; "" if it is so large that Spark broadcasts it."""
    if not function.broadcastVars().isEmpty():
        return ""
    command = bytes(int(number) % 256 for number in str(function.command().mkString(",")).split(","))
    values = ((code.name, repr(value)) for code, value, _ in pickletools.genops(command) if value is not None)
    return "\n".join(sorted({text for name, text in values if name not in _PLACES and not _CLASS_ID.search(text)}))


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


def _all_nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in elements(node.children()):
        yield from _all_nodes(child)


def _first_line(error: BaseException) -> str:
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else error
    return re.sub(r"^\[\S+\] ?| ?SQLSTATE: \w+.*", "", reason(Exception(str(text))))
