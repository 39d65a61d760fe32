"""This is where a source's own columns become bronze's; nothing of a line is changed."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE

# How Spark reads the lines of files, a stream's and those that are read again.
LINES = {
    "lineSep": "\n",  # a lone \r is part of a line
    "recursiveFileLookup": "true",  # subdirectories, and no column made of `date=…` names
    # Hadoop leaves out a longer line without a word; a core-site.xml may say another length
    "mapreduce.input.linerecordreader.line.maxlength": str(2**31 - 1),
}


def from_files(lines: DataFrame) -> DataFrame:
    """Give bronze's columns for lines of files.

    Args:
        lines: `value` string, as Spark's text source gives it, whose bytes are the line's own, and the
            hidden column `_metadata` of the file.
    """
    return _in_order(
        lines,
        value=F.col("value").cast("binary"),  # a string's bytes: never fails
        file=F.col("_metadata.file_path"),
        file_modified=F.col("_metadata.file_modification_time"),
        file_size=F.col("_metadata.file_size"),
    )


def from_kafka(records: DataFrame) -> DataFrame:
    """Give bronze's columns for Kafka records, read with their headers."""
    same = ("value", "topic", "partition", "offset", "timestamp", "key", "headers")
    return _in_order(records, **{name: F.col(name) for name in same})


def _in_order(source: DataFrame, **columns: Column) -> DataFrame:
    # In a stream this is the time at which the batch was planned; it is in the offset log, so a replay
    # gives the same.
    columns["ingested_at"] = F.current_timestamp()
    nothing = F.lit(None)
    return source.select(*(columns.get(field.name, nothing).cast(field.dataType).alias(field.name) for field in BRONZE))
