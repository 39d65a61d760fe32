"""Account for every file of the source: read, waiting for the next run, ignored by design, or at fault."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE, Table, bronze_stage, is_local, place_of
from oncelake.common.spark.jvm import file_name_encoding, hadoop, jvm
from oncelake.common.wording import count_of, listed, shown_name, shown_path
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.sources.directory.accepted import accepted_files, accepted_note, read_accepted, renamed_states
from oncelake.sources.directory.bronze_files import BronzeFiles, ReadFile
from oncelake.sources.directory.census import Census, CensusInputs, Fault, Faulty, FileRecord, fault_message, take
from oncelake.sources.directory.comparison import (
    RenamedStates,
    broken_of,
    differing,
    lines_of,
    other_names,
    same_lines_as,
)
from oncelake.sources.directory.content import BOM
from oncelake.sources.directory.listing import (
    ListedFile,
    Problem,
    above,
    has_pattern,
    is_packed,
    listing,
    may_be_broken,
    may_read,
)
from oncelake.sources.directory.names import RenameKey, rename_keys, unpacked
from oncelake.sources.files.position import listing_number
from oncelake.sources.files.source import AutoLoaderSource, FilesSource
from oncelake.sources.proof import Ingestion

# At most this many files are named in a filter condition, or compared with other files.
FEW = 1000


def count_files(source: FilesSource, ingestion: Ingestion, bronze: BronzeFiles) -> Census:
    """Assign every file of the source to exactly one state.

    The files are listed after bronze's version is pinned, and Spark's list is read after that. So a file that a
    concurrent run reads in the meantime counts as waiting, not as a fault.

    Args:
        source: the directory.
        ingestion: the bronze table beside it.
        bronze: what bronze holds.
    """
    session, accepted = ingestion.rows.spark, read_accepted(ingestion.files, ingestion.root)
    try:
        files = _list_files(session, source.path)
    except OSError:
        return Census(faults=[Faulty(source.path, Fault.SOURCE_AWAY)])  # guard: unlistable-source-is-fault
    now_at = ingestion.log.state().end
    position, now = (listing_number(at) if at else -1 for at in (bronze.at, now_at))
    inputs = CensusInputs(
        planned=source.planned(),
        position=position,
        position_now=max(position, now),  # guard: position-read-after-listing
        recorded={file.place: FileRecord(file.size, file.modified) for file in bronze.files},
        may_start=ingestion.diagnosis().may_start,
        may_read=may_read if is_local(source.path) else lambda _: True,
        has_lines=lambda paths: lines_of(session(), paths),
        content=source.content,
        accepted=accepted,
        source=(source.path, *_identity(source.path, bronze)),
    )
    return _whole(session, _with_earlier_names(_compared(take(files, inputs), bronze, inputs), bronze, inputs))


def census_link(source_path: str, census: Census, bronze: BronzeFiles) -> Link:
    """Return the link that counts the source's files; it does not hold while a file is at fault."""
    waits = f", {len(census.waiting):,} waiting for the next run" if census.waiting else ""
    ignored = f", {len(census.hidden) + len(census.empty):,} ignored" if census.hidden or census.empty else ""
    well = f"{count_of(len(census.read), 'file matches', 'files match')} what was read{waits}{ignored}"
    faults = (fault_message(fault, bronze_stage(bronze.table.name)) for fault in census.faults)
    # guard: file-fault-fails-proof
    link = Link.of(f"files of {source_path}", bronze.table, faults, well, _notes(census, bronze))
    return link.without(*Uncompared.waiting(len(census.waiting), "file", "for the next run"), *accepted_files(census))


