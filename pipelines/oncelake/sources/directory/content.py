"""Decide from the name and the bytes of a file whether its lines can be read, and if not, why it is set aside.

A name lies easily: `.log` may hold gzip, and `.gz` text. So the first kilobytes decide, and the name has to fit them,
because Hadoop chooses what unpacks a file by its ending alone. Of a file that does not grow the end is checked too:
Hadoop stops at bytes behind the end of gzip, and silently reads too little of half an `.lz4`.

Nothing here needs Spark. What was found out of a file is remembered until its size or time changes.
"""

import bz2
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from itertools import chain
from typing import BinaryIO, NamedTuple

BOM = b"\xef\xbb\xbf"
# The format that the ending of a name promises.
ENDINGS: Mapping[str, str] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".tgz": "gzip",
    ".bz2": "bzip2",
    ".deflate": "zlib",
    ".lz4": "lz4",
    ".snappy": "snappy",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "xz",
    ".lzma": "lzma",
    ".lz": "lzip",
    ".lzo": "lzop",
    ".z": "compress",
    ".br": "brotli",
    ".zip": "zip",
    ".7z": "7-Zip",
    ".rar": "rar",
}
# Bytes at the beginning of a file that no text has; the formats' own specifications name them.
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x1f\x9d", "compress"),
    (b"\x1f\xa0", "compress"),
    (b"\x1f\x1e", "pack"),
    (b"\xfd7zXZ\0", "xz"),
    (b"]\0\0", "lzma"),
    (b"LZIP\x01", "lzip"),
    (b"\x89LZO\0\r\n\x1a\n", "lzop"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4 frames"),
    (b"\x02\x21\x4c\x18", "lz4 frames"),
    (b"LZ4Block", "lz4 blocks of Java"),
    (b"\xff\x06\0\0sNaPpY", "snappy frames"),
    (b"\x82SNAPPY\0", "snappy blocks of Java"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"Rar!\x1a\x07", "rar"),
    (b"MSCF\0\0\0\0", "cab"),
    (b"!<arch>\n", "ar"),
    (b"PAR1", "Parquet"),
    (b"Obj\x01", "Avro"),
    (b"SQLite format 3\0", "SQLite"),
    (b"LPKSHHRH", "systemd journal"),
    (b"ElfFile\0", "Windows event log"),
    (b"\x7fELF", "ELF"),
    (b"%PDF-", "PDF"),
)
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)", re.DOTALL)
_SKIPPED_FRAME = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)  # zstd's and lz4's, before their first real one
_ZLIB = (b"\x78\x9c", b"\x78\xda")  # its other headers are letters
# The most bytes that are looked at for a magic number of a format that is read.
_MAGIC_BYTES = 10
# Formats that are known only once they are unpacked.
_NO_MAGIC = ("zlib", "lz4", "snappy")
_TAR, _TAR_AT = b"ustar", 257
# What a hole in a file leaves before a line: a row of its own. In a file that grows the line may not be there yet.
_NULS_BEFORE_LINE = re.compile(rb"(?<![^\n])\0{4,}(?=[^\0])")
_NULS_AT_END = re.compile(rb"(?<![^\n])\0{4,}\Z")
# Fewer NULs may be those of a few odd lines.
_SOME_NULS = 16
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# How zlib is told which of its formats to expect.
_WBITS = {"gzip": 31, "zlib": 15}
_FIRST = {"gzip": b"\x1f", "zlib": b"x"}
# Hadoop compresses at most this many bytes into one chunk: its buffer of 256 KB less what they may grow by.
# Source: BlockCompressorStream, Lz4Codec and SnappyCodec of Hadoop 3.4.
_CHUNK = {"lz4": 256 * 1024 - (256 * 1024 // 255 + 16), "snappy": 256 * 1024 - (256 * 1024 // 6 + 32)}
_END_OF_BZIP2 = 0x177245385090
_HEAD = 8 * 1024
_BLOCK = 256 * 1024
_UNPACKED = 1024 * 1024
_REMEMBERED = 50_000


class Aside(StrEnum):
    """Why no line of a file is read; the value is the name in docs/operations/census.md."""

    NO_TEXT = "no text"
    NOT_UNPACKED = "cannot be unpacked"
    NOT_WHOLE = "not whole"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds.

    Attributes:
        packed: True if it is compressed in a way that is read.
        aside: the kind of reason why it is set aside; None if its lines are read.
        why: the reason, as a sentence about the file; empty if its lines are read.
    """

    packed: bool = False
    aside: Aside | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """How the files of a source are read.

    Attributes:
        endings: the endings of compressed files that are unpacked, in lower case.
        grows: True if programs still write to the files: a file may begin with NULs, where it was cut, and its end is
            not checked.
    """

    endings: tuple[str, ...]
    grows: bool = False


# What Hadoop unpacks without a native library. With one, it also unpacks .zst.
COMPLETE = Reader((".gz", ".bz2", ".deflate", ".lz4", ".snappy"))
COMPLETE_AND_ZSTD = Reader((*COMPLETE.endings, ".zst"))
GROWING = Reader((".gz", ".bz2"), grows=True)

_TEXT, _PACKED = Content(), Content(packed=True)


def content_of(path: str, reader: Reader = COMPLETE) -> Content | None:
    """Return what a file on this machine holds; None if it is gone, not a regular file, or cannot be read.

    Args:
        path: the path; bytes that are not UTF-8 are Python's surrogate escapes.
        reader: how the files of its source are read.
    """
    where = path.encode("utf-8", "surrogateescape")
    try:
        at = os.stat(where)  # noqa: PTH116 - bytes, and thousands of files
        if not stat.S_ISREG(at.st_mode):
            return None
        return _seen(where, _State(at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns), reader)
    except OSError:
        return None


def ending_of(path: str) -> str:
    """Return the ending of a name that promises a compressed format, in lower case; empty if it has none."""
    ending = os.path.splitext(path)[1].lower()  # noqa: PTH122 - thousands of files
    return ending if ending in ENDINGS else ""


def named(path: str, reader: Reader = COMPLETE) -> Content:
    """Return what a file holds as far as its name says, for a file whose bytes cannot be looked at."""
    ending = ending_of(path)
    if ending and ending not in reader.endings:
        return Content(aside=Aside.NOT_UNPACKED, why=_not_unpacked(ENDINGS[ending], ending, reader))
    return _PACKED if ending else _TEXT


class _State(NamedTuple):
    """What changes when a file does."""

    device: int
    inode: int
    size: int
    modified: int


@lru_cache(maxsize=_REMEMBERED)
def _seen(path: bytes, state: _State, reader: Reader) -> Content:
    """Return what a file holds in a state."""
    if state.size == 0:
        return _TEXT
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - bytes
        return content_in(file, path.decode("utf-8", "surrogateescape"), state.size, reader)


def content_in(file: BinaryIO, path: str, size: int, reader: Reader) -> Content:
    """Return what an open file holds.

    Args:
        file: the file, at its beginning.
        path: its path.
        size: its size in bytes.
        reader: how the files of its source are read.

    Raises:
        OSError: the file system cannot read the file.
    """
    ending = ending_of(path)
    head = file.read(_HEAD)
    if ending not in reader.endings:
        text = _beginning(chain([head], iter(partial(file.read, _BLOCK), b"")))
        return _unnamed(_format_of(head), ending, text, reader)
    try:
        return _of_packed(_Packed(file, ENDINGS[ending], ending, size, head), reader)
    except (zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return Content(aside=Aside.NOT_WHOLE, why=f"its {ENDINGS[ending]} data is damaged")


def _beginning(blocks: Iterable[bytes]) -> bytes:
    """Return the first bytes of a text, without its byte order mark and the NULs before a line, however many."""
    text = b""
    for block in blocks:
        text = _NULS_BEFORE_LINE.sub(b"", text + block if text else block.removeprefix(BOM))[:_HEAD]
        if text and not _NULS_AT_END.search(text):
            break
    return text


@dataclass(frozen=True, slots=True)
class _Packed:
    """A file whose name ends as that of a compressed one which is read.

    Attributes:
        file: the file.
        format: the format that its name promises.
        ending: the ending of its name.
        size: its size in bytes.
        head: its first bytes.
    """

    file: BinaryIO
    format: str
    ending: str
    size: int
    head: bytes


def _of_packed(packed: _Packed, reader: Reader) -> Content:
    data_format = _format_of(packed.head)
    if reader.grows and data_format is None and len(packed.head) < _MAGIC_BYTES:
        return _PACKED  # too little of it is there yet
    if data_format != packed.format and (data_format is not None or packed.format not in _NO_MAGIC):
        holds = f"it holds {data_format}" if data_format else f"it holds no {packed.format}"
        return Content(aside=Aside.NOT_UNPACKED, why=f"{holds}, though its name ends in {packed.ending}")
    inner = _no_text(_beginning(_unpacked(packed)), reader)
    if inner:
        return Content(aside=Aside.NO_TEXT, why=f"when it is unpacked, {inner}")
    why = "" if reader.grows else _not_whole(packed)
    return Content(aside=Aside.NOT_WHOLE, why=why) if why else _PACKED


def _unnamed(data_format: str | None, ending: str, head: bytes, reader: Reader) -> Content:
    """Return what a file holds whose name has no ending of a compressed file that is read."""
    if data_format is not None:
        right = next((accepted for accepted in reader.endings if ENDINGS[accepted] == data_format), None)
        misnamed = f"it holds {data_format}, but its name does not end in {right}"
        why = misnamed if right else _not_unpacked(data_format, "", reader)
        return Content(aside=Aside.NOT_UNPACKED if right or ending else Aside.NO_TEXT, why=why)
    if ending:
        return Content(aside=Aside.NOT_UNPACKED, why=_not_unpacked(ENDINGS[ending], ending, reader))
    why = _no_text(head, reader)
    return Content(aside=Aside.NO_TEXT, why=why) if why else _TEXT


def _not_unpacked(what: str, ending: str, reader: Reader) -> str:
    holds = f"its name ends in {ending}" if ending else f"it holds {what}"
    return f"{holds}, which is not unpacked; what is: {', '.join(reader.endings)}"


def _format_of(head: bytes) -> str | None:
    """Return the format that a file's first bytes belong to; None if none is known."""
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return "tar"
    if _BZIP2.match(head):
        return "bzip2"
    if _SKIPPED_FRAME.match(head):
        return "zstd or lz4 frames"
    if head.startswith(_ZLIB) and _is_zlib(head):
        return "zlib"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def _is_zlib(head: bytes) -> bool:
    """Return True if the bytes can be unpacked: a text may begin with the two bytes of a header by chance."""
    try:
        return bool(zlib.decompressobj().decompress(head, _HEAD))
    except zlib.error:
        return False


def _no_text(head: bytes, reader: Reader) -> str:
    """Return why a file's first bytes are no text; empty if they are.

    A line may hold some NULs. A twentieth of all bytes is too many, and in a short file a fifth.
    """
    data_format = _format_of(head)
    if data_format is not None:
        return f"it holds {data_format}, no text"
    nuls = head.count(0)
    if nuls and head.startswith(_UTF_16):
        return "it holds UTF-16 or UTF-32, and lines are read byte by byte; convert it to UTF-8"
    text = _NULS_AT_END.sub(b"", head) if reader.grows else head
    nuls = text.count(0)
    if nuls * 5 <= len(text) and (nuls < _SOME_NULS or nuls * 20 <= len(text)):
        return ""
    if nuls in (text[::2].count(0), text[1::2].count(0)):
        return "it holds UTF-16 without a byte order mark, and lines are read byte by byte; convert it to UTF-8"
    return f"{nuls:,} of its first {len(text):,} bytes are NULs, so it is no text"


def _unpacked(packed: _Packed) -> Iterator[bytes]:
    """Yield what a compressed file holds, in blocks; nothing if Python cannot unpack it."""
    packed.file.seek(0)
    if packed.format == "bzip2":
        with suppress(EOFError):
            yield from iter(partial(bz2.BZ2File(packed.file).read1, _BLOCK), b"")
    if packed.format not in _WBITS:
        return
    unpacker = zlib.decompressobj(_WBITS[packed.format])
    for block in iter(partial(packed.file.read, _HEAD), b""):
        data, text = block, b""
        while data or len(text) == _BLOCK:
            text = unpacker.decompress(data, _BLOCK)
            yield text
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data, unpacker = unpacker.unused_data, zlib.decompressobj(_WBITS[packed.format])


def _not_whole(packed: _Packed) -> str:  # guard: archive-end-checked
    """Return why a compressed file cannot be read to its end; empty if it can.

    What only `zstd` knows is not checked: then Spark stops at a file that is not whole.
    """
    if packed.format in _WBITS:
        return _not_whole_zlib(packed)
    if packed.format in _CHUNK:
        return _not_whole_chunks(packed)
    return _not_whole_bzip2(packed) if packed.format == "bzip2" else ""


def _not_whole_zlib(packed: _Packed) -> str:
    """Unpack all members of a file: without that nobody knows where they end."""
    packed.file.seek(0)
    ended, begun, unpacker = 0, False, zlib.decompressobj(_WBITS[packed.format])
    for block in iter(lambda: packed.file.read(_BLOCK), b""):
        data = block
        while data:
            if ended and not begun and not data.startswith(_FIRST[packed.format]):
                return _behind_end(packed, ended)
            unpacker.decompress(data, _UNPACKED)
            begun, data, unused = True, unpacker.unconsumed_tail, len(unpacker.unused_data)
            if unpacker.eof:
                data = unpacker.unused_data
                ended = packed.file.tell() - unused
                begun, unpacker = False, zlib.decompressobj(_WBITS[packed.format])
    return f"its {packed.format} data ends too early; it may still be written" if begun or not ended else ""


def _behind_end(packed: _Packed, end: int) -> str:
    """Describe what is behind the end: gzip(1) ignores zeros there, but Hadoop stops at them."""
    packed.file.seek(end)
    zeros = not any(block.strip(b"\0") for block in iter(lambda: packed.file.read(_BLOCK), b""))
    what = "zeros, at which Spark stops" if zeros else f"bytes that are no {packed.format}"
    return f"behind the end of its {packed.format} data are {packed.size - end:,} {what}; pack it again"


def _not_whole_bzip2(packed: _Packed) -> str:
    """Look for the mark and the checksum at the end of bzip2 data, which may end within a byte; zeros may follow."""
    packed.file.seek(max(0, packed.size - _HEAD))
    tail = packed.file.read(_HEAD)
    data = tail.rstrip(b"\0")
    for zeros in range(min(len(tail) - len(data), 4) + 1):  # the checksum itself may end in zeros
        last = int.from_bytes(data[-11:] + b"\0" * zeros, "big")
        if any((last >> (32 + shift)) & (2**48 - 1) == _END_OF_BZIP2 for shift in range(8)):
            return ""
    return "its bzip2 data ends too early, or other bytes are behind its end; it may still be written"


def _not_whole_chunks(packed: _Packed) -> str:
    """Follow the chunks of Hadoop's own form of lz4 and snappy; Hadoop silently drops what is not a whole chunk.

    A block has its size when unpacked, and chunks that each begin with their size. There is no mark at the end.
    """
    at, chunks = 0, 0
    while at < packed.size:
        packed.file.seek(at)
        number = int.from_bytes(packed.file.read(4), "big")
        at += 4
        if chunks:
            chunks, at = chunks - 1, at + number
        else:
            chunks = -(-number // _CHUNK[packed.format])
    if chunks or at > packed.size:
        return f"it is no {packed.format} as Hadoop writes it, or ends too early; it may still be written"
    return ""
