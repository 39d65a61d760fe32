"""Describe changed, deleted and ignored source files for `doctor`, which reads bronze only if a file changed."""

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.census import Census, said, shown
from oncelake.exactly_once.files_source import TOLD_BY_STATE, place_of
from oncelake.exactly_once.listing import Found


def tell(census: Census, recorded: Mapping[str, int]) -> list[str]:
    """Return one line each about files that changed, no longer exist, are not read, or are ignored.

    Args:
        census: the files, compared with Spark's list of them.
        recorded: the size in bytes that bronze recorded for each changed file, by path.
    """
    lines = [_changed(each, recorded.get(each.path)) for each in census.touched]
    lines += [said(each) for each in census.faults if each.fault not in TOLD_BY_STATE]
    if census.gone:
        lines.append(f"{_some(census.gone)} read and later removed; bronze keeps what it read")
    if census.hidden:
        hidden = sorted(each.path for each in census.hidden)
        lines.append(f"{_some(hidden)} never read, because a file or directory name starts with _ or a dot")
    return lines


def recorded_sizes(spark: SparkSession, bronze: str, paths: Iterable[str]) -> dict[str, int]:
    """Return the sizes in bytes that bronze recorded for some files, by path."""
    wanted = set(paths)
    rows = tables.read(spark, bronze).select("file", "file_size").distinct().toLocalIterator()
    return {path: row["file_size"] for row in rows if row["file"] and (path := place_of(row["file"])) in wanted}


def _changed(found: Found, was: int | None) -> str:
    path, now = shown(found.path), count_of(found.size, "byte")
    if was is None or found.size == was:
        return f"{path} was modified after it was read, and now has {now}; the change is not in bronze"
    if found.size > was:
        return f"{path} grew from {was:,} to {now} after it was read; its tail is not in bronze"
    return f"{path} shrank from {was:,} to {now} after it was read; bronze keeps what was read"


def _some(paths: Collection[str]) -> str:
    return f"{listed(map(shown, paths), most=1)} {'was' if len(paths) == 1 else 'were'}"
