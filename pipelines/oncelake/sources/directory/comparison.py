"""Read source files again, and compare them with the lines that bronze holds."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession, Window
from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION
from oncelake.bronze.mask_versions import MaskVersion, MaskVersions
from oncelake.bronze.stand_in import HEAD, as_lines, identified
from oncelake.bronze.transform import line_reader
from oncelake.common.explain import explain
from oncelake.common.lake import is_local, local_path, place_of
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.span import HALF
from oncelake.sources.directory.listing import is_gone, literal
from oncelake.sources.directory.names import RenameKey, rename_keys

# Sums that differ if the lines of two files differ, independent of their order.
SUMS = ("rows", "sum", "xor")


@dataclass(frozen=True)
class ReadSame:
    """Rows of bronze that were all read in the same way, and how to read files in this way again.

    Attributes:
        spark: the session.
        then: what bronze holds; columns: `file`, and `value` binary.
        read: reads files at paths; the same columns, with the values as bronze would keep them.
        uris: the files of the rows; empty if they were not asked for.
    """

    spark: SparkSession
    then: DataFrame
    read: Callable[[Sequence[str]], DataFrame]
    uris: Sequence[str] = ()

    def now(self) -> DataFrame:
        """Return what the files hold now."""
        return self.read([place_of(uri) for uri in self.uris])

    def of(self, uris: Sequence[str]) -> Self:
        """Return the part that is about some of the files."""
        return replace(self, then=_of_files(self.spark, self.then, uris), uris=uris)


@dataclass(frozen=True)
class ReadOtherwise:
    """Files that cannot be read again as they were read.

    Attributes:
        uris: the files.
        why: why not, as the rest of a sentence.
    """

    uris: Sequence[str]
    why: str

    def __str__(self) -> str:
        return f"{listed(uri.rsplit('/', 1)[-1] for uri in self.uris)} cannot be compared: {self.why}"


def _by_reading(
    rows: DataFrame, uris: Sequence[str], versions: MaskVersions
) -> tuple[list[ReadSame], list[ReadOtherwise]]:
    """Sort files by how they were read: without rules that mask data, or under a version of them.

    Args:
        rows: bronze's rows.
        uris: the files.
        versions: the versions of the rules.
    """
    chosen = _of_files(versions.spark, rows, uris)
    if VERSION not in rows.columns:
        return [_as_read(chosen, None, versions.spark, uris)], []
    files: dict[str | None, list[str]] = {}
    for uri, version in chosen.select("file", VERSION).distinct().collect():
        files.setdefault(version, []).append(uri)
    same, otherwise = [], []
    for version, some in files.items():
        rules = _version(versions, version)
        if isinstance(rules, str):
            otherwise.append(ReadOtherwise(some, rules))
        else:
            same.append(_as_read(_of_version(chosen, version), rules, versions.spark, some))
    return same, otherwise


def by_version(rows: DataFrame, versions: MaskVersions) -> Iterator[ReadSame | str]:
    """Yield bronze's rows by the version of the rules that masked them; a text for those that cannot be read again."""
    if VERSION not in rows.columns:
        yield _as_read(rows, None, versions.spark)
        return
    for (version,) in rows.select(VERSION).distinct().collect():
        rules = _version(versions, version)
        part = _of_version(rows, version)
        yield rules if isinstance(rules, str) else _as_read(part, rules, versions.spark)


# guard: compared-under-read-rules
def _version(versions: MaskVersions, version: str | None) -> MaskVersion | str | None:
    return versions.of(version) if version is not None else None


def _of_version(rows: DataFrame, version: str | None) -> DataFrame:
    return rows.where(F.col(VERSION).eqNullSafe(F.lit(version)))


def _as_read(rows: DataFrame, version: MaskVersion | None, spark: SparkSession, uris: Sequence[str] = ()) -> ReadSame:
    if version is None:
        return ReadSame(spark, as_lines(rows), partial(_read_paths, spark), uris)
    return ReadSame(
        spark, rows.select("file", identified().alias("value")), partial(_read_masked, spark, version), uris
    )


def _of_files(spark: SparkSession, rows: DataFrame, uris: Iterable[str]) -> DataFrame:
    return rows.join(spark.createDataFrame([(uri,) for uri in uris], "file string"), "file", "left_semi")


def _read_masked(spark: SparkSession, version: MaskVersion, paths: Sequence[str]) -> DataFrame:
    """Read files at paths as they were read under a version of the rules; no raw value leaves the task."""
    lines = _lines(line_reader(spark, spark.read, version.records, version.max_line), paths)
    return version.mask.values(lines).select("file", identified().alias("value"))


# The sizes in bytes and modification times in milliseconds with which files were recognized as renamed, by path.
RenamedStates = Mapping[str, Collection[tuple[int, int]]]


