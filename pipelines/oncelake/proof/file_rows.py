"""Check bronze's rows against the source's files: each file was read once and whole, and has not changed since."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask import raw_length
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.sources.files_again import SUMS, ReadOtherwise, ReadSame, by_reading, read_paths, summed
from oncelake.bronze.sources.files_plan import BOM
from oncelake.bronze.stand_in import as_lines
from oncelake.common.lake import BRONZE, Table, is_local
from oncelake.common.spark.jvm import hadoop
from oncelake.common.tables import read_version
from oncelake.common.wording import HANDFUL, count_of, listed
from oncelake.exactly_once.census import shown
from oncelake.exactly_once.files_source import place_of
from oncelake.exactly_once.listing import is_packed
from oncelake.proof.link import Link, Uncompared
from oncelake.proof.span import Span, clock, miscounted, rows_of, taken


@dataclass(frozen=True, order=True)
class ReadFile:
    """Sums over the rows that bronze holds of one file.

    Attributes:
        uri: as Spark spells it, `file:/…` with % escapes.
        rows: number of its lines.
        bytes: size of its lines, each with a newline.
        first: ingestion time of its first row, in milliseconds.
        last: ingestion time of its last row, in milliseconds.
        size: the file's size in bytes when it was read.
        modified: the file's modification time in milliseconds when it was read.
        steady: True if all its rows record the same size and modification time.
    """

    uri: str
    rows: int
    bytes: int
    first: int
    last: int
    size: int
    modified: int
    steady: bool

    @property
    def place(self) -> str:
        """The file's path."""
        return place_of(self.uri)


@dataclass(frozen=True)
class Held:
    """The files and rows that bronze holds, at the version that is proven.

    Attributes:
        rows: bronze's rows.
        files: one entry per file, also for files proven earlier, as these may have changed since.
        at: the position up to which bronze has read; None before its first batch.
        of_span: the files of the span that is proven.
        counts: the span's rows by ingestion time in milliseconds.
        table: the bronze table.
        versions: the versions of the rules that mask data.
    """

    rows: DataFrame | None
    files: Sequence[ReadFile]
    at: str | None
    versions: MaskVersions
    of_span: Sequence[ReadFile] = ()
    counts: Mapping[int | None, int] = field(default_factory=dict)
    table: Table = BRONZE


def bronze_files(span: Span, versions: MaskVersions) -> Held:
    """Sum bronze's rows per file. The driver gets one row per file and batch, comparable to Spark's own file list."""
    spark = versions.spark
    of_span, counts = read_files(rows_of(spark, span))
    rows = read_version(spark, span.path, span.version)
    files = of_span if span.whole else read_files(rows, lines=False)[0]
    return Held(rows, files, span.end, versions, of_span, counts, span.table)


def read_files(rows: DataFrame, *, lines: bool = True) -> tuple[list[ReadFile], dict[int | None, int]]:
    """Sum bronze's rows per file, and count them by ingestion time, in one pass.

    Args:
        rows: bronze's rows.
        lines: True to read the lines too; otherwise `bytes` counts only the newlines.
    """
    length = raw_length(rows) if lines else F.lit(0)
    modified = F.unix_millis("file_modified")
    steady = (F.min("file_size") == F.max("file_size")) & (F.min(modified) == F.max(modified))
    summed = rows.groupBy("file", taken().alias("taken")).agg(
        F.count("*").alias("rows"),
        F.sum(F.coalesce(length, F.lit(0)) + 1).alias("bytes"),
        F.coalesce(F.min("file_size"), F.lit(0)).alias("size"),
        F.coalesce(F.min(modified), F.lit(0)).alias("modified"),
        F.coalesce(steady, F.lit(False)).alias("steady"),
    )
    counts: Counter[int | None] = Counter()
    files: dict[str, list[Row]] = {}
    for row in summed.collect():
        counts[row["taken"]] += row["rows"]
        files.setdefault(row["file"], []).append(row)
    return sorted(_folded(uri, parts) for uri, parts in files.items() if uri is not None), dict(counts)


def _folded(uri: str, parts: list[Row]) -> ReadFile:
    """Merge what each batch read of a file; more than one part means that the file was read again."""
    times = sorted(row["taken"] or 0 for row in parts)
    steady = all(row["steady"] for row in parts) and len({(row["size"], row["modified"]) for row in parts}) == 1
    rows, size = sum(row["rows"] for row in parts), sum(row["bytes"] for row in parts)
    return ReadFile(uri, rows, size, times[0], times[-1], parts[0]["size"], parts[0]["modified"], steady)


def file_rows(spark: SparkSession, span: Span, source_path: str, held: Held, same: Container[str] | None) -> Link:
    """Prove that every file in bronze was read once and whole.

    Args:
        spark: the session.
        span: the span of bronze.
        source_path: the source's directory.
        held: what bronze holds of files.
        same: the paths of files to read again and compare line by line with bronze; None to read none.
    """
    total = sum(each.rows for each in held.of_span)
    strange = sum(held.counts.values()) - total
    faults = miscounted(span, held.counts)
    if strange:
        # guard: bronze-rows-of-files
        faults.append(count_of(strange, "row belongs to no file", "rows belong to no file"))
    faults += [*_read_twice(held.files), *_not_whole(spark, held.of_span)]
    notes, well, unread = [], "each read once and whole", 0
    if same is not None and held.rows is not None:
        there = [each.uri for each in held.files if each.place in same]
        changed, left_out = _changed(held, there)
        faults += changed
        notes += [*map(str, left_out), *_same_content(held.rows)]
        compared = len(there) - sum(len(each.uris) for each in left_out)
        well = f"{compared:,} read again and equal line by line"
        again = {*there} - {uri for each in left_out for uri in each.uris}
        unread = sum(each.rows for each in held.files if each.uri not in again)  # guard: gone-files-are-number
    well = f"{count_of(total, 'row')} of {count_of(len(held.of_span), 'file')}, {well}"
    link = Link.of(f"{source_path} → {span.table}", span.table, faults, well, notes)
    return link.without(*Uncompared.of_lines(unread, "of files that were not read again"))


