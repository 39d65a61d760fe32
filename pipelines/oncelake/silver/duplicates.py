"""Recognize the repeats of a line, in Spark; `collected_duplicates` does it for a small batch in this process.

Lines of one key are looked at in the order in which they arrived. A line is kept unless a kept line of its key is at
most a window before or after it, by the times of the lines. Its twin is the first such line. So a repeat never
extends the window, and silver never holds two lines of one key within a window.
"""

import json
from collections.abc import Collection, Iterable
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, MapType, StructType, TimestampType

from oncelake.common.errors import ConfigError
from oncelake.exactly_once.link import joined, merged
from oncelake.exactly_once.table_version import TableVersion, Times
from oncelake.silver.schema import DUPLICATES, EVENT, EVENT_KEY, EVENT_WINDOW, SILVER, SOURCE, TWIN, columns
from oncelake.silver.settings import HEADER, RECORD, Deduplicate
from oncelake.silver.transform import is_accepted

# Columns of silver that every lake has and that a key can name.
_COLUMNS = ("log_time", "level", "message", "topic", "partition", "file")
# The origin of a row, as silver and a twin have it.
ORIGIN = (*("topic", "partition", "offset", "file", "ingested_at"), SOURCE.name)
# The order of lines that arrived in one batch of bronze; lines of a file have no number, so their times decide.
WITHIN_SOURCE = ("topic", "partition", "offset", "file_id", "of_file", "file_offset", "log_time", "value")
_HASH_BYTES = 16
# With more parts, silver is read from the first to the last time.
MOST_PARTS, MOST_RANGES = 10_000, 64


def refuse_key(declared: Deduplicate, typed: Collection[str], *, named: bool) -> None:
    """Raise ConfigError if a key names no column of silver, or a format has a column with a name that is needed.

    Args:
        declared: how repeats are recognized.
        typed: the names of the columns that the log formats declare.
        named: True if silver has the name of a line's source.
    """
    clashes = {field.name for field in EVENT} & {name.lower() for name in typed}
    if clashes:
        raise ConfigError(
            f"a log format declares columns.{min(clashes)}, and silver.deduplicate adds a column of that name to "
            "silver; give the column of the format another name"
        )
    known = [*_COLUMNS, *([SOURCE.name] if named else []), *sorted(typed)]
    unknown = next((part for part in declared.key if not _is_special(part) and part not in known), None)
    if unknown is not None:
        raise ConfigError(
            f"silver.deduplicate.key: silver has no column {unknown!r} that can be part of a key; accepted are "
            f"{', '.join(known)}, {HEADER}<name> and {RECORD}. A format declares further ones under `columns`"
        )


def _is_special(part: str) -> bool:
    return part.startswith(HEADER) or part == RECORD


def with_event(parsed: DataFrame, declared: Deduplicate) -> DataFrame:
    """Add event_key and event_window to parsed rows.

    The key is a hash of its parts, each with its length, and of their names: keys of other parts are never equal. It
    is null if a part is null.
    """
    parts = [_text(part, parsed.schema) for part in declared.key]
    # guard: key-part-lengths
    texts = [text for part in parts for text in (F.octet_length(part).cast("string"), F.lit(":"), part)]
    hashed = F.sha2(F.concat(F.lit(json.dumps(declared.key)), *texts), 256)
    key = F.unhex(F.substring(hashed, 1, 2 * _HASH_BYTES))
    return parsed.withColumns({EVENT_KEY: key, EVENT_WINDOW: F.lit(declared.window).cast("bigint")})


def _text(part: str, schema: StructType) -> Column:
    """Return a part of the key as text; null if the line lacks it."""
    if part == RECORD:
        return F.hex("value")
    if part.startswith(HEADER):
        of_name = F.filter("headers", lambda header: header["key"] == part.removeprefix(HEADER))
        return F.hex(F.try_element_at(of_name, F.lit(-1))["value"])  # the last one, as Kafka's own `lastHeader`
    return _as_text(F.col(part), schema[part].dataType)


def _as_text(value: Column, kind: DataType) -> Column:
    if isinstance(kind, TimestampType):
        return F.unix_micros(value).cast("string")
    return F.hex(value) if isinstance(kind, BinaryType) else value.cast("string")


def _is_compared() -> Column:
    """Return a condition on parsed rows: the line goes to silver and has a key."""
    return is_accepted() & F.col(EVENT_KEY).isNotNull()


def _times_near(parsed: DataFrame, declared: Deduplicate) -> Times:
    """Return the ranges of times in which silver can hold a twin of one of these lines."""
    at, window = F.unix_micros("log_time"), declared.window
    number = F.expr(f"(unix_micros(log_time) - pmod(unix_micros(log_time), {window}L)) div {window}L")
    lines = parsed.where(_is_compared())
    parts = [row[0] for row in lines.select(number.alias("part")).distinct().limit(MOST_PARTS).collect()]
    if len(parts) < MOST_PARTS:
        return near(parts, window)
    (ends,) = lines.agg(F.min(at), F.max(at)).collect()
    return [(ends[0] - window, ends[1] + window)]


def near(parts: Iterable[int], window: int) -> Times:
    """Return the ranges of times that are at most a window from one of these parts of time, each a window long."""
    ranges = (((part - 1) * window, (part + 2) * window - 1) for part in sorted(parts))  # guard: window-on-both-sides
    return joined(merged(ranges), MOST_RANGES)


