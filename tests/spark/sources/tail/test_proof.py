"""A proof finds each byte of a growing file that was to be read and is in no row, or in two."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.bronze.stand_in import COLUMNS
from oncelake.bronze.transform import from_tail
from oncelake.common.lake import BRONZE
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.link import Uncompared
from oncelake.sources.tail.position import TailedFile, TailPosition
from oncelake.sources.tail.proof import tail_rows
from oncelake.sources.tail.source import TailSource
from tests.support.made_table import MadeTable, taken

pytestmark = pytest.mark.spark

LINES = {0: b"one\ntwo\n\nfour\nfive\n", 1: b"\xef\xbb\xbfuno\ndue\n"}


def rows(file_id: int, start: int = 0, stop: int = 10**6) -> list[Row]:
    """Return the rows of some bytes of a file."""
    found, at = [], 0
    for line in LINES[file_id].removesuffix(b"\n").split(b"\n"):
        marked = 3 if line.startswith(b"\xef\xbb\xbf") else 0
        if start <= at < stop:
            found.append(
                Row(
                    value=bytearray(line[marked:]),
                    start=at + marked,
                    file_id=file_id,
                    file="file:///app.log",
                    modified=0,
                    headers=None,
                )
            )
        at += len(line) + 1
    return found


def position(**offsets: int) -> str:
    files = {int(name[1:]): TailedFile(1, 2, offset, "app.log", digest="hash") for name, offset in offsets.items()}
    return TailPosition(sum(offsets.values()), len(files), files).to_json()


FIRST, SECOND = position(f0=9), position(f0=len(LINES[0]), f1=len(LINES[1]))


def said(spark: SparkSession, root: Path, first: list[Row], second: list[Row]) -> list[str]:
    """Prove a table of two batches, and return what does not hold."""
    span = table(spark, root, first, second).span()
    versions = MaskVersions(lambda: spark, lambda _: None)
    readers = (TableRows(lambda: pytest.fail("Spark is not needed")), TableRows(lambda: spark, with_spark=True))
    one, other = (tail_rows(span, TailSource("/logs"), rows, versions, deep=False) for rows in readers)
    assert one == other
    return [] if one.holds else one.said.split("; ")


def table(spark: SparkSession, root: Path, first: list[Row], second: list[Row]) -> MadeTable:
    """Make a table of two batches."""
    made = MadeTable(spark, root, BRONZE, SCHEMA)
    schema = f"value binary, start bigint, file_id bigint, file string, modified bigint, {COLUMNS}"
    for batch, (found, before, end) in enumerate([(first, None, FIRST), (second, FIRST, SECOND)]):
        frame = spark.createDataFrame(found, schema)
        at = F.timestamp_millis(F.lit(taken(batch)))
        made.batch(batch, from_tail(frame).withColumn("ingested_at", at), before, end)
    return made


def test_the_rows_of_every_planned_byte_hold(spark: SparkSession, tmp_path: Path) -> None:
    assert said(spark, tmp_path, rows(0, 0, 9), [*rows(0, 9), *rows(1)]) == []


def test_rows_whose_commits_are_gone_and_files_that_are_not_read_again_are_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    cut = table(spark, tmp_path, rows(0, 0, 9), [*rows(0, 9), *rows(1)]).span(after=0)
    assert cut.start
    span = replace(cut, start=replace(cut.start, rows=3), includes_earlier=True)
    (tmp_path / "logs").mkdir()
    source, versions = TailSource(str(tmp_path / "logs")), MaskVersions(lambda: spark, lambda _: None)
    gone = Uncompared.of_lines(3, "whose commits are gone", lasting=True)
    link = tail_rows(span, source, TableRows(lambda: spark), versions, deep=False)
    assert (link.holds, link.uncompared) == (True, gone), link.said
    deep = tail_rows(span, source, TableRows(lambda: spark), versions, deep=True)
    assert deep.uncompared == (*gone, *Uncompared.of_lines(7, "of files that were not read again"))


def test_bytes_that_are_in_no_row_are_named(spark: SparkSession, tmp_path: Path) -> None:
    assert said(spark, tmp_path, rows(0, 0, 9), rows(0, 9)) == ["batch 1: bytes 0 to 10 of file 1 are in no row"]


def test_a_row_that_is_missing_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for second in ([*rows(0, 14), *rows(1)], [*rows(0, 9, 14), *rows(1)]):
        (fault,) = said(spark, tmp_path / str(len(second[0].value)), rows(0, 0, 9), second)
        assert fault.startswith("batch 1: bytes 9 to 18 of file 0 were planned, its rows hold 5 bytes from ")


def test_a_row_in_the_place_of_another_one_of_the_same_length_is_named(spark: SparkSession, tmp_path: Path) -> None:
    one, two, empty = rows(0, 0, 9)
    del two
    assert said(spark, tmp_path, [one, one, empty], [*rows(0, 9), *rows(1)]) == [
        "batch 0: bytes 0 to 8 of file 0: a row is missing and another one is there twice"
    ]


def test_a_row_of_a_file_that_was_not_to_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    strange = Row(value=bytearray(b"x"), start=0, file_id=7, file="file:///app.log", modified=0, headers=None)
    found = said(spark, tmp_path, [*rows(0, 0, 9), strange], [*rows(0, 9), *rows(1)])
    assert found == ["batch 0 has rows of file 7, of which it was to read nothing"]
    nowhere = Row(value=bytearray(b"x"), start=None, file_id=None, file=None, modified=None, headers=None)
    assert "1 row belongs to no file" in said(spark, tmp_path / "b", [*rows(0, 0, 9), nowhere], [*rows(0, 9), *rows(1)])
