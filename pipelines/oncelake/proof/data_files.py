"""Check that every data file that a table's version refers to is there, with its size.

Delta reads a table without looking whether the files of its log exist until it opens them, and a copy or a
clean-up gone wrong leaves a log that speaks of files that are not there. One listing of the table's
directory is compared with the log's own list; no data is read.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from oncelake.common.lake import is_local
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.wording import HANDFUL, count_of, listed, size
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import Files
from oncelake.proof.link import Link
from oncelake.proof.span import Span

_PATH = re.compile(r'"path":"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Stored:
    """A file as its store lists it: bytes, and when it was written, in milliseconds."""

    size: int
    modified: int


def data_files(spark: SparkSession, span: Span, files: Files) -> Link:
    """Check that the data files of a table are there, and count those that no commit refers to.

    Args:
        spark: asks Delta for the version's list, and lists stores that are not local.
        span: the table, at the version that is proven.
        files: reads the table's log.
    """
    there = list_local(span.path) if is_local(span.path) else list_hadoop(spark, span.path)
    live = _live_files(spark, span.path, span.version)
    broken = [(path, _fault(expected, there.get(path))) for path, expected in live.items()]
    broken = [(path, fault) for path, fault in broken if fault]
    named = [f"{path} {fault}; {_origin(files, span, path)}" for path, fault in broken[:HANDFUL]]
    counted = (
        f"{count_of(len(live), 'file is there with its', 'files are there with their')} {size(sum(live.values()))}, "
        f"as version {span.version:,} lists {'it' if len(live) == 1 else 'them'}"
    )
    orphans = _orphans(files, span, {path: each for path, each in there.items() if path not in live})
    said = listed(named, len(broken), separator="; ")
    return Link(f"data files of {span.table}", str(span.table), not broken, said or counted, orphans)


def _live_files(spark: SparkSession, path: str, version: int) -> dict[str, int]:
    """Return the files that a version of a table refers to, relative to the table, with their sizes."""
    none = jvm(spark).scala.Option.empty()
    log = jvm(spark).org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    snapshot = log.getSnapshotAt(version, none, none, False)
    rows = DataFrame(snapshot.allFiles().toDF(), spark).select("path", "size").collect()
    # an absolute path is another table's file, which a shallow clone refers to
    return {unquote(row["path"]): int(row["size"]) for row in rows if not row["path"].startswith(("/", "file:"))}


def list_local(root: str) -> dict[str, Stored]:
    """List the data files below a directory of this machine, relative to it."""
    found = {}
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        for name in names:
            if name.endswith(".parquet") and not name.startswith("."):
                path = Path(parent) / name
                status = path.stat()
                found[str(path.relative_to(root))] = Stored(status.st_size, status.st_mtime_ns // 1_000_000)
    return found


def list_hadoop(spark: SparkSession, root: str) -> dict[str, Stored]:
    """List the data files below a directory of any store, relative to it."""
    where, store = hadoop(spark, root)
    prefix = f"{store.makeQualified(where).toString()}/"
    found, listing = {}, store.listFiles(where, True)
    while listing.hasNext():
        status = listing.next()
        path = status.getPath().toString().removeprefix(prefix)
        if path.endswith(".parquet") and not path.startswith(("_", ".")):
            found[path] = Stored(int(status.getLen()), int(status.getModificationTime()))
    return found


def _fault(expected: int, stored: Stored | None) -> str | None:
    if stored is None:
        return "is missing"
    return None if stored.size == expected else f"has {count_of(stored.size, 'byte')} instead of {expected:,}"


def _origin(files: Files, span: Span, path: str) -> str:
    """Say which commit added a file."""
    log = DeltaLog(files, span.path)
    for version in reversed(log.versions()):
        if path in map(unquote, log.files_added(version)):
            commit = log.commit(version)
            metadata = commit.metadata if commit else None
            what = f"batch {metadata.batch_id}" if metadata else commit.operation if commit else ""
            return f"{what} added it in version {version}"
    return "the commit that added it is gone from the log"


def _orphans(files: Files, span: Span, others: Mapping[str, Stored]) -> tuple[str, ...]:
    """Count files that no commit refers to; a batch that is being written has files newer than the last commit."""
    log = DeltaLog(files, span.path)
    last = log.commit(span.version)
    left = {path: each.size for path, each in others.items() if last and each.modified < last.timestamp}
    for version in reversed(log.versions()) if left else ():
        for path in _paths(files.read(f"{span.path}/_delta_log/{version:020d}.json") or ""):
            left.pop(path, None)
        if not left:
            break
    if not left:
        return ()
    count = count_of(len(left), "file that no commit refers to", "files that no commit refers to")
    why = "a killed batch leaves such, and a MERGE one without rows; VACUUM removes them"
    return (f"{count}, {size(sum(left.values()))}: {why}",)


def _paths(text: str) -> set[str]:
    return {unquote(found) for found in _PATH.findall(text)}
