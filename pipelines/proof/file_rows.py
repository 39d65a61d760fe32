"""This is where files are followed into bronze: each was read once, whole, and is still what was read."""

from pyspark.sql import SparkSession

from pipelines.proof.deep import changed, same_content
from pipelines.proof.disk import Disk, look, starts_with_bom
from pipelines.proof.link import Link
from pipelines.proof.read_files import ReadFile, name_of, read_files
from pipelines.proof.rows import clock, miscounted, rows_of
from pipelines.proof.span import Span
from pipelines.proof.words import listed
from pipelines.tables import read_version

# Their size says nothing of their lines' bytes.
COMPRESSED = (".gz", ".gzip", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".xz")
BOM = 3
_AGAIN = "to take in what was added, write it to a new file in the same directory"


def file_rows(spark: SparkSession, span: Span, source_path: str, *, deep: bool) -> Link:
    """Prove that every file in bronze was read once and whole, and compare it with what is there now.

    One line per file comes to the driver, as it does in Spark's own list of the files it has seen.

    Args:
        spark: the session.
        span: bronze's.
        source_path: the source's directory.
        deep: read the files again and compare their lines with bronze's.
    """
    rows = rows_of(spark, span)
    files, counts = read_files(rows)
    total = sum(each.rows for each in files)
    # a file that was proven before may have grown since, or be read again
    every = files if span.whole else read_files(read_version(spark, span.path, span.version), lines=False)[0]
    disk = look(spark, source_path)
    faults = [*miscounted(span, counts), *_strange(sum(counts.values()) - total), *_read_twice(every)]
    faults += [*_not_whole(spark, files), *_other_size(every, disk)]
    notes = _notes(every, disk)
    if deep:
        there = [each.uri for each in files if disk.files.get(each.place, (None, 0))[0] == each.size]
        faults += changed(spark, rows, there)
        notes += same_content(rows)
        well = f"{len(there):,} read again, equal line by line"
    else:
        notes += _touched(every, disk)
        well = "each read once and whole"
    said = listed(faults, separator="; ") or f"{total:,} rows of {len(files):,} files, {well}"
    return Link(f"{source_path} → {span.table}", str(span.table), not faults, said, tuple(notes))


def _strange(count: int) -> list[str]:
    return [f"{count:,} rows are of no file"] if count else []


def _read_twice(files: list[ReadFile]) -> list[str]:
    """Find the files with rows of more than one batch, or of more than one state of the file."""
    return [
        f"{name_of(each.place)} is in bronze more than once: taken in {clock(each.first)} and {clock(each.last)}"
        if each.first != each.last
        else f"{name_of(each.place)} has rows of different sizes or modification times"
        for each in files
        if each.first != each.last or not each.steady
    ]


def _not_whole(spark: SparkSession, files: list[ReadFile]) -> list[str]:
    """Compare the bytes of the lines with the file's size; the last line may lack its newline."""
    said = []
    for each in files:
        short = each.size - each.bytes
        if each.first != each.last or short in (0, -1) or each.uri.lower().endswith(COMPRESSED):
            continue
        if short in (BOM, BOM - 1) and starts_with_bom(spark, each.uri) is not False:  # Spark drops it
            continue
        said.append(
            f"{name_of(each.place)} had {each.size:,} bytes when it was read, its {each.rows:,} lines in bronze "
            f"have {each.bytes:,}"
        )
    return said


def _other_size(files: list[ReadFile], disk: Disk) -> list[str]:
    said = []
    for each in files:
        size, _ = disk.files.get(each.place, (each.size, 0))
        if size > each.size:
            said.append(
                f"{name_of(each.place)} grew from {each.size:,} to {size:,} bytes after it was read: "
                f"its tail is not in bronze; {_AGAIN}"
            )
        elif size < each.size:
            said.append(
                f"{name_of(each.place)} shrank from {each.size:,} to {size:,} bytes after it was read: "
                "bronze holds what it was; if something else stands there now, put that in a new file"
            )
    return said


def _notes(files: list[ReadFile], disk: Disk) -> list[str]:
    gone = [name_of(each.place) for each in files if each.place not in disk.files]
    ignored = sorted(map(name_of, disk.ignored))
    notes = []
    if gone:
        notes.append(f"{len(gone):,} files are no longer there and cannot be read again: {listed(gone)}")
    if ignored:
        notes.append(f"{len(ignored):,} files are ignored, as a name starts with _ or a dot: {listed(ignored)}")
    known = {each.place for each in files}
    unread = sorted(name_of(path) for path, (size, _) in disk.files.items() if size and path not in known)
    if unread:
        notes.append(
            f"{len(unread):,} files are not in bronze: not read yet, or empty when Spark saw them: {listed(unread)}"
        )
    return notes


def _touched(files: list[ReadFile], disk: Disk) -> list[str]:
    there = [(each, *disk.files[each.place]) for each in files if each.place in disk.files]
    touched = [name_of(each.place) for each, size, at in there if size == each.size and at != each.modified]
    if not touched:
        return []
    return [
        f"{len(touched):,} files have their size and another modification time than when they were read: "
        f"{listed(touched)}; whether their lines are the same is told by oncelake prove --deep"
    ]
