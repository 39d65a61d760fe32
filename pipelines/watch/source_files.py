"""This is where it is told what became of log files after they were read."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.exactly_once.files_source import Look, local_path


def tell(look: Look, recorded: Mapping[str, int]) -> list[str]:
    """Say in one line each which files changed, are gone, or are never read.

    Args:
        look: the files, compared with Spark's list of them.
        recorded: the size in bytes that bronze has for a changed file, by path.
    """
    said = [_changed(local_path(uri), recorded.get(local_path(uri))) for uri in look.changed]
    if look.vanished:
        said.append(f"{_some(map(local_path, look.vanished))} listed and gone since; bronze keeps what it took in")
    if look.ignored:
        said.append(f"{_some(look.ignored)} never read, as a name starts with _ or a dot")
    return said


def recorded_sizes(spark: SparkSession, bronze: str, uris: Iterable[str]) -> dict[str, int]:
    """Give the sizes in bytes that bronze has for some files, by path."""
    wanted = [f"file:{uri.removeprefix('file://')}" for uri in uris]
    rows = tables.read(spark, bronze).where(F.col("file").isin(wanted)).select("file", "file_size")
    return {local_path(row["file"]): row["file_size"] for row in rows.distinct().collect()}


def _changed(path: str, was: int | None) -> str:
    now = Path(path).stat().st_size
    if was is None or now == was:
        return f"{path} was written to after it was read, and has {now:,} bytes; what was changed is not in bronze"
    if now > was:
        return f"{path} grew from {was:,} to {now:,} bytes after it was read; its tail is not in bronze"
    return f"{path} shrank from {was:,} to {now:,} bytes after it was read; bronze keeps what was read"


def _some(paths: Iterable[str]) -> str:
    first, *others = paths
    return f"{first} and {len(others):,} more were" if others else f"{first} was"