def auto_loader_files(
    spark: SparkSession, source: AutoLoaderSource, files: Sequence[ReadFile], bronze: Table = BRONZE
) -> tuple[Link, Sequence[str]]:
    """Check that every file that Auto Loader has read whole has lines in bronze.

    Auto Loader's function `cloud_files_state` lists the files it has found, with the time at which each one was
    committed. If this function fails, missing files cannot be detected, and the link does not hold.

    Returns:
        The link, and the paths of the files that may be read again.

    Source: Databricks' documentation, "cloud_files_state table-valued function".
    """
    name, table = f"files of {source.path}", str(bronze)
    where = source.checkpoint.replace("\\", "\\\\").replace("'", "\\'")
    try:
        rows = spark.sql(f"SELECT path, commit_time IS NOT NULL AS done FROM cloud_files_state('{where}')").collect()
    except (Py4JJavaError, PySparkException) as error:
        words = f"not checked: Auto Loader does not list its files here ({str(error).splitlines()[0]})"
        return Link(name, table, False, words), ()  # guard: auto-loader-must-answer
    in_bronze = {file.place for file in files}
    missing = sorted(path for row in rows if row["done"] and (path := place_of(row["path"])) not in in_bronze)
    waiting = sum(1 for row in rows if not row["done"])
    if missing:
        were = "read by Auto Loader and"
        words = count_of(len(missing), f"file was {were} has", f"files were {were} have")
        # guard: auto-loader-files-in-bronze
        return Link(name, table, False, f"{words} no line in bronze: {listed(map(shown_name, missing))}"), ()
    waits = f", {waiting:,} waiting for the next run" if waiting else ""
    well = f"{count_of(len(in_bronze), 'file is', 'files are')} in bronze{waits}"
    note = "files that Auto Loader has not found yet are not counted"
    link = Link(name, table, True, well, (note,)).without(*Uncompared.waiting(waiting, "file", "for the next run"))
    return link, [file.place for file in files]


def _list_files(session: Callable[[], SparkSession], path: str) -> list[ListedFile]:
    """List the source's files; on a remote store through Spark, which does not list the files it ignores."""
    if is_local(path):
        if not has_pattern(path):
            files = list(listing(path, "ascii"))
            if not any(file.problem is Problem.NAME for file in files):  # guard: other-names-by-encoding
                return files
        spark = session()
        return list(listing(path, file_name_encoding(spark), pattern_names(spark, path)))
    reader = session().read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    modified = F.unix_millis("_metadata.file_modification_time")
    rows = reader.select("_metadata.file_path", "_metadata.file_size", modified).collect()
    return [ListedFile(place_of(uri), size, at) for uri, size, at in rows]


def pattern_names(spark: SparkSession, path: str) -> list[str] | None:  # guard: pattern-decided-by-hadoop
    """Return the paths that match a path's patterns; None if it has no pattern, or a name stops Hadoop's listing."""
    if not has_pattern(path):
        return None
    where, store = hadoop(spark, path)
    try:
        statuses = store.globStatus(where)
    except (Py4JJavaError, PySparkException):  # a file name has a colon
        return None
    if not statuses:
        return []
    java = jvm(spark)
    paths = java.org.apache.hadoop.fs.FileUtil.stat2Paths(statuses)
    every = java.scala.collection.mutable.ArraySeq.make(paths).mkString("\0")  # one call for a million names
    return [name.removeprefix("file:") for name in every.split("\0")]


def _compared(census: Census, bronze: BronzeFiles, inputs: CensusInputs) -> Census:  # guard: touched-file-compared
    """Read again the files with the recorded size but another modification time; flag those with other lines.

    A file that can no longer be read to its end counts as changed too. A file that cannot be compared, because the key
    of its masked lines is gone, does not: `prove --deep` says so.
    """
    if not census.touched or bronze.rows is None:
        return census
    accepted = [file for file in census.touched if _changed(file).key in inputs.accepted]
    closed = [file for file in census.touched if file not in accepted and not inputs.may_read(file.path)]
    touched = [file for file in census.touched if file not in accepted and file not in closed]
    by_path = {file.place: file.uri for file in bronze.files}
    uris = [by_path[file.path] for file in touched]
    changed = set[str]()
    if uris:
        rows = bronze.rows().where(F.col("file").isin(uris)) if len(uris) <= FEW else bronze.rows()
        changed = {place_of(uri) for uri, *_ in differing(rows, uris, bronze.versions)[0]}
    others = changed | {file.path for file in (*accepted, *closed)}
    return replace(
        census,
        read=[path for path in census.read if path not in others],
        faults=sorted(
            [
                *census.faults,
                *(Faulty(file.path, Fault.RIGHTS, file.size, file.modified) for file in closed),
                *(_changed(file) for file in touched if file.path in changed),
            ]
        ),
        accepted=sorted([*census.accepted, *map(_changed, accepted)]),
    )


