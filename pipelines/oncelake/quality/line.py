"""This is where a row is named by the line that it came from, in the words that `trace` takes."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def line_of(of_file: Column | None = None) -> Column:
    """Name a row: `topic/partition/offset`, or `file:line`.

    Args:
        of_file: what names a line of a file where the row has not the line itself (`value`).
    """
    if of_file is None:
        of_file = F.concat(file_name(F.col("file")), F.lit(":"), F.make_valid_utf8(F.col("value").cast("string")))
    return F.when(F.col("file").isNotNull(), of_file).otherwise(F.concat_ws("/", "topic", "partition", "offset"))


def file_name(path: Column) -> Column:
    """Give the last part of a path."""
    return F.element_at(F.split(path, "/"), -1)
