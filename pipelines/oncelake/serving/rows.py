"""Spark rows as rows for a sink, one part at a time, in the order of their key.

Times become naive datetimes in UTC. NaN and the infinities become NULL, as not every database has them.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeVar

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
from oncelake.serving.sink import KEY, LOG_TIME, Kind, Merge, SinkColumn, SinkTable

T = TypeVar("T")

# About how many rows are on the driver at a time: Spark cuts the rows into ranges of roughly this size.
PART = 100_000
# Rows in one call of the database's driver.
CHUNK = 10_000
# Seconds between two uses of a connection that waits for rows: servers and proxies end idle connections.
KEEP_ALIVE = 10.0
EPOCH = datetime(1970, 1, 1)


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
    """Return the served form of a gold table: its columns without the hidden sketches, and its key first.

    Args:
        name: the table's name.
        declared: the gold table's declaration.
        schema: the gold table's columns and types.

    Raises:
        ConfigError: no sink can hold a column.
    """
    merges = {each.name: each.how.merge for each in declared.parsed}
    key = [SinkColumn(KEY, "text")] if declared.by else []
    fields = (schema[column] for column in (LOG_TIME, *declared.by, *declared.measures))
    columns = [_column(name, each, merges.get(each.name)) for each in fields]
    return SinkTable(name, KEY if declared.by else LOG_TIME, (*key, *columns))


def _column(table: str, field: StructField, merge: Merge | Literal["sketch"] | None) -> SinkColumn:
    of = field.dataType
    kind = next((kind for spark, kind in _KINDS if isinstance(of, spark)), None)
    if kind is None:
        raise ConfigError(
            f"gold.{table}: {field.name} has type {of.simpleString()}, which no database column "
            "can hold; declare a part of it, or remove the table from serving.tables"
        )
    precision, scale = (of.precision, of.scale) if isinstance(of, DecimalType) else (0, 0)
    return SinkColumn(
        field.name,
        kind,
        _BITS.get(type(of), 64),
        precision,
        scale,
        never_null=merge in ("count", "sketch"),
        merge=None if merge == "sketch" else merge,
    )


@dataclass(frozen=True)
class Rows:
    """Rows that can be read more than once.

    Attributes:
        names: the columns, in the order of each row's values.
        count: the number of rows.
        taken: the number of source rows from which they were computed.
        schema: the columns of their gold table.
        read: returns an iterator over the rows, from the first one.
    """

    names: tuple[str, ...]
    count: int
    taken: int
    schema: StructType
    read: Callable[[], Iterator[tuple[Any, ...]]]

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


def _shaped(gold: DataFrame, declared: GoldTable, *, nul: bool = True) -> DataFrame:
    """Return the served columns of a gold table's rows: the key first, if the table has keys.

    Args:
        gold: rows with the gold table's columns.
        declared: the gold table's declaration.
        nul: True if the sink can store the character U+0000 in text; PostgreSQL cannot, and gets U+FFFD.
    """
    names = (LOG_TIME, *declared.by, *declared.measures)
    key = [_key(declared, gold).alias(KEY)] if declared.by else []
    return gold.select(*key, *(_served(gold.schema[name], nul=nul) for name in names))


@contextmanager
def held(gold: DataFrame, declared: GoldTable, taken: Callable[[], int], *, nul: bool) -> Iterator[Rows]:
    """Compute served rows once, yield them in the order of their key, and free them at the end.

    Args:
        gold: rows with the gold table's columns.
        declared: the gold table's declaration.
        taken: returns the number of source rows; called after the rows are computed.
        nul: True if the sink can store the character U+0000 in text.
    """
    frame = _shaped(gold, declared, nul=nul).persist(StorageLevel.MEMORY_AND_DISK)
    key = KEY if declared.by else LOG_TIME
    try:
        count = frame.count()
        yield Rows(tuple(frame.columns), count, taken(), gold.schema, lambda: read(frame, key, count))
    finally:
        frame.unpersist()


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


def _served(field: StructField, *, nul: bool) -> Column:
    column, metadata = F.col(quoted(field.name)), {}
    if isinstance(field.dataType, TimestampType):  # collect() would convert a timestamp to the machine's time zone
        column, metadata = F.unix_micros(column), {"micros": True}
    elif isinstance(field.dataType, (DoubleType, FloatType)):
        infinite = F.isnan(column) | (F.abs(column) == F.lit(float("inf")))
        column = F.when(~infinite, column.cast("double"))
    elif isinstance(field.dataType, StringType) and not nul:
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
