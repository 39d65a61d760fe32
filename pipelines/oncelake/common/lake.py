"""The places of a lake's tables and checkpoints."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from arro3.core import ChunkedArray
    from arro3.core import Table as ArrowTable
    from deltalake import DeltaTable

S3 = ("s3", "s3a")
_FILE_URL = re.compile(r"file:(?://[^/]*)?/", re.IGNORECASE)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")
# A URI that has none of these after `file://` is the path itself; urlsplit takes ten times as long to find that.
_ESCAPED = re.compile("[%?#]")
_SLASHES = re.compile("(?<!^)/{2,}")
# The characters of a lake's URL in the name of its directory of checkpoints.
_READABLE = 80
_MISREAD = frozenset("%\\[]^|")


@dataclass(frozen=True, order=True)
class Table:
    """A table of the lake, by layer and name."""

    layer: str
    name: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"

    @classmethod
    def named(cls, text: str) -> Self:
        """Return the table with a name such as `silver.access_log`."""
        return cls(*text.split(".", 1))


BRONZE = Table("bronze", "access_log")
SILVER = Table("silver", "access_log")
QUARANTINE = Table("silver", "quarantine")
DUPLICATES = Table("silver", "duplicates")


def bronze_of(source: str) -> Table:
    """Return the bronze table of a source; the source of a lake with only one is named `access_log`."""
    return Table(BRONZE.layer, source)


def bronze_stage(source: str) -> str:
    """Return the name of the stage that reads a source."""
    return BRONZE.layer if source == BRONZE.name else f"{BRONZE.layer}.{source}"


@dataclass(frozen=True)
class Lake:
    """The places of a lake: everything below one root, or the tables in a catalog and the rest in a directory.

    Attributes:
        root: the directory of all files next to the tables; without a catalog, a table is at `<root>/<layer>/<name>`.
        checkpoints: the directory of the checkpoints; a stage's is at `<checkpoints>/<stage>`.
        catalog: the catalog of the tables, which are `<catalog>.<schema>.<name>`; None for tables below the root.
        schemas: the schema of each layer, if it is not the layer's name.
        per_host: True if each host has checkpoints of its own, as a lake on S3 has them by default.
    """

    root: str
    checkpoints: str
    catalog: str | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    per_host: bool = False

    @property
    def lease(self) -> str:
        """The directory of the lease on a lake on S3."""
        return f"{self.root}/_oncelake/lease"

    def at(self, table: Table) -> str:
        """Return the path or the quoted catalog name of a table; `oncelake.common.tables` opens both."""
        if self.catalog is None:
            return f"{self.root}/{table.layer}/{table.name}"
        return ".".join(f"`{part}`" for part in (self.catalog, self.schemas.get(table.layer, table.layer), table.name))

    def checkpoint(self, stage: str) -> str:
        """Return a stage's checkpoint directory: `<checkpoints>/bronze`, `<checkpoints>/gold/error_log`.

        That of a further source is `<checkpoints>/bronze.<source>`, as `<checkpoints>/bronze` is one itself.
        """
        return f"{self.checkpoints}/{stage if stage.startswith('bronze.') else stage.replace('.', '/')}"


@dataclass(frozen=True)
class Beside(Lake):
    """Places of one table and its checkpoint beside those of a lake, whose other tables it shares."""

    lake: Lake = field(kw_only=True)
    table: Table = field(kw_only=True)

    @classmethod
    def of(cls, lake: Lake, table: Table) -> Self:
        """Return the places below the lake's root."""
        root = f"{lake.root}/_beside/{table}"
        return cls(root, checkpoints_below(root), lake=lake, table=table)

    @property
    def lease(self) -> str:
        """The directory of the lease on these places, which outlives them: they are removed while it is held."""
        return f"{self.lake.lease}-{self.table}"

    def at(self, table: Table) -> str:
        """Return the path or the quoted catalog name of a table."""
        return super().at(table) if table == self.table else self.lake.at(table)


def checkpoints_below(root: str) -> str:
    """Return the directory of the checkpoints below a lake's root."""
    return f"{root}/_checkpoints"