def files_lost(
    bronze: DataFrame, source_path: str, versions: MaskVersions, renamed: RenamedStates | None = None
) -> list[str]:
    """Return one message for each file that would not give all of bronze's lines again.

    Each file is read again, whatever its size and time. It must hold each line at least as often as bronze does: a
    file that grew passes, a rotated file does not. A renamed file stands for the one that is gone.

    Args:
        bronze: bronze's rows.
        source_path: the path that the source reads, in the form that Spark accepts.
        versions: the versions of the rules that mask data.
        renamed: the states in which runs have recognized files as renamed.
    """
    spark = versions.spark
    current = _listed(spark, source_path)
    files = bronze.select("file").distinct().join(current, "file", "left").orderBy("file")
    moved = _renamed(bronze, current, versions, renamed or {})
    lost, readable = [], []
    for row in files.select("file", F.coalesce("listed", F.lit(False)).alias("listed")).toLocalIterator():
        if row["file"] in moved:
            continue
        reason = _unreadable(spark, row, source_path)
        if reason is not None:
            lost.append(reason)
        else:
            readable.append(row["file"])
    return [*lost, *_lines_gone(bronze, readable, versions)]


# guard: renamed-file-in-rebuild
def _renamed(bronze: DataFrame, now: DataFrame, versions: MaskVersions, states: RenamedStates) -> set[str]:
    """Return the files that are gone, and whose lines their new name or their compressed or unpacked form holds."""
    at = F.unix_millis("modified").alias("modified")
    sizes = F.max("file_size").alias("size"), F.max("file_modified").alias("modified")
    read = bronze.where("file IS NOT NULL").groupBy("file").agg(*sizes)
    missing = read.join(now, "file", "left_anti").select("file", at, "size").collect()
    gone = [row for row in missing if is_gone(row["file"])]  # not one that is there, and outside of the source
    if not gone:
        return set()
    by_key: dict[RenameKey, set[str]] = {}
    for uri, modified, size in now.join(read, "file", "left_anti").select("file", at, "size").toLocalIterator():
        path = place_of(uri)
        for of_size, of_time in ((size, modified), *states.get(path, ())):
            for key in rename_keys(path, of_time, of_size):
                by_key.setdefault(key, set()).add(path)
    pairs: dict[str, list[str]] = {}
    for uri, modified, size in gone:
        others = {path for key in rename_keys(place_of(uri), modified, size) for path in by_key.get(key, ())}
        if others:
            pairs[uri] = sorted(others)
    return set(other_names(bronze, pairs, versions))


def _listed(spark: SparkSession, source_path: str) -> DataFrame:
    """List the files that Spark would read; Spark itself handles hidden names, links and patterns."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = listing.load(source_path)
    except AnalysisException:  # the path does not exist
        return spark.createDataFrame([], "file string, size bigint, modified timestamp, listed boolean")
    facts = F.col("_metadata.file_size").alias("size"), F.col("_metadata.file_modification_time").alias("modified")
    return files.select(F.col("_metadata.file_path").alias("file"), *facts, F.lit(True).alias("listed"))


def _unreadable(spark: SparkSession, row: Row, source_path: str) -> str | None:
    uri = row["file"]
    if uri is None:
        return "bronze holds lines of Kafka, but the source is a directory"  # guard: rebuild-of-file-lines
    if not row["listed"]:
        return f"{uri} {_unlisted(spark, uri, source_path)}"  # guard: rebuild-lists-each-file
    if is_local(uri) and not os.access(local_path(uri), os.R_OK):
        return f"{uri} is not readable by this process"  # guard: rebuild-may-read-files
    return None


def _unlisted(spark: SparkSession, uri: str, source_path: str) -> str:
    where, store = hadoop(spark, jvm(spark).java.net.URI(uri))
    if not store.exists(where):
        return "no longer exists"
    if store.getFileStatus(where).getLen() == 0:
        return "is now empty"
    return f"would not be read again: it is outside source.path {source_path}, or its name is hidden"


# guard: rebuild-files-have-lines
def _lines_gone(bronze: DataFrame, uris: list[str], versions: MaskVersions) -> list[str]:
    """Read files again, and return one message for each file that lacks a line that bronze holds."""
    if not uris:
        return []
    same, otherwise = _by_reading(bronze, uris, versions)
    return [*map(str, otherwise), *(message for part in same for message in _lacking_lines(part))]


def _lacking_lines(files: ReadSame) -> list[str]:
    by_file = lacking(files.then, files.now(), "file").groupBy("file")
    summed = by_file.agg(F.sum("lacking").alias("lacking"), F.sum("then").alias("then"))
    try:
        rows = summed.where("lacking > 0").orderBy("file").collect()
    except Exception as error:
        return [f"a source file cannot be read again: {explain(error)}"]
    return [
        f"{row['file']} was changed after it was read: it lacks {row['lacking']:,} of the "
        f"{count_of(row['then'], 'line')} that bronze holds from it"
        for row in rows
    ]


def lacking(then: DataFrame, now: DataFrame, *by: str) -> DataFrame:
    """Count how often each line is there, and how often it is lacking now; columns: `by`, `line`, `then`, `lacking`.

    Args:
        then: the lines that were read, in the column `value`.
        now: the lines that are there now.
        by: columns of both; a line is looked for among those with the same values.
    """
    keys = [*by, "line"]
    counted, counted_now = (
        lines.withColumn("line", F.xxhash64("value")).groupBy(*keys).agg(F.count("*").alias(name))
        for lines, name in ((then, "then"), (now, "now"))
    )
    lack = F.greatest(F.col("then") - F.coalesce("now", F.lit(0)), F.lit(0))
    return counted.join(counted_now, keys, "left").withColumn("lacking", lack)


def _read_paths(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read the files at absolute paths or URLs without % escapes, as `as_lines` returns them; `file` is the URI."""
    return as_lines(_lines(line_reader(spark, spark.read, max_line=HEAD), paths))


