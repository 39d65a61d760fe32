"""Read source files again, and compare them with the lines that bronze holds."""

import os
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import as_lines
from oncelake.bronze.transform import line_reader
from oncelake.common.explain import explain
from oncelake.common.lake import is_local
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.wording import count_of
from oncelake.exactly_once.files_source import local_path, place_of


def files_lost(spark: SparkSession, bronze: DataFrame, source_path: str) -> list[str]:
    """Return one message for each file that would not give all of bronze's lines again.

    Each file is read again, whatever its size and time. It must hold each line at least as often as bronze does: a
    file that grew passes, a rotated file does not.

    Args:
        spark: the session.
        bronze: bronze's rows.
        source_path: the path that the source reads, in the form that Spark accepts.
    """
    files = bronze.select("file").distinct().join(_listed(spark, source_path), "file", "left").orderBy("file")
    lost, readable = [], []
    for row in files.select("file", F.coalesce("listed", F.lit(False)).alias("listed")).toLocalIterator():
        reason = _unreadable(spark, row, source_path)
        if reason is not None:
            lost.append(reason)
        else:
            readable.append(row["file"])
    return [*lost, *_lines_gone(spark, bronze, readable)]


def _listed(spark: SparkSession, source_path: str) -> DataFrame:
    """List the files that Spark would read; Spark itself handles hidden names, links and patterns."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = listing.load(source_path)
    except AnalysisException:  # the path does not exist
        return spark.createDataFrame([], "file string, listed boolean")
    return found.select(F.col("_metadata.file_path").alias("file"), F.lit(True).alias("listed"))


def _unreadable(spark: SparkSession, row: Row, source_path: str) -> str | None:
    uri = row["file"]
    if uri is None:
        return "bronze holds lines of Kafka, but the source is a directory"
    if not row["listed"]:
        return f"{uri} {_unlisted(spark, uri, source_path)}"
    if is_local(uri) and not os.access(local_path(uri), os.R_OK):
        return f"{uri} is not readable by this process"
    return None


def _unlisted(spark: SparkSession, uri: str, source_path: str) -> str:
    where, store = hadoop(spark, jvm(spark).java.net.URI(uri))
    if not store.exists(where):
        return "no longer exists"
    if store.getFileStatus(where).getLen() == 0:
        return "is now empty"
    return f"would not be read again: it is outside source.path {source_path}, or its name is hidden"


def _lines_gone(spark: SparkSession, bronze: DataFrame, uris: list[str]) -> list[str]:
    """Read files again, and return one message for each file that lacks a line that bronze holds."""
    if not uris:
        return []
    names = spark.createDataFrame([(uri,) for uri in uris], "file string")
    then = as_lines(bronze.join(names, "file", "left_semi"))
    by_file = lacking(then, read_again(spark, uris), "file").groupBy("file")
    summed = by_file.agg(F.sum("lacking").alias("lacking"), F.sum("then").alias("then"))
    try:
        found = summed.where("lacking > 0").orderBy("file").collect()
    except Exception as error:
        return [f"a source file cannot be read again: {explain(error)}"]
    return [
        f"{row['file']} was changed after it was read: it lacks {row['lacking']:,} of the "
        f"{count_of(row['then'], 'line')} that bronze holds from it"
        for row in found
    ]


def lacking(then: DataFrame, now: DataFrame, *by: str) -> DataFrame:
    """Count how often each line is there, and how often it is lacking now; columns: `by`, `line`, `then`, `lacking`.

    Args:
        then: the lines that were read, in the column `value`.
        now: the lines that are there now.
        by: columns of both; a line is looked for among those with the same values.
    """
    keys = [*by, "line"]
    counted, found = (
        lines.withColumn("line", F.xxhash64("value")).groupBy(*keys).agg(F.count("*").alias(name))
        for lines, name in ((then, "then"), (now, "now"))
    )
    lack = F.greatest(F.col("then") - F.coalesce("now", F.lit(0)), F.lit(0))
    return counted.join(found, keys, "left").withColumn("lacking", lack)


def read_again(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read exactly these files; columns: `file` string, the file's URI, and `value` binary, a line."""
    return read_paths(spark, [place_of(uri) for uri in uris])


def read_paths(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read exactly the files at these paths; columns: `file` string, the file's URI, and `value` binary, a line.

    Args:
        spark: the session.
        paths: absolute paths on this machine, or URLs without % escapes.
    """
    reader = line_reader(spark.read).option("__globPaths__", "false")  # Spark's internal option; its streams use it too
    lines = reader.load([f"file:{path}" if is_local(path) else path for path in paths])
    return lines.select(F.col("_metadata.file_path").alias("file"), F.col("value").cast("binary"))