def stored_near(before: TableVersion, parsed: DataFrame, declared: Deduplicate) -> DataFrame:
    """Read the rows of silver that have a key of these lines and a time near them."""
    stored = before.read(parsed.sparkSession, "log_time", _times_near(parsed, declared))
    if EVENT_KEY not in stored.columns:  # no line was compared yet
        return stored.withColumn(EVENT_KEY, F.lit(None).cast("binary")).limit(0)
    keys = parsed.where(_is_compared()).select(EVENT_KEY).distinct()
    return stored.join(keys, EVENT_KEY, "left_semi")


def with_twin(parsed: DataFrame, stored: DataFrame, within: timedelta) -> DataFrame:
    """Add `twin` to parsed rows: the row of silver, or of these rows, that a line repeats; null for a line that stays.

    Args:
        parsed: the rows, with event_key; read several times.
        stored: the rows of silver with the keys of these rows, as they were before the batch.
        within: the window.
    """
    window = within // timedelta(microseconds=1)
    packed = {field.name: _packed(field.name, field.dataType) for field in parsed.schema}
    lines = parsed.where(_is_compared())
    row = F.struct(*(value.alias(name) for name, value in packed.items()))
    new = lines.select(EVENT_KEY, _at(), _order(lines, is_new=True), _origin(lines), row.alias("row"))
    nothing = F.lit(None).cast(new.schema["row"].dataType)
    old = stored.select(EVENT_KEY, _at(), _order(stored, is_new=False), _origin(stored), nothing.alias("row"))
    by_time = Window.partitionBy(EVENT_KEY).orderBy("at")
    is_apart = F.coalesce(F.col("at") - F.lag("at").over(by_time) > window, F.lit(False))
    # lines of one key with a gap longer than the window between them are no repeats of each other
    both = new.unionByName(old).withColumn("apart", is_apart.cast("int"))
    both = both.withColumn("stretch", F.sum("apart").over(by_time))
    together = F.sort_array(F.collect_list(F.struct("order", "at", "who", "row")))
    grouped = both.groupBy(EVENT_KEY, "stretch").agg(together.alias("lines"))
    judged = grouped.select(F.explode(_judged(F.col("lines"), window)).alias("one"))
    back = [_unpacked(field.name, field.dataType) for field in parsed.schema]
    others = parsed.where(~_is_compared()).withColumn(TWIN.name, F.lit(None).cast(TWIN.dataType))
    return judged.select(*back, F.col("one.twin").cast(TWIN.dataType).alias(TWIN.name)).unionByName(others)


def _judged(lines: Column, window: int) -> Column:
    """Return the new ones of the lines of one key, sorted by arrival, each with its twin."""
    marks = F.transform(
        lines,
        lambda line, number: F.struct(
            number.alias("number"),
            line["order"]["is_new"].alias("is_new"),
            line["at"].alias("at"),
            line["who"].alias("who"),
        ),
    )
    none = F.filter(marks, lambda _: F.lit(False))

    def keep(unique: Column, mark: Column) -> Column:
        repeats = F.exists(unique, lambda old: F.abs(old["at"] - mark["at"]) <= window)  # guard: repeat-within-window
        return F.when(mark["is_new"] & repeats, unique).otherwise(F.concat(unique, F.array(mark)))

    def with_twins(unique: Column) -> Column:
        def with_twin_of(line: Column, number: Column) -> Column:
            near = F.filter(unique, lambda mark: (mark["number"] < number) & (F.abs(mark["at"] - line["at"]) <= window))
            return F.struct(line["row"].alias("row"), F.get(near, F.lit(0))["who"].alias("twin"))

        return F.filter(F.transform(lines, with_twin_of), lambda line: line["row"].isNotNull())

    return F.aggregate(marks, none, keep, with_twins)


def _at() -> Column:
    return F.unix_micros("log_time").alias("at")


def _order(rows: DataFrame, *, is_new: bool) -> Column:
    """Return what sorts lines by their arrival: first silver's, then the batch's by the batches of bronze."""
    named = SOURCE.name in rows.columns
    parts = {name: F.col(name) for name in WITHIN_SOURCE if name in rows.columns}
    of_file = F.when(F.col("file_id").isNull(), F.col("file")) if "file_id" in rows.columns else F.col("file")
    parts |= {"of_file": of_file, SOURCE.name: F.col(SOURCE.name) if named else F.lit(None)}
    kinds = {
        **{field.name: field.dataType for field in DUPLICATES},
        "of_file": SILVER["file"].dataType,
        SOURCE.name: SOURCE.dataType,
    }
    values = [parts.get(name, F.lit(None)).cast(kinds[name]).alias(name) for name in (SOURCE.name, *WITHIN_SOURCE)]
    # guard: repeats-by-arrival
    return F.struct(F.lit(is_new).alias("is_new"), F.col("ingested_at"), *values).alias("order")


def _origin(rows: DataFrame) -> Column:
    names = rows.columns
    values = [F.col(name) if name in names else F.lit(None).cast("string") for name in ORIGIN]
    fields = zip(ORIGIN, values, strict=True)
    return F.struct(F.col("log_time"), *(value.alias(name) for name, value in fields)).alias("who")


def _packed(name: str, kind: DataType) -> Column:
    """Return a value in a form that can be sorted: maps cannot."""
    return F.map_entries(name) if isinstance(kind, MapType) else F.col(name)


def _unpacked(name: str, kind: DataType) -> Column:
    value = F.col("one.row")[name]
    return (F.map_from_entries(value) if isinstance(kind, MapType) else value).alias(name)


def dropped(judged: DataFrame) -> DataFrame:
    """Return the rows of the table of repeats."""
    return judged.where(F.col(TWIN.name).isNotNull()).select(*columns(DUPLICATES, judged.columns))
