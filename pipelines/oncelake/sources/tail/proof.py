"""Check bronze against growing files: what waits, and that each byte that was read is in exactly one row."""

from collections.abc import Iterator, Mapping

from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION, raw_length_of
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import bounded_reader
from oncelake.bronze.stand_in import HEAD, as_lines
from oncelake.common.lake import Table, bronze_stage, place_of
from oncelake.common.table_rows import TableRows
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, listed, shown_name
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.source import without_end_words
from oncelake.exactly_once.span import HALF, INGESTED_MS, Span, batch_names, miscounted, rows_in
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.directory.accepted import accepted_files, accepted_note, read_accepted
from oncelake.sources.directory.census import FaultKey, fault_message
from oncelake.sources.directory.comparison import load, summed, unequal
from oncelake.sources.directory.listing import ListedFile, is_packed
from oncelake.sources.proof import Ingestion
from oncelake.sources.tail.masked_proof import masked_changed
from oncelake.sources.tail.plan import half_read, ranges
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.source import TailSource
from oncelake.sources.tail.survey import Survey, is_written


def links(source: TailSource, ingestion: Ingestion) -> Iterator[Link]:
    """Account for the files that grow, and check the rows of the bytes that were read."""
    span, accepted = ingestion.span, read_accepted(ingestion.files, ingestion.root)
    yield tail_files(source, span.end if span else None, ingestion.table, ingestion.diagnosis(), accepted)
    if span is not None and span.rows_in_all:
        yield tail_rows(span, source, ingestion.rows, ingestion.versions, deep=ingestion.deep)


def tail_files(
    source: TailSource,
    at: str | None,
    table: Table,
    diagnosis: Diagnosis,
    accepted: frozenset[FaultKey] = frozenset(),
) -> Link:
    """Account for every file of the directory: read, waiting, a copy of another file, ignored by design, or at fault.

    Bytes that a planned batch needs and that are gone are a fault, also if no file has anything else to read.

    Args:
        source: bronze's source.
        at: bronze's position; None before the first batch.
        table: the bronze table.
        diagnosis: whether the next run of bronze would start.
        accepted: the faults (see `Faulty.key`) whose loss was accepted.

    Raises:
        SourceError: the directory cannot be listed.
    """
    survey, position = source.survey(at), TailPosition.parse(at) or TailPosition()
    waiting, census = source.files.waiting(position, survey), source.census(at, accepted, survey)
    faults = [fault_message(fault, bronze_stage(table.name)) for fault in census.faults]
    waits = f", {count_of(sum(waiting.values()), 'byte')} in {count_of(len(waiting), 'file')} waiting for the next run"
    if diagnosis.state is State.SOURCE_TRIMMED:  # guard: growing-file-planned-bytes
        faults.append(diagnosis.seen)
    elif waiting and not diagnosis.may_start:
        wait = count_of(len(waiting), "file has", "files have")
        faults.append(f"{wait} bytes that no run reads: bronze cannot start")
    read = len(census.read)
    well = f"{count_of(read, 'file is', 'files are')} read to the end{waits if waiting else ''}"
    notes = [*_notes(source, survey, position), *accepted_note(census)]
    link = Link.of(f"files of {source.path}", table, faults, well, notes)
    return link.without(
        *Uncompared.waiting(sum(waiting.values()), "byte", f"in {count_of(len(waiting), 'file')}"),
        *Uncompared.waiting(len(_written(source, survey)), "compressed file", "to be complete"),
        *accepted_files(census),
    )


def _written(source: TailSource, survey: Survey) -> list[ListedFile]:
    """Return the compressed files that are being written."""
    return [file for file, reason in survey.aside if is_written(file, reason, source.files.now())]


