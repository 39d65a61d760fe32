"""This is where files are followed into bronze: each was read once, whole, and is still what was read."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from oncelake.bronze.plan import BOM
from oncelake.common.spark.jvm import hadoop
from oncelake.common.tables import read_version
from oncelake.exactly_once.listing import is_packed
from oncelake.proof.deep import changed, same_content
from oncelake.proof.link import Link, listed
from oncelake.proof.read_files import ReadFile, hadoop_path, name_of, read_files
from oncelake.proof.span import Span, clock, miscounted, rows_of


@dataclass(frozen=True)
class Bronze:
    """What bronze holds of files.

    Attributes:
        files: the files of the span.
        counts: the span's rows by when they were read, in milliseconds.
        every: the files of all batches up to the span's end: one that was proven before may have changed since.
    """

    files: Sequence[ReadFile]
    counts: Mapping[int | None, int]
    every: Sequence[ReadFile]


def bronze_files(spark: SparkSession, span: Span) -> Bronze:
    """Sum bronze's rows up per file. One line per file comes to the driver, as it does in Spark's own list."""
    files, counts = read_files(rows_of(spark, span))
    every = files if span.whole else read_files(read_version(spark, span.path, span.version), lines=False)[0]
    return Bronze(files, counts, every)


def file_rows(spark: SparkSession, span: Span, source_path: str, bronze: Bronze, same: Container[str] | None) -> Link:
    """Prove that every file in bronze was read once and whole.

    Args:
        spark: the session.
        span: bronze's.
        source_path: the source's directory.
        bronze: what bronze holds of files.
        same: the paths of files that are read again and whose lines are compared with bronze's; None for none.
    """
    total = sum(each.rows for each in bronze.files)
    faults = [*miscounted(span, bronze.counts), *_strange(sum(bronze.counts.values()) - total)]
    faults += [*_read_twice(bronze.every), *_not_whole(spark, bronze.files)]
    notes, well = [], "each read once and whole"
    if same is not None:
        there = [each.uri for each in bronze.every if each.place in same]
        every = read_version(spark, span.path, span.version)  # a file that was proven before can have changed since
        faults += changed(spark, every, there)
        notes += same_content(every)
        well = f"{len(there):,} read again, equal line by line"
    said = listed(faults, separator="; ") or f"{total:,} rows of {len(bronze.files):,} files, {well}"
    return Link(f"{source_path} → {span.table}", str(span.table), not faults, said, tuple(notes))


def _strange(count: int) -> list[str]:
    return [f"{count:,} rows are of no file"] if count else []


def _read_twice(files: Sequence[ReadFile]) -> list[str]:
    """Find the files with rows of more than one batch, or of more than one state of the file."""
    return [
        f"{name_of(each.place)} is in bronze more than once: taken in {clock(each.first)} and {clock(each.last)}"
        if each.first != each.last
        else f"{name_of(each.place)} has rows of different sizes or modification times"
        for each in files
        if each.first != each.last or not each.steady
    ]


def _not_whole(spark: SparkSession, files: Sequence[ReadFile]) -> list[str]:
    """Compare the bytes of the lines with the file's size; the last line may lack its newline."""
    said = []
    for each in files:
        short = each.size - each.bytes
        if each.first != each.last or short in (0, -1) or is_packed(each.uri):
            continue
        if short in (len(BOM), len(BOM) - 1) and starts_with_bom(spark, each) is not False:  # Spark drops it
            continue
        said.append(
            f"{name_of(each.place)} had {each.size:,} bytes when it was read, its {each.rows:,} lines in bronze "
            f"have {each.bytes:,}"
        )
    return said


def starts_with_bom(spark: SparkSession, file: ReadFile) -> bool | None:
    """Return True if a file starts with a UTF-8 byte order mark; None when it is gone, or of another size by now."""
    path, store = hadoop(spark, hadoop_path(file.uri))
    if not store.exists(path):
        return None
    if store.getFileStatus(path).getLen() != file.size:
        return None
    stream = store.open(path)
    try:
        return bytes(stream.read() % 256 for _ in BOM) == BOM
    finally:
        stream.close()