def _lines(reader: DataFrameReader, paths: Iterable[str]) -> DataFrame:
    """Read lines of files; columns: `file`, `value` binary and, if there can be stand-ins, `headers`."""
    lines = load(reader, paths)
    more = [name for name in lines.columns if name == "headers"]
    return lines.select(F.col("_metadata.file_path").alias("file"), F.col("value").cast("binary"), *more)


def load(reader: DataFrameReader, paths: Iterable[str]) -> DataFrame:
    """Load the files at absolute paths or URLs without % escapes, each once, whatever characters their names hold.

    Spark's option `__globPaths__` reads a name as it is, too, but loads all paths once more for each name that looks
    like a pattern (DataSource.checkAndGlobPathIfNecessary).
    """
    # guard: each-path-loaded-once
    return reader.load([literal(f"file:{path}" if is_local(path) else path) for path in paths])


def same_lines_as(rows: DataFrame, pairs: Mapping[str, Sequence[str]], versions: MaskVersions) -> list[tuple[str, str]]:
    """Return the pairs of files where the second file holds exactly the lines that the rows have of the first.

    Args:
        rows: bronze's rows.
        pairs: the paths of the files to read, by the URI of the file to compare them with.
        versions: the versions of the rules that mask data.
    """
    same, _ = _by_reading(rows, list(pairs), versions)
    return [pair for part in same for pair in _same_lines(part, {uri: pairs[uri] for uri in part.uris})]


