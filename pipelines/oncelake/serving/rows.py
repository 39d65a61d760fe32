"""Spark rows as rows for a sink, one part at a time, in the order of their key.

Times become naive datetimes in UTC. A row with a value that the database cannot hold is kept apart: see `values`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
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
    IntegralType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.common.errors import ConfigError
from oncelake.gold.declaration import GoldTable, quoted
from oncelake.gold.functions import Function
from oncelake.gold.transform import in_gold
from oncelake.serving.sink import (
    KEY,
    LOG_TIME,
    LONGEST,
    NONE_REFUSED,
    Kind,
    Merge,
    RefusedRow,
    RefusedRows,
    Sink,
    SinkColumn,
    SinkTable,
)
from oncelake.serving.values import ValueLimits

T = TypeVar("T")

# About how many rows are on the driver at a time: Spark cuts the rows into ranges of roughly this size.
PART = 100_000
# Rows in one call of the database's driver.
CHUNK = 10_000
# Seconds between two uses of a connection that waits for rows: servers and proxies end idle connections.
KEEP_ALIVE = 10.0
EPOCH = datetime(1970, 1, 1)
# The column that says why a row cannot be held.
_REFUSAL = "_refusal"

_KINDS: tuple[tuple[type[DataType] | tuple[type[DataType], ...], Kind], ...] = (
    (IntegralType, "integer"),
    (DecimalType, "decimal"),
    ((DoubleType, FloatType), "float"),
    (BooleanType, "boolean"),
    (StringType, "text"),
    (BinaryType, "binary"),
    (DateType, "date"),
    (TimestampType, "time"),
)
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32}


def sink_table(name: str, declared: GoldTable, schema: StructType) -> SinkTable:
    """Return the served form of a gold table: its columns without the hidden ones, and its key first.

    Args:
        name: the table's name.
        declared: the gold table's declaration.
        schema: the gold table's columns and types.

    Raises:
        ConfigError: no sink can hold a column.
    """
    functions = {measure.name: measure.how for measure in declared.parsed}
    key = [SinkColumn(KEY, "text")] if declared.by else []
    fields = (schema[column] for column in (LOG_TIME, *declared.by, *declared.measures))
    columns = [_column(name, field, functions.get(field.name)) for field in fields]
    return SinkTable(name, KEY if declared.by else LOG_TIME, (*key, *columns))


def _column(table: str, field: StructField, function: Function | None) -> SinkColumn:
    data_type = field.dataType
    kind = next((kind for spark, kind in _KINDS if isinstance(data_type, spark)), None)
    if kind is None:
        raise ConfigError(
            f"gold.{table}: {field.name} has type {data_type.simpleString()}, which no database column "
            "can hold; declare a part of it, or remove the table from serving.tables"
        )
    precision, scale = (data_type.precision, data_type.scale) if isinstance(data_type, DecimalType) else (0, 0)
    return SinkColumn(
        field.name,
        kind,
        _BITS.get(type(data_type), 64),
        precision,
        scale,
        never_null=function is not None and function.never_null,
        merge=_merge(function),
    )


def _merge(function: Function | None) -> Merge | None:
    """Return how a sink merges a measure; None for one that it cannot merge."""
    match function.merge if function is not None else None:
        case "sketch" | "buckets":
            return None
        case merge:
            return merge


@dataclass(frozen=True)
class Rows:
    """Rows that can be read more than once.

    Attributes:
        names: the columns, in the order of each row's values.
        count: the number of rows.
        source_rows: the number of source rows from which they were computed.
        schema: the columns of their gold table.
        read: returns an iterator over the rows, from the first one.
        refused: further rows, which the sink cannot hold.
    """

    names: tuple[str, ...]
    count: int
    source_rows: int
    schema: StructType
    read: Callable[[], Iterator[tuple[Any, ...]]]
    refused: RefusedRows = NONE_REFUSED

    def chunks(self, idle: Callable[[], object]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows in lists of up to CHUNK; a thread prefetches the next list.

        Args:
            idle: called every KEEP_ALIVE seconds while the next list, or the first one, is not ready.
        """
        rows = self.read()

        def take() -> list[tuple[Any, ...]]:
            return list(islice(rows, CHUNK))

        with ThreadPoolExecutor(max_workers=1) as ahead:
            following = ahead.submit(take)
            while chunk := _result(following, idle):
                following = ahead.submit(take)
                yield chunk


def meanwhile(work: Callable[[], T], idle: Callable[[], object]) -> T:
    """Return the result of work in another thread; call `idle` every KEEP_ALIVE seconds until it is done."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        return _result(worker.submit(work), idle)


def _result(work: Future[T], idle: Callable[[], object]) -> T:
    while not wait([work], timeout=KEEP_ALIVE).done:
        idle()
    return work.result()


def _shaped(gold: DataFrame, declared: GoldTable, sink: Sink) -> DataFrame:
    """Return the served columns of a gold table's rows: the key first, if it has keys, and last why it is refused."""
    names = (LOG_TIME, *declared.by, *declared.measures)
    key = [_key(declared, gold).alias(KEY)] if declared.by else []
    refusal = _refusal(gold, declared, sink.limits or ValueLimits()).alias(_REFUSAL)
    return gold.select(*key, *(_served(gold.schema[name], sink) for name in names), refusal)


