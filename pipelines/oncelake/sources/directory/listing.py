"""List the files of a source on this machine by the same rule as Spark's file source.

The rule, tested against Spark's own listing (tests/spark/sources/directory/test_listing.py):

- Directories are followed to any depth, symbolic links too. A link to a directory above it is a problem: Spark would
  read the files below it some forty times.
- A name is hidden if it starts with a dot, starts with `_` and holds no `=`, or ends in `._COPYING_`. Everything below
  a hidden directory is hidden too. Exception: Spark enters directories named `_metadata…` and `_common_metadata…`.
- The source's path may hold the patterns `*`, `?`, `[…]` and `{…}`. A directory that matches a pattern is listed even
  if its name is hidden.
- A file with a colon in its own name is listed and cannot be read. Files below a directory with a colon in its name
  can be read. If Hadoop compares the names in a directory with a pattern, one name with a colon stops the listing.
- Spark does not list a name whose bytes Java cannot decode, or a broken link.

Source: Spark's HadoopFSUtils, InMemoryFileIndex and PartitioningAwareFileIndex; Hadoop's RawLocalFileSystem, Globber.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise, product, takewhile
from pathlib import Path
from urllib.parse import urlsplit

from oncelake.common.lake import local_path
from oncelake.sources.directory.content import ENDINGS

_PATTERN = frozenset(b"*?[]{}\\")
_PATTERN_CHARACTER = re.compile(r"[*?\[\]{}\\]")
_NEVER = re.compile(r"(?!)")
_KEPT = (b"_metadata", b"_common_metadata")
# The system's errors for a path that leads nowhere, or back to itself.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# Endings of files whose size is not the size of their lines.
COMPRESSED = tuple(ENDINGS)


class Problem(StrEnum):
    """The reason why Spark cannot read an existing file or link."""

    NAME = "its name is not UTF-8, so Java cannot find it"
    COLON = "its name holds a colon, which Hadoop cannot read"
    LOOP = "it is a link to a directory above it, so Spark would read the files there again and again"
    DANGLING = "it is a broken link"
    RIGHTS = "this process has no permission to read it"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file, or one directory or link that cannot be followed.

    Attributes:
        path: the path; bytes that are not UTF-8 are kept as Python's surrogate escapes.
        size: in bytes; 0 for anything but a regular file.
        modified: the modification time in milliseconds since 1970, as Spark records it.
        hidden: whether Spark skips it because of its own name or a directory's name.
        problem: why Spark cannot read it; None if no reason is known.
        identity: a regular file's device and inode.
        changed: when the file or its inode changed last, in nanoseconds since 1970.
    """

    path: str
    size: int
    modified: int
    hidden: bool = False
    problem: Problem | None = None
    identity: tuple[int, int] | None = field(default=None, compare=False)
    changed: int = field(default=0, compare=False)


def listing(path: str, encoding: str = "utf-8", named: Iterable[str] | None = None) -> Iterator[ListedFile]:
    """Yield every file below a source's path, and every directory or link that cannot be followed.

    Args:
        path: an absolute path on this machine, with or without patterns.
        encoding: the encoding that the JVM uses for file names.
        named: the paths that match the patterns according to Hadoop; None to match them here, with fewer kinds of
            patterns.

    Raises:
        FileNotFoundError: the path, or its part above the patterns, does not exist, so nothing is known.
        OSError: the path itself cannot be listed.
    """
    ours = list(_roots(os.fsencode(path)))
    theirs = ours if named is None else [name.encode("utf-8", "surrogateescape") for name in named]
    # guard: unlisted-file-is-fault
    hopeless = {root for root in ours if not _is_read(root, encoding)}  # Hadoop does not list these
    roots = [*theirs, *sorted(hopeless - {*theirs})]
    if not roots and not (has_pattern(path) and os.path.isdir(above(path))):  # noqa: PTH112
        raise FileNotFoundError(f"there is nothing at {path}")  # guard: missing-source-is-not-empty
    for root in roots:
        # guard: colon-beside-pattern
        if has_pattern(path) and b":" in os.path.basename(root):  # noqa: PTH119 - bytes
            yield ListedFile(_text(root), 0, 0, problem=Problem.COLON)
            continue
        if os.path.isdir(root):  # noqa: PTH112 - bytes
            yield from _below(root, lambda path, hidden: _describe(path, encoding, hidden=hidden))
        else:
            name = os.path.basename(root)  # noqa: PTH119 - bytes
            file = _describe(root, encoding, hidden=is_hidden_file(name))
            if file is not None:
                yield file


