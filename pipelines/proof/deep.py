"""This is where files are read again, and their lines compared with bronze's."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.proof.read_files import hadoop_path, name_of, place_of
from pipelines.proof.rows import digest
from pipelines.proof.words import HANDFUL, listed


def changed(spark: SparkSession, rows: DataFrame, uris: Sequence[str]) -> list[str]:
    """Name the files whose lines are no longer those that bronze holds."""
    if not uris:
        return []
    names = spark.createDataFrame([(uri,) for uri in uris], "file string")
    now = _summed(read_again(spark, uris)).select("file", *(F.col(name).alias(f"{name}_now") for name in _SUMS))
    then = _summed(rows.select("file", "value")).join(names, "file", "left_semi")
    both = then.join(now, "file", "left")
    differs = both.where(" OR ".join(f"NOT ({name} <=> {name}_now)" for name in _SUMS))
    found = differs.select("file", "rows", F.coalesce("rows_now", F.lit(0)).alias("rows_now")).collect()
    said = [
        f"{name_of(place_of(file))} was changed after it was read: bronze has {rows:,} lines of it, "
        f"it has {rows_now:,}" + (" others" if rows == rows_now else "")
        for file, rows, rows_now in sorted(found)
    ]
    return [listed(said, separator="; ")] if said else []


def same_content(rows: DataFrame) -> list[str]:
    """Name the files that have the same lines under two names; each counts, by design."""
    groups = _summed(rows.where("file IS NOT NULL").select("file", "value")).groupBy(*_SUMS)
    names = groups.agg(F.count("*").alias("files"), F.min("file").alias("one"), F.max("file").alias("other"))
    twice = names.where("files > 1")
    shown = twice.orderBy("one").limit(HANDFUL).collect()
    if not shown:
        return []
    pairs = [f"{name_of(place_of(row['one']))} and {name_of(place_of(row['other']))}" for row in shown]
    return [f"same content under several names, counted for each by design: {listed(pairs, twice.count())}"]


_SUMS = ("rows", "sum", "xor")


def _summed(lines: DataFrame) -> DataFrame:
    """Sum up the lines of each file, whatever their order: `file`, `value` binary."""
    total, xor = digest()
    hashed = lines.select("file", F.xxhash64("value").alias("hash"))
    return hashed.groupBy("file").agg(F.count("*").alias("rows"), total.alias("sum"), xor.alias("xor"))


def read_again(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """Read exactly these files, as bronze reads them."""
    reader = spark.read.format("text").option("lineSep", "\n")
    reader = reader.option("recursiveFileLookup", "true")  # no column made of a directory's `date=…`
    reader = reader.option("__globPaths__", "false")  # Spark's own option, with which a stream reads its files
    lines = reader.load([hadoop_path(uri) for uri in uris])
    return lines.select(F.col("_metadata.file_path").alias("file"), F.col("value").cast("binary"))
