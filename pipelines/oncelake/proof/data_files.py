"""Check that every data file of a table's version exists and has its listed size.

Delta does not check that the files in its log exist until it opens them. A failed copy or clean-up can leave a log
that refers to missing files. This check compares one listing of the table's directory with the log's list of files;
it reads no data.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from oncelake.common.lake import is_local, listed_files, opened_by_delta_rs
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.wording import HANDFUL, count_of, listed, size
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span

_PATH = re.compile(r'"path":"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class StoredFile:
    """A file as listed by its store: its size in bytes, and its modification time in milliseconds."""

    size: int
    modified: int


def data_files(session: Callable[[], SparkSession], span: Span, files: Files) -> Link:
    """Check that the data files of a table exist, and count the files that no commit refers to.

    Args:
        session: returns the session; lists remote stores, and the files of a version that delta-rs does not read.
        span: the table, at the version that is proven.
        files: reads the table's Delta log.
    """
    stored_files = list_local(span.path) if is_local(span.path) else list_hadoop(session(), span.path)
    live = _live_files(session, span.path, span.version)
    broken = [(path, _fault(expected, stored_files.get(path))) for path, expected in live.items()]
    broken = [(path, fault) for path, fault in broken if fault]
    named = [f"{path} {fault}; {_origin(files, span, path)}" for path, fault in broken[:HANDFUL]]
    counted = (
        f"{count_of(len(live), 'file exists with its listed size', 'files exist with their listed sizes')} "
        f"({size(sum(live.values()))} in version {span.version:,})"
    )
    orphans = _orphans(files, span, {path: file for path, file in stored_files.items() if path not in live})
    faults = listed(named, len(broken), separator="; ")
    return Link(f"data files of {span.table}", str(span.table), not broken, faults or counted, orphans)


def exact_bounds(span: Span) -> Link | None:
    """Check that no bounds of a data file hide one of its rows; None if no file has bounds that could.

    The columns of such bounds are read. Only delta-rs wrote them, so a table that it does not read has none.
    """
    table = opened_by_delta_rs(span.path, span.version)
    if table is None:
        return None
    from oncelake.exactly_once.bounds import bounded_files  # noqa: PLC0415 - optional, as delta-rs

    bounded = list(bounded_files(table, span.path))
    wrong = [(bounds.file.name, columns) for bounds in bounded if (columns := bounds.hidden())]
    named = [f"{name} has a value of {', '.join(columns)} outside of its bounds" for name, columns in wrong[:HANDFUL]]
    faults = listed(named, len(wrong), separator="; ")
    advice = f"{faults}. Readers that look for it skip the file. Run: oncelake maintain"
    well = f"no row is outside of the bounds of {count_of(len(bounded), 'file')}"
    name = f"bounds of {span.table}"
    return Link(name, str(span.table), not wrong, advice if wrong else well) if bounded else None


def _live_files(session: Callable[[], SparkSession], path: str, version: int) -> dict[str, int]:
    """Return the files that a version of a table refers to, relative to the table, with their sizes."""
    rows = listed_by_delta_rs(path, version)
    if rows is None:
        rows = listed_by_delta(session(), path, version)
    # skip absolute paths: a shallow clone refers to files of another table by them
    return {unquote(name): size for name, size in rows if not name.startswith(("/", "file:"))}


def listed_by_delta_rs(path: str, version: int) -> list[tuple[str, int]] | None:
    """List a version's files without Spark, which needs a job for it; None if delta-rs does not read the table.

    Each file has its encoded path as in the log, and its size in bytes.
    """
    table = opened_by_delta_rs(path, version)
    if table is None:
        return None
    files = listed_files(table)
    return list(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def listed_by_delta(spark: SparkSession, path: str, version: int) -> list[tuple[str, int]]:
    """List a version's files in the same form, by Delta's own library."""
    none = jvm(spark).scala.Option.empty()
    log = jvm(spark).org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    snapshot = log.getSnapshotAt(version, none, none, False)
    rows = DataFrame(snapshot.allFiles().toDF(), spark).select("path", "size").collect()
    return [(row["path"], int(row["size"])) for row in rows]


def list_local(root: str) -> dict[str, StoredFile]:
    """List the data files below a local directory, relative to it."""
    files = {}
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        for name in names:
            if name.endswith(".parquet") and not name.startswith("."):
                path = Path(parent) / name
                try:
                    status = path.stat()
                except FileNotFoundError:  # removed by maintenance at this moment
                    continue
                files[str(path.relative_to(root))] = StoredFile(status.st_size, status.st_mtime_ns // 1_000_000)
    return files


def list_hadoop(spark: SparkSession, root: str) -> dict[str, StoredFile]:
    """List the data files below a directory of any store, relative to it."""
    where, store = hadoop(spark, root)
    prefix = f"{store.makeQualified(where).toString()}/"
    files, listing = {}, store.listFiles(where, True)
    while listing.hasNext():
        status = listing.next()
        path = status.getPath().toString().removeprefix(prefix)
        if path.endswith(".parquet") and not path.startswith(("_", ".")):
            files[path] = StoredFile(int(status.getLen()), int(status.getModificationTime()))
    return files


def _fault(expected: int, stored: StoredFile | None) -> str | None:
    if stored is None:
        return "is missing"  # guard: data-files-exist
    # guard: data-files-have-size
    return None if stored.size == expected else f"has {count_of(stored.size, 'byte')} instead of {expected:,}"


def _origin(files: Files, span: Span, path: str) -> str:
    """Return which commit added a file, in words."""
    log = DeltaLog(files, span.path)
    for version in reversed(log.versions()):
        if path in map(unquote, log.files_added(version)):
            commit = log.commit(version)
            metadata = commit.metadata if commit else None
            what = f"batch {metadata.batch_id}" if metadata else commit.operation if commit else ""
            return f"{what} added it in version {version}"
    return "the commit that added it is gone from the log"


def _orphans(files: Files, span: Span, others: Mapping[str, StoredFile]) -> tuple[str, ...]:
    """Count files that no commit refers to; skip files newer than the last commit, as a batch may be writing them."""
    log = DeltaLog(files, span.path)
    last = log.commit(span.version)
    orphans = {path: file.size for path, file in others.items() if last and file.modified < last.timestamp}
    for version in reversed(log.versions()) if orphans else ():
        for path in _paths(files.read(f"{span.path}/_delta_log/{version:020d}.json") or ""):
            orphans.pop(path, None)
        if not orphans:
            break
    if not orphans:
        return ()
    count = count_of(len(orphans), "file that no commit refers to", "files that no commit refers to")
    why = "a killed batch leaves such files, and a MERGE an empty one; VACUUM removes them"
    return (f"{count}, {size(sum(orphans.values()))}: {why}",)


def _paths(text: str) -> set[str]:
    return {unquote(path) for path in _PATH.findall(text)}
