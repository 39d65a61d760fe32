"""Parquet files in several stores: directories that each end right after any kill, and whatever the others do.

One directory of a store holds one table:

    <store>/<table>/_manifests/00000000000000000007.json    the files of version 7, and the batch that made it
    <store>/<table>/2026-01-01.7.1f0c….parquet              the rows of one day, in the order of their key

A manifest names all files of its version, so a reader takes the newest manifest and reads the files in it, and never
sees half a batch. A batch writes the days that it changes again, as new files, and then creates the next manifest under
a name that only one process can create (a hard link). A batch that is written again finds the stores that have it
already, and writes the others.
"""

import json
import os
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from oncelake.common.errors import ConfigError, OvertakenError, TargetAwayError, TargetError, reason
from oncelake.common.lake import is_local, place
from oncelake.serving.sink import KEY, LOG_TIME, Row, Safety, Sink, SinkBatch, SinkColumn, SinkRows, SinkTable

# The store that gets the rows of no other store, if rows are split by a column.
OTHER = "other"
_PREFIX, _BY, _KEEP = "store.", "by", "keep"
# A store can be one batch ahead of another one, and is then read at the version before.
_LEAST = 2
_NAME = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class Manifest:
    """One version of a table in one store.

    Attributes:
        number: the version; manifests are numbered without gaps.
        batch: the batch that made it, or the mark of a rebuild.
        files: day -> name of the file with its rows.
    """

    number: int
    batch: SinkBatch
    files: Mapping[str, str]

    def to_json(self) -> str:
        """Return the manifest as text."""
        return json.dumps({"version": self.number, "files": self.files, "batch": json.loads(self.batch.to_json())})

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Return the manifest that a text holds."""
        value = json.loads(text)
        return cls(int(value["version"]), SinkBatch.from_json(json.dumps(value["batch"])), value["files"])


@dataclass(frozen=True)
class Store:
    """One table in one store.

    Attributes:
        directory: the table's directory in the store.
        keep: how many manifests, with their files, are kept for readers.
    """

    directory: Path
    keep: int

    @property
    def _manifests(self) -> Path:
        return self.directory / "_manifests"

    def newest(self) -> Manifest | None:
        """Return the newest manifest; None before the first."""
        while numbers := self._numbers():
            with suppress(FileNotFoundError):  # removed as old since it was listed: there is a newer one
                return Manifest.from_json(self._path(max(numbers)).read_text(encoding="ascii"))
        return None

    def write(self, table: SinkTable, batch: SinkBatch, days: Mapping[str, list[Row]]) -> None:
        """Write a batch; change nothing if the store has it already.

        Raises:
            OvertakenError: the store has another batch.
        """

        def merged(files: Mapping[str, str]) -> Mapping[str, list[Row]]:
            rows_by_day = {}
            for day, rows in days.items():
                by_key = {row[0]: row for row in (*self._rows(table, files.get(day)), *rows)}
                rows_by_day[day] = [by_key[key] for key in sorted(by_key)]
            return rows_by_day

        self._change(table, batch, merged)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: Collection[Any]) -> None:
        """Remove the rows of some keys as a batch; the versions that are kept for readers still have them."""

        def without_keys(files: Mapping[str, str]) -> Mapping[str, list[Row]]:
            rows_by_day = {}
            for day, name in files.items() if keys else ():
                rows = self._rows(table, name)
                remaining = [row for row in rows if row[0] not in keys]
                if len(remaining) < len(rows):
                    rows_by_day[day] = remaining
            return rows_by_day

        self._change(table, batch, without_keys)

    def _change(
        self, table: SinkTable, batch: SinkBatch, changed: Callable[[Mapping[str, str]], Mapping[str, list[Row]]]
    ) -> None:
        """Write the days that a batch changes, and then the manifest that names them.

        Args:
            table: the table.
            batch: the batch.
            changed: returns all rows of the days that change, from the files of the version before.
        """
        newest = self.newest()
        if newest is not None and newest.batch.is_same(batch):  # guard: store-skips-known-batch
            return
        if (newest.batch.version if newest else 0) != batch.version - 1:
            raise OvertakenError(f"{self.directory} has got another batch")  # guard: store-batch-follows
        files = dict(newest.files) if newest else {}
        for day, rows in changed(files).items():
            files.pop(day, None)
            if rows:
                files[day] = self._write_file(table, f"{day}.{batch.version}", rows)
        self._create(Manifest(newest.number + 1 if newest else 0, batch, files))
        self._clean()

    def empty(self, mark: SinkBatch) -> None:
        """Store a version without rows."""
        newest = self.newest()
        if newest is None or not newest.batch.is_same(mark):
            self._create(Manifest(newest.number + 1 if newest else 0, mark, {}))
        self._clean()

    def read(self, table: SinkTable, version: int) -> list[Row]:
        """Return the rows after the batch of a version, in the order of their key."""
        for number in sorted(self._numbers(), reverse=True):
            manifest = Manifest.from_json(self._path(number).read_text(encoding="ascii"))
            if manifest.batch.version <= version:
                rows = [row for name in manifest.files.values() for row in self._rows(table, name)]
                return sorted(rows, key=lambda row: row[0])
        return []

    def _rows(self, table: SinkTable, name: str | None) -> list[Row]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra: not every installation serves files

        if name is None:
            return []
        # of a file alone: below a directory named a=b, pyarrow would add a column
        with (self.directory / name).open("rb") as file:
            columns = pq.read_table(file).to_pydict()
        return list(zip(*(columns[column] for column in table.names), strict=True))

    def _write_file(self, table: SinkTable, name: str, rows: list[Row]) -> str:
        """Write rows to a new file, and return its name; no reader sees it before a manifest names it."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        columns = zip(*rows, strict=True)
        arrays = [pa.array(list(values), _type(column)) for values, column in zip(columns, table.columns, strict=True)]
        name = f"{name}.{uuid.uuid4().hex}.parquet"
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / name).open("xb") as file:
            pq.write_table(pa.Table.from_arrays(arrays, names=list(table.names)), file)
            file.flush()
            os.fsync(file.fileno())
        return name

    def _create(self, manifest: Manifest) -> None:
        """Create a manifest under its number, whole and once.

        Raises:
            OvertakenError: another process has created it.
        """
        self._manifests.mkdir(parents=True, exist_ok=True)
        partial = self._manifests / f".{uuid.uuid4().hex}"
        with partial.open("x", encoding="ascii") as file:
            file.write(manifest.to_json())
            file.flush()
            os.fsync(file.fileno())
        _sync(self.directory)  # the names of its files, before a manifest names them
        try:
            os.link(partial, self._path(manifest.number))
        except FileExistsError:
            raise OvertakenError(f"{self.directory} has got another batch") from None  # guard: manifest-created-once
        finally:
            partial.unlink()
        _sync(self._manifests)

    def _clean(self) -> None:
        """Remove old manifests, and the files that no kept manifest names; what is newer than the newest stays."""
        numbers = sorted(self._numbers())
        old, recent = numbers[: -self.keep], numbers[-self.keep :]
        for number in old:
            self._path(number).unlink(missing_ok=True)
        manifests = [Manifest.from_json(self._path(number).read_text(encoding="ascii")) for number in recent]
        named = {name for manifest in manifests for name in manifest.files.values()}
        oldest = manifests[0].batch.version
        for path in self.directory.glob("*.parquet"):
            version = int(path.name.split(".")[1])
            if path.name not in named and version < oldest:
                path.unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        try:
            matches = [_NAME.fullmatch(entry.name) for entry in self._manifests.iterdir()]
        except FileNotFoundError:
            return []
        return [int(match[1]) for match in matches if match]

    def _path(self, number: int) -> Path:
        return self._manifests / f"{number:020}.json"