def directories(path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield every directory whose files a source reads, with its device and inode.

    Args:
        path: as in `listing`.
    """
    for root in filter(os.path.isdir, _roots(os.fsencode(path))):
        at = os.stat(root)  # noqa: PTH116 - bytes
        yield _text(root), (at.st_dev, at.st_ino)
        yield from ((_text(below), identity) for below, identity in _directories_below(root))


def loops(path: str) -> list[str]:
    """Return the links below a source's path that lead to a directory above them, without examining files.

    Args:
        path: as in `listing`.
    """
    roots = filter(os.path.isdir, _roots(os.fsencode(path)))
    entries = (entry for root in roots for entry in _below(root, lambda *_: None))
    return [entry.path for entry in entries if entry.problem is Problem.LOOP and not entry.hidden]


def loop_above(path: str, root: str = "/") -> str | None:
    """Return the link between a directory and a file that leads to a directory above it; None if there is none.

    Args:
        path: the file's path.
        root: the directory; the way to it may lead through such links.
    """
    parts, source, above = os.fsencode(path).split(b"/")[:-1], os.fsencode(root), set()
    try:
        for end in range(1, len(parts) + 1):
            directory = b"/".join(parts[:end]) or b"/"
            at = os.stat(directory)  # noqa: PTH116 - bytes
            if (at.st_dev, at.st_ino) in above and len(directory) > len(source):
                link = _link(directory, source)
                return _text(link) if os.path.islink(link) else None  # noqa: PTH114 - bytes; a mount is no link
            above.add((at.st_dev, at.st_ino))
    except OSError:  # it was deleted after it was listed
        pass
    return None


def has_pattern(path: str) -> bool:
    """Return True if a path holds a character that Hadoop reads as a pattern."""
    return not _PATTERN.isdisjoint(path.encode(errors="surrogateescape"))


def literal(path: str) -> str:
    """Return a pattern that matches one path only, whatever characters it holds."""
    return _PATTERN_CHARACTER.sub(r"\\\g<0>", path)


def above(path: str) -> str:
    """Return the part of a source's path above its first pattern; the whole path if it has none."""
    names = path.split("/")
    return "/".join(takewhile(lambda name: not has_pattern(name), names)) or "/"


def is_named(path: str, file: str, *, itself: bool = False) -> bool:
    """Return True if a source's path matches a file, a directory above it, or possibly files below it.

    Args:
        path: as in `listing`.
        file: an absolute path without patterns; it does not have to exist.
        itself: if True, a match of a directory above the file is not enough; a matched file is read even if hidden.
    """
    parts = os.fsencode(file).strip(b"/").split(b"/")
    for alternative in _alternatives(os.fsencode(path)):
        names = alternative.strip(b"/").split(b"/")
        if itself and len(parts) > len(names):
            continue
        if all(_compiled(name).fullmatch(_text(part)) for name, part in zip(names, parts, strict=False)):
            return True
    return False


def _is_read(root: bytes, encoding: str) -> bool:
    """Return True if Java can find a matched path, and Hadoop can list it."""
    try:
        root.decode(encoding)
    except UnicodeDecodeError:
        return False
    return b":" not in os.path.basename(root) and os.path.exists(root)  # noqa: PTH110, PTH119 - bytes


def _is_hidden_directory(name: bytes) -> bool:  # guard: hidden-directory-name
    """Return True if Spark skips a directory with this name."""
    return is_hidden_file(name) and not name.startswith(_KEPT)  # guard: metadata-directory-entered


def is_hidden_file(name: bytes) -> bool:  # guard: hidden-file-name
    """Return True if Spark reads no file with this name; it lists a file `_metadata…` but does not read it."""
    return name.startswith(b".") or name.endswith(b"._COPYING_") or (name.startswith(b"_") and b"=" not in name)


def may_be_broken(path: str) -> bool:
    """Return True if Spark may fail to read a file to its end, because it is compressed or has checksums."""
    return is_packed(path) or _has_checksums(path)  # guard: checksum-file-beside


def is_packed(path: str) -> bool:  # guard: packed-size-not-compared
    """Return True if a file's name has the ending of a compressed file."""
    return path.lower().endswith(COMPRESSED)


def text_bytes(path: str, size: int) -> int:
    """Return about how many bytes of text a file of some size holds: a compressed log, about 20 times its size."""
    return size * (20 if is_packed(path) else 1)


def _has_checksums(path: str) -> bool:
    """Return True if a `.NAME.crc` file is next to a file; Hadoop checks what it reads against it."""
    directory, _, name = path.rpartition("/")
    return os.path.lexists(os.fsencode(f"{directory}/.{name}.crc"))


def _below(root: bytes, describe: Callable[[bytes, bool], ListedFile | None]) -> Iterator[ListedFile]:
    """Walk a directory and yield what it holds; the directories above each one are kept to find link loops.

    Args:
        root: the directory.
        describe: describes a file, from its path and whether it is hidden.
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
            if not isinstance(error, FileNotFoundError):  # otherwise it was deleted after it was listed
                # guard: unlistable-directory-is-problem
                yield ListedFile(_text(directory), 0, 0, hidden, Problem.RIGHTS)
            continue
        for entry in within:
            if _is_directory(entry):
                below = hidden or _is_hidden_directory(entry.name)
                at = _identity(entry.path, above)
                if isinstance(at, Problem):
                    path = _link(entry.path, root) if at is Problem.LOOP else entry.path
                    yield ListedFile(_text(path), 0, 0, below, at)
                elif at is not None:
                    waiting.append((entry.path, below, above | {at}))
                continue
            file = describe(entry.path, hidden or is_hidden_file(entry.name))
            if file is not None:
                yield file


def _directories_below(root: bytes) -> Iterator[tuple[bytes, tuple[int, int]]]:
    waiting = [(root, _way_to(root))]
    while waiting:
        directory, above = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                within = [entry for entry in entries if _is_directory(entry) and not _is_hidden_directory(entry.name)]
        except OSError:
            continue
        for entry in within:
            at = _identity(entry.path, above)
            if at is not None and not isinstance(at, Problem):
                yield entry.path, at
                waiting.append((entry.path, above | {at}))


def _way_to(root: bytes) -> frozenset[tuple[int, int]]:  # guard: link-above-source-is-loop
    """Return the device and inode of a directory and of every directory above it."""
    parts = root.split(b"/")
    statuses = (os.stat(b"/".join(parts[:end]) or b"/") for end in range(1, len(parts) + 1))  # noqa: PTH116 - bytes
    return frozenset((at.st_dev, at.st_ino) for at in statuses)


def _link(path: bytes, root: bytes) -> bytes:  # guard: loop-named-by-link
    """Return the last link on the path from the root to a directory; the directory itself if there is none."""
    at = path
    while len(at) >= len(root) and at != b"/":
        if os.path.islink(at):  # noqa: PTH114 - bytes
            return at
        at = os.path.dirname(at)  # noqa: PTH120 - bytes
    return path


def _identity(path: bytes, above: frozenset[tuple[int, int]]) -> tuple[int, int] | Problem | None:
    """Return a directory's device and inode, or why it is skipped; None if it was deleted after it was listed."""
    try:
        at = os.stat(path)  # noqa: PTH116 - bytes
    except FileNotFoundError:
        return None
    except OSError:
        return Problem.RIGHTS  # guard: directory-rights-are-problem
    return Problem.LOOP if (at.st_dev, at.st_ino) in above else (at.st_dev, at.st_ino)  # guard: link-loop-is-problem


def _is_directory(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()  # guard: directory-links-followed
    except OSError:  # a link into itself
        return False


def _describe(path: bytes, encoding: str, *, hidden: bool) -> ListedFile | None:
    """Describe a file; None if it was deleted after it was listed."""
    try:
        at = os.stat(path)  # noqa: PTH116 - a pathlib object for each of a million files costs seconds
    except OSError as error:
        # guard: file-rights-are-problem
        if error.errno not in _NOTHING:  # Spark silently skips a file without permission
            return ListedFile(_text(path), 0, 0, hidden, Problem.RIGHTS)
        # guard: dead-link-is-problem
        dangling = os.path.islink(path)  # noqa: PTH114 - bytes
        return ListedFile(_text(path), 0, 0, hidden, Problem.DANGLING) if dangling else None
    try:
        path.decode(encoding)
        # guard: colon-in-name-is-problem
        problem = Problem.COLON if b":" in os.path.basename(path) else None  # noqa: PTH119
    except UnicodeDecodeError:
        problem = Problem.NAME  # guard: undecodable-name-is-problem
    is_regular = stat.S_ISREG(at.st_mode)
    size, identity = (at.st_size, (at.st_dev, at.st_ino)) if is_regular else (0, None)
    return ListedFile(_text(path), size, at.st_mtime_ns // 1_000_000, hidden, problem, identity, at.st_ctime_ns)


def may_read(path: str) -> bool:
    """Return True if this process has permission to read a file."""
    return os.access(os.fsencode(path), os.R_OK)


def _text(path: bytes) -> str:
    """Decode a path in the same way under every locale of this process."""
    return path.decode("utf-8", "surrogateescape")


def _roots(path: bytes) -> Iterator[bytes]:
    """Yield the paths that match a path with patterns, as Hadoop's globStatus does."""
    if _PATTERN.isdisjoint(path):  # guard: pattern-files-listed
        if _is_there(path):
            yield path
        return
    seen: set[bytes] = set()
    for alternative in _alternatives(path):
        for match in _matching(b"/", alternative.strip(b"/").split(b"/")):
            if match not in seen:
                seen.add(match)
                yield match


def _matching(directory: bytes, names: list[bytes]) -> Iterator[bytes]:
    if not names:
        yield directory
        return
    name, *inner_names = names
    if _PATTERN.isdisjoint(name):
        below = [name]
    else:
        fits = _compiled(name)
        try:
            every = sorted(os.listdir(directory))  # noqa: PTH208 - bytes
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from (os.path.join(directory, candidate) for candidate in every if b":" in candidate)  # noqa: PTH118 - bytes
        below = [candidate for candidate in every if fits.fullmatch(_text(candidate)) and b":" not in candidate]
    for child in below:
        path = os.path.join(directory, child)  # noqa: PTH118 - bytes
        if _is_there(path):
            yield from _matching(path, inner_names)
        elif child != name and os.path.islink(path):  # noqa: PTH114 - bytes
            yield path  # guard: broken-link-of-pattern


def _is_there(path: bytes) -> bool:
    """Return True if a path exists.

    Raises:
        OSError: this process has no permission to look.
    """
    try:
        os.stat(path)  # noqa: PTH116 - bytes
    except OSError as error:
        if error.errno in _NOTHING:
            return False
        raise  # guard: pattern-path-rights
    return True


def _compiled(name: bytes) -> re.Pattern[str]:
    """Compile one name of a pattern; an invalid one matches nothing, and Hadoop reports it at the start."""
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
    """Yield a path once for each choice in its braces; braces may be nested."""
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
    for choice, tail in product(choices, _alternatives(path[cuts[-1] + 1 :])):
        yield from (path[:start] + alternative + tail for alternative in _alternatives(choice))


def is_gone(uri: str) -> bool:
    """Return True if a file on this machine is missing; False on other stores, where Spark finds out when it reads."""
    return urlsplit(uri).scheme == "file" and not Path(local_path(uri)).exists()
