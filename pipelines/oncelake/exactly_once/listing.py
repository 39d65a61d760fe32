"""List the files of a source on this machine by the rule that Spark's file source follows.

The rule, tested against Spark's own listing (tests/spark/exactly_once/test_listing.py):

- Directories are followed to any depth, symbolic links too. A link that leads back to a directory above it is a
  problem: Spark would read the files below it some forty times.
- A name that starts with a dot, or with `_` and holds no `=`, or that ends in `._COPYING_`, is hidden, and so is all
  below a directory of such a name. Spark enters directories named `_metadata…` and `_common_metadata…` all the same.
- The source's path may hold the patterns `*`, `?`, `[…]` and `{…}`. Directories that a pattern names are listed
  whatever their own names are.
- A file whose own name holds a colon is listed and cannot be read; below a directory of such a name all is well. Beside
  names that a pattern is compared with, a name with a colon keeps Hadoop from listing anything there.
- A name whose bytes Java cannot decode, and a link that leads nowhere, are not listed by Spark at all.

Source: Spark's HadoopFSUtils, InMemoryFileIndex and PartitioningAwareFileIndex; Hadoop's RawLocalFileSystem, Globber.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, product, takewhile

_PATTERN = frozenset(b"*?[]{}\\")
_NEVER = re.compile(r"(?!)")
_KEPT = (b"_metadata", b"_common_metadata")
# What the system says of a path that leads nowhere, or back to itself.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# Endings of files whose size says nothing of their lines' bytes.
COMPRESSED = (".gz", ".gzip", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".xz")


class Problem(StrEnum):
    """Why Spark cannot read a file that is there."""

    NAME = "its name is not UTF-8, so Java cannot find it"
    COLON = "its name holds a colon, which Hadoop cannot read"
    LOOP = "it is a link to a directory above it, so Spark would read the files there again and again"
    DANGLING = "it is a link that leads nowhere"
    RIGHTS = "this process may not read it"


@dataclass(frozen=True, slots=True)
class Found:
    """One file, or one directory or link that cannot be followed.

    Attributes:
        path: where it is; bytes that are not UTF-8 are kept as Python's surrogate escapes.
        size: in bytes; 0 for what is no regular file.
        modified: its modification time in milliseconds since 1970, as Spark records it.
        hidden: whether the rule leaves it out because of its name or a directory's.
        problem: why Spark cannot read it; None where nothing is known to be in the way.
    """

    path: str
    size: int
    modified: int
    hidden: bool = False
    problem: Problem | None = None


def listing(path: str, encoding: str = "utf-8", named: Iterable[str] | None = None) -> Iterator[Found]:
    """Yield everything below a source's path that is no directory, and what keeps a directory from being listed.

    Args:
        path: an absolute path on this machine, with or without patterns.
        encoding: the encoding by which the JVM decodes file names.
        named: what the patterns name, as Hadoop says; None to find it by the rule here, which knows fewer patterns.

    Raises:
        FileNotFoundError: there is nothing at the path, or at its part above the patterns, so nothing can be said.
        OSError: the path itself cannot be listed.
    """
    ours = list(_roots(os.fsencode(path)))
    theirs = ours if named is None else [each.encode("utf-8", "surrogateescape") for each in named]
    hopeless = {root for root in ours if not _is_read(root, encoding)}  # Hadoop does not say that it is there
    roots = [*theirs, *sorted(hopeless - {*theirs})]
    if not roots and not (has_pattern(path) and os.path.isdir(above(path))):  # noqa: PTH112
        raise FileNotFoundError(f"there is nothing at {path}")
    for root in roots:
        if has_pattern(path) and b":" in os.path.basename(root):  # noqa: PTH119 - bytes
            yield Found(_text(root), 0, 0, problem=Problem.COLON)
            continue
        if os.path.isdir(root):  # noqa: PTH112 - bytes
            yield from _below(root, lambda path, hidden: _found(path, encoding, hidden=hidden))
        else:
            name = os.path.basename(root)  # noqa: PTH119 - bytes
            found = _found(root, encoding, hidden=is_hidden_file(name))
            if found is not None:
                yield found


def loops(path: str) -> list[str]:
    """Return the links below a source's path that lead to a directory above them; no file is looked at.

    Args:
        path: as `listing` takes it.
    """
    roots = filter(os.path.isdir, _roots(os.fsencode(path)))
    found = (each for root in roots for each in _below(root, lambda *_: None))
    return [each.path for each in found if each.problem is Problem.LOOP and not each.hidden]


def has_pattern(path: str) -> bool:
    """Return True if a path holds one of the marks that Hadoop reads as a pattern."""
    return not _PATTERN.isdisjoint(path.encode(errors="surrogateescape"))


def above(path: str) -> str:
    """Return the part of a source's path above its first pattern; the path itself where it has none."""
    names = path.split("/")
    return "/".join(takewhile(lambda name: not has_pattern(name), names)) or "/"


