"""Schema of a gold table: the window's start, the keys, the measures, then the hidden parts of measures."""

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, StructField, StructType, TimestampType

from oncelake.common.errors import ConfigError
from oncelake.common.wording import shown
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.expression import column
from oncelake.gold.functions import is_plain
from oncelake.gold.measure import Measure


def gold_schema(spark: SparkSession, table: GoldTable, silver_schema: StructType) -> StructType:
    """Return a gold table's columns and types: log_time, keys, measures, then their hidden parts.

    Raises:
        ConfigError: an expression's type cannot be a key or does not fit the measure; the message says what to write.
    """
    return schema_over(spark.createDataFrame([], silver_schema), table)


def schema_over(silver: DataFrame, table: GoldTable) -> StructType:
    """Return a gold table's columns and types over this silver frame; only analyzes it, reads no row."""
    keys = [_key(silver, name, text) for name, text in table.by.items()]
    measures = [_measure(silver, measure) for measure in table.parsed]
    parts = {part.name: part for measure in table.parsed for part in _parts(silver, measure)}
    window = StructField(
        LOG_TIME, TimestampType(), metadata={"comment": f"start of the window of {table.every}{_in(table)}, UTC"}
    )
    return StructType([window, *keys, *measures, *parts.values()])


def _in(table: GoldTable) -> str:
    return f" in {table.zone}" if table.zone is not None else ""


def _key(silver: DataFrame, name: str, text: str) -> StructField:
    kind = _type_of(silver, text)
    if not is_plain(kind):
        raise ConfigError(
            f"by.{name}: {shown(text)} is of type {kind.simpleString()}; a key must be a plain value "
            "(string, number, boolean, binary, date or timestamp): use a part of it or cast it to string"
        )
    return StructField(name, kind)


def _measure(silver: DataFrame, measure: Measure) -> StructField:
    kind = _type_measured(silver, measure)
    result = measure.how.over(kind)
    if isinstance(result, str):
        text = shown(measure.text)
        raise ConfigError(f"measures.{measure.name}: {text} is over type {kind.simpleString()}; {result}")
    return StructField(measure.name, result)


def _parts(silver: DataFrame, measure: Measure) -> Iterator[StructField]:
    """Yield the hidden columns of a measure."""
    for name, part in measure.parts.items():
        if part.kind is not None:
            kind = part.kind(_type_measured(silver, measure))
            yield StructField(name, kind, metadata={"comment": part.comment.format(name.removeprefix(part.prefix))})


def _type_measured(silver: DataFrame, measure: Measure) -> DataType:
    return _type_of(silver, measure.expression) if measure.argument else IntegerType()  # a count counts ones


def _type_of(silver: DataFrame, text: str) -> DataType:
    return silver.select(column(text)).schema[0].dataType
