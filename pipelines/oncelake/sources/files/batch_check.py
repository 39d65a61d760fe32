"""Check that a batch reads its files as planned: no file missing, no byte lost or added.

Spark plans a batch by file names, and lists these files again when it runs the batch. It silently skips a file that
is gone. So before the job, the files that Spark will read are compared with the plan. The bytes of their lines are
compared with the files' sizes: of a small batch before it is written, otherwise after the commit.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.mask import BYTES, raw_length
from oncelake.bronze.stand_in import collected_lengths
from oncelake.common.errors import ReceiptError, SourceError
from oncelake.common.lake import is_local, place_of
from oncelake.common.spark.jvm import elements, hadoop, jvm
from oncelake.common.spark.rows import Count
from oncelake.common.wording import count_of, listed, shown_path
from oncelake.sources.directory.content import BOM, Content
from oncelake.sources.directory.listing import COMPRESSED, Problem, is_hidden_file, is_packed, loop_above

if TYPE_CHECKING:
    import pyarrow

_SCAN = "org.apache.spark.sql.execution.datasources.FileScanRDD"
_FILE = re.compile(r"path: (\S+), range: (\d+)-(\d+), partition values: ")
_IN_TABLE = (
    "The batch is in the table. oncelake prove names the file. When nothing writes to the file any more, run: "
    "oncelake rebuild {stage}"
)
_NOT_IN_TABLE = "Nothing of the batch was written. When nothing writes to the file any more, start again"
_NEXT = "the next start reads it"


@dataclass(frozen=True)
class Reading:
    """The files that one batch reads.

    Attributes:
        sizes: the files that Spark reads: path (see `place_of`) to size in bytes.
        least: the fewest bytes that the lines of the uncompressed files can have, with one newline each.
        most: the most bytes that they can have; more than `least` only if files are not on this machine, because the
            first and last bytes of such files are not checked.
        stage: the stage that reads them.
    """

    sizes: Mapping[str, int]
    least: int
    most: int
    stage: str = "bronze"

    def without(self, paths: Collection[str]) -> "Reading":
        """Return the reading of all but some files."""
        sizes = {path: size for path, size in self.sizes.items() if path not in paths}
        return _reading(sizes, self.stage)


def files_of(lines: DataFrame) -> dict[str, int] | None:
    """Return the files that Spark reads for a batch, as path to size; None if Spark's plan does not say.

    Spark does not open empty files, so they are not included.
    """
    java = jvm(lines.sparkSession)
    rdd = lines._jdf.queryExecution().analyzed()
    if not rdd.getClass().getName().endswith("LogicalRDD"):
        return None
    rdd = rdd.rdd()
    while rdd.getClass().getName() != _SCAN:
        parents = rdd.dependencies()
        if parents.size() != 1:
            return None
        rdd = parents.head().rdd()
    sizes: dict[str, int] = {}
    for partition in elements(rdd.filePartitions()):
        text = java.scala.runtime.ScalaRunTime.stringOf(partition.files())
        for uri, start, end in _FILE.findall(text):
            path = place_of(uri)
            sizes[path] = sizes.get(path, 0) + int(end) - int(start)
    return sizes


def check_plan(
    lines: DataFrame,
    planned: Iterable[str],
    sizes: Mapping[str, int],
    content: Callable[[str], Content | None] = lambda _: None,
    stage: str = "bronze",
) -> Reading:
    """Compare the files that Spark will read with those that the batch was planned for.

    Args:
        lines: the batch.
        planned: the paths of the files that the batch was planned for.
        sizes: the files that Spark reads, see `files_of`.
        content: returns what a file holds; None if that is not known.
        stage: the stage that reads them.

    Raises:
        SourceError: a file is missing, was not planned, cannot be read, holds no text, or would be read under several
            names. Nothing was written.
    """
    planned_paths = set(planned)
    unreadable = sorted(path for path in planned_paths if is_local(path) and ":" in Path(path).name)
    if unreadable:
        raise SourceError(  # guard: colon-in-planned-name
            f"{_named(unreadable)}: {Problem.COLON}; rename it, then run: oncelake recover {stage} --accept-loss "
            "(this gives up only the old name: the file is read under its new name)"
        )
    _refuse_loops(sizes, stage)
    others = sorted(sizes.keys() - planned_paths)
    if others:
        raise SourceError(  # guard: no-unplanned-file
            f"{_named(others)}: not planned for this batch, but found in the place of a planned file when Spark listed "
            "the files again; nothing of the batch was written. Restore the planned file, or continue without it: "
            f"oncelake recover {stage} --accept-loss"
        )
    aside = [
        f"{shown_path(path)}: {file_content.why}"
        for path in sizes
        if (file_content := content(path)) is not None and file_content.aside
    ]
    if aside:
        raise SourceError(  # guard: planned-binary-file-refused
            f"{listed(sorted(aside), separator='; ')}; planned for this batch, of which nothing was written. Put a "
            "readable file in its place and start again, or move it out of the source and run: "
            f"oncelake recover {stage} --accept-loss (this gives up only this file)"
        )
    missing = sorted(path for path in planned_paths - sizes.keys() if not _has_nothing(lines, path))
    if missing:
        raise SourceError(  # guard: planned-file-exists
            f"{_named(missing)}: planned for this batch, and missing when Spark listed it again; nothing of the batch "
            f"was written. If it exists again, restart: {_NEXT}. If it is gone for good, run: oncelake recover {stage} "
            "--accept-loss"
        )
    return _reading(sizes, stage)


def _reading(sizes: Mapping[str, int], stage: str) -> Reading:
    plain = {path: size for path, size in sizes.items() if not is_packed(path)}
    return Reading(sizes, *_bytes_of_lines(plain), stage)


def counts(reading: Reading, lines: DataFrame) -> list[Count]:
    """Return the counts of a batch: its rows, and the bytes of its lines in the files with one newline each."""
    packed = any(map(is_packed, reading.sizes))
    return [
        Count("rows", lambda: F.count(F.lit(1)), len),
        Count("bytes", partial(_bytes_in_spark, lines, packed=packed), partial(_bytes_here, packed=packed)),
    ]


def _bytes_in_spark(lines: DataFrame, *, packed: bool) -> Column:
    length = raw_length(lines) + 1
    if packed:
        names = F.lower("file")
        plain = ~reduce(Column.__or__, (names.endswith(end) for end in COMPRESSED))
        length = F.when(plain, length).otherwise(0)
    return F.coalesce(F.sum(length), F.lit(0))


def _bytes_here(rows: "pyarrow.Table", *, packed: bool) -> int:
    import pyarrow.compute as pc  # noqa: PLC0415 - a run that collects nothing need not have it

    if packed:
        names = pc.utf8_lower(rows["file"])
        rows = rows.filter(pc.invert(reduce(pc.or_, (pc.ends_with(names, end) for end in COMPRESSED))))
    lengths = rows[BYTES] if BYTES in rows.column_names else collected_lengths(rows)
    return int((pc.sum(lengths).as_py() or 0) + rows.num_rows)


def check_read(reading: Reading, seen: Mapping[str, int], rows: int | None) -> None:
    """Compare what a batch read with the sizes of its files.

    Args:
        reading: the files.
        seen: the values of `counts`.
        rows: how many rows the table got; None if nothing is written yet.

    Raises:
        ReceiptError: a file changed while it was read.
    """
    changed, then = _changed(reading), _NOT_IN_TABLE if rows is None else _IN_TABLE.format(stage=reading.stage)
    grown = [path for path in changed if is_packed(path)]
    if grown:  # Spark drops the part of a compressed file that lies beyond the size that it listed
        raise ReceiptError(  # guard: archive-as-listed
            f"{_named(grown)}: compressed, and its size changed after Spark listed it, so some of its lines may be "
            f"missing. {then}"
        )
    # guard: batch-bytes-and-rows-match
    if rows in (None, seen["rows"]) and reading.least <= seen["bytes"] <= reading.most:
        return
    raise ReceiptError(  # guard: changed-file-fails-batch
        f"the {count_of(len(reading.sizes), 'file')} of this batch had {count_of(reading.least, 'byte')} of lines when "
        f"Spark listed them, but {count_of(seen['bytes'], 'was read', 'were read')} ({count_of(seen['rows'], 'row')}, "
        f"{rows or 0:,} in the table): a file changed while it was read"
        f"{f', probably {_named(changed)}' if changed else ''}. {then}"
    )


def _changed(reading: Reading) -> list[str]:
    """Return the files on this machine that still exist and whose size changed after they were listed."""
    return sorted(path for path, size in reading.sizes.items() if is_local(path) and size_of(path) not in (size, None))


def size_of(path: str) -> int | None:
    """Return the bytes of a file; None if it is gone."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - thousands of files a batch
    except OSError:
        return None


