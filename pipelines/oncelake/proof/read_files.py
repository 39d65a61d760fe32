"""This is where bronze's rows are summed up per file."""

from collections import Counter
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from oncelake.common.lake import is_local
from oncelake.exactly_once.files_source import place_of
from oncelake.proof.span import taken


@dataclass(frozen=True, order=True)
class ReadFile:
    """What bronze holds of one file.

    Attributes:
        uri: as Spark spells it, `file:/…` with % escapes.
        rows: its lines.
        bytes: of its lines, each with a newline.
        first: when the first of its rows was taken in, in milliseconds.
        last: when the last was.
        size: in bytes, as it was when it was read.
        modified: in milliseconds, as it was when it was read.
        steady: whether all its rows say the same size and time.
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
        """Where the file is."""
        return place_of(self.uri)


def read_files(rows: DataFrame, *, lines: bool = True) -> tuple[list[ReadFile], dict[int | None, int]]:
    """Sum bronze's rows up per file, and count them by when they were taken in; in one pass.

    Args:
        rows: bronze's rows.
        lines: read the lines too; without them, `bytes` is that of empty ones.
    """
    length = F.octet_length("value") if lines else F.lit(0)
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
    """Join what each batch took of a file; there is more than one only where it was read again."""
    times = sorted(row["taken"] or 0 for row in parts)
    steady = all(row["steady"] for row in parts) and len({(row["size"], row["modified"]) for row in parts}) == 1
    rows, size = sum(row["rows"] for row in parts), sum(row["bytes"] for row in parts)
    return ReadFile(uri, rows, size, times[0], times[-1], parts[0]["size"], parts[0]["modified"], steady)


def hadoop_path(uri: str) -> str:
    """Give a file's URI as Hadoop's Path reads it, which undoes no % escapes."""
    return f"file:{place_of(uri)}" if is_local(uri) else unquote(uri)


def name_of(where: str) -> str:
    """Give the name of a file at a place for a message, with what is no printable character escaped."""
    name = where.rsplit("/", 1)[-1]
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in name)
