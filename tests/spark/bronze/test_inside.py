"""A stack trace inside the lines of a container runtime is one record, and one message."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import bounded_reader
from oncelake.bronze.transform import LINES, from_files, line_reader
from oncelake.common.spark.jvm import jvm
from oncelake.silver.parsing.parser import Parser, load_parser
from oncelake.silver.transform import TimeLimits, parse
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

T = "2026-11-25T10:00:03.5Z"
FIRST = "2017-07-30 10:00:01,500 ERROR [h] c.A - failed"
SECOND = "2017-07-30 10:00:02,500 INFO [h] c.A - went on"


def cri(text: str, stream: str = "stderr", tag: str = "F") -> str:
    return f"{T} {stream} {tag} {text}"


def docker(text: str, stream: str = "stderr") -> str:
    return f'{{"log":"{text}","stream":"{stream}","time":"{T}"}}'


def read(spark: SparkSession, path: Path, parser: Parser) -> list[str]:
    rows = bounded_reader(spark.read, parser.record).options(**LINES).load(str(path)).orderBy("start").collect()
    return [bytes(row["value"]).decode() for row in rows]


def silver(spark: SparkSession, path: Path, parser: Parser) -> list[tuple[str | None, str]]:
    """Return the level and message of each accepted row, and None and the rule of each other one."""
    lines = from_files(line_reader(spark, spark.read, parser.record).load(str(path)), parser.record)
    parsed = parse(lines, parser, TimeLimits()).orderBy("file_offset")
    rows = parsed.select("level", "message", F.get("reasons.rule", F.lit(0)).alias("rule")).collect()
    return [(row["level"], row["message"]) if row["rule"] is None else (None, row["rule"]) for row in rows]


def test_a_trace_in_kubernetes_is_one_record(spark: SparkSession, tmp_path: Path) -> None:
    path, parser = tmp_path / "0.log", load_parser("kubernetes", [FORMATS], "java")
    records = [
        [cri(FIRST), cri("java.io.IOException: gone"), cri("\tat c.A.b(", tag="P"), cri("A.java:10)"), cri("")],
        [cri(SECOND[:30], tag="P"), cri(SECOND[30:])],
        [cri(SECOND, "stdout")],
        [cri("\tat the.rest.of.another")],
        [cri(FIRST)],
    ]
    path.write_text("\n".join("\n".join(lines) for lines in records) + "\n")
    assert read(spark, path, parser) == ["\n".join(lines) for lines in records]
    trace = "failed\njava.io.IOException: gone\n\tat c.A.b(A.java:10)\n"
    wanted = [("ERROR", trace), ("INFO", "went on"), ("INFO", "went on"), (None, "pattern"), ("ERROR", "failed")]
    assert silver(spark, path, parser) == wanted
    path.write_text(path.read_text().replace("\n", "\r\n"))
    assert silver(spark, path, parser) == wanted


def test_a_trace_in_docker_is_one_record(spark: SparkSession, tmp_path: Path) -> None:
    path, parser = tmp_path / "0.log", load_parser("docker", [FORMATS], "java")
    records = [
        [docker(f"{FIRST}\\n"), docker("\\tat c.A.b("), docker("A.java:10)\\n"), docker('Caused by: \\"x\\"\\n')],
        [docker(f"{SECOND}\\n", "stdout")],
        [docker(f"{FIRST}\\n")],
    ]
    path.write_text("\n".join("\n".join(lines) for lines in records) + "\n")
    assert read(spark, path, parser) == ["\n".join(lines) for lines in records]
    trace = 'failed\n\tat c.A.b(A.java:10)\nCaused by: "x"'
    assert silver(spark, path, parser) == [("ERROR", trace), ("INFO", "went on"), ("ERROR", "failed")]


def test_another_programs_line_inside_does_not_become_part_of_a_record(spark: SparkSession, tmp_path: Path) -> None:
    path, parser = tmp_path / "0.log", load_parser("kubernetes", [FORMATS], "java")
    path.write_text("\n".join([cri(FIRST), cri("E1125 10:00:01.500000   42 a.go:1] one"), cri(SECOND)]) + "\n")
    assert silver(spark, path, parser) == [(None, "record_mixed"), ("INFO", "went on")]


def test_the_start_of_the_last_record_inside_is_that_of_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    parser = load_parser("kubernetes", [FORMATS], "java")
    record = parser.record
    assert record is not None
    chance, path = random.Random(3), tmp_path / "0.log"
    pieces = [
        cri(text, stream, tag)
        for stream in ("stdout", "stderr")
        for tag in "PF"
        for text in (FIRST, SECOND, "\tat x", "é", "")
    ] + ["no line of a runtime"]
    for _ in range(30):
        text = "\n".join(chance.choices(pieces, k=chance.randint(1, 12))) + "\n"
        path.write_text(text)
        starts = [row["start"] for row in bounded_reader(spark.read, record).options(**LINES).load(str(path)).collect()]
        last = int(jvm(spark).oncelake.Records.lastInside(text.encode(), record.part, record.content, record.inside))
        # whether the first line starts a record is not known: the one before it is not at hand
        assert last == max(starts) or (last == -1 and max(starts) == 0)