# guard: unread-file-compared-with-gone
def _with_earlier_names(census: Census, bronze: BronzeFiles, inputs: CensusInputs) -> Census:
    """Compare the files that bronze has no line of with those that are gone: they may be new names of these.

    A file that a run has recognized as renamed, and that still holds the same lines, is no fault. Another one that
    holds all lines of a file that is gone is at fault, as its lines count under that name already. Each file that is
    gone has one other name at most.
    """
    unread = [fault for fault in census.faults if fault.fault is Fault.NEVER_READ and is_local(fault.path)]
    if not unread or bronze.rows is None:
        return census
    states = renamed_states(inputs.accepted)
    gone = _nameless([file for file in bronze.files if file.place in {*census.gone}], census.renamed, states)
    pairs = _candidates(unread, gone, states)
    names = other_names(bronze.rows(), pairs, bronze.versions)
    earlier = {path: (uri, added) for uri, (path, added) in names.items()}
    renamed, faults = list(census.renamed), list[Faulty]()
    for fault in unread:
        uri, added = earlier.get(fault.path, ("", 0))
        if uri and not added and fault.path in states:
            renamed.append(fault.path)
        elif uri:
            kind = Fault.GREW if added else Fault.CHANGED
            faults.append(replace(fault, fault=kind, earlier=place_of(uri)))
        elif any(fault.path in others for others in pairs.values()) and fault.path in states:
            faults.append(replace(fault, fault=Fault.CHANGED))
        else:
            faults.append(fault)
    accepted = [fault for fault in faults if fault.key in inputs.accepted]
    return replace(
        census,
        renamed=renamed,
        faults=sorted({*census.faults} - {*unread} | {*faults} - {*accepted}),
        accepted=sorted([*census.accepted, *accepted]),
    )


def _nameless(gone: Sequence[ReadFile], renamed: Sequence[str], states: RenamedStates) -> list[ReadFile]:
    """Return the files that are gone without those whose other name is among the renamed files."""
    nameless = list(gone)
    for path in renamed:
        keys = _keys(path, states[path])
        old = next((file for file in nameless if keys & _keys_of(file)), None)
        if old is not None:  # guard: gone-file-has-one-name
            nameless.remove(old)
    return nameless


def _candidates(unread: Sequence[Faulty], gone: Sequence[ReadFile], states: RenamedStates) -> dict[str, list[str]]:
    """Return for each file that is gone the unread files that may hold its lines, at most `FEW` in all.

    Those come first that have the size and time of the file, or had them when a run recognized them as renamed. Then
    those that have a line's end where the file had its own, the longest file first.
    """
    ranked: list[tuple[bool, int, str, str]] = []
    for fault in unread:
        keys = _keys(fault.path, [(fault.size, fault.modified), *states.get(fault.path, ())])
        ends = cache(partial(_ends_line, fault.path, fault.size))
        for file in gone:
            same = bool(keys & _keys_of(file))
            if same or (not is_packed(file.place) and not is_packed(fault.path) and ends(file.size)):
                ranked.append((not same, -file.size, file.uri, fault.path))
    pairs: dict[str, list[str]] = {}
    for *_, uri, path in sorted(ranked)[:FEW]:
        pairs.setdefault(uri, []).append(path)
    return pairs


def _keys_of(file: ReadFile) -> set[RenameKey]:
    return _keys(file.place, [(file.size, file.modified)])


def _keys(path: str, states: Iterable[tuple[int, int]]) -> set[RenameKey]:
    return {key for size, modified in states for key in rename_keys(path, modified, size)}


def _ends_line(path: str, size: int, at: int) -> bool:
    """Return True if a file may begin with all lines of another file; its own last line may have no end.

    Args:
        path: the file.
        size: its size in bytes.
        at: the size of the other file in bytes.
    """
    if size <= at + len(BOM):
        return size >= at - len(BOM) - 1
    try:
        with Path(os.fsdecode(path.encode("utf-8", "surrogateescape"))).open("rb") as file:
            file.seek(at - 1)
            return b"\n" in file.read(2)
    except OSError:
        return False