def is_named(path: str, file: str, *, itself: bool = False) -> bool:
    """Return True if a source's path names a file, or a directory above it, or may name files below it.

    Args:
        path: as `listing` takes it.
        file: an absolute path without patterns; nothing has to be there.
        itself: whether a directory above it is not enough, so that a hidden name would not keep it from being read.
    """
    parts = os.fsencode(file).strip(b"/").split(b"/")
    for each in _alternatives(os.fsencode(path)):
        names = each.strip(b"/").split(b"/")
        if itself and len(parts) > len(names):
            continue
        if all(_compiled(name).fullmatch(_text(part)) for name, part in zip(names, parts, strict=False)):
            return True
    return False


def _is_read(root: bytes, encoding: str) -> bool:
    """Return True if Java can find what a pattern names, and Hadoop can list it."""
    try:
        root.decode(encoding)
    except UnicodeDecodeError:
        return False
    return b":" not in os.path.basename(root) and os.path.exists(root)  # noqa: PTH110, PTH119 - bytes


def is_hidden_directory(name: bytes) -> bool:
    """Return True if Spark does not enter a directory of this name."""
    return is_hidden_file(name) and not name.startswith(_KEPT)


def is_hidden_file(name: bytes) -> bool:
    """Return True if Spark reads no file of this name; it lists `_metadata…` and does not read it."""
    return name.startswith(b".") or name.endswith(b"._COPYING_") or (name.startswith(b"_") and b"=" not in name)


def may_be_broken(path: str) -> bool:
    """Return True if Spark may fail to read a file to its end: it is compressed, or checked against checksums."""
    return is_packed(path) or has_checksums(path)


def is_packed(path: str) -> bool:
    """Return True if a file is compressed, as its name says."""
    return path.lower().endswith(COMPRESSED)


def has_checksums(path: str) -> bool:
    """Return True if Hadoop's checksums of a file are beside it, by which Hadoop judges what it reads."""
    directory, _, name = path.rpartition("/")
    return os.path.lexists(os.fsencode(f"{directory}/.{name}.crc"))


def _below(root: bytes, describe: Callable[[bytes, bool], Found | None]) -> Iterator[Found]:
    """Walk a directory; the way from the root to a directory is kept to see a link that leads back.

    Args:
        root: the directory.
        describe: describes a file from its path and whether it is hidden.
    """
    waiting: list[tuple[bytes, bool, frozenset[tuple[int, int]]]] = [(root, False, _way_to(root))]
    while waiting:
        directory, hidden, above = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                within = list(entries)
        except OSError as error:
            if directory == root:
                raise
            if not isinstance(error, FileNotFoundError):  # else it is gone since it was seen
                yield Found(_text(directory), 0, 0, hidden, Problem.RIGHTS)
            continue
        for entry in within:
            if _is_directory(entry):
                below = hidden or is_hidden_directory(entry.name)
                at = _identity(entry.path, above)
                if isinstance(at, Problem):
                    path = _link(entry.path, root) if at is Problem.LOOP else entry.path
                    yield Found(_text(path), 0, 0, below, at)
                elif at is not None:
                    waiting.append((entry.path, below, above | {at}))
                continue
            found = describe(entry.path, hidden or is_hidden_file(entry.name))
            if found is not None:
                yield found


def _way_to(root: bytes) -> frozenset[tuple[int, int]]:
    """Return the device and inode of a directory and of all above it."""
    parts = root.split(b"/")
    found = (os.stat(b"/".join(parts[:end]) or b"/") for end in range(1, len(parts) + 1))  # noqa: PTH116 - bytes
    return frozenset((at.st_dev, at.st_ino) for at in found)


def _link(path: bytes, root: bytes) -> bytes:
    """Return the last link on the way from the root to a directory; the directory where there is none."""
    at = path
    while len(at) >= len(root):
        if os.path.islink(at):  # noqa: PTH114 - bytes
            return at
        at = os.path.dirname(at)  # noqa: PTH120 - bytes
    return path


def _identity(path: bytes, above: frozenset[tuple[int, int]]) -> tuple[int, int] | Problem | None:
    """Return a directory's device and inode, or why it is not entered; None when it is gone since it was listed."""
    try:
        at = os.stat(path)  # noqa: PTH116 - bytes
    except FileNotFoundError:
        return None
    except OSError:
        return Problem.RIGHTS
    return Problem.LOOP if (at.st_dev, at.st_ino) in above else (at.st_dev, at.st_ino)


