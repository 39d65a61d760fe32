"""Check that a batch of files is read as it was planned: no file missing, no byte of one lost or added.

Spark plans a batch by names, lists these again when it runs the batch, and leaves out one that is gone without a word.
So before the job the files that Spark will read are compared with the plan, and after the commit the bytes of their
lines with the files' sizes.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from oncelake.common.errors import ReceiptError, SourceError
from oncelake.common.lake import is_local
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.census import shown
from oncelake.exactly_once.files_source import place_of
from oncelake.exactly_once.listing import COMPRESSED, Problem, is_hidden_file, is_packed

BOM = b"\xef\xbb\xbf"
_SCAN = "org.apache.spark.sql.execution.datasources.FileScanRDD"
_FILE = re.compile(r"path: (\S+), range: (\d+)-(\d+), partition values: ")
_IN_TABLE = (
    "The batch is in the table. oncelake prove names the file; when nothing writes to it any more, run: oncelake "
    "rebuild bronze"
)
_NEXT = "the next start reads it"


@dataclass(frozen=True)
class Reading:
    """What one batch reads.

    Attributes:
        sizes: the files that Spark reads, by path (see `place_of`), each with its size in bytes.
        least: the fewest bytes that the lines of the files that are not compressed can have, a newline each.
        most: the most; more than `least` only on another store, where a file's first and last bytes are not looked at.
    """

    sizes: Mapping[str, int]
    least: int
    most: int


def files_of(lines: DataFrame) -> dict[str, int] | None:
    """Return the files that Spark reads for a batch, by path, each with its size; None where it does not tell.

    Spark opens no file without bytes, so those are not among them.
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
    parts = rdd.filePartitions()
    sizes: dict[str, int] = {}
    for number in range(parts.size()):
        text = java.scala.runtime.ScalaRunTime.stringOf(parts.apply(number).files())
        for uri, start, end in _FILE.findall(text):
            path = place_of(uri)
            sizes[path] = sizes.get(path, 0) + int(end) - int(start)
    return sizes


def check_plan(lines: DataFrame, planned: Iterable[str], sizes: Mapping[str, int]) -> Reading:
    """Compare the files that Spark will read with those that the batch was planned for.

    Args:
        lines: the batch.
        planned: the paths of the files that the batch was planned for.
        sizes: what Spark reads, see `files_of`.

    Raises:
        SourceError: a file is missing, was not planned, cannot be read, or would be read under several names; nothing
            was written.
    """
    wanted = set(planned)
    unreadable = sorted(path for path in wanted if is_local(path) and ":" in Path(path).name)
    if unreadable:
        raise SourceError(
            f"{_named(unreadable)}: {Problem.COLON}; rename it, then run: oncelake recover bronze --accept-loss (what "
            "it gives up is the old name: the file is read under its new one)"
        )
    _refuse_loops(sizes)
    others = sorted(sizes.keys() - wanted)
    if others:
        raise SourceError(
            f"{_named(others)}: not planned for this batch, and there when Spark listed it again, in the place of a "
            "planned file; nothing of the batch was written. Put the file back that was there, or go on without it: "
            "oncelake recover bronze --accept-loss"
        )
    missing = sorted(path for path in wanted - sizes.keys() if not _has_nothing(lines, path))
    if missing:
        raise SourceError(
            f"{_named(missing)}: planned for this batch, and missing when Spark listed it again; nothing of the batch "
            f"was written. If it is there by now, start again: {_NEXT}. If it is gone for good: oncelake recover "
            "bronze --accept-loss"
        )
    return Reading(sizes, *_bytes_of_lines({path: size for path, size in sizes.items() if not is_packed(path)}))


def counts(reading: Reading) -> list[Column]:
    """Return what a batch is counted by: its rows, and the bytes of its lines with a newline each."""
    length = F.octet_length("value") + 1
    if any(map(is_packed, reading.sizes)):
        names = F.lower("file")
        plain = ~reduce(Column.__or__, (names.endswith(end) for end in COMPRESSED))
        length = F.when(plain, length).otherwise(0)
    return [F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(length), F.lit(0)).alias("bytes")]


def check_read(reading: Reading, counted: Observation, rows: int) -> None:
    """Compare what a batch has written with the sizes of its files.

    Raises:
        ReceiptError: a file changed while it was read; the batch is in the table.
    """
    seen, changed = counted.get, _changed(reading)
    grown = [path for path in changed if is_packed(path)]
    if grown:  # of what Spark unpacked of it, it leaves out what lies behind the size that it listed
        raise ReceiptError(
            f"{_named(grown)}: compressed, and of another size than when Spark listed it, so lines of it may be "
            f"missing. {_IN_TABLE}"
        )
    if seen["rows"] == rows and reading.least <= seen["bytes"] <= reading.most:
        return
    raise ReceiptError(
        f"the {count_of(len(reading.sizes), 'file')} of this batch had {count_of(reading.least, 'byte')} of lines when "
        f"Spark listed them, and {count_of(seen['bytes'], 'was read', 'were read')} ({count_of(seen['rows'], 'row')}, "
        f"{rows:,} in the table): a file changed while it was read"
        f"{f', probably {_named(changed)}' if changed else ''}. {_IN_TABLE}"
    )


def _changed(reading: Reading) -> list[str]:
    """Return the files of this machine that are there and have another size than when they were listed."""
    return sorted(path for path, size in reading.sizes.items() if is_local(path) and _size(path) not in (size, None))


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - thousands of files a batch
    except OSError:
        return None


def _has_nothing(lines: DataFrame, path: str) -> bool:
    """Return True if a planned file is one that Spark rightly does not open: hidden by its name, or empty."""
    if is_hidden_file(os.fsencode(Path(path).name)):
        return True
    if is_local(path):
        return _size(path) == 0 or (Path(path).exists() and not Path(path).is_file())
    where, store = hadoop(lines.sparkSession, path)
    return bool(store.exists(where)) and int(store.getFileStatus(where).getLen()) == 0


def _refuse_loops(sizes: Mapping[str, int]) -> None:
    """Refuse files that are reached through a link to a directory above it: Spark reads them again and again."""
    for directory in {os.path.dirname(path) for path in sizes if is_local(path)}:  # noqa: PTH120
        real = os.path.realpath(directory)
        if real == directory:
            continue
        seen: set[tuple[int, int]] = set()
        at = Path(directory)
        for each in (at, *at.parents):
            status = each.stat()
            if (status.st_dev, status.st_ino) in seen:
                raise SourceError(
                    f"{shown(directory)}: {Problem.LOOP}; nothing of the batch was written. Remove the link, then run: "
                    "oncelake recover bronze --accept-loss (what it gives up are the names behind the link)"
                )
            seen.add((status.st_dev, status.st_ino))


def _bytes_of_lines(sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the fewest and the most bytes that the lines of some files can have, each line with its newline.

    A byte order mark at a file's start is dropped by Spark's reader, and the last line may lack its newline. On this
    machine both are looked at.
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
        except OSError as error:
            raise SourceError(f"{shown(path)} cannot be read ({error.strerror}); {_NEXT} when it can") from None
        content = size - len(BOM) if start == BOM else size
        total = content + (end != b"\n") if content else 0
        least, most = least + total, most + total
    return least, most


def _named(paths: Sequence[str]) -> str:
    return listed(map(shown, paths))
