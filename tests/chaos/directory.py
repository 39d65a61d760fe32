"""Reads a source directory in plain Python: which files are visible, and which lines each holds."""

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
        size: in bytes, as it lies on the disk.
        modified: in milliseconds.
        lines: what it holds; None when it cannot be read to its end.
    """

    size: int
    modified: int
    lines: tuple[bytes, ...] | None = field(repr=False)


@dataclass(frozen=True)
class Listing:
    """A directory at one moment.

    Attributes:
        files: the visible files, by path below the directory; a link that leads nowhere holds no line and is left out.
        loops: links to a directory that they lie in.
        strange: what a proof may name beside: links that lead nowhere, pipes, names that Spark cannot read; of a
            topic, that records were deleted which nobody could see.
        empty: whether the directory is gone, or has nothing in it, not even what is hidden.
    """

    files: dict[bytes, Content]
    loops: tuple[bytes, ...] = ()
    strange: tuple[bytes, ...] = ()
    empty: bool = False


def is_hidden(name: bytes, *, directory: bool) -> bool:
    """Return whether Spark ignores a name: with a dot or `_` first (but `_x=y`), or with `._COPYING_` at its end.

    It goes down into directories that are called `_metadata…` and `_common_metadata…`, and reads no such file.
    """
    if directory and name.startswith((b"_metadata", b"_common_metadata")):
        return False
    underscored = name.startswith(b"_") and b"=" not in name
    return underscored or name.startswith(b".") or name.endswith(b"._COPYING_")


def look(root: bytes) -> Listing:
    """Read a directory and all below it; links are followed."""
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
    r"""Split a file's bytes into lines, at `\n` alone; None when it is compressed and not whole."""
    whole = unpacked(name, held)
    if whole is None:
        return None
    lines = whole.removeprefix(_BOM).split(b"\n")
    if whole.endswith(b"\n") or not whole:
        lines.pop()
    return tuple(lines)


def unpacked(name: bytes, held: bytes) -> bytes | None:
    """Decompress a file's bytes where its name says so; None when they are not whole."""
    try:
        if name.endswith(b".gz") and held:
            return gzip.decompress(held)
        return bz2.decompress(held) if name.endswith(b".bz2") and held else held
    except (OSError, EOFError, ValueError, zlib.error):
        return None


def _is_plain(path: bytes) -> bool:
    """Return whether Spark can read a name: UTF-8, without a colon."""
    return b":" not in path and path.decode("utf-8", "replace").encode() == path


def _below(root: bytes, within: bytes, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[bytes, bool]]:
    """Yield each visible file's path, and each link's that leads to a directory above it."""
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
        except OSError:  # a link that leads to itself
            yield path, True
            continue
        if is_hidden(entry.name, directory=directory):
            continue
        if directory:
            yield from _below(root, path, (*above, identity))
        else:
            yield path, False