def _notes(source: TailSource, survey: Survey, at: TailPosition) -> Iterator[str]:
    half = half_read(survey, at)
    if half:
        yield without_end_words([file.path for file in half])
    if survey.copies:
        pairs = listed(f"{shown_name(copy.path)} of {shown_name(file.path)}" for copy, file in survey.copies)
        yield f"{count_of(len(survey.copies), 'file is a copy', 'files are copies')} and not read: {pairs}"
    if survey.spent:
        copies = count_of(len(survey.spent), "file is a copy", "files are copies")
        yield f"{copies} of what was read, and not read: {_named([*survey.spent.values()])}"
    hidden = [file for file in survey.others if file.hidden]
    if hidden:
        ignored = count_of(len(hidden), "file is ignored", "files are ignored")
        yield f"{ignored}, as a name starts with _ or a dot: {_named(hidden)}"
    written = _written(source, survey)
    if written:
        yield f"{count_of(len(written), 'compressed file is', 'compressed files are')} not complete: {_named(written)}"
    cut = [file.path for file in at.files.values() if file.start and file.original in at.files]
    if cut:
        was = count_of(len(cut), "file was", "files were")
        names = listed(map(shown_name, cut))
        yield f"{was} cut after the end had been read, which stays in bronze, and read on: {names}"
    if survey.away:
        yield f"{count_of(len(survey.away), 'file was read and is', 'files were read and are')} gone"
    if at.forgotten:
        gone = count_of(at.forgotten, "file that was read is", "files that were read are")
        yield f"{gone} gone for so long that they are new ones if they are put back"


def _named(files: list[ListedFile]) -> str:
    return listed(sorted(shown_name(file.path) for file in files))


def tail_rows(span: Span, source: TailSource, rows: TableRows, versions: MaskVersions, *, deep: bool) -> Link:
    """Prove that each byte that the span's batches were planned to read is in exactly one row.

    A row is the bytes from its `file_offset` on, with one line end. In the rows of a batch and a file, each row but the
    first begins where another one ends; so the beginnings and the ends are the same numbers, but for the outer two.

    Args:
        span: the span of bronze.
        source: bronze's source.
        rows: answers queries over bronze.
        versions: the versions of the rules that mask data.
        deep: True to read the files that are there again, and to compare them with bronze line by line.
    """
    summed = rows.records(_summed(span, rows), {"bronze": (span.path, span.version)})
    counts: dict[int | None, int] = {}
    for row in summed:
        counts[row["ingested"]] = counts.get(row["ingested"], 0) + row["rows"]
    faults = miscounted(span, counts)
    strange = sum(row["rows"] for row in summed if row["file_id"] is None or row["first"] is None)
    if strange:
        # guard: growing-row-has-file
        faults.append(count_of(strange, "row belongs to no file", "rows belong to no file"))
    planned, names = _planned(span), batch_names(span)
    by_part = {(row["ingested"], row["file_id"]): row for row in summed if row["file_id"] is not None}
    for (ms, file_id), (first, last) in sorted(planned.items()):
        summary = by_part.get((ms, file_id))
        what = f"{names[ms]}: bytes {first:,} to {last - 1:,} of file {file_id}"
        if summary is None:
            faults.append(f"{what} are in no row")  # guard: growing-file-has-rows
        elif (summary["last"], summary["bytes"]) != (last, last - summary["first"]) or (
            summary["first"] not in _firsts(first)
        ):
            held = f"{summary['first']:,} to {summary['last'] - 1:,}"
            was = f"rows hold {count_of(summary['bytes'], 'byte')} from {held}"
            faults.append(f"{what} were planned, its {was}")  # guard: growing-file-bytes-planned
        elif not summary["chained"]:
            faults.append(f"{what}: a row is missing and another one is there twice")  # guard: growing-file-rows-join
    faults += [  # guard: growing-file-was-planned
        f"{names[ms]} has rows of file {file_id}, of which it was to read nothing"
        for ms, file_id in sorted(by_part.keys() - planned.keys(), key=str)
        if ms in names
    ]
    file_count = count_of(len({file_id for _, file_id in by_part}), "file")
    well = f"{count_of(sum(counts.values()), 'row')} of {file_count}, each byte once"
    notes, unread = list[str](), 0
    if deep:
        survey = source.survey(span.end)
        known = survey.known
        grown = {file.identity for file in survey.archived.values()}
        aside = {file.identity for file, _ in survey.aside if is_packed(file.path)}
        cut = aside - grown  # guard: cut-archive-not-read-again
        again = {number: file for number, file in known.items() if ":" not in file.path and file.identity not in cut}
        every = read_version(versions.spark, span.path, span.version)
        unread = every.where(~F.coalesce(F.col("file_id").isin(list(again)), F.lit(False))).count()
        changed, compared, notes = _changed(span, again, versions)
        faults += changed
        others = [file for number, file in known.items() if number not in again]
        for why, files in (
            ("Hadoop reads no name with a colon", [file for file in others if ":" in file.path]),
            ("it is compressed and not complete", [file for file in others if ":" not in file.path]),
        ):
            if files:
                notes = [*notes, f"not read again, as {why}: {_named(files)}"]
        well = f"{well}, {count_of(compared, 'file')} read again and equal line by line"
    link = Link.of(f"{source.path} → {span.table}", span.table, faults, well, notes)
    gone = sum(rows for ms, rows in counts.items() if ms not in names)  # guard: growing-rows-are-number
    return link.without(
        *Uncompared.of_lines(gone, "whose commits are gone", lasting=True),
        *Uncompared.of_lines(unread, "of files that were not read again"),
    )


