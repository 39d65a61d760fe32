"""Check bronze against growing files: what waits, and that each byte that was read is in exactly one row."""

import time
from collections.abc import Iterator, Mapping

from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION, raw_length
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import bounded_reader
from oncelake.bronze.stand_in import HEAD, as_lines
from oncelake.common.lake import Table
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.files_source import place_of
from oncelake.exactly_once.listing import Found
from oncelake.exactly_once.positions import TailPosition
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.exactly_once.tail_files import Matched, has_half_a_line, is_unpacked, ranges
from oncelake.exactly_once.tail_source import TailSource, waiting
from oncelake.proof.file_rows import name_of, summed, unequal
from oncelake.proof.link import Link
from oncelake.proof.span import HALF, Span, batch_names, miscounted, rows_of, taken
from oncelake.proof.tail_masked import masked_changed

# A compressed file that is not complete after this many seconds is not being written any more.
WRITTEN = 60.0


def tail_files(source: TailSource, at: str | None, table: Table, diagnosis: Diagnosis) -> Link:
    """Account for every file of the directory: read, waiting, a copy of another file, ignored by design, or at fault.

    Bytes that a planned batch needs and that are gone are a fault, also if no file has anything else to read.

    Args:
        source: bronze's source.
        at: bronze's position; None before the first batch.
        table: the bronze table.
        diagnosis: whether the next run of bronze would start.

    Raises:
        SourceError: the directory cannot be listed.
    """
    matched, position = source.matched(at), TailPosition.parse(at) or TailPosition()
    rest = waiting(matched, position)
    faults = [f"{name_of(each.path)}: {each.problem}: it is not read" for each in matched.unreadable]
    faults += [_partial(each) for each in matched.partial if not _may_be_written(each)]
    waits = f", {count_of(sum(rest.values()), 'byte')} in {count_of(len(rest), 'file')} waiting for the next run"
    if diagnosis.state is State.SOURCE_TRIMMED:
        faults.append(diagnosis.seen)
    elif rest and not diagnosis.may_start:
        faults.append(f"{count_of(len(rest), 'file has', 'files have')} bytes that no run reads: bronze cannot start")
    read = len(matched.known) - sum(1 for each in matched.known.values() if each.path in rest)
    well = f"{count_of(read, 'file is', 'files are')} read to the end{waits if rest else ''}"
    return Link.of(f"files of {source.path}", table, faults, well, _notes(matched, position))


def _partial(found: Found) -> str:
    if not is_unpacked(found.path):
        return f"{name_of(found.path)}: it is compressed in a way that kind tail cannot read; .gz and .bz2 can be"
    return f"{name_of(found.path)}: it is compressed and not complete, or broken: it is not read"


def _may_be_written(found: Found) -> bool:
    return is_unpacked(found.path) and time.time() - found.modified / 1000 < WRITTEN


def _notes(matched: Matched, at: TailPosition) -> Iterator[str]:
    half = [each for number, each in matched.known.items() if has_half_a_line(each, at.files[number].offset)]
    half += [each for each in matched.new if has_half_a_line(each, 0)]
    if half:
        yield f"{count_of(len(half), 'file ends', 'files end')} within a line, which waits for its end: {_named(half)}"
    if matched.copies:
        pairs = listed(f"{name_of(one.path)} of {name_of(other.path)}" for one, other in matched.copies)
        yield f"{count_of(len(matched.copies), 'file is a copy', 'files are copies')} and not read: {pairs}"
    if matched.spent:
        copies = count_of(len(matched.spent), "file is a copy", "files are copies")
        yield f"{copies} of what was read, and not read: {_named([*matched.spent.values()])}"
    hidden = [each for each in matched.others if each.hidden]
    if hidden:
        ignored = count_of(len(hidden), "file is ignored", "files are ignored")
        yield f"{ignored}, as a name starts with _ or a dot: {_named(hidden)}"
    written = [each for each in matched.partial if _may_be_written(each)]
    if written:
        yield f"{count_of(len(written), 'compressed file is', 'compressed files are')} not complete: {_named(written)}"
    if matched.gone:
        yield f"{count_of(len(matched.gone), 'file was read and is', 'files were read and are')} gone"


def _named(found: list[Found]) -> str:
    return listed(sorted(name_of(each.path) for each in found))


