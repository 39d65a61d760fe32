"""Records of several lines: put together as their definition says, whatever the splits; and taken apart again."""

import gzip
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import Records, bounded_reader
from oncelake.bronze.stand_in import as_lines
from oncelake.bronze.transform import LINES

pytestmark = pytest.mark.spark

STARTS = r"^\d{4}-"
BOM = b"\xef\xbb\xbf"
PIECES = (b"2017-x a", b"\tat f(F.java:1)", b"", b"\r", b"2018-x\r", b"\xff\xfe 2017-", b"more 2017-", b"z" * 90)


@dataclass
class Piece:
    """Lines of a record, and the byte at which they start."""

    start: int
    lines: list[bytes]

    @property
    def text(self) -> bytes:
        return b"\n".join(self.lines)


def records(content: bytes, declared: Records) -> list[tuple[bytes, int]]:
    """Return the records of a file by their definition, each with the byte at which it starts."""
    found: list[Piece] = []
    at = len(BOM) if content.startswith(BOM) else 0
    for line in content[at:].removesuffix(b"\n").split(b"\n") if content[at:] else []:
        last = found[-1] if found else None
        is_full = last and (len(last.lines) > declared.max_lines or len(last.text) > declared.max_bytes)
        if last is None or is_full or re.search(declared.starts or "", line.decode("utf-8", "replace")):
            found.append(Piece(at if found else 0, [line]))
        else:
            last.lines.append(line)
        at += len(line) + 1
    return [(each.text, each.start) for each in found]


def read(spark: SparkSession, path: Path, declared: Records) -> list[tuple[bytes, int]]:
    """Read a file as Spark does, in a batch instead of a stream."""
    rows = bounded_reader(spark.read, declared).options(**LINES).load(str(path)).orderBy("start").collect()
    return [(bytes(row["value"]), row["start"]) for row in rows]


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


@pytest.mark.parametrize(
    ("split", "bounds"),
    [("7b", {"max_bytes": 20}), ("40b", {"max_lines": 2}), ("40b", {}), ("128m", {"max_bytes": 20})],
    indirect=["split"],
    ids=str,
)
def test_records_are_those_of_their_definition_in_any_split(
    spark: SparkSession, tmp_path: Path, split: str, bounds: dict[str, int]
) -> None:
    chance, declared = random.Random(f"{split} {bounds}"), Records(starts=STARTS, **bounds)
    for number in range(4):
        path = tmp_path / f"{number}.log"
        content = b"\n".join(chance.choices(PIECES, k=chance.randrange(1, 30)))
        path.write_bytes(BOM * chance.randrange(2) + content + b"\n" * chance.randrange(2))
        assert read(spark, path, declared) == records(path.read_bytes(), declared), path.read_bytes()


def test_a_compressed_file_has_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    content = b"2017-a\n b\n\n2018-c\n d"
    path.write_bytes(gzip.compress(content))
    assert read(spark, path, Records(starts=STARTS)) == [(b"2017-a\n b\n", 0), (b"2018-c\n d", 11)]
    path.write_bytes(gzip.compress(content + b"\n" + b"2019-e\n f\n" * 1_000))  # its text is longer than the file
    assert len(read(spark, path, Records(starts=STARTS))) == 1_002


def test_a_row_that_is_too_long_or_has_no_start_is_told_from_its_text_alone(spark: SparkSession) -> None:
    declared = Records(starts=STARTS, max_lines=2, max_bytes=20)
    texts = ["2017-a", "2017-a\nb", "2017-a\nb\nc", "2017-" + "é" * 8, "b\n2017-a", "\r\n2017-a", "2017-a\r\nb"]
    frame = spark.createDataFrame([(text,) for text in texts], "line string")
    line = F.col("line")
    found = frame.select("line", declared.is_too_long(line).alias("long"), declared.is_started(line).alias("started"))
    told = {row["line"]: (row["long"], row["started"]) for row in found.collect()}
    assert [told[text] for text in texts] == [
        (False, True),
        (False, True),
        (True, True),
        (True, True),
        (False, False),
        (False, False),
        (False, True),
    ]


def test_a_start_is_searched_in_the_same_part_of_a_line_by_reader_and_rule(spark: SparkSession, tmp_path: Path) -> None:
    declared = Records(starts="start$")
    near, far = "é" * 1_019 + "start", "é" * 1_020 + "start"
    path = tmp_path / "a.log"
    path.write_text("\n".join([near, "x", far, near]))
    assert [len(value) for value, _ in read(spark, path, declared)] == [
        len(f"{near}\nx\n{far}".encode()),
        len(near.encode()),
    ]
    frame = spark.createDataFrame([(near,), (far,)], "line string")
    assert [row[0] for row in frame.select(declared.is_started(F.col("line"))).collect()] == [True, False]


def test_records_give_their_lines_again_with_every_byte(spark: SparkSession) -> None:
    every = bytes(each for each in range(1, 256) if each != 10)
    rows = [("a", b"one\n\n" + every + b"\n", 0), ("a", every, None), ("b", b"x\ny", None), (None, None, None)]
    frame = spark.createDataFrame(rows, "file string, value binary, file_offset bigint")
    found = [(row["file"], row["value"] and bytes(row["value"])) for row in as_lines(frame).collect()]
    assert found == [("a", b"one"), ("a", b""), ("a", every), ("a", b""), ("a", every), ("b", b"x\ny"), (None, None)]