def _same_lines(files: ReadSame, pairs: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    then = {row["file"]: tuple(row[name] for name in SUMS) for row in summed(files.then).collect()}
    rows = _sums_of(files, sorted({path for others in pairs.values() for path in others}))
    now = {place_of(row["file"]): tuple(row[name] for name in SUMS) for row in rows}
    return [
        (one, path) for one, others in pairs.items() for path in others if one in then and then[one] == now.get(path)
    ]


def _sums_of(files: ReadSame, paths: Sequence[str]) -> list[Row]:
    """Return the sums of the lines of files, without the files that cannot be read to their end."""
    try:
        return summed(files.read(paths)).collect() if paths else []
    except (Py4JJavaError, PySparkException):
        broken = {*broken_of(files.spark, paths)}
        if not broken:
            raise
        return _sums_of(files, [path for path in paths if path not in broken])


def holding(rows: DataFrame, pairs: Mapping[str, Sequence[str]], versions: MaskVersions) -> list[tuple[str, str, int]]:
    """Return the pairs of files where the second file holds each line as often as the rows have it of the first.

    Args:
        rows: bronze's rows.
        pairs: the paths of the files to read, by the URI of the file to compare them with.
        versions: the versions of the rules that mask data.

    Returns:
        The pairs, each with the number of lines that the second file has in addition.
    """
    same, _ = _by_reading(rows, list(pairs), versions) if pairs else ([], [])
    return [pair for part in same for pair in _holding(part, {uri: pairs[uri] for uri in part.uris})]


def _holding(files: ReadSame, pairs: Mapping[str, Sequence[str]]) -> list[tuple[str, str, int]]:
    paths = sorted({path for others in pairs.values() for path in others})
    if not paths:
        return []
    try:
        then, now = (
            lines.select("file", F.xxhash64("value").alias("line"))
            .groupBy("file", "line")
            .agg(F.count("*").alias("times"))
            .withColumn("in_all", F.sum("times").over(Window.partitionBy("file")))
            for lines in (files.then, files.read(paths))
        )
        others = now.select("line", *(F.col(name).alias(f"{name}_now") for name in ("file", "times", "in_all")))
        both = then.join(others, "line").groupBy("file", "file_now", "in_all", "in_all_now")
        shared = both.agg(F.sum(F.least("times", "times_now")).alias("lines")).collect()
    except (Py4JJavaError, PySparkException):
        broken = {*broken_of(files.spark, paths)}
        if not broken:
            raise
        return _holding(files, {uri: [path for path in some if path not in broken] for uri, some in pairs.items()})
    return [
        (uri, path, in_all_now - in_all)
        for uri, other, in_all, in_all_now, lines in shared
        if lines == in_all and (path := place_of(other)) in pairs[uri]
    ]


def other_names(
    rows: DataFrame, pairs: Mapping[str, Sequence[str]], versions: MaskVersions
) -> dict[str, tuple[str, int]]:
    """Return for each file the one that holds its lines and the fewest others; one file stands for one other at most.

    Args:
        rows: bronze's rows.
        pairs: see `holding`.
        versions: the versions of the rules that mask data.

    Returns:
        By the URI of a file, the path of the other one, and the number of lines that this one has in addition.
    """
    names: dict[str, tuple[str, int]] = {}
    used: set[str] = set()
    for uri, path, added in sorted(holding(rows, pairs, versions), key=lambda pair: (pair[2], pair)):
        if uri not in names and path not in used:
            names[uri] = path, added
            used.add(path)
    return names


def summed(lines: DataFrame) -> DataFrame:
    """Sum the lines of each file, independent of their order. Input columns: `file`, and `value` binary."""
    hashed = lines.select("file", F.xxhash64("value").alias("hash"))
    total = F.sum(F.col("hash").bitwiseAND(F.lit(HALF)))  # detects differences that cancel out in the XOR
    return hashed.groupBy("file").agg(F.count("*").alias("rows"), total.alias("sum"), F.bit_xor("hash").alias("xor"))


_Difference = tuple[str, int, int | None]


def differing(
    rows: DataFrame, uris: Sequence[str], versions: MaskVersions
) -> tuple[list[_Difference], list[ReadOtherwise]]:
    """Return the files whose lines differ from those in the rows.

    Args:
        rows: bronze's rows.
        uris: the files.
        versions: the versions of the rules that mask data.

    Returns:
        Each file with its line count then and now; None now if the file is gone or cannot be read to its end. Then the
        files that cannot be compared.
    """
    if not uris:
        return [], []
    same, otherwise = _by_reading(rows, uris, versions)
    return sorted(difference for part in same for difference in _differing(part)), otherwise


def _differing(files: ReadSame) -> list[_Difference]:
    spark, uris = files.spark, files.uris
    if not uris:
        return []
    try:
        differs = unequal(summed(files.then), summed(files.now()), "left")
        rows = differs.select("file", "rows", F.coalesce("rows_now", F.lit(0)).alias("rows_now")).collect()
    except (Py4JJavaError, PySparkException):
        broken = {*broken_of(spark, [place_of(uri) for uri in uris])}
        if not broken:  # guard: unreadable-read-file-named
            raise
        others = [uri for uri in uris if place_of(uri) not in broken]
        return [*((uri, 0, None) for uri in uris if uri not in others), *_differing(files.of(others))]
    return [(row["file"], row["rows"], row["rows_now"]) for row in rows]


def lines_of(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Return the files that hold a line, and the files that cannot be read, as these may hold one."""
    try:
        rows = _read_paths(spark, paths).select("file").distinct().collect() if paths else []
    except (Py4JJavaError, PySparkException):
        broken = broken_of(spark, paths)
        return {*broken, *(lines_of(spark, [path for path in paths if path not in broken]) if broken else paths)}
    return {place_of(row["file"]) for row in rows}


def broken_of(spark: SparkSession, paths: Sequence[str]) -> list[str]:  # guard: waiting-archive-read-to-end
    """Return the files that cannot be read to their end; reads the files once if none is broken."""
    if not paths:
        return []
    try:
        _read_paths(spark, paths).select(F.count("value")).collect()
    except (Py4JJavaError, PySparkException):
        half = len(paths) // 2
        return [*paths] if len(paths) == 1 else [*broken_of(spark, paths[:half]), *broken_of(spark, paths[half:])]
    return []


def unequal(then: DataFrame, now: DataFrame, how: str) -> DataFrame:
    """Return the files with other sums now; columns: `file`, those of `then`, and those of `now` with `_now`.

    Args:
        then: sums of the lines that were read, see `summed`.
        now: sums of the lines that are there now.
        how: how Spark joins them; `left` leaves out files of `now` alone.
    """
    now = now.select("file", *(F.col(name).alias(f"{name}_now") for name in SUMS))
    return then.join(now, "file", how).where(" OR ".join(f"NOT ({name} <=> {name}_now)" for name in SUMS))
