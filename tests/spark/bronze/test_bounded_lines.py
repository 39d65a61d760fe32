"""Our reader of lines: every byte is in one row; long lines and NUL bytes are stand-ins, whatever the splits."""

import bz2
import gzip
import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.mask import raw_length
from oncelake.bronze.records import Records, bounded_reader
from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.stand_in import HEAD, as_lines
from oncelake.common.lake import Lake
from oncelake.sources.tail import plan as tail_files
from oncelake.sources.tail.kind import TailKind

pytestmark = pytest.mark.spark

BOM = b"\xef\xbb\xbf"
STARTS = r"^\d{4}-"


class Line(NamedTuple):
    """What one row of bronze must be.

    Attributes:
        value: its value.
        start: the byte at which it starts.
        stands_for: the bytes that a stand-in stands for; None for another row.
        digest: the SHA-256 of a stand-in's line; None for NUL bytes and for another row.
    """

    value: bytes
    start: int
    stands_for: int | None = None
    digest: str | None = None


def lines_of(content: bytes, bound: int) -> Iterator[Line]:
    """Yield the lines and stand-ins of a file by their definition."""
    at = len(BOM) if content.startswith(BOM) else 0
    for text in content[at:].removesuffix(b"\n").split(b"\n") if content[at:] else []:
        line = text.lstrip(b"\0")
        nuls = len(text) - len(line)
        if nuls:
            count = nuls if line else nuls + 1
            yield Line(b"\0" * min(nuls, HEAD), at, count)
            at += count
        if len(line) > bound:
            yield Line(line[: min(HEAD, bound)], at, len(line) + 1, hashlib.sha256(line).hexdigest())
        elif line or not nuls:
            yield Line(line, at)
        at += len(line) + 1 if line or not nuls else 0


def records_of(content: bytes, bound: int, declared: Records | None) -> list[Line]:
    """Return the rows of a file by their definition."""
    found: list[Line] = []
    for line in lines_of(content, bound):
        last = found[-1] if found else None
        if (
            last is None
            or declared is None
            or last.stands_for is not None
            or line.stands_for is not None
            or len(last.value) > declared.max_bytes
            or re.search(declared.starts or "", line.value.decode("utf-8", "replace"))
        ):
            found.append(line)
        else:
            found[-1] = Line(last.value + b"\n" + line.value, last.start)
    return found


def rows_of(frame: DataFrame, start: str) -> list[Line]:
    """Return the rows of a frame, in the order of the file."""
    found = []
    for row in frame.orderBy(start).collect():
        entries = {each["key"]: bytes(each["value"]).decode() for each in row["headers"] or ()}
        count = entries.pop("oncelake.bytes", None)
        found.append(
            Line(bytes(row["value"]), row[start], int(count) if count else None, entries.pop("oncelake.sha256", None))
        )
        assert not entries
    return found


# What a growing file begins with: one whose first 8 KiB hold many NUL bytes is set aside.
TEXT = b"2017-%s\n" % (b"x" * 90) * 90


def content_of(chance: random.Random, bound: int) -> bytes:
    """Return random lines, many of which are near the bound, or have NUL bytes somewhere."""
    sizes = (0, 1, 9, bound - 1, bound, bound + 1, 3 * bound)
    starts = (b"", b"2017-", b"\xff\xfe", b"\r")
    lines = []
    for _ in range(chance.randrange(1, 25)):
        nuls = b"\0" * chance.choice((0, 0, 0, 1, 2, 2 * bound))
        text = (chance.choice(starts) + b"x" * chance.choice(sizes))[: 3 * bound]
        lines.append(nuls + text + b"\0" * chance.choice((0, 0, 0, 1)) + b"\r" * chance.choice((0, 0, 1)))
    return BOM * chance.randrange(2) + b"\n".join(lines) + b"\n" * chance.randrange(2)


