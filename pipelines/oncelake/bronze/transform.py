"""Map a source's own columns to bronze's columns; the lines stay unchanged."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import Reader, Records, bounded_reader, is_bounded
from oncelake.bronze.schema import BRONZE
from oncelake.bronze.stand_in import MAX_LINE

# How Spark reads the lines of files, both in a stream and when files are read again.
LINES = {  # guard: no-line-length-limit
    "lineSep": "\n",  # a lone \r is part of a line
    "recursiveFileLookup": "true",  # read subdirectories, and make no column from `date=…` names
    # Hadoop silently skips a longer line, and a core-site.xml may set a lower limit
    "mapreduce.input.linerecordreader.line.maxlength": str(2**31 - 1),
}


# The first and the last microsecond of a timestamp in Spark, from 1970 (its documentation, "Data Types").
_TIMES = tuple(
    (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
)


def line_reader(
    spark: SparkSession, reader: Reader, records: Records | None = None, max_line: int = MAX_LINE
) -> Reader:
    """Return a reader of files: a row for each line, or for each record of several lines, and for each stand-in.

    A session without our classes reads lines with Spark's own reader, which has no stand-ins.

    Args:
        spark: the session.
        reader: its reader.
        records: how lines are put together; None if each line is a record.
        max_line: the bytes of a line; a longer one is a stand-in.
    """
    if records is not None:
        return bounded_reader(reader, records, max_line).options(**LINES)
    own = is_bounded(spark)
    return (bounded_reader(reader, None, max_line, "string") if own else reader.format("text")).options(**LINES)


def from_files(lines: DataFrame, records: Records | None = None) -> DataFrame:
    """Return bronze's columns for lines of files.

    Args:
        lines: the columns of `line_reader`, and the hidden column `_metadata` of the file.
        records: how lines are put together; None if each line is a record.
    """
    of_records = {"file_offset": F.col("start")} if records is not None else {}
    stand_ins = {"headers": F.col("headers")} if "headers" in lines.columns else {}
    return bronze_columns(
        lines,
        value=F.col("value").cast("binary"),  # this cast never fails
        file=F.col("_metadata.file_path"),
        file_modified=F.col("_metadata.file_modification_time"),
        file_size=F.col("_metadata.file_size"),
        **of_records,
        **stand_ins,
    )


def from_tail(records: DataFrame) -> DataFrame:
    """Return bronze's columns for records of growing files; columns as TailSource.java gives them."""
    same = ("value", "file", "file_id", "headers")
    modified = F.timestamp_millis("modified")
    return bronze_columns(
        records, file_offset=F.col("start"), file_modified=modified, **{name: F.col(name) for name in same}
    )


def from_kafka(records: DataFrame) -> DataFrame:
    """Return bronze's columns for Kafka records that were read with their headers."""
    same = ("value", "topic", "partition", "offset", "key", "headers")
    return bronze_columns(records, timestamp=record_time(), **{name: F.col(name) for name in same})


def record_time() -> Column:  # guard: timestamp-fits-spark
    """Return a record's timestamp; null if it is not in the years 1 to 9999, which is all that a timestamp holds."""
    return F.when(F.unix_micros("timestamp").between(*map(F.lit, _TIMES)), F.col("timestamp"))


def bronze_columns(source: DataFrame, **columns: Column) -> DataFrame:
    """Return a source's rows with bronze's columns, in order; null for those that the source does not have.

    Args:
        source: the source's own columns.
        columns: bronze's columns that the source has, by name.
    """
    # In a stream this is the time at which the batch was planned. The offset log keeps it, so a replay gives
    # the same time.
    columns["ingested_at"] = F.current_timestamp()
    nothing = F.lit(None)
    return source.select(*(columns.get(field.name, nothing).cast(field.dataType).alias(field.name) for field in BRONZE))