def _refusal(gold: DataFrame, declared: GoldTable, limits: ValueLimits) -> Column:
    """Return the first value of a row that the sink cannot hold: the row's keys, column, value and reason; or null."""
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in (LOG_TIME, *declared.by))))
    refusals = []
    for name in (LOG_TIME, *declared.by, *declared.measures):
        column = F.col(quoted(name))
        for condition, why in limits.refusals(column, in_gold(gold.schema[name]).dataType):
            value = F.translate(F.left(column.cast("string"), F.lit(LONGEST)), "\0", "\ufffd")
            details = (F.col(LOG_TIME).cast("string"), F.left(row, F.lit(LONGEST)), F.lit(name), value, F.lit(why))
            refusals.append(F.when(condition, F.array(*details)))
    return F.coalesce(*refusals)


@contextmanager
def computed_rows(gold: DataFrame, declared: GoldTable, source_rows: Callable[[], int], sink: Sink) -> Iterator[Rows]:
    """Compute served rows once, yield them in the order of their key, and free them at the end.

    Args:
        gold: rows with the gold table's columns; sums may be wider.
        declared: the gold table's declaration.
        source_rows: returns the number of source rows; called after the rows are computed.
        sink: the sink of the rows.
    """
    frame = _shaped(gold, declared, sink).persist(StorageLevel.MEMORY_AND_DISK)
    key = KEY if declared.by else LOG_TIME
    try:
        ((count, refused),) = frame.agg(F.count(F.lit(1)), F.count(_REFUSAL)).collect()
        whole = frame.where(F.col(_REFUSAL).isNull()) if refused else frame
        whole, count = whole.drop(_REFUSAL), count - refused
        others = RefusedRows(refused, lambda: _read_refused(frame, key)) if refused else NONE_REFUSED
        schema = StructType([in_gold(field) for field in gold.schema])
        yield Rows(tuple(whole.columns), count, source_rows(), schema, lambda: read(whole, key, count), others)
    finally:
        frame.unpersist()


def _read_refused(frame: DataFrame, key: str) -> Iterator[RefusedRow]:
    reader = _reader(key, frame)
    for value, (at, *details) in frame.where(F.col(_REFUSAL).isNotNull()).select(key, _REFUSAL).toLocalIterator():
        key_value = None if details[1] == key else reader(value) if reader else value
        yield RefusedRow(key_value, at if key_value is None else str(key_value), *details)


def read(frame: DataFrame, key: str, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield served rows in the order of their key; collect about PART rows at a time."""
    parts = -(-count // PART)
    ordered = (
        frame.repartitionByRange(parts, key).sortWithinPartitions(key) if parts > 1 else frame.coalesce(1).sort(key)
    )
    readers = [(place, reader) for place, name in enumerate(frame.columns) if (reader := _reader(name, frame))]
    for row in ordered.toLocalIterator(prefetchPartitions=parts > 1):
        values = list(row)
        for place, reader in readers:
            values[place] = None if values[place] is None else reader(values[place])
        yield tuple(values)


def _reader(name: str, frame: DataFrame) -> Callable[[Any], Any] | None:
    """Return the function that converts a collected value for the database; None if no conversion is needed."""
    if frame.schema[name].metadata.get("micros"):
        return lambda micros: EPOCH + timedelta(microseconds=micros)
    return bytes if isinstance(frame.schema[name].dataType, BinaryType) else None


def _served(field: StructField, sink: Sink) -> Column:
    column, metadata = F.col(quoted(field.name)), {}
    if isinstance(field.dataType, TimestampType):  # collect() would convert a timestamp to the machine's time zone
        column, metadata = F.unix_micros(column), {"micros": True}
    elif isinstance(field.dataType, (DoubleType, FloatType)):
        infinite = F.isnan(column) | (F.abs(column) == F.lit(float("inf")))
        column = column.cast("double") if sink.limits else F.when(~infinite, column.cast("double"))
    elif isinstance(field.dataType, DecimalType):
        column = column.try_cast(in_gold(field).dataType)
    elif isinstance(field.dataType, StringType) and not sink.keeps_nul:
        column = F.translate(column, "\0", "\ufffd")
    return column.alias(field.name, metadata=metadata)


def _key(declared: GoldTable, gold: DataFrame) -> Column:
    """Return the SHA-256 of window and keys; each value has its length in front, so no two rows give the same text."""
    texts = [F.unix_micros(LOG_TIME).cast("string"), *(_text(gold.schema[name]) for name in declared.by)]
    parts = [F.concat(F.lit("="), F.length(text).cast("string"), F.lit(":"), text) for text in texts]
    return F.sha2(F.concat(*(F.coalesce(part, F.lit("-")) for part in parts)), 256)


def _text(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    return F.hex(column) if isinstance(field.dataType, BinaryType) else column.cast("string")