def _has_nothing(lines: DataFrame, path: str) -> bool:  # guard: skipped-file-is-not-missing
    """Return True if Spark is right not to open a planned file: its name is hidden, or it holds no bytes."""
    if is_hidden_file(os.fsencode(Path(path).name)):
        return True
    if is_local(path):
        return size_of(path) == 0 or (Path(path).exists() and not Path(path).is_file())
    where, store = hadoop(lines.sparkSession, path)
    return bool(store.exists(where)) and int(store.getFileStatus(where).getLen()) == 0


def _refuse_loops(sizes: Mapping[str, int], stage: str) -> None:  # guard: link-loop-not-read
    """Reject files reached through a link to a directory above it: Spark would read them again and again."""
    for directory, path in {os.path.dirname(path): path for path in sizes if is_local(path)}.items():  # noqa: PTH120
        link = loop_above(path) if os.path.realpath(directory) != directory else None
        if link is not None:
            raise SourceError(
                f"{shown_path(link)}: {Problem.LOOP}; nothing of the batch was written. Remove the link, "
                f"then run: oncelake recover {stage} --accept-loss (this gives up only the names behind the link: "
                "files of the source are read under their own names)"
            )


def _bytes_of_lines(sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the fewest and the most bytes that the lines of some files can have, with one newline each.

    Spark's reader drops a byte order mark at a file's start, and the last line may lack its newline. Both are checked
    for files on this machine.
    """
    least = most = 0
    for path, size in sizes.items():
        if not is_local(path):
            least, most = least + max(0, size - len(BOM)), most + size + 1
            continue
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - thousands of files a batch
                start = file.read(len(BOM))
                file.seek(-1, os.SEEK_END)
                end = file.read(1)
        except OSError as error:  # guard: unreadable-file-named
            raise SourceError(
                f"{shown_path(path)} cannot be read ({error.strerror}); {_NEXT} once it is readable"
            ) from None
        content = size - len(BOM) if start == BOM else size  # guard: byte-order-mark-not-counted
        total = content + (end != b"\n") if content else 0  # guard: last-line-without-newline
        least, most = least + total, most + total
    return least, most


def _named(paths: Sequence[str]) -> str:
    return listed(map(shown_path, paths))
