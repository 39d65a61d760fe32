"""The data files of a batch: its rows are written into Parquet files, which this process then commits.

Spark writes the files of a large batch, this process writes the one of a small batch. Spark's Delta writer rebuilds the
table's state and computes statistics row by row. A Parquet file has the statistics of its columns at its end, so here
they are read from there.
"""

import json
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from oncelake.common.errors import ReceiptError
from oncelake.common.spark.rows import BatchRows
from oncelake.exactly_once.files import STAGED, TableFiles

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = ("byte", "short", "integer", "long")
# With this key Spark notes that it wrote times in the old calendar: then the bytes are not those of the values.
_OLD_CALENDAR = b"org.apache.spark.legacy"
# How pyarrow names the type of a column of times in UTC.
_MICROSECONDS = "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"


@dataclass(frozen=True)
class DataFile:
    """A data file in a table's directory.

    Attributes:
        name: its name.
        size: in bytes.
        modified: when it was written, in milliseconds since 1970.
        stats: the statistics of an `add` action.
    """

    name: str
    size: int
    modified: int
    stats: Mapping[str, Any]


class NewFiles:
    """The rows of a batch as uncommitted data files of a table.

    Files that are never committed, as after a crash, are no part of the table; VACUUM removes them.

    Args:
        rows: the rows, with columns of the table.
        table: the table's directory.
        indexed: the columns that get statistics, each with its Delta type.
        schema: the table's schema, as JSON; the rows fit it.
        files: the access to the directory, which is on this machine if Spark computes the rows.
    """

    def __init__(self, rows: BatchRows, table: str, indexed: Mapping[str, str], schema: str, files: TableFiles) -> None:
        self.columns = rows.columns
        self.schema = schema
        self._rows = rows
        self._table = table
        self._files = files
        self._indexed = indexed
        self._written: Sequence[DataFile] | None = None

    def written(self) -> Sequence[DataFile]:
        """Write the files, once, and return those that have rows.

        Raises:
            ReceiptError: what Spark's job wrote was removed meanwhile; nothing was committed.
        """
        if self._written is None:
            rows = self._rows.here
            self._written = self._by_spark() if rows is None else self._of(rows) if rows.num_rows else []
        return self._written

    def _of(self, rows: pyarrow.Table) -> Sequence[DataFile]:
        """Write one file; only columns with statistics have bounds in it, but no float: a NaN would be in none."""
        name, footers = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet", list[Any]()
        indexed = (field for field in rows.schema if field.name in self._indexed)
        bounded = [field.name for field in indexed if not pyarrow.types.is_floating(field.type)]
        # as Spark's writer does; that a column is never null is known for a plan, not for a table
        nullable = pyarrow.schema([field.with_nullable(True) for field in rows.schema])
        with self._files.creating(f"{self._table}/{name}") as file:
            parquet.write_table(rows.cast(nullable), file, write_statistics=bounded, metadata_collector=footers)
            size = file.tell()
        return [DataFile(name, size, time.time_ns() // 1_000_000, statistics(footers[0], self._indexed))]

    def _by_spark(self) -> Sequence[DataFile]:
        """Run the job that writes the files, and move them into the table's directory."""
        staged = Path(self._table, f"{STAGED}{uuid.uuid4().hex}")
        begun = staged / "_begun"
        staged.mkdir()
        begun.touch()
        try:
            self._rows.frame().write.mode("append").parquet(str(staged))
            if not begun.exists():  # Spark makes a directory again that is gone, and misses no file in it
                raise ReceiptError(  # guard: all-files-of-job
                    f"{staged} was removed while a batch was written into it; the batch is not committed, and the next "
                    f"start tries it again. Leave alone what begins with {STAGED}, and run one run at a time"
                )
            footers = {path: parquet.read_metadata(path) for path in sorted(staged.glob("*.parquet"))}
            moved = {path: footer for path, footer in footers.items() if footer.num_rows}
            return [self._file(path.rename(Path(self._table, path.name)), footer) for path, footer in moved.items()]
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def discard(self) -> None:
        """Remove the files, which no commit may have named."""
        for file in self._written or ():
            self._files.remove(f"{self._table}/{file.name}")
        self._written = None

    def _file(self, path: Path, footer: parquet.FileMetaData) -> DataFile:
        state = path.stat()
        return DataFile(path.name, state.st_size, state.st_mtime_ns // 1_000_000, statistics(footer, self._indexed))


def statistics(footer: parquet.FileMetaData, indexed: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the statistics of a data file, as an `add` action has them.

    A column has no bounds if the file does not say them for all its values, or their type has another order in Parquet.
    Source: the Delta protocol, "Per-file Statistics".

    Args:
        footer: the file's metadata.
        indexed: the columns that get statistics, each with its Delta type.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        if name not in indexed:
            continue
        chunks = [footer.row_group(group).column(place) for group in range(footer.num_row_groups)]
        known = [
            chunk.statistics for chunk in chunks if chunk.statistics is not None and chunk.statistics.has_null_count
        ]
        if len(known) < len(chunks):  # guard: no-bounds-without-statistics
            continue
        nulls[name] = sum(stats.null_count for stats in known)
        valued = [stats for chunk, stats in zip(chunks, known, strict=True) if stats.null_count < chunk.num_values]
        if valued and all(stats.has_min_max for stats in valued) and _is_plain(footer, place, indexed[name]):
            with suppress(ValueError, OverflowError):  # no text in UTF-8, or a time that Python does not have
                bounds = [_spelled(min(stats.min_raw for stats in valued), indexed[name])]
                # guard: bounds-of-all-row-groups
                bounds.append(_spelled(max(stats.max_raw for stats in valued), indexed[name]))
                least[name], most[name] = bounds
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _is_plain(footer: parquet.FileMetaData, place: int, kind: str) -> bool:  # guard: plain-times-have-bounds
    """Return True if the bytes of a column's bounds are understood here: times can be in other units and calendars."""
    if kind in (*_NUMBERS, "string"):
        return True
    if any(key.startswith(_OLD_CALENDAR) for key in footer.metadata or ()):
        return False
    logical = str(footer.schema.column(place).logical_type)
    return logical == "Date" if kind == "date" else kind == "timestamp" and logical.startswith(_MICROSECONDS)


def _spelled(value: Any, kind: str) -> str | int:
    """Return a bound as the log spells it."""
    if kind in _NUMBERS:
        return int(value)
    if kind == "string":
        return bytes(value).decode("utf-8")
    if kind == "date":
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    return (_EPOCH + timedelta(microseconds=value)).isoformat().replace("+00:00", "Z")


def stats_text(file: DataFile) -> str:
    """Return a file's statistics as the log has them."""
    return json.dumps(file.stats, separators=(",", ":"), ensure_ascii=False)