def _read_twice(files: Sequence[ReadFile]) -> list[str]:  # guard: file-in-one-batch
    """Return the files with rows of more than one batch, or with more than one recorded size or time."""
    return [
        f"{name_of(each.place)} is in bronze more than once: ingested at {clock(each.first)} and at {clock(each.last)}"
        if each.first != each.last
        else f"{name_of(each.place)} has rows of different sizes or modification times"
        for each in files
        if each.first != each.last or not each.steady  # guard: file-in-one-state
    ]


def _not_whole(spark: SparkSession, files: Sequence[ReadFile]) -> list[str]:  # guard: file-read-whole
    """Return the files whose lines in bronze do not add up to the file's size; the last line may lack its newline."""
    said = []
    for each in files:
        short = each.size - each.bytes
        if each.first != each.last or short in (0, -1) or is_packed(each.uri):
            continue
        if short in (len(BOM), len(BOM) - 1) and _starts_with_bom(spark, each) is not False:  # Spark drops the BOM
            continue
        said.append(
            f"{name_of(each.place)} had {count_of(each.size, 'byte')} when it was read, its "
            f"{count_of(each.rows, 'line in bronze has', 'lines in bronze have')} {each.bytes:,}"
        )
    return said


def _starts_with_bom(spark: SparkSession, file: ReadFile) -> bool | None:
    """Return True if a file starts with a UTF-8 byte order mark; None if it is gone or its size has changed."""
    # Hadoop's Path does not decode % escapes
    path, store = hadoop(spark, f"file:{file.place}" if is_local(file.uri) else unquote(file.uri))
    if not store.exists(path) or store.getFileStatus(path).getLen() != file.size:
        return None
    stream = store.open(path)
    try:
        return bytes(stream.read() % 256 for _ in BOM) == BOM
    finally:
        stream.close()


# guard: file-lines-equal-bronze
def _changed(held: Held, uris: Sequence[str]) -> tuple[list[str], list[ReadOtherwise]]:
    """Return the files whose lines are no longer those that bronze holds, and those that cannot be compared."""
    assert held.rows is not None, "rows were read"
    said = []
    found, left_out = differing(held.rows, uris, held.versions)
    for file, then, now in found:
        what = "it can no longer be read to its end"
        if now is not None:
            other = ", with other content" if then == now else ""
            what = f"bronze has {count_of(then, 'line')} of it, it now has {now:,}{other}"
        said.append(f"{name_of(place_of(file))} was changed after it was read: {what}")
    return [listed(said, separator="; ")] if said else [], left_out


def _same_content(rows: DataFrame) -> list[str]:
    """Return a note on files with the same lines under several names; each file counts, by design."""
    groups = summed(as_lines(rows.where("file IS NOT NULL"))).groupBy(*SUMS)
    names = groups.agg(F.count("*").alias("files"), F.min("file").alias("one"), F.max("file").alias("other"))
    twice = names.where("files > 1")
    first = twice.orderBy("one").limit(HANDFUL).collect()
    if not first:
        return []
    pairs = [f"{name_of(place_of(row['one']))} and {name_of(place_of(row['other']))}" for row in first]
    return [f"same content under several names, each counted by design: {listed(pairs, twice.count())}"]


Differs = tuple[str, int, int | None]


def differing(
    rows: DataFrame, uris: Sequence[str], versions: MaskVersions
) -> tuple[list[Differs], list[ReadOtherwise]]:
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
    same, otherwise = by_reading(rows, uris, versions)
    return sorted(found for each in same for found in _differing(each)), otherwise


def _differing(files: ReadSame) -> list[Differs]:
    spark, uris = files.spark, files.uris
    if not uris:
        return []
    try:
        differs = unequal(summed(files.then), summed(files.now()), "left")
        found = differs.select("file", "rows", F.coalesce("rows_now", F.lit(0)).alias("rows_now")).collect()
    except (Py4JJavaError, PySparkException):
        broken = {*broken_of(spark, [place_of(uri) for uri in uris])}
        if not broken:  # guard: unreadable-read-file-named
            raise
        rest = [uri for uri in uris if place_of(uri) not in broken]
        return [*((uri, 0, None) for uri in uris if uri not in rest), *_differing(files.of(rest))]
    return [(row["file"], row["rows"], row["rows_now"]) for row in found]


def lines_of(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Return the files that hold a line, and the files that cannot be read, as these may hold one."""
    try:
        found = read_paths(spark, paths).select("file").distinct().collect() if paths else []
    except (Py4JJavaError, PySparkException):
        broken = broken_of(spark, paths)
        return {*broken, *(lines_of(spark, [path for path in paths if path not in broken]) if broken else paths)}
    return {place_of(row["file"]) for row in found}


def broken_of(spark: SparkSession, paths: Sequence[str]) -> list[str]:  # guard: waiting-archive-read-to-end
    """Return the files that cannot be read to their end; reads the files once if none is broken."""
    if not paths:
        return []
    try:
        read_paths(spark, paths).select(F.count("value")).collect()
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


def name_of(where: str) -> str:
    """Return the file name of a path for a message, with non-printable characters escaped."""
    return shown(where.rsplit("/", 1)[-1])