@pytest.fixture
def split(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Let Spark split files after this number of bytes."""
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = {name: spark.conf.get(name) for name in names}
    for name, value in zip(names, (request.param, "1b"), strict=True):
        spark.conf.set(name, value)
    yield request.param
    for name, value in before.items():
        spark.conf.set(name, value or "")


@pytest.mark.parametrize("declared", [None, Records(starts=STARTS, max_bytes=40)], ids=["lines", "records"])
@pytest.mark.parametrize(("split", "bound"), [("7b", 8), ("40b", 20), ("128m", 20)], indirect=["split"], ids=str)
def test_every_byte_of_a_complete_file_is_in_one_row_in_any_split(
    spark: SparkSession, tmp_path: Path, split: str, bound: int, declared: Records | None
) -> None:
    chance = random.Random(f"{split} {bound}")
    for number in range(5):
        path, content = tmp_path / f"{number}.log", content_of(chance, bound)
        path.write_bytes(content)
        read = bounded_reader(spark.read, declared, bound).load(str(path))
        rows = rows_of(read, "start")
        expected = records_of(content, bound, declared)
        if expected and content.startswith(BOM):  # here the first row starts at the mark
            expected[0] = Line(expected[0].value, 0, *expected[0][2:])
        assert rows == expected, content


@pytest.mark.parametrize("packed", [gzip, bz2], ids=["gz", "bz2"])
def test_a_compressed_file_has_the_same_rows(spark: SparkSession, tmp_path: Path, packed: object) -> None:
    content = content_of(random.Random("packed"), 5_000) + b"\nlast"
    path = tmp_path / f"a.log.{'gz' if packed is gzip else 'bz2'}"
    path.write_bytes((gzip if packed is gzip else bz2).compress(content))
    rows = rows_of(bounded_reader(spark.read, None, 5_000).load(str(path)), "start")
    assert [row[0:1] + row[2:] for row in rows] == [row[0:1] + row[2:] for row in records_of(content, 5_000, None)]


@pytest.mark.parametrize("count", [1, 7, 512, 200_000])
@pytest.mark.parametrize("content", [b"", b"a\n", b"one\ntwo\nlast", TEXT * 40], ids=["empty", "short", "open", "long"])
def test_zeros_behind_the_end_of_gzip_are_ignored(
    spark: SparkSession, tmp_path: Path, content: bytes, count: int
) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(content) + gzip.compress(content) + b"\0" * count)
    read = bounded_reader(spark.read, None, 5_000).load(str(path))
    assert [row.value for row in rows_of(read, "start")] == [row.value for row in records_of(content * 2, 5_000, None)]


@pytest.mark.parametrize(
    "behind",
    [b"\0" * 512 + b"x", b"x", b"\0" * 9 + gzip.compress(b"more\n"), b"\x1f\x8b\0\0"],
    ids=["zeros and a letter", "a letter", "zeros and a member", "half a member"],
)
def test_other_bytes_behind_the_end_of_gzip_stop_the_reader(spark: SparkSession, tmp_path: Path, behind: bytes) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(TEXT) + behind)
    with pytest.raises(Py4JJavaError):
        bounded_reader(spark.read, None, 5_000).load(str(path)).count()
    path.write_bytes(gzip.compress(TEXT)[:-8] + b"\0" * 512)  # padded, and not whole
    with pytest.raises(Py4JJavaError):
        bounded_reader(spark.read, None, 5_000).load(str(path)).count()


def test_a_line_of_many_buffers_is_kept_up_to_the_bound(spark: SparkSession, tmp_path: Path) -> None:
    path, bound = tmp_path / "a.log", 3 * 1024**2
    content = b"\n".join([b"a", b"b" * bound, b"c", b"d" * (bound + 1), b"\0" * bound + b"e" * bound, b"f"])
    path.write_bytes(content)
    assert rows_of(bounded_reader(spark.read, None, bound).load(str(path)), "start") == records_of(content, bound, None)


@pytest.mark.parametrize("declared", [None, Records(starts=STARTS, max_bytes=3_000)], ids=["lines", "records"])
@pytest.mark.parametrize("step", [500, 1_500, 4 * 1024**2])
def test_every_byte_of_a_growing_file_is_in_one_row_wherever_slices_are_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, declared: Records | None
) -> None:
    monkeypatch.setattr(tail_files, "TASK_BYTES", (step, step))
    chance, logs = random.Random(step), tmp_path / "logs"
    logs.mkdir()
    contents = {f"{number}.log": TEXT + content_of(chance, HEAD) + b"\n" for number in range(3)}
    for name, content in contents.items():
        (logs / name).write_bytes(content)
    (logs / "packed.log.gz").write_bytes(gzip.compress(contents["0.log"] + b"more\n"))
    contents["packed.log.gz"] = contents["0.log"] + b"more\n"
    contents.pop("0.log")  # the compressed file holds more than a copy of it
    (logs / "0.log").unlink()
    lake = Lake(str(tmp_path / "lake"), str(tmp_path / "checkpoints"))
    source = TailKind(SourceSettings(kind="tail", path=str(logs), max_line=HEAD), declared, lake=lake)
    name = f"rows_{step}_{declared is None}"
    stream = source.read(spark).writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    stream.awaitTermination()
    for file, content in contents.items():
        rows = rows_of(spark.table(name).where(f"file LIKE '%/{file}'"), "file_offset")
        assert rows == records_of(content, HEAD, declared), file


def test_a_kafka_header_of_that_name_is_no_stand_in(spark: SparkSession) -> None:
    header = [("oncelake.bytes", b"999"), ("oncelake.sha256", b"00")]
    frame = spark.createDataFrame(
        [(None, b"a line", header)], "file string, value binary, headers array<struct<key: string, value: binary>>"
    )
    assert frame.select(raw_length(frame)).first() == (6,)
    assert [bytes(row["value"]) for row in as_lines(frame).collect()] == [b"a line"]
