"""Check bronze's rows against the source's files: each file was read once and whole, and has not changed since."""

import os
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.stand_in import as_lines
from oncelake.common.lake import is_local, place_of
from oncelake.common.spark.jvm import hadoop
from oncelake.common.wording import HANDFUL, count_of, listed, shown_name
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.span import Span, clock, miscounted
from oncelake.sources.directory.bronze_files import BronzeFiles, ReadFile, bronze_files
from oncelake.sources.directory.comparison import SUMS, ReadOtherwise, differing, summed
from oncelake.sources.directory.content import BOM
from oncelake.sources.directory.listing import is_packed
from oncelake.sources.files.census import auto_loader_files, census_link, count_files
from oncelake.sources.files.source import AutoLoaderSource, FilesSource
from oncelake.sources.proof import Ingestion


def links(source: FilesSource, ingestion: Ingestion) -> Iterator[Link]:
    """Account for the source's files, and check the rows that were read from them."""
    versions, table = ingestion.versions, ingestion.table
    span = ingestion.span if ingestion.span is not None and ingestion.span.rows_in_all else None
    nothing = BronzeFiles(None, (), ingestion.span.end if ingestion.span else None, versions, table=table)
    bronze = bronze_files(span, ingestion.rows, versions) if span else nothing
    if isinstance(source, AutoLoaderSource):
        link, read = auto_loader_files(ingestion.spark, source, bronze.files, table)
    else:
        census = count_files(source, ingestion, bronze)
        link, read = census_link(source.path, census, bronze), census.read
    yield link
    if span:
        yield file_rows(span, source.path, bronze, frozenset(read) if ingestion.deep else None)


def file_rows(span: Span, source_path: str, bronze: BronzeFiles, same: Container[str] | None) -> Link:
    """Prove that every file in bronze was read once and whole.

    Args:
        span: the span of bronze.
        source_path: the source's directory.
        bronze: what bronze holds of files.
        same: the paths of files to read again and compare line by line with bronze; None to read none.
    """
    total = sum(file.rows for file in bronze.of_span)
    strange = sum(bronze.counts.values()) - total
    faults = miscounted(span, bronze.counts)
    if strange:
        # guard: bronze-rows-of-files
        faults.append(count_of(strange, "row belongs to no file", "rows belong to no file"))
    faults += [*_read_twice(bronze.files), *_not_whole(bronze)]
    notes, well, unread = [], "each read once and whole", 0
    if same is not None and bronze.rows is not None:
        uris = [file.uri for file in bronze.files if file.place in same]
        changed, left_out = _changed(bronze, uris)
        faults += changed
        notes += [*map(str, left_out), *_same_content(bronze.rows())]
        compared = len(uris) - sum(len(group.uris) for group in left_out)
        well = f"{compared:,} read again and equal line by line"
        again = {*uris} - {uri for group in left_out for uri in group.uris}
        unread = sum(file.rows for file in bronze.files if file.uri not in again)  # guard: gone-files-are-number
    well = f"{count_of(total, 'row')} of {count_of(len(bronze.of_span), 'file')}, {well}"
    link = Link.of(f"{source_path} → {span.table}", span.table, faults, well, notes)
    return link.without(*Uncompared.of_lines(unread, "of files that were not read again"))


def _read_twice(files: Sequence[ReadFile]) -> list[str]:  # guard: file-in-one-batch
    """Return the files with rows of more than one batch, or with more than one recorded size or time."""
    return [
        f"{shown_name(file.place)} is in bronze more than once: "
        f"ingested at {clock(file.first)} and at {clock(file.last)}"
        if file.first != file.last
        else f"{shown_name(file.place)} has rows of different sizes or modification times"
        for file in files
        if file.first != file.last or not file.steady  # guard: file-in-one-state
    ]


def _not_whole(bronze: BronzeFiles) -> list[str]:  # guard: file-read-whole
    """Return the files whose lines in bronze do not add up to the file's size; the last line may lack its newline."""
    faults = []
    for file in bronze.of_span:
        short = file.size - file.bytes
        if file.first != file.last or short in (0, -1) or is_packed(file.uri):
            continue
        may_be_bom = short in (len(BOM), len(BOM) - 1)  # Spark drops the BOM
        if may_be_bom and _starts_with_bom(bronze.versions.session, file) is not False:
            continue
        faults.append(
            f"{shown_name(file.place)} had {count_of(file.size, 'byte')} when it was read, its "
            f"{count_of(file.rows, 'line in bronze has', 'lines in bronze have')} {file.bytes:,}"
        )
    return faults


def _starts_with_bom(session: Callable[[], SparkSession], file: ReadFile) -> bool | None:
    """Return True if a file starts with a UTF-8 byte order mark; None if it is gone or its size has changed."""
    if is_local(file.uri):
        return _starts_with_bom_here(Path(os.fsdecode(file.place.encode("utf-8", "surrogateescape"))), file.size)
    # Hadoop's Path does not decode % escapes
    path, store = hadoop(session(), unquote(file.uri))
    if not store.exists(path) or store.getFileStatus(path).getLen() != file.size:
        return None
    stream = store.open(path)
    try:
        return bytes(stream.read() % 256 for _ in BOM) == BOM
    finally:
        stream.close()


def _starts_with_bom_here(path: Path, size: int) -> bool | None:
    try:
        with path.open("rb") as file:
            return file.read(len(BOM)) == BOM if os.fstat(file.fileno()).st_size == size else None
    except FileNotFoundError:
        return None


# guard: file-lines-equal-bronze
def _changed(bronze: BronzeFiles, uris: Sequence[str]) -> tuple[list[str], list[ReadOtherwise]]:
    """Return the files whose lines are no longer those that bronze holds, and those that cannot be compared."""
    assert bronze.rows is not None, "rows were read"
    faults = []
    differences, left_out = differing(bronze.rows(), uris, bronze.versions)
    for file, then, now in differences:
        what = "it can no longer be read to its end"
        if now is not None:
            other = ", with other content" if then == now else ""
            what = f"bronze has {count_of(then, 'line')} of it, it now has {now:,}{other}"
        faults.append(f"{shown_name(place_of(file))} was changed after it was read: {what}")
    return [listed(faults, separator="; ")] if faults else [], left_out


def _same_content(rows: DataFrame) -> list[str]:
    """Return a note on files with the same lines under several names; each file counts, by design."""
    groups = summed(as_lines(rows.where("file IS NOT NULL"))).groupBy(*SUMS)
    names = groups.agg(F.count("*").alias("files"), F.min("file").alias("one"), F.max("file").alias("other"))
    twice = names.where("files > 1")
    first = twice.orderBy("one").limit(HANDFUL).collect()
    if not first:
        return []
    pairs = [f"{shown_name(place_of(row['one']))} and {shown_name(place_of(row['other']))}" for row in first]
    return [f"same content under several names, each counted by design: {listed(pairs, twice.count())}"]
