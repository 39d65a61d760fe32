"""What a file holds: text, text that is unpacked, or nothing that is read, and why."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from oncelake.sources.directory.content import (
    COMPLETE,
    COMPLETE_AND_ZSTD,
    GROWING,
    Aside,
    Content,
    Reader,
    content_of,
    ending_of,
    named,
)

LINES = b"".join(b"2017-07-30 14:09:08 INFO line %d\n" % number for number in range(2_000))
TEXT, PACKED = Content(), Content(packed=True)


def of(tmp_path: Path, name: str, held: bytes, reader: Reader = COMPLETE) -> Content:
    path = tmp_path / name
    path.write_bytes(held)
    found = content_of(str(path), reader)
    assert found is not None
    return found


def in_frames(codec: str) -> bytes:
    stream = io.BytesIO()
    with pa.CompressedOutputStream(stream, codec) as packed:
        packed.write(LINES)
        packed.flush()
        return stream.getvalue()


def in_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.log", LINES)
    return stream.getvalue()


def in_tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("a.log")
        entry.size = len(LINES)
        archive.addfile(entry, io.BytesIO(LINES))
    return stream.getvalue()


def in_hadoop_blocks(*blocks: tuple[int, tuple[int, ...]]) -> bytes:
    """Return blocks as Hadoop writes them: the size of each when unpacked, and the sizes of its chunks."""
    return b"".join(
        size.to_bytes(4, "big") + b"".join(chunk.to_bytes(4, "big") + b"x" * chunk for chunk in chunks)
        for size, chunks in blocks
    )


@pytest.mark.parametrize(
    "held",
    [
        b"",
        b"\n",
        b"x",
        LINES,
        b"\xef\xbb\xbf" + LINES,
        LINES + b"a NUL \0 inside, \xff\xfe no UTF-8, a lone \r, \x1b[31mred\x1b[0m\n",
        b"L1.0\0\n",
        b"\0\n" + LINES,
        b"\xff\xfe one\r\n\ntwo",
        b"x\x9c a line of Windows-1252\n",
        b"x^2 is no header of zlib\n",
        b"".join(b"8=FIX.4.2\x019=%d\x0135=A\n" % number for number in range(500)),
        "größe 😀\n".encode() * 10,
        "größe\n".encode("latin-1") * 10,
        "日志\n".encode("gbk") * 10,
    ],
    ids=range(15),
)
def test_lines_of_text_are_read_whatever_bytes_they_hold(tmp_path: Path, held: bytes) -> None:
    assert of(tmp_path, "a.log", held) == TEXT
    assert of(tmp_path, "a.log", held, GROWING) == TEXT


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("a.log.gz", gzip.compress(LINES)),
        ("a.log.GZ", gzip.compress(LINES)),
        ("a.gz", gzip.compress(b"")),
        ("two.gz", gzip.compress(LINES) + gzip.compress(LINES)),
        ("a.bz2", bz2.compress(LINES)),
        ("empty.bz2", bz2.compress(b"")),
        ("two.bz2", bz2.compress(LINES) + bz2.compress(LINES)),
        ("zeros.bz2", bz2.compress(LINES) + b"\0" * 512),
        ("a.deflate", zlib.compress(LINES)),
        ("fast.deflate", zlib.compress(LINES, 1)),
        ("a.lz4", in_hadoop_blocks((1000, (40,)), (300_000, (7, 9)))),
        ("a.snappy", in_hadoop_blocks((1000, (40,)), (500_000, (7, 9, 8)), (0, ()))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_hadoop_unpacks_is_read(tmp_path: Path, name: str, held: bytes) -> None:
    assert of(tmp_path, name, held) == PACKED


@pytest.mark.parametrize("number", range(1, 40))
def test_the_end_of_bzip2_is_found_at_every_bit(tmp_path: Path, number: int) -> None:
    packed = bz2.compress(b"%d" % number * number)
    assert of(tmp_path, "a.bz2", packed) == PACKED
    assert of(tmp_path, "half.bz2", packed[:-2]).aside is Aside.NOT_WHOLE


@pytest.mark.parametrize(
    ("name", "held", "aside", "why"),
    [
        ("a.log.xz", lzma.compress(LINES), Aside.NOT_UNPACKED, "it holds xz, which is not unpacked"),
        ("a.log.zst", in_frames("zstd"), Aside.NOT_UNPACKED, "it holds zstd, which is not unpacked"),
        ("a.log.zstd", in_frames("zstd"), Aside.NOT_UNPACKED, "it holds zstd"),
        ("a.log.gzip", gzip.compress(LINES), Aside.NOT_UNPACKED, "it holds gzip, but its name does not end in .gz"),
        ("a.tgz", gzip.compress(in_tar()), Aside.NOT_UNPACKED, "it holds gzip, but its name does not end in .gz"),
        ("a.zip", in_zip(), Aside.NOT_UNPACKED, "it holds zip"),
        ("a.br", os.urandom(100), Aside.NOT_UNPACKED, "its name ends in .br"),
        ("text.xz", LINES, Aside.NOT_UNPACKED, "its name ends in .xz"),
        ("a.lz4", in_frames("lz4"), Aside.NOT_UNPACKED, "it holds lz4 frames, though its name ends in .lz4"),
        ("a.snappy", b"\xff\x06\0\0sNaPpY" + b"x" * 90, Aside.NOT_UNPACKED, "it holds snappy frames"),
        ("text.gz", LINES, Aside.NOT_UNPACKED, "it holds no gzip, though its name ends in .gz"),
        ("bzip2.gz", bz2.compress(LINES), Aside.NOT_UNPACKED, "it holds bzip2, though its name ends in .gz"),
        ("text.bz2", LINES, Aside.NOT_UNPACKED, "it holds no bzip2"),
        ("gzip.log", gzip.compress(LINES), Aside.NOT_UNPACKED, "it holds gzip, but its name does not end in .gz"),
        ("bzip2.log", bz2.compress(LINES), Aside.NOT_UNPACKED, "it holds bzip2, but its name does not end in .bz2"),
        ("zlib.log", zlib.compress(LINES), Aside.NOT_UNPACKED, "it holds zlib, but its name does not end in .deflate"),
        ("zip.log", in_zip(), Aside.NO_TEXT, "it holds zip"),
        ("tar.log", in_tar(), Aside.NO_TEXT, "it holds tar"),
        ("frames.log", in_frames("lz4"), Aside.NO_TEXT, "it holds lz4 frames"),
        ("a.parquet", b"PAR1" + b"x" * 90, Aside.NO_TEXT, "it holds Parquet"),
        ("tar.gz", gzip.compress(in_tar()), Aside.NO_TEXT, "when it is unpacked, it holds tar"),
        ("twice.gz", gzip.compress(gzip.compress(LINES)), Aside.NO_TEXT, "when it is unpacked, it holds gzip"),
        ("tar.bz2", bz2.compress(in_tar()), Aside.NO_TEXT, "when it is unpacked, it holds tar"),
        ("nuls.gz", gzip.compress(b"\0" * 5000), Aside.NO_TEXT, "5,000 of its first 5,000 bytes are NULs"),
        ("marked.log", "a\n".encode("utf-16"), Aside.NO_TEXT, "it holds UTF-16 or UTF-32"),
        ("little.log", "a\n".encode("utf-16-le"), Aside.NO_TEXT, "it holds UTF-16 without a byte order mark"),
        ("big.log", LINES.decode().encode("utf-16-be"), Aside.NO_TEXT, "it holds UTF-16 without a byte order mark"),
        ("mixed.log", "2017 错误日志\n".encode("utf-16-le"), Aside.NO_TEXT, "it holds UTF-16 without"),
        ("wide.log", LINES.decode().encode("utf-32-le"), Aside.NO_TEXT, "are NULs, so it is no text"),
        ("binary.log", b"\0\0\1\0abcdefgh" * 40, Aside.NO_TEXT, "are NULs, so it is no text"),
        ("few.log", b"x" * 300 + b"\0" * 16, Aside.NO_TEXT, "16 of its first 316 bytes are NULs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_text_is_set_aside_with_the_reason(
    tmp_path: Path, name: str, held: bytes, aside: Aside, why: str
) -> None:
    found = of(tmp_path, name, held)
    assert (found.aside, found.packed) == (aside, False)
    assert why in found.why


GZIP = gzip.compress(LINES)
LZ4 = in_hadoop_blocks((1000, (40,)), (300_000, (7, 9)))


@pytest.mark.parametrize(
    ("name", "held", "why"),
    [
        ("half.gz", GZIP[: len(GZIP) // 2], "ends too early; it may still be written"),
        ("short.gz", GZIP[:-1], "ends too early"),
        ("begun.gz", GZIP + GZIP[:20], "ends too early"),
        ("zeros.gz", GZIP + b"\0" * 512, "512 zeros, at which Spark stops"),
        ("junk.gz", GZIP + b"\0junk", "5 bytes that are no gzip"),
        ("damaged.gz", GZIP[:-8] + b"abcd" + GZIP[-4:], "its gzip data is damaged"),
        ("second.gz", GZIP + GZIP[:-8] + b"abcd" + GZIP[-4:], "its gzip data is damaged"),
        ("zeros.deflate", zlib.compress(LINES) + b"\0", "1 zeros, at which Spark stops"),
        ("raw.deflate", b"no zlib", "its zlib data is damaged"),
        ("half.bz2", bz2.compress(LINES)[:-20], "ends too early, or other bytes are behind its end"),
        ("junk.bz2", bz2.compress(LINES) + b"junk", "ends too early, or other bytes are behind its end"),
        ("damaged.bz2", b"BZh91AY&SY" + b"x" * 5000, "its bzip2 data is damaged"),
        ("half.lz4", LZ4[:-1], "it is no lz4 as Hadoop writes it, or ends too early"),
        ("short.lz4", LZ4[:-13], "it is no lz4 as Hadoop writes it"),
        ("text.lz4", LINES, "it is no lz4 as Hadoop writes it"),
        ("junk.snappy", in_hadoop_blocks((1000, (40,))) + b"junkjunk", "it is no snappy as Hadoop writes it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_compressed_file_is_set_aside_until_it_is_whole(tmp_path: Path, name: str, held: bytes, why: str) -> None:
    found = of(tmp_path, name, held)
    assert found.aside is Aside.NOT_WHOLE
    assert why in found.why


def test_a_large_file_is_checked_across_its_blocks(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(600_000).hex().encode())
    assert of(tmp_path, "a.gz", packed * 2) == PACKED
    for more in (b"\0", b"\0" * 300_000, b"x"):
        assert of(tmp_path, f"{len(more)}{more[:1]!r}.gz", packed + more).aside is Aside.NOT_WHOLE


def test_a_growing_file_may_begin_with_nuls_and_need_not_be_whole(tmp_path: Path) -> None:
    assert of(tmp_path, "cut.log", b"\0" * 9000 + LINES, GROWING) == TEXT
    assert of(tmp_path, "cut.log", b"\0" * 100 + LINES, GROWING) == TEXT
    assert of(tmp_path, "half.gz", GZIP[:100], GROWING) == PACKED
    assert of(tmp_path, "begun.gz", b"\x1f", GROWING) == PACKED
    assert of(tmp_path, "zeros.gz", GZIP + b"\0" * 512, GROWING) == PACKED
    assert of(tmp_path, "text.gz", LINES, GROWING).aside is Aside.NOT_UNPACKED
    assert of(tmp_path, "a.log", b"\0" * 100 + LINES.decode().encode("utf-16-le"), GROWING).aside is Aside.NO_TEXT
    assert "what is: .gz, .bz2" in of(tmp_path, "a.lz4", LZ4, GROWING).why


@pytest.mark.parametrize("reader", [COMPLETE, GROWING], ids=["complete", "growing"])
@pytest.mark.parametrize("nuls", [4, 50, 8_192, 16_385, 300_000, 3_000_000])
@pytest.mark.parametrize(
    "before",
    [b"", b"\xef\xbb\xbf", b"a line\n", b"a line\n" + b"\0" * 20_000 + b"a second line\n"],
    ids=["nothing", "mark", "line", "hole"],
)
def test_the_line_behind_nuls_decides_however_many_there_are(
    tmp_path: Path, before: bytes, nuls: int, reader: Reader
) -> None:
    held = before + b"\0" * nuls
    assert of(tmp_path, "a.log", held + b"a line\n", reader) == TEXT
    assert of(tmp_path, "a.gz", gzip.compress(held + b"a line\n"), reader) == PACKED
    assert of(tmp_path, "a.bz2", bz2.compress(held) + bz2.compress(b"a line\n"), reader) == PACKED
    assert of(tmp_path, "b.log", held + LINES.decode().encode("utf-16-le"), reader).aside is Aside.NO_TEXT
    alone = of(tmp_path, "alone.log", b"\0" * nuls, reader)
    assert alone.aside is (None if reader.grows else Aside.NO_TEXT)
    assert reader.grows or f"{min(nuls, 8_192):,} of its first {min(nuls, 8_192):,} bytes are NULs" in alone.why


def test_a_file_is_looked_at_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(GZIP[:-1])
    assert content_of(str(path)) != PACKED
    path.write_bytes(GZIP)
    assert content_of(str(path)) == PACKED


def test_zstd_is_read_where_hadoop_has_its_native_library(tmp_path: Path) -> None:
    assert of(tmp_path, "a.zst", in_frames("zstd"), COMPLETE_AND_ZSTD) == PACKED
    assert of(tmp_path, "text.zst", LINES, COMPLETE_AND_ZSTD).aside is Aside.NOT_UNPACKED


def test_nothing_is_said_of_what_cannot_be_looked_at(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("gone.log", "pipe", "."):
        assert content_of(str(tmp_path / name)) is None


def test_a_name_alone_says_what_is_not_unpacked() -> None:
    assert named("s3a://logs/a.log") == TEXT
    assert named("s3a://logs/a.GZ") == PACKED
    assert named("s3a://logs/a.xz").aside is Aside.NOT_UNPACKED
    assert [ending_of(each) for each in ("a.log", "a.ZIP", "a.gz/b", ".gz")] == ["", ".zip", "", ""]
