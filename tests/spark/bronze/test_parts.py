"""Lines that a container runtime has cut into parts are one record, with their own bytes, and parse as one line."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import Records, bounded_reader
from oncelake.bronze.transform import LINES, from_files, line_reader
from oncelake.common.spark.jvm import jvm
from oncelake.silver.parsing.parser import Parser, load_parser
from oncelake.silver.transform import TimeLimits, accepted, parse, quarantined
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

T = "2017-07-30T14:09:08.5Z"
LONG = "x" * 16_384


def shipped(name: str) -> Parser:
    return load_parser(name, [FORMATS])


def parts_of(name: str) -> Records:
    record = shipped(name).record
    assert record is not None
    return record


def read(spark: SparkSession, path: Path, declared: Records) -> list[tuple[bytes, int]]:
    """Read a file as Spark does, in a batch instead of a stream."""
    rows = bounded_reader(spark.read, declared).options(**LINES).load(str(path)).orderBy("start").collect()
    return [(bytes(row["value"]), row["start"]) for row in rows]


def silver_of(spark: SparkSession, path: Path, name: str) -> list[tuple[str, str]]:
    """Return the level and message of each row, in the order of the file."""
    parser = shipped(name)
    lines = from_files(line_reader(spark, spark.read, parser.record).load(str(path)), parser.record)
    parsed = parse(lines, parser, TimeLimits())
    assert quarantined(parsed).count() == 0
    rows = accepted(parsed.orderBy("file_offset")).select("level", "message").collect()
    return [(row["level"], row["message"]) for row in rows]


def cri(stream: str, tag: str, text: str) -> str:
    return f"{T} {stream} {tag} {text}"


def test_parts_of_a_line_are_one_record_unless_the_other_stream_is_between(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    lines = [
        cri("stdout", "F", "whole"),
        cri("stderr", "P", "first "),
        cri("stderr", "P", LONG),
        cri("stderr", "F", " last"),
        cri("stdout", "P", "cut by the other stream"),
        cri("stderr", "F", "between"),
        cri("stdout", "F", "its rest"),
        "no line of CRI",
        cri("stdout", "P:x", "with a further tag, "),
        cri("stdout", "F", ""),
        cri("stdout", "P", "without an end"),
    ]
    path.write_text("\n".join(lines))
    found = read(spark, path, parts_of("kubernetes"))
    ends = [(0, 1), (1, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 10), (10, 11)]
    assert [value.decode() for value, _ in found] == ["\n".join(lines[first:end]) for first, end in ends]
    starts = [len("\n".join(lines[:first]).encode()) + (first > 0) for first, _ in ends]
    assert [start for _, start in found] == starts
    path.write_text("\r\n".join(line for line in lines if line.startswith("2")))
    assert silver_of(spark, path, "kubernetes") == [
        ("INFO", "whole"),
        ("ERROR", f"first {LONG} last"),
        ("INFO", "cut by the other stream"),
        ("ERROR", "between"),
        ("INFO", "its rest"),
        ("INFO", "with a further tag, "),
        ("INFO", "without an end"),
    ]


def test_a_line_that_docker_has_cut_is_one_record(spark: SparkSession, tmp_path: Path) -> None:
    def line(log: str, stream: str = "stdout", more: str = "") -> str:
        return f'{{"log":"{log}","stream":"{stream}",{more}"time":"{T}"}}'

    path, attrs = tmp_path / "0.log", '"attrs":{"tag":"a"},'
    texts = [
        line("whole\\n"),
        line(f"{LONG}\\\\n"),
        line("é\\n"),
        line("a", "stderr", attrs),
        line("b\\n", "stderr", attrs),
    ]
    path.write_text("\n".join([*texts, line("open"), line("other\\n", "stderr"), line("rest\\r\\n")]) + "\n")
    assert silver_of(spark, path, "docker") == [
        ("INFO", "whole\n"),
        ("INFO", f"{LONG}\\né\n"),
        ("ERROR", "ab\n"),
        ("INFO", "open"),
        ("ERROR", "other\n"),
        ("INFO", "rest\r\n"),
    ]


def test_records_of_parts_are_bounded_and_lose_no_byte(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "0.log"
    pieces = [cri(stream, tag, text) for stream in ("stdout", "stderr") for tag in "PF" for text in ("", "a b", "é")]
    text = "\n".join(chance.choices([*pieces, "", "no"], k=300)) + "\n"
    path.write_text(text)
    bounds = {"max_lines": 2, "max_bytes": 100}
    found = read(spark, path, parts_of("kubernetes").model_copy(update=bounds))
    assert b"".join(value + b"\n" for value, _ in found) == text.encode()
    assert max(value.count(b"\n") for value, _ in found) == 2
    whole = read(spark, path, parts_of("kubernetes"))
    assert max(value.count(b"\n") for value, _ in whole) > 2
    declared = parts_of("kubernetes").model_copy(update=bounds)
    frame = spark.createDataFrame([("a\nb",), ("a\nb\nc",)], "line string")
    assert [row[0] for row in frame.select(declared.is_too_long(F.col("line"))).collect()] == [False, True]


def test_the_end_of_the_last_whole_record_is_found(spark: SparkSession) -> None:
    find, part = jvm(spark).oncelake.Records.lastWhole, parts_of("kubernetes").part
    whole, open_, other = (
        cri(*each) + "\n" for each in (("stdout", "F", "é"), ("stdout", "P", "b"), ("stderr", "F", ""))
    )

    def end(text: str) -> int:
        return int(find(text.encode(), part))

    assert end(whole) == len(whole.encode())
    assert end(whole + open_ + open_) == len(whole.encode())
    assert end(whole + open_ + other) == len((whole + open_ + other).encode())
    assert end(open_ + open_) == -1
    assert end(open_ + cri("stderr", "P", "") + "\n") == len(open_.encode()), "another stream begins another record"