def tail_rows(span: Span, source: TailSource, versions: MaskVersions, *, deep: bool) -> Link:
    """Prove that each byte that the span's batches were planned to read is in exactly one row.

    A row is the bytes from its `file_offset` on, with one line end. In the rows of a batch and a file, each row but the
    first begins where another one ends; so the beginnings and the ends are the same numbers, but for the outer two.

    Args:
        span: the span of bronze.
        source: bronze's source.
        versions: the versions of the rules that mask data.
        deep: True to read the files that are there again, and to compare them with bronze line by line.
    """
    held = rows_of(versions.spark, span)
    end = F.col("file_offset") + F.coalesce(raw_length(held), F.lit(0)) + 1
    hashes = (F.xxhash64(each.cast("bigint")).bitwiseAND(F.lit(HALF)) for each in (F.col("file_offset"), end))
    starts, ends = (F.sum(each) for each in hashes)
    summed = held.groupBy("file_id", taken().alias("taken")).agg(
        F.count("*").alias("rows"),
        F.min("file_offset").alias("first"),
        F.max(end).alias("last"),
        F.sum(end - F.col("file_offset")).alias("bytes"),
        (starts - ends).alias("chained"),
    )
    outer = F.xxhash64("first").bitwiseAND(F.lit(HALF)) - F.xxhash64("last").bitwiseAND(F.lit(HALF))
    rows = summed.withColumn("chained", F.col("chained").eqNullSafe(outer)).collect()
    counts: dict[int | None, int] = {}
    for row in rows:
        counts[row["taken"]] = counts.get(row["taken"], 0) + row["rows"]
    faults = miscounted(span, counts)
    strange = sum(row["rows"] for row in rows if row["file_id"] is None or row["first"] is None)
    if strange:
        faults.append(count_of(strange, "row belongs to no file", "rows belong to no file"))
    planned, names = _planned(span), batch_names(span)
    there = {(row["taken"], row["file_id"]): row for row in rows if row["file_id"] is not None}
    for (ms, file_id), (first, last) in sorted(planned.items()):
        found = there.get((ms, file_id))
        what = f"{names[ms]}: bytes {first:,} to {last - 1:,} of file {file_id}"
        if found is None:
            faults.append(f"{what} are in no row")
        elif (found["last"], found["bytes"]) != (last, last - found["first"]) or found["first"] not in _firsts(first):
            was = f"rows hold {count_of(found['bytes'], 'byte')} from {found['first']:,} to {found['last'] - 1:,}"
            faults.append(f"{what} were planned, its {was}")
        elif not found["chained"]:
            faults.append(f"{what}: a row is missing and another one is there twice")
    faults += [
        f"{names[ms]} has rows of file {file_id}, of which it was to read nothing"
        for ms, file_id in sorted(there.keys() - planned.keys(), key=str)
        if ms in names
    ]
    well = (
        f"{count_of(sum(counts.values()), 'row')} of {count_of(len({key[1] for key in there}), 'file')}, each byte once"
    )
    notes: list[str] = []
    if deep:
        changed, compared, notes = _changed(span, source, versions)
        faults += changed
        well = f"{well}, {count_of(compared, 'file')} read again and equal line by line"
    return Link.of(f"{source.path} → {span.table}", span.table, faults, well, notes)


def _firsts(first: int) -> tuple[int, ...]:
    """Return where the first row of a range can begin: a byte order mark at the beginning of a file is left out."""
    return (0, 3) if first == 0 else (first,)


def _planned(span: Span) -> Mapping[tuple[int, int], tuple[int, int]]:
    """Return the bytes that the span's batches were planned to read, by planning time in milliseconds and file ID."""
    planned: dict[tuple[int, int], tuple[int, int]] = {}
    for ms, commits in span.by_time().items():
        for commit in commits:
            start, end = (
                TailPosition.parse(at) or TailPosition() for at in (commit.metadata.before, commit.metadata.end)
            )
            for each in ranges(start, end):
                first, last = planned.get((ms, each.file_id), (each.start, each.end))
                planned[ms, each.file_id] = min(first, each.start), max(last, each.end)
    return planned


def _changed(span: Span, source: TailSource, versions: MaskVersions) -> tuple[list[str], int, list[str]]:
    """Return the files that no longer hold the lines that were read of them, how many were compared, and notes."""
    spark, position = versions.spark, TailPosition.parse(span.end) or TailPosition()
    known = source.matched(span.end).known
    if not known:
        return [], 0, []
    rows = read_version(spark, span.path, span.version).where(F.col("file_id").isin(list(known)))
    if VERSION in rows.columns:
        changed, notes = masked_changed(rows, known, versions)
        said = sorted(name_of(known[number].path) for number in changed)
        return [f"no longer as they were read: {listed(said)}"] if said else [], len(known), notes
    then = summed(as_lines(rows.withColumn("file", F.col("file_id").cast("string"))))
    ids = {each.path: number for number, each in known.items()}
    places = [f"file:{path}" for path in ids]
    there = spark.read.format("binaryFile").option("__globPaths__", "false").load(places)
    reach = [
        (row[0], str(number), position.files[number].offset)
        for row in there.select("_metadata.file_path").collect()
        if (number := ids.get(place_of(row[0]))) is not None
    ]
    lines = bounded_reader(spark.read, max_line=HEAD).option("__globPaths__", "false").load(places)
    lines = lines.withColumn("uri", F.col("_metadata.file_path"))
    lines = lines.join(spark.createDataFrame(reach, "uri string, file string, reach bigint"), "uri")
    found = unequal(then, summed(as_lines(lines.where("start < reach"))), "full").select("file").collect()
    said = sorted(name_of(known[int(row["file"])].path) for row in found)
    return [f"no longer as they were read: {listed(said)}"] if said else [], len(known), []
