"""Read what a growing file holds, compressed or not, and digest it in a way that can be continued later."""

import bz2
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, Protocol

from oncelake.sources.directory.listing import ListedFile, listing
from oncelake.sources.tail.birth import born

# A digest is chained over chunks of this size, so that it can be continued from the last megabyte.
CHUNK = 64 * 1024
REACH = 1024**2
BLOCK = 1024**2
# How many bytes at both ends of some bytes `ends_of` hashes; TailSource.java has the same number.
_ENDS = 1024


class FileMovedError(OSError):
    """Raised when another file, or none, is at the path of a listed file by now."""


class FileStore(Protocol):
    """The file system that holds growing files."""

    def listing(self, path: str) -> Iterable[ListedFile]:
        """Yield every file below a path, as `listing.listing` does.

        Raises:
            OSError: the path cannot be listed.
        """

    def open(self, file: ListedFile) -> BinaryIO:
        """Open a listed file.

        Raises:
            FileMovedError: it is not at its path any more.
            OSError: it cannot be opened.
        """

    def resolve(self, path: str) -> str:
        """Return a path without links."""

    def born(self, opened: BinaryIO) -> int:
        """Return when an open file was created, in milliseconds since 1970; 0 if that is not known."""

    def now(self) -> float:
        """Return the time in seconds since 1970."""


class Disk(FileStore):
    """The file system of this machine."""

    def listing(self, path: str) -> Iterable[ListedFile]:
        """Yield every file below a path."""
        return listing(path)

    def open(self, file: ListedFile) -> BinaryIO:
        """Open a listed file, without a buffer."""
        try:
            opened = open(os.fsencode(file.path), "rb", buffering=0)  # noqa: PTH123, SIM115 - bytes; the caller closes it
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMovedError(str(error)) from None
        status = os.fstat(opened.fileno())
        if (status.st_dev, status.st_ino) != file.identity:  # guard: opened-file-as-listed
            opened.close()
            raise FileMovedError(f"another file is at {file.path}")
        return opened

    def resolve(self, path: str) -> str:
        """Return a path without links."""
        return os.path.realpath(path)

    def born(self, opened: BinaryIO) -> int:
        """Return when an open file was created: two files can have the same inode, one after the other."""
        return born(opened.fileno())

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return time.time()


class Digest(NamedTuple):
    """A digest of the first bytes of a content.

    Attributes:
        whole: the digest of all of them.
        base: the digest of those before `based`; `whole` is computed again, and continued, from there.
    """

    whole: str
    base: str


def based(length: int) -> int:
    """Return how many of the first bytes `Digest.base` is of: all but the last megabyte."""
    return max(0, length - REACH) // CHUNK * CHUNK


class Hasher:
    """Computes digests of the first bytes of a content.

    Args:
        size: how many bytes are digested already, a multiple of `CHUNK`.
        base: their digest.
    """

    def __init__(self, size: int = 0, base: str = "") -> None:
        self.size = size
        self._chunk = hashlib.sha256(base.encode())
        self._bases = {size: base}

    def update(self, data: bytes | memoryview) -> None:
        """Add the next bytes."""
        remaining = memoryview(data)
        while remaining:
            part = remaining[: CHUNK - self.size % CHUNK]
            self._chunk.update(part)
            self.size += len(part)
            remaining = remaining[len(part) :]
            if self.size % CHUNK == 0:
                base = self._chunk.hexdigest()[:16]
                self._chunk = hashlib.sha256(base.encode())
                self._bases[self.size] = base
                self._bases.pop(self.size - REACH - CHUNK, None)

    @property
    def whole(self) -> str:
        """The digest of all bytes up to now."""
        return self._chunk.hexdigest()[:16]

    def digest(self) -> Digest:
        """Return the digest of the bytes up to now; the first ones must be digested here, too."""
        return Digest(self.whole, self._bases[based(self.size)])


def digests(blocks: Iterable[bytes], lengths: Iterable[int], hasher: Hasher | None = None) -> dict[int, Digest]:
    """Return digests of the first bytes of a content, by their number; without those that it does not reach.

    Args:
        blocks: the content.
        lengths: how many of the first bytes to digest.
        hasher: has digested what is before the blocks; None if nothing is.
    """
    hasher = hasher or Hasher()
    pending = sorted({*lengths}, reverse=True)
    digested: dict[int, Digest] = {}
    for block in blocks:
        at = 0
        while at < len(block):
            if pending and pending[-1] == hasher.size:
                digested[pending.pop()] = hasher.digest()
            if not pending:
                return digested
            step = min(pending[-1] - hasher.size, len(block) - at)
            hasher.update(memoryview(block)[at : at + step])
            at += step
    if pending and pending[-1] == hasher.size:
        digested[pending.pop()] = hasher.digest()
    return digested