def _summed(span: Span, rows: TableRows) -> str:
    """Return in SQL the rows of a span by file and batch, with their bytes, and whether each joins another one."""
    length = raw_length_of(rows.columns(span.path, span.version))
    places = (
        f"SELECT file_id, {INGESTED_MS} AS ingested, file_offset AS place, "
        f"file_offset + coalesce({length}, 0) + 1 AS behind FROM {{bronze}} WHERE {rows_in(span)}"
    )
    groups = (
        "SELECT file_id, ingested, count(*) AS rows, min(place) AS first, max(behind) AS last, "
        "CAST(sum(behind - place) AS BIGINT) AS bytes, "
        f"CAST(sum({_half('place')}) - sum({_half('behind')}) AS BIGINT) AS ends FROM ({places}) p "
        "GROUP BY file_id, ingested"
    )
    joins = f"g.ends IS NOT DISTINCT FROM {_half('g.first')} - {_half('g.last')}"
    return f"SELECT file_id, ingested, rows, first, last, bytes, {joins} AS chained FROM ({groups}) g"


def _half(place: str) -> str:
    return f"(xxhash64({place}, 0) & {HALF})"


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
            for range_ in ranges(start, end):
                first, last = planned.get((ms, range_.file_id), (range_.start, range_.end))
                planned[ms, range_.file_id] = min(first, range_.start), max(last, range_.end)
    return planned


# guard: growing-file-lines-unchanged
def _changed(span: Span, known: Mapping[int, ListedFile], versions: MaskVersions) -> tuple[list[str], int, list[str]]:
    """Return the files that no longer hold the lines that were read of them, how many were compared, and notes.

    Args:
        span: the commits of bronze.
        known: the files that are read again, by ID.
        versions: the versions of the masking rules.
    """
    spark, position = versions.spark, TailPosition.parse(span.end) or TailPosition()
    if not known:
        return [], 0, []
    rows = read_version(spark, span.path, span.version).where(F.col("file_id").isin(list(known)))
    if VERSION in rows.columns:
        changed, notes = masked_changed(rows, known, versions)
        names = sorted(shown_name(known[number].path) for number in changed)
        return [f"no longer as they were read: {listed(names)}"] if names else [], len(known), notes
    then = summed(as_lines(rows.withColumn("file", F.col("file_id").cast("string"))))
    ids = {file.path: number for number, file in known.items()}
    existing = load(spark.read.format("binaryFile"), ids)
    reach = [
        (row[0], str(number), position.files[number].start, position.files[number].offset)
        for row in existing.select("_metadata.file_path").collect()
        if (number := ids.get(place_of(row[0]))) is not None
    ]
    lines = load(bounded_reader(spark.read, max_line=HEAD), ids)
    lines = lines.withColumn("uri", F.col("_metadata.file_path"))
    lines = lines.join(spark.createDataFrame(reach, "uri string, file string, first bigint, reach bigint"), "uri")
    now = summed(as_lines(lines.where("start >= first AND start < reach")))
    different = unequal(then, now, "full").select("file").collect()
    names = sorted(shown_name(known[int(row["file"])].path) for row in different)
    return [f"no longer as they were read: {listed(names)}"] if names else [], len(known), []
