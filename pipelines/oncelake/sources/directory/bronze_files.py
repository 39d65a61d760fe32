"""What bronze holds of files: the sums of its rows for each file, and the rows themselves."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask import raw_length
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.lake import BRONZE, Table, place_of
from oncelake.common.tables import read, read_version
from oncelake.exactly_once.span import Span, ingested_ms, rows_of
from oncelake.sources.proof import Ingestion


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
class BronzeFiles:
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

    @classmethod
    def now(cls, ingestion: Ingestion) -> Self:
        """Return what a bronze table holds at its newest version."""
        end, version = ingestion.log.state().end, ingestion.log.newest()
        rows = read_version(ingestion.spark, ingestion.place, version) if version is not None else None
        files = read_files(rows, lines=False)[0] if rows is not None else ()
        return cls(rows, files, end, ingestion.versions, table=ingestion.table)


def bronze_files(span: Span, versions: MaskVersions) -> BronzeFiles:
    """Sum bronze's rows per file. The driver gets one row per file and batch, comparable to Spark's own file list."""
    spark = versions.spark
    of_span, counts = read_files(rows_of(spark, span))
    rows = read_version(spark, span.path, span.version)
    files = of_span if span.whole else read_files(rows, lines=False)[0]
    return BronzeFiles(rows, files, span.end, versions, of_span, counts, span.table)


def read_files(rows: DataFrame, *, lines: bool = True) -> tuple[list[ReadFile], dict[int | None, int]]:
    """Sum bronze's rows per file, and count them by ingestion time, in one pass.

    Args:
        rows: bronze's rows.
        lines: True to read the lines too; otherwise `bytes` counts only the newlines.
    """
    length = raw_length(rows) if lines else F.lit(0)
    modified = F.unix_millis("file_modified")
    steady = (F.min("file_size") == F.max("file_size")) & (F.min(modified) == F.max(modified))
    summed = rows.groupBy("file", ingested_ms().alias("ingested")).agg(
        F.count("*").alias("rows"),
        F.sum(F.coalesce(length, F.lit(0)) + 1).alias("bytes"),
        F.coalesce(F.min("file_size"), F.lit(0)).alias("size"),
        F.coalesce(F.min(modified), F.lit(0)).alias("modified"),
        F.coalesce(steady, F.lit(False)).alias("steady"),
    )
    counts: Counter[int | None] = Counter()
    files: dict[str, list[Row]] = {}
    for row in summed.collect():
        counts[row["ingested"]] += row["rows"]
        files.setdefault(row["file"], []).append(row)
    return sorted(_folded(uri, parts) for uri, parts in files.items() if uri is not None), dict(counts)


def _folded(uri: str, parts: list[Row]) -> ReadFile:
    """Merge what each batch read of a file; more than one part means that the file was read again."""
    times = sorted(row["ingested"] or 0 for row in parts)
    steady = all(row["steady"] for row in parts) and len({(row["size"], row["modified"]) for row in parts}) == 1
    rows, size = sum(row["rows"] for row in parts), sum(row["bytes"] for row in parts)
    return ReadFile(uri, rows, size, times[0], times[-1], parts[0]["size"], parts[0]["modified"], steady)


def recorded_sizes(spark: SparkSession, bronze: str, paths: Iterable[str]) -> dict[str, int]:
    """Return the sizes in bytes that bronze recorded for some files, by path."""
    path_set = set(paths)
    rows = read(spark, bronze).select("file", "file_size").distinct().toLocalIterator()
    return {path: row["file_size"] for row in rows if row["file"] and (path := place_of(row["file"])) in path_set}
