"""Check a suite with Spark before any stream starts: columns, regular expressions and types."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StringType, StructType

from oncelake.common.errors import ConfigError, reason
from oncelake.common.lake import SILVER
from oncelake.common.spark.jvm import jvm
from oncelake.quality.expectations import RowExpectation
from oncelake.quality.gate import batch_expectations
from oncelake.quality.split import FIELDS, MARKS, at
from oncelake.quality.suite import Declared, Suite


def check_suite(spark: SparkSession, suite: Suite, schema: StructType) -> None:
    """Check that every column exists, every regular expression compiles, and every rule fits its columns' types.

    Raises:
        ConfigError: a check fails; the message names the file, the expectation and the reason.
    """
    for number, declared in enumerate(suite.declared.expectations):
        types, expectation = _types(suite, declared, schema, number), suite.by_row[number]
        if MARKS in types and suite.table == SILVER:
            raise ConfigError(
                f"{suite.at(number)}: the rules themselves write the column {MARKS}, so no rule can check it; "
                "name another column"
            )
        for pattern in expectation.patterns() if expectation else ():
            compiled(spark, suite.at(number), pattern)
        if expectation is not None:
            _check_fits(spark, suite.at(number), expectation, types, schema)


def refuse_columns(suite: Suite, later: Collection[str]) -> None:
    """Refuse an expectation that a run checks, on columns that silver's rows get only after the check.

    Raises:
        ConfigError: names the file, the expectation and the column.
    """
    checked = {*(rule.id for rule in suite.rules), *(name for name, _, _ in batch_expectations(suite))}
    for number, (name, declared) in enumerate(zip(suite.ids, suite.declared.expectations, strict=True)):
        added = next((column for column in declared.columns if column in later), None)
        if added is not None and name in checked:
            raise ConfigError(
                f"{suite.at(number)}: silver.transform adds {added} to lines that have passed the rules, so no rule "
                "can check it; name another column"
            )


def left_out(suite: Suite) -> Iterator[str]:
    """Yield a warning for each expectation of silver that neither a row nor the gate can check."""
    gated = {name for name, _, _ in batch_expectations(suite)}
    for name, expectation in zip(suite.ids, suite.by_row, strict=True):
        if expectation is None and name not in gated and suite.table == SILVER:
            yield f"{suite.path}: {name} cannot be checked row by row, so runs skip it. To check it: oncelake validate"


def _types(suite: Suite, declared: Declared, schema: StructType, number: int) -> Mapping[str, DataType]:
    types: dict[str, DataType] = {}
    for name in declared.columns:
        outer, _, key = name.partition(".")
        if key and outer == FIELDS and suite.table == SILVER:
            types[name] = StringType()
        elif name in schema.fieldNames():
            types[name] = schema[name].dataType
        else:
            columns = [*schema.fieldNames(), *([f"{FIELDS}.<name>"] if suite.table == SILVER else [])]
            raise ConfigError(f"{suite.at(number)}: {suite.table} has no column {name!r}; it has {', '.join(columns)}")
    return types


def _check_fits(
    spark: SparkSession, where: str, expectation: RowExpectation, types: Mapping[str, DataType], schema: StructType
) -> None:
    try:
        expectation.check(types)
        assert spark.createDataFrame([], schema).select(expectation.broken(at)).columns
    except (ValueError, PySparkException) as error:
        raise ConfigError(f"{where}: {reason(error)}") from None


def compiled(spark: SparkSession, where: str, pattern: str) -> Any:
    """Compile a regular expression with Java, as Spark will.

    Raises:
        ConfigError: Java rejects the regular expression; the message names `where`.
    """
    try:
        return jvm(spark).java.util.regex.Pattern.compile(pattern)
    except PySparkException as error:
        raise ConfigError(f"{where}: {reason(error)} in {pattern!r}; correct the regular expression") from None
