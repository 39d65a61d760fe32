"""What bronze holds of files: the sums of its rows for each file, and the rows themselves."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.mask import raw_length_of
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.lake import BRONZE, Table, place_of
from oncelake.common.table_rows import TableRows, TableVersion
from oncelake.common.tables import read
from oncelake.exactly_once.span import INGESTED_MS, Span, rows_in
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
        rows: reads bronze's rows with Spark, to compare them with files; None without a table.
        files: one entry per file, also for files proven earlier, as these may have changed since.
        at: the position up to which bronze has read; None before its first batch.
        of_span: the files of the span that is proven.
        counts: the span's rows by ingestion time in milliseconds.
        table: the bronze table.
        versions: the versions of the rules that mask data.
    """

    rows: Callable[[], DataFrame] | None
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
        if version is None:
            return cls(None, (), end, ingestion.versions, table=ingestion.table)
        at = ingestion.place, version
        files, _ = read_files(ingestion.rows, at, "TRUE", lines=False)
        return cls(partial(ingestion.rows.frame, *at), files, end, ingestion.versions, table=ingestion.table)


def bronze_files(span: Span, rows: TableRows, versions: MaskVersions) -> BronzeFiles:
    """Sum bronze's rows per file. The driver gets one row per file and batch, comparable to Spark's own file list."""
    at = span.path, span.version
    of_span, counts = read_files(rows, at, rows_in(span))
    files = of_span if span.whole else read_files(rows, at, "TRUE", lines=False)[0]
    return BronzeFiles(partial(rows.frame, *at), files, span.end, versions, of_span, counts, span.table)


def read_files(
    rows: TableRows, at: TableVersion, condition: str, *, lines: bool = True
) -> tuple[list[ReadFile], dict[int | None, int]]:
    """Sum bronze's rows per file, and count them by ingestion time, in one pass.

    Args:
        rows: answers queries.
        at: the bronze table, and the version to read.
        condition: which of its rows, in SQL.
        lines: True to read the lines too; otherwise `bytes` counts only the newlines.
    """
    length, modified = raw_length_of(rows.columns(*at)) if lines else "0", "unix_millis(file_modified)"
    steady = f"min(file_size) = max(file_size) AND min({modified}) = max({modified})"
    summed = rows.records(
        f"SELECT file, {INGESTED_MS} AS ingested, count(*) AS rows, "
        f"CAST(sum(coalesce({length}, 0) + 1) AS BIGINT) AS bytes, coalesce(min(file_size), 0) AS size, "
        f"coalesce(min({modified}), 0) AS modified, coalesce({steady}, FALSE) AS steady "
        f"FROM {{bronze}} WHERE {condition} GROUP BY file, {INGESTED_MS}",
        {"bronze": at},
    )
    counts: Counter[int | None] = Counter()
    files: dict[str, list[dict[str, Any]]] = {}
    for row in summed:
        counts[row["ingested"]] += row["rows"]
        files.setdefault(row["file"], []).append(row)
    return sorted(_folded(uri, parts) for uri, parts in files.items() if uri is not None), dict(counts)


def _folded(uri: str, parts: Sequence[Mapping[str, Any]]) -> ReadFile:
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
