"""This is where files are read again, and their lines compared with bronze's."""

from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.read_again import read_again, read_paths
from oncelake.exactly_once.files_source import place_of
from oncelake.proof.link import HANDFUL, listed
from oncelake.proof.read_files import name_of
from oncelake.proof.span import HALF


def changed(spark: SparkSession, rows: DataFrame, uris: Sequence[str]) -> list[str]:
    """Name the files whose lines are no longer those that bronze holds."""
    said = []
    for file, then, now in differing(spark, rows, uris):
        name = name_of(place_of(file))
        if now is None:
            said.append(f"{name} was changed after it was read: it cannot be read to its end any more")
        else:
            others = " others" if then == now else ""
            said.append(
                f"{name} was changed after it was read: bronze has {then:,} lines of it, it has {now:,}{others}"
            )
    return [listed(said, separator="; ")] if said else []


def differing(spark: SparkSession, rows: DataFrame, uris: Sequence[str]) -> list[tuple[str, int, int | None]]:
    """Return the files whose lines are no longer those of the rows.

    Returns:
        Each with its lines then and now; none now when it is gone or cannot be read to its end.
    """
    if not uris:
        return []
    names = spark.createDataFrame([(uri,) for uri in uris], "file string")
    then = _summed(rows.select("file", "value")).join(names, "file", "left_semi")
    try:
        now = _summed(read_again(spark, uris)).select("file", *(F.col(name).alias(f"{name}_now") for name in _SUMS))
        both = then.join(now, "file", "left")
        differs = both.where(" OR ".join(f"NOT ({name} <=> {name}_now)" for name in _SUMS))
        found = differs.select("file", "rows", F.coalesce("rows_now", F.lit(0)).alias("rows_now")).collect()
    except (Py4JJavaError, PySparkException):
        broken = {*broken_of(spark, [place_of(uri) for uri in uris])}
        if not broken:
            raise
        rest = [uri for uri in uris if place_of(uri) not in broken]
        return [*((uri, 0, None) for uri in uris if uri not in rest), *differing(spark, rows, rest)]
    return sorted((row["file"], row["rows"], row["rows_now"]) for row in found)


def same_lines_as(spark: SparkSession, rows: DataFrame, pairs: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return which files hold the very lines that the rows have of another file.

    Args:
        spark: the session.
        rows: bronze's rows.
        pairs: the paths of files to be read, by the URI of the file that each is compared with.
    """
    then = _summed(rows.where(F.col("file").isin(list(pairs))).select("file", "value"))
    held = {row["file"]: tuple(row[name] for name in _SUMS) for row in then.collect()}
    paths = sorted({path for others in pairs.values() for path in others})
    found = _summed(read_paths(spark, paths)).collect()
    now = {place_of(row["file"]): tuple(row[name] for name in _SUMS) for row in found}
    return [
        (one, path) for one, others in pairs.items() for path in others if one in held and held[one] == now.get(path)
    ]


def lines_of(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Return which of some files hold a line, and those that cannot be read, which may hold one."""
    try:
        found = read_paths(spark, paths).select("file").distinct().collect() if paths else []
    except (Py4JJavaError, PySparkException):
        broken = broken_of(spark, paths)
        return {*broken, *(lines_of(spark, [path for path in paths if path not in broken]) if broken else paths)}
    return {place_of(row["file"]) for row in found}


def broken_of(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return which of some files cannot be read to their end; costs one reading where none is broken."""
    if not paths:
        return []
    try:
        read_paths(spark, paths).select(F.count("value")).collect()
    except (Py4JJavaError, PySparkException):
        half = len(paths) // 2
        return [*paths] if len(paths) == 1 else [*broken_of(spark, paths[:half]), *broken_of(spark, paths[half:])]
    return []


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
    hashed = lines.select("file", F.xxhash64("value").alias("hash"))
    total = F.sum(F.col("hash").bitwiseAND(F.lit(HALF)))  # sees what cancels out in the other one
    return hashed.groupBy("file").agg(F.count("*").alias("rows"), total.alias("sum"), F.bit_xor("hash").alias("xor"))
