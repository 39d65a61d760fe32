"""Read a source directory in plain Python: which files are visible, and which lines each holds."""

import bz2
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Content:
    """A file at one moment.

    Attributes:
        size: in bytes, on disk.
        modified: in milliseconds.
        lines: its lines; None if it cannot be read to its end.
    """

    size: int
    modified: int
    lines: tuple[bytes, ...] | None = field(repr=False)


@dataclass(frozen=True)
class Listing:
    """A directory at one moment.

    Attributes:
        files: the visible files, by path below the directory; a broken link holds no line and is left out.
        loops: links to a directory that contains them.
        strange: what a proof may name in addition: broken links, pipes, names that Spark cannot read; for a topic,
            that records were deleted that no reader could see.
        empty: whether the directory is missing or has nothing in it, not even hidden files.
    """

    files: dict[bytes, Content]
    loops: tuple[bytes, ...] = ()
    strange: tuple[bytes, ...] = ()
    empty: bool = False


def is_hidden(name: bytes, *, directory: bool) -> bool:
    """Return whether Spark ignores a name: it begins with a dot or `_` (but not `_x=y`), or ends with `._COPYING_`.

    Spark does list directories named `_metadata…` and `_common_metadata…`, but reads no file with such a name.
    """
    if directory and name.startswith((b"_metadata", b"_common_metadata")):
        return False
    underscored = name.startswith(b"_") and b"=" not in name
    return underscored or name.startswith(b".") or name.endswith(b"._COPYING_")


def look(root: bytes) -> Listing:
    """Read a directory and everything below it; links are followed."""
    files: dict[bytes, Content] = {}
    loops, strange = [], []
    for path, loop in _below(root, b"", ()):
        if loop:
            loops.append(path)
            continue
        try:
            files[path] = read(root + b"/" + path)
        except FileNotFoundError:
            strange.append(path)
            continue
        if not os.path.isfile(root + b"/" + path) or not _is_plain(path):
            strange.append(path)
    return Listing(files, tuple(sorted(loops)), tuple(sorted(strange)), not (os.path.isdir(root) and os.listdir(root)))


def read(path: bytes) -> Content:
    """Read one file."""
    status = os.stat(path)
    modified = status.st_mtime_ns // 1_000_000
    if not stat.S_ISREG(status.st_mode):  # a pipe or a socket holds no lines
        return Content(0, modified, ())
    try:
        with open(path, "rb") as opened:
            held = opened.read()
    except PermissionError:
        return Content(status.st_size, modified, None)
    return Content(status.st_size, modified, lines_of(path, held))


def lines_of(name: bytes, held: bytes) -> tuple[bytes, ...] | None:
    r"""Split a file's bytes into lines, at `\n` alone; None if it is compressed and incomplete."""
    whole = unpacked(name, held)
    if whole is None:
        return None
    lines = whole.removeprefix(_BOM).split(b"\n")
    if whole.endswith(b"\n") or not whole:
        lines.pop()
    return tuple(lines)


def unpacked(name: bytes, held: bytes) -> bytes | None:
    """Decompress a file's bytes if its name says so; None if they are incomplete, or not unpacked by Spark."""
    ending = name.lower()
    try:
        if ending.endswith(b".gz") and held:
            return gzip.decompress(held)
        if ending.endswith(b".gzip") and held:
            return None
        return bz2.decompress(held) if ending.endswith(b".bz2") and held else held
    except (OSError, EOFError, ValueError, zlib.error):
        return None


def _is_plain(path: bytes) -> bool:
    """Return whether Spark can read a name: UTF-8, without a colon."""
    return b":" not in path and path.decode("utf-8", "replace").encode() == path


def _below(root: bytes, within: bytes, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[bytes, bool]]:
    """Yield the path of each visible file, and of each link to a directory above it."""
    here = root + b"/" + within if within else root
    try:
        status = os.stat(here)
        entries = sorted(os.scandir(here), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        yield within, True
        return
    for entry in entries:
        path = within + b"/" + entry.name if within else entry.name
        try:
            directory = entry.is_dir()
        except OSError:  # a link to itself
            yield path, True
            continue
        if is_hidden(entry.name, directory=directory):
            continue
        if directory:
            yield from _below(root, path, (*above, identity))
        else:
            yield path, False