def _is_directory(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link into itself
        return False


def _found(path: bytes, encoding: str, *, hidden: bool) -> Found | None:
    """Describe a file; None when it is gone since it was listed."""
    try:
        at = os.stat(path)  # noqa: PTH116 - a pathlib object for each of a million files costs seconds
    except OSError as error:
        if error.errno not in _NOTHING:  # Spark lists no file that it has no right to look at, and says nothing
            return Found(_text(path), 0, 0, hidden, Problem.RIGHTS)
        dangling = os.path.islink(path)  # noqa: PTH114 - bytes
        return Found(_text(path), 0, 0, hidden, Problem.DANGLING) if dangling else None
    try:
        path.decode(encoding)
        problem = Problem.COLON if b":" in os.path.basename(path) else None  # noqa: PTH119
    except UnicodeDecodeError:
        problem = Problem.NAME
    size = at.st_size if stat.S_ISREG(at.st_mode) else 0
    return Found(_text(path), size, at.st_mtime_ns // 1_000_000, hidden, problem)


def may_read(path: str) -> bool:
    """Return True if this process has the right to read a file."""
    return os.access(os.fsencode(path), os.R_OK)


def _text(path: bytes) -> str:
    """Spell a path the same whatever the locale of this process is."""
    return path.decode("utf-8", "surrogateescape")


def _roots(path: bytes) -> Iterator[bytes]:
    """Yield the paths that a path with patterns names, as Hadoop's globStatus does."""
    if _PATTERN.isdisjoint(path):
        if _is_there(path):
            yield path
        return
    seen: set[bytes] = set()
    for each in _alternatives(path):
        for found in _matching(b"/", each.strip(b"/").split(b"/")):
            if found not in seen:
                seen.add(found)
                yield found


def _matching(directory: bytes, names: list[bytes]) -> Iterator[bytes]:
    if not names:
        yield directory
        return
    name, *rest = names
    if _PATTERN.isdisjoint(name):
        below = [name]
    else:
        fits = _compiled(name)
        try:
            every = sorted(os.listdir(directory))  # noqa: PTH208 - bytes
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from (os.path.join(directory, each) for each in every if b":" in each)  # noqa: PTH118 - bytes
        below = [each for each in every if fits.fullmatch(_text(each)) and b":" not in each]
    for each in below:
        path = os.path.join(directory, each)  # noqa: PTH118 - bytes
        if _is_there(path):
            yield from _matching(path, rest)
        elif each != name and os.path.islink(path):  # noqa: PTH114 - bytes
            yield path


def _is_there(path: bytes) -> bool:
    """Return True if there is something at a path.

    Raises:
        OSError: this process has no right to look.
    """
    try:
        os.stat(path)  # noqa: PTH116 - bytes
    except OSError as error:
        if error.errno in _NOTHING:
            return False
        raise
    return True


def _compiled(name: bytes) -> re.Pattern[str]:
    """Compile one name of a pattern; one that is no pattern fits nothing, and Hadoop says so at the start."""
    try:
        return re.compile(_regular(_text(name)), re.DOTALL)
    except re.error:
        return _NEVER


def _regular(name: str) -> str:
    """Translate one name of a pattern without braces to a regular expression."""
    out, at = "", 0
    while at < len(name):
        mark = name[at]
        close = name.find("]", at + 2) if mark == "[" else -1
        if mark == "*":
            out += ".*"
        elif mark == "?":
            out += "."
        elif mark == "\\" and at + 1 < len(name):
            at += 1
            out += re.escape(name[at])
        elif close > 0:
            chosen = name[at + 1 : close]
            negated = chosen[:1] in ("^", "!")
            out += "[" + ("^" if negated else "") + re.sub(r"([\\\[\]])", r"\\\1", chosen[negated:]) + "]"
            at = close
        else:
            out += re.escape(mark)
        at += 1
    return out


def _alternatives(path: bytes) -> Iterator[bytes]:
    """Yield a path once for each choice among its braces; braces may be nested."""
    start = path.find(b"{")
    if start < 0:
        yield path
        return
    depth, cuts = 0, [start]
    for at in range(start, len(path)):
        mark = path[at : at + 1]
        depth += (mark == b"{") - (mark == b"}")
        if mark == b"," and depth == 1:
            cuts.append(at)
        if depth == 0:
            cuts.append(at)
            break
    else:
        yield path
        return
    choices = [path[one + 1 : other] for one, other in pairwise(cuts)]
    for choice, rest in product(choices, _alternatives(path[cuts[-1] + 1 :])):
        yield from (path[:start] + each + rest for each in _alternatives(choice))
