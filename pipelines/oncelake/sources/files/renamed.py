"""Find the files of a batch that were read before under a name that is gone: they are not read again.

A file is the renamed form of another one if that one was read and is gone, and both have the same modification time and
lines, and the same size, or one is the compressed form of the other by name. A copy, whose original is still there, is
another file. Each gone file has one other name at most.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION
from oncelake.bronze.stand_in import as_lines
from oncelake.common import tables
from oncelake.common.errors import SourceError
from oncelake.common.lake import place_of
from oncelake.common.wording import shown_path
from oncelake.exactly_once.table_version import TableVersion
from oncelake.sources.directory.comparison import SUMS, summed
from oncelake.sources.directory.names import RenameKey, rename_keys
from oncelake.sources.files.batch_check import Reading, size_of
from oncelake.sources.files.spark_list import FileSourceLog


@dataclass
class ListedTimes:
    """The files of Spark's list by their modification time, kept up to date from batch to batch of a query."""

    _query: str = ""
    _number: int = -1
    _by_time: dict[int, list[str]] = field(default_factory=dict)

    def before(self, log: FileSourceLog, number: int, query: str) -> Mapping[int, list[str]]:
        """Return the URIs of the files that a query has listed before a number."""
        if query != self._query or number < self._number:
            self._query, self._number, self._by_time = query, -1, {}
        entries = log.entries() if self._number < 0 else log.entries_between(self._number, number - 1)
        for uri, modified, listed in entries:
            if self._number <= listed < number:
                self._by_time.setdefault(modified, []).append(uri)
        self._number = max(self._number, number)
        return self._by_time


def renamed(  # guard: renamed-file-left-out
    lines: DataFrame,
    reading: Reading,
    modified_at: Mapping[str, int],
    listed: Mapping[int, list[str]],
    before: Callable[[], TableVersion],
) -> dict[str, str]:
    """Return the files of a batch that bronze has read under a name that is gone, each with the path of that name.

    Args:
        lines: the batch, with bronze's columns.
        reading: the files that the batch reads.
        modified_at: the modification times in milliseconds of its files, by path.
        listed: the URIs of the files that were listed before the batch, by modification time.
        before: returns bronze as it was before the batch.

    Returns:
        The gone paths, by the value of the column `file`.

    Raises:
        SourceError: it cannot be decided, as the gone file was masked by other rules.
    """
    sizes, files = reading.sizes, sorted(modified_at.items())
    new = [(path, modified) for path, modified in files if path in sizes and modified in listed]
    earlier = {uri for _, modified in new for uri in listed[modified]}
    if all(os.path.lexists(place_of(uri)) for uri in earlier):
        return {}
    bronze = before()
    rows = tables.read_version(lines.sparkSession, bronze.path, bronze.version)
    spelled = [spelling for uri in earlier for spelling in (uri, uri.replace("file:///", "file:/", 1))]
    gone_rows = rows.where(F.col("file").isin(spelled))
    counted = gone_rows.groupBy("file").agg(F.max("file_size").alias("size")).collect()
    recorded = {place_of(row["file"]): row["size"] for row in counted}
    gone, spent = _gone({modified: listed[modified] for _, modified in new}, recorded)
    keys = ((path, key) for path, modified in new for key in rename_keys(path, modified, sizes[path]) if key in gone)
    same: dict[str, RenameKey] = {}
    for path, key in keys:
        same.setdefault(path, key)
    if not same:
        return {}
    _refuse_other_rules(lines, gone_rows, {one: path for path, key in same.items() for one in gone[key]}, reading.stage)
    now, then = _digests(lines), _digests(gone_rows)
    result: dict[str, str] = {}
    for path, key in same.items():
        uri, sums = now.get(path, ("", None))
        free = [one for one in gone[key] if then[one][1] == sums and one not in result.values()]
        if len(free) > spent[key]:  # guard: one-name-for-renamed-file
            result[uri] = free[0]
    return result


def _gone(
    listed: Mapping[int, list[str]], recorded: Mapping[str, int]
) -> tuple[dict[RenameKey, list[str]], Counter[RenameKey]]:
    """Return the files that bronze has read and that are gone, and how many of them have another name already.

    Args:
        listed: the URIs of the files that were listed before, by modification time.
        recorded: the sizes of the files that have rows, by path.
    """
    gone: dict[RenameKey, list[str]] = {}
    spent: Counter[RenameKey] = Counter()
    for modified, uris in listed.items():
        for place in sorted(map(place_of, uris)):
            size = size_of(place)
            if size is None and place in recorded:
                for key in rename_keys(place, modified, recorded[place]):
                    gone.setdefault(key, []).append(place)
            elif size is not None and place not in recorded:  # the other name of a file that is gone has no row
                spent.update(rename_keys(place, modified, size))
    return gone, spent


def _digests(rows: DataFrame) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the value of `file`, and sums over the lines, of each file by its path."""
    sums = summed(as_lines(rows)).collect()
    return {place_of(row["file"]): (row["file"], tuple(row[name] for name in SUMS)) for row in sums}


# guard: renamed-under-same-masks
def _refuse_other_rules(lines: DataFrame, gone_rows: DataFrame, pairs: Mapping[str, str], stage: str) -> None:
    """Raise SourceError if a gone file was not masked as the batch is, so that lines cannot be compared.

    Args:
        lines: the batch.
        gone_rows: bronze's rows of the gone files.
        pairs: the file of the batch, by the gone path.
        stage: the stage that reads them.
    """

    def versions(rows: DataFrame) -> dict[str, str | None]:
        version = F.col(VERSION) if VERSION in rows.columns else F.lit(None)
        distinct = rows.select("file", version.alias("version")).distinct().collect()
        return {place_of(row["file"]): row["version"] for row in distinct}

    then, now = versions(gone_rows), versions(lines)
    for gone, path in pairs.items():
        if path in now and then.get(gone) != now[path]:
            raise SourceError(
                f"{shown_path(path)} has the size and time of {shown_path(gone)}, which was read and is gone. "
                "Whether it is the same file cannot be decided, as its lines were masked by other rules; nothing was "
                "written. If it is the same file, give it its old name back, then run: oncelake recover "
                f"{stage} --accept-loss (this gives up only the new name). If it is another one, set source.renamed "
                "to read"
            )
