"""Read named files again, as bronze reads them."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.transform import LINES
from oncelake.common.lake import is_local
from oncelake.exactly_once.files_source import place_of


def read_again(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read exactly these files: `file` string, its URI, and `value` binary, a line."""
    return read_paths(spark, [place_of(uri) for uri in uris])


def read_paths(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read exactly the files at these places (see `place_of`): `file` string, its URI, and `value` binary, a line."""
    reader = spark.read.format("text").options(**LINES)
    reader = reader.option("__globPaths__", "false")  # Spark's own option, with which a stream reads its files
    lines = reader.load([f"file:{path}" if is_local(path) else path for path in paths])
    return lines.select(F.col("_metadata.file_path").alias("file"), F.col("value").cast("binary"))