class ParquetStores(Sink):
    """Parquet files in several directories.

    Options:
        store.NAME: a directory; one for each store.
        by: a column; a row goes to the store named like its value, or to the store named `other`. Without it, every
            store gets all rows.
        keep: how many versions are kept for readers, at least 2; 20 if it is not set.
    """

    # each store is right by itself, but a reader of two of them may see the next batch in one only
    safety: ClassVar[Safety] = Safety.BY_KEY

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, options)
        self.public = frozenset(options)
        unknown = [option for option in options if option not in (_BY, _KEEP) and not option.startswith(_PREFIX)]
        if unknown:
            raise ConfigError(f"serving.options.{unknown[0]}: accepted are {_PREFIX}NAME, {_BY} and {_KEEP}")
        paths = {key.removeprefix(_PREFIX): at for key, at in options.items() if key.startswith(_PREFIX)}
        if not paths:
            raise ConfigError(f"serving.options has no {_PREFIX}NAME; name a directory for each store")
        for key, at in paths.items():
            if not is_local(at):
                raise ConfigError(
                    f"serving.options.{_PREFIX}{key} is a URL of another store; accepted: a directory. A manifest "
                    "needs a file system that creates a name once, and Arrow offers that for no object store"
                )
        keep = options.get(_KEEP, "20")
        if not keep.isdecimal() or int(keep) < _LEAST:
            raise ConfigError(f"serving.options.{_KEEP} must be a whole number, at least {_LEAST}")
        self.by = options.get(_BY)
        directories = {key: Path(place(at)) / name for key, at in paths.items()}
        if len(set(directories.values())) < len(directories):
            raise ConfigError("serving.options names one directory for two stores; each needs its own")
        self.stores = {key: Store(at, int(keep)) for key, at in directories.items()}

    def __str__(self) -> str:
        return f"parquet stores {', '.join(self.stores)}"

    def last(self) -> SinkBatch | None:
        """Return the batch of the store that is the furthest behind: the others have it already."""
        batches = []
        for name, store in self.stores.items():
            with _away(name):
                newest = store.newest()
            batches.append(newest.batch if newest else None)
        return min(batches, key=lambda batch: batch.version if batch else 0)

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        split: dict[str, dict[str, list[Row]]] = {name: defaultdict(list) for name in self.stores}
        for chunk in rows:
            for row in chunk:
                for name in self._stores_of(table, row):
                    split[name][_day(table, row)].append(row)
        for name, store in self.stores.items():
            with _away(name):
                store.write(table, batch, split[name])

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        removed = {key for chunk in keys for (key,) in chunk}
        for name, store in self.stores.items():
            with _away(name):
                store.remove(table, batch, removed)

    def empty(self, mark: SinkBatch) -> None:
        for name, store in self.stores.items():
            with _away(name):
                store.empty(mark)

    def read(self, table: SinkTable) -> Iterator[Row]:
        """Yield all rows in the order of their key, as they are after the last batch that all stores have.

        Raises:
            TargetError: two stores that must hold the same rows do not.
        """
        last = self.last()
        parts = {}
        for name, store in self.stores.items():
            with _away(name):
                parts[name] = store.read(table, last.version if last else 0)  # guard: stores-at-common-version
        if self.by is not None:
            return iter(sorted((row for part in parts.values() for row in part), key=lambda row: row[0]))
        (first, rows), *others = parts.items()
        for name, part in others:
            if part != rows:
                raise TargetError(f"store {name} holds other rows than store {first}. Fix: oncelake rebuild serving")
        return iter(rows)

    def check(self, table: SinkTable) -> None:
        keys = [
            column.name
            for column in table.columns
            if column.merge is None and not column.never_null and column.name != KEY
        ]
        if self.by is not None and self.by not in keys:
            # guard: split-by-key-only
            raise ConfigError(f"serving.options.{_BY} must be a key of gold.{table.name}, accepted: {', '.join(keys)}")

    make = check

    def _stores_of(self, table: SinkTable, row: Row) -> Iterable[str]:
        """Return the stores that get a row."""
        if self.by is None:
            return self.stores
        value = str(row[table.names.index(self.by)])
        name = value if value in self.stores else OTHER
        if name not in self.stores:
            raise ConfigError(
                f"gold.{table.name} has a row with {self.by} {value!r}, and no store has this name. "
                f"Add serving.options.{_PREFIX}{OTHER} for all rows without a store of their own"
            )
        return (name,)


@contextmanager
def _away(store: str) -> Iterator[None]:
    """Raise an error of a store's disk as TargetAwayError: a full or missing disk comes back."""
    try:
        yield
    except OSError as error:
        raise TargetAwayError(reason(error), f"store {store}") from None


def _day(table: SinkTable, row: Row) -> str:
    at: datetime = row[table.names.index(LOG_TIME)]
    return f"{at:%Y-%m-%d}"


def _type(column: SinkColumn) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    if column.kind == "decimal":
        return pa.decimal128(column.precision, column.scale)
    if column.kind == "integer":
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.bits]
    types = {
        "float": pa.float64(),
        "boolean": pa.bool_(),
        "text": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "time": pa.timestamp("us"),
    }
    return types[column.kind]


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
