"""This is where the source's directory is listed as it is now."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.exactly_once.files_source import is_hidden
from pipelines.jvm import hadoop
from pipelines.lake import is_local, place
from pipelines.proof.read_files import hadoop_path, place_of

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Disk:
    """What is in a directory.

    Attributes:
        files: those that Spark reads, by place (see `place_of`), each with size and modification time in ms.
        ignored: those that it does not, because a name starts with _ or a dot.
    """

    files: Mapping[str, tuple[int, int]]
    ignored: tuple[str, ...] = ()


def look(spark: SparkSession, source_path: str) -> Disk:
    """List a directory; on another store by Spark, which tells nothing of files that it ignores."""
    root = place(source_path)
    if not is_local(root):
        return _elsewhere(spark, root)
    files, ignored = {}, []
    for path, hidden in _below(Path(root)):
        try:
            status = os.stat(path)  # noqa: PTH116 - a pathlib object for each of a million files costs seconds
        except FileNotFoundError:  # gone since it was listed
            continue
        if hidden:
            ignored.append(path)
        else:
            files[path] = (status.st_size, status.st_mtime_ns // 1_000_000)
    return Disk(files, tuple(ignored))


def starts_with_bom(spark: SparkSession, uri: str) -> bool | None:
    """Tell whether a file starts with a UTF-8 byte order mark; None when it is gone."""
    path, store = hadoop(spark, hadoop_path(uri))
    if not store.exists(path):
        return None
    stream = store.open(path)
    try:
        return bytes(stream.read() % 256 for _ in _BOM) == _BOM
    finally:
        stream.close()


def _below(root: Path) -> Iterator[tuple[str, bool]]:
    """Give every file below a directory, and whether Spark ignores it."""
    for parent, _, names in os.walk(root):
        inside = any(map(is_hidden, Path(parent).relative_to(root).parts))
        yield from ((f"{parent}/{name}", inside or is_hidden(name)) for name in names)


def _elsewhere(spark: SparkSession, root: str) -> Disk:
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(root)
    modified = F.unix_millis("_metadata.file_modification_time")
    rows = listing.select("_metadata.file_path", "_metadata.file_size", modified).collect()
    return Disk({place_of(uri): (size, at) for uri, size, at in rows})