def blocks_of(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file between two places; fewer if the file is shorter."""
    while start < end and (block := read_at(file, start, min(BLOCK, end - start))):
        yield block
        start += len(block)


def read_at(file: BinaryIO, start: int, count: int) -> bytes:
    """Return the bytes of a file from a place on; fewer if the file is shorter."""
    file.seek(start)
    return file.read(count)


def last_end(file: BinaryIO, start: int, end: int) -> int:
    """Return the byte after the last line end between two bytes of a file; the first one if there is none."""
    while end > start:
        lower = max(start, end - BLOCK)
        place = read_at(file, lower, end - lower).rfind(b"\n")
        if place >= 0:
            return lower + place + 1
        end = lower
    return start


def ends_of(file: BinaryIO, length: int) -> str:
    """Return a hash of the first and the last kilobyte of the first bytes of a file; empty if it is shorter."""
    size = min(length, _ENDS)
    head, tail = read_at(file, 0, size), read_at(file, length - size, size)
    return hashlib.sha256(head + tail).hexdigest()[:16] if len(head) == len(tail) == size else ""


class _Unpacker(Protocol):
    """Unpacks one member of a compressed file.

    Attributes:
        eof: whether the end of the member is reached.
        needs_input: whether it needs more bytes to go on.
        unused_data: what is behind the end of the member.
    """

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


class _GzipUnpacker:
    """Unpacks a member of a gzip file as BZ2Decompressor does with one of a bzip2 file."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = BLOCK) -> bytes:
        content = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(content) < max_length
        return content


_UNPACKERS: Mapping[str, Callable[[], _Unpacker]] = {".gz": _GzipUnpacker, ".bz2": bz2.BZ2Decompressor}


def is_unpacked(path: str) -> bool:
    """Return True if the ending of a name says that its file is compressed in a way that is read here."""
    return any(path.lower().endswith(ending) for ending in _UNPACKERS)


@dataclass(frozen=True)
class PackedContent:
    """What a compressed file holds.

    Attributes:
        size: the bytes of its content; 0 if it cannot be read to its end.
        lines: how many of them are lines with an end.
        digests: digests of the first bytes, by their number: those that were asked for, and that of all. A last line
            without an end counts with one.
        problem: why it cannot be read to its end; None if it can.
    """

    size: int = 0
    lines: int = 0
    digests: Mapping[int, Digest] = field(default_factory=dict)
    problem: str | None = None

    @property
    def ended(self) -> int:
        """The bytes of the content with a line end at its end."""
        return self.size + (self.lines < self.size)


NOT_COMPLETE = "it is compressed and not complete"
_NOT_PACKED = "it is not compressed as its name says, or damaged"


def unpack(file: BinaryIO, path: str, lengths: Iterable[int]) -> PackedContent:
    """Read a compressed file to its end, and digest the first bytes of its content.

    Args:
        file: the file.
        path: its path, whose ending says how it is compressed.
        lengths: how many of the first bytes to digest.

    Raises:
        OSError: the file system cannot read the file.
    """
    size = lines = 0

    def counted() -> Iterator[bytes]:
        nonlocal size, lines
        for block in _unpacked(file, path):
            end = block.rfind(b"\n") + 1
            lines = size + end if end else lines
            size += len(block)
            yield block
        if lines < size:
            yield b"\n"

    hasher = Hasher()
    try:
        result = digests(counted(), {*lengths, 2**63}, hasher)
    except EOFError:
        return PackedContent(problem=NOT_COMPLETE)
    except (OSError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:
            raise
        return PackedContent(problem=_NOT_PACKED)
    return PackedContent(size, lines, {**result, hasher.size: hasher.digest()})


def _unpacked(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield the content of all members of a compressed file. Zeros may stand behind the last one, and nothing else.

    Raises:
        EOFError: it is not complete.
        OSError: it is damaged, or other bytes stand between two members; Hadoop, which reads it, stops there.
        zlib.error: it is damaged.
    """
    make = next(make for ending, make in _UNPACKERS.items() if path.lower().endswith(ending))
    unpacker: _Unpacker | None = None
    is_padded = False
    file.seek(0)
    for block in iter(lambda: file.read(BLOCK), b""):
        data = block
        while data:
            if unpacker is None:
                behind = data.lstrip(b"\0")
                is_padded = is_padded or len(behind) < len(data)  # guard: text-between-gzip-members
                if not behind:
                    break
                if is_padded:
                    raise OSError("zeros stand before a member")
                unpacker = make()
            yield unpacker.decompress(data, BLOCK)
            while not (unpacker.eof or unpacker.needs_input):
                yield unpacker.decompress(b"", BLOCK)
            data, unpacker = (unpacker.unused_data, None) if unpacker.eof else (b"", unpacker)
    if unpacker is not None:
        raise EOFError


def content_blocks(file: BinaryIO, path: str, length: int) -> Iterator[bytes]:
    """Yield the first bytes of a content; fewer if it is shorter."""
    remaining = length
    for block in _unpacked(file, path) if is_unpacked(path) else blocks_of(file, 0, length):
        if remaining <= 0:
            return
        yield block[:remaining]
        remaining -= len(block)


def content_ends(file: BinaryIO, path: str, length: int) -> str:
    """Return a hash of the first and the last kilobyte of the first bytes of a content, as positions once had."""
    head, tail, size = b"", b"", 0
    for part in content_blocks(file, path, length):
        head, tail, size = (head + part)[:_ENDS], (tail + part)[-_ENDS:], size + len(part)
    return hashlib.sha256(head + tail).hexdigest()[:16] if size == length else ""