def _whole(session: Callable[[], SparkSession], census: Census) -> Census:  # guard: cut-archive-does-not-wait
    """Read the waiting files that may be broken; a broken file would stop the next run, so it is at fault.

    A compressed file may be cut off. A file with a Hadoop checksum file next to it may have changed since.
    """
    doubtful = [file.path for file in census.waiting if may_be_broken(file.path)]
    broken = set(broken_of(session(), doubtful)) if doubtful else set[str]()
    faults = [
        Faulty(file.path, Fault.BROKEN, file.size, file.modified) for file in census.waiting if file.path in broken
    ]
    waiting = [file for file in census.waiting if file.path not in broken]
    return replace(census, waiting=waiting, faults=sorted([*census.faults, *faults]))


def _changed(file: ListedFile) -> Faulty:
    return Faulty(file.path, Fault.CHANGED, file.size, file.modified)


def _notes(census: Census, bronze: BronzeFiles) -> Iterator[str]:
    yield from _gone(census, bronze)
    by_name, no_line = "as a name starts with _ or a dot", ("as it holds no line", "as they hold no line")
    for (one, several), files in (((by_name, by_name), census.hidden), (no_line, census.empty)):
        if files:
            ignored = count_of(len(files), f"file is ignored, {one}", f"files are ignored, {several}")
            yield f"{ignored}: {listed(sorted(shown_name(file.path) for file in files))}"
    if census.renamed:
        one, several = (
            "is the new name of one that was read, and is",
            "are the new names of some that were read, and are",
        )
        other = count_of(len(census.renamed), f"file {one}", f"files {several}")
        yield f"{other} not read again: {listed(sorted(map(shown_name, census.renamed)))}"
    if census.waiting:
        names = listed(sorted(shown_name(file.path) for file in census.waiting))
        yield f"{count_of(len(census.waiting), 'file waits', 'files wait')} for the next run: {names}"
    yield from accepted_note(census)


def _gone(census: Census, bronze: BronzeFiles) -> Iterator[str]:
    """Yield notes on the files that are gone, and on the file that each one was renamed to, if any."""
    if not census.gone:
        return
    names = listed(map(shown_name, census.gone))
    gone = count_of(len(census.gone), "file was read and is", "files were read and are")
    yield f"{gone} gone: {names}"
    sizes = {file.place: file.size for file in bronze.files}
    times = {file.modified for file in bronze.files if file.place in census.gone}
    # the run that reads a file with the time of one that is gone finds out whether it is the same one
    existing = {file.path: file.size for file in census.waiting if file.modified not in times}
    existing |= {path: sizes[path] for path in census.read}
    pairs = _renamed({path: sizes[path] for path in census.gone if path in sizes}, existing)
    if pairs and bronze.rows is not None:
        by_path = {file.place: file.uri for file in bronze.files}
        candidates = {by_path[one]: others for one, others in pairs.items()}
        same = same_lines_as(bronze.rows(), candidates, bronze.versions)
        for counts, read in (("their lines count", True), ("the next run counts their lines", False)):
            renames = [
                f"{shown_path(other)} holds the lines of {shown_path(place_of(one))}, which is gone"
                for one, other in same
                if (other in sizes) is read
            ]
            if renames:
                yield f"renamed after they were read, so {counts} under both names: {listed(renames)}"


def _renamed(gone: dict[str, int], existing: dict[str, int]) -> dict[str, list[str]]:
    """Return for each missing file the existing files of the same size, and its compressed or unpacked form.

    Empty if these are too many to compare.
    """
    by_key: dict[int | str, list[str]] = {}
    for path, size in existing.items():
        for key in (size, unpacked(path)):
            by_key.setdefault(key, []).append(path)
    alike = {path: {*by_key.get(size, ()), *by_key.get(unpacked(path), ())} for path, size in gone.items()}
    pairs = {path: sorted(others) for path, others in alike.items() if others}
    return pairs if sum(map(len, pairs.values())) <= FEW else {}


def _identity(path: str, bronze: BronzeFiles) -> tuple[int, int]:  # guard: acceptance-of-same-directory
    """Return a directory's device and inode, which differ when the disk of a mount point is not mounted.

    For a pattern, return those of the directory above it. For a remote store, return bronze's file count, and 0.
    """
    if not is_local(path):
        return len(bronze.files), 0
    at = Path(above(path)).stat()
    return at.st_dev, at.st_ino