def checkpoints_here(root: str) -> str | None:
    """Return the directory of this user's state for the checkpoints of a lake on a store; None without a home.

    Its name has the lake's URL, and a hash of it and of the store's address.
    """
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - raises nothing
    if home.startswith("~"):
        return None
    store, slash, path = root.partition("://")[2].partition("/")
    name = f"{store.rpartition('@')[2]}{slash}{path}"  # without a key that the URL may have
    known = f"{endpoint()} {name}"
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_READABLE]
    return place(f"{home}/oncelake/{readable}-{hashlib.sha256(known.encode()).hexdigest()[:8]}")


def endpoint() -> str:
    """Return the address of the store with S3's API, as Amazon's own programs find it; empty for Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def place(text: str) -> str:
    """Normalize a place: a local one to an absolute path without `..`, a URL as Hadoop spells it.

    `..` removes the name before it, even if that name is a symbolic link. Hadoop does the same.
    """
    if not is_local(text):
        return _url(text)
    url = _FILE_URL.match(text)
    path = unquote(f"/{text[url.end() :]}") if url else text
    return os.path.normpath(Path(path).expanduser().absolute())  # guard: path-spelled-as-hadoop


def _url(text: str) -> str:
    """Spell a URL as Hadoop does: its scheme in lower case, its path without double slashes."""
    scheme, mark, rest = text.partition("://")
    return f"{scheme.lower()}{mark}{_SLASHES.sub('/', rest)}".rstrip("/") if mark else text.rstrip("/")


def is_local(text: str) -> bool:
    """Return True if a place is on this machine's file system."""
    return scheme_of(text) in ("", "file")


def is_s3(text: str) -> bool:
    """Return True if a place is on S3 or on a store with its API."""
    return scheme_of(text) in S3


def scheme_of(text: str) -> str:
    """Return the scheme of a URL in lower case, such as `s3a`; empty for a path."""
    scheme = _SCHEME.match(text)
    return scheme[1].lower() if scheme is not None else ""


def place_of(uri: str) -> str:
    """Return the place that a file's URI names: an absolute path if local, otherwise the URL without % escapes."""
    return local_path(uri) if is_local(uri) else unquote(uri)


def local_path(uri: str) -> str:
    """Return the path on this machine that a URI names."""
    path = uri.removeprefix("file://")
    return path if path.startswith("/") and not _ESCAPED.search(path) else unquote(urlsplit(uri).path)


def opens_in_delta_rs(path: str) -> bool:
    """Return True if delta-rs opens a path, and no other one in its place; tried with delta-rs 1.6.

    delta-rs takes `a%41b` for `aAb` and `\\` for `/`, and panics on brackets, `^` and `|`.
    """
    fits = path.isprintable() and not _MISREAD & set(path)  # guard: path-fits-delta-rs
    return fits and (is_local(path) or is_s3(path))


def listed_files(table: "DeltaTable") -> "ArrowTable":
    """Return the data files that a table's log lists, a row for each, with columns' bounds as `min.NAME`, `max.NAME`.

    It is a table of delta-rs' own Arrow library, without pyarrow, whose import takes longer than the list.
    """
    return table.get_add_actions(flatten=True)


def micros(times: "ChunkedArray") -> list[Any]:
    """Return times in microseconds since 1970; Python's own times end with the year 9999."""
    from arro3.core import DataType  # noqa: PLC0415 - delta-rs brings it

    return list(times.cast(DataType.timestamp("us", tz="UTC")).cast(DataType.int64()).to_pylist())


def opened_by_delta_rs(at: str, version: int | None = None) -> "DeltaTable | None":
    """Return a table at a version, by default the newest; None if delta-rs is not installed or cannot read it."""
    # guard: opened-path-fits-delta-rs
    is_here = not is_name(at) and is_local(at) and opens_in_delta_rs(at)
    if not is_here or find_spec("deltalake") is None:
        return None
    from deltalake import DeltaTable  # noqa: PLC0415 - few tables need it
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    try:
        return DeltaTable(at, version=version)
    except (DeltaError, OSError):
        return None


def is_name(at: str) -> bool:
    """Return True if a place is a name in a catalog; no path starts with a backtick, see `place`."""
    return at.startswith("`")


def identifier(at: str) -> str:
    """Return the identifier of a table in SQL."""
    return at if is_name(at) else f"delta.`{at}`"


def restoring(at: str, version: int) -> str:
    """Return the statement that takes a table back to a version."""
    return f"RESTORE TABLE {identifier(at)} TO VERSION AS OF {version}"
