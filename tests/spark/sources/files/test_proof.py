"""A proof finds each file that was not read once and completely, or that changed after it was read."""

import gzip
import os
import shutil
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.schema import BRONZE as SCHEMA
from oncelake.bronze.transform import from_files
from oncelake.common.lake import BRONZE
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.sources.directory.bronze_files import bronze_files
from oncelake.sources.files.proof import file_rows
from tests.support.made_table import MadeTable, taken

pytestmark = pytest.mark.spark

FILES = {
    "a.log": b"one\ntwo\n\nfour\r\n",
    "no newline.log": b"one\ntwo",
    "bom.log": b"\xef\xbb\xbfone\n",
    "one newline.log": b"\n",
    "per%20cent#[a-z]*?.log": b"\xff\xfe broken\n",
    "date=2017/e.log": b"deep down\n",
    "z.log.gz": gzip.compress(b"packed\n" * 50),
}


class Source:
    """A directory of files, and the bronze table that Spark made of them."""

    with_spark = False

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.logs = spark, root / "logs"
        self.bronze = MadeTable(spark, root, BRONZE, SCHEMA)
        for name, content in FILES.items():
            self.write(name, content)
        self.read(0, "")
        self.write("later.log", b"later\n")
        self.read(1, "later.log")

    def write(self, name: str, content: bytes) -> None:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_400_000_000, 1_400_000_000))

    def read(self, batch: int, name: str) -> None:
        reader = self.spark.read.format("text").option("lineSep", "\n").option("recursiveFileLookup", "true")
        lines = from_files(reader.load(str(self.logs / name)))
        at = F.timestamp_millis(F.lit(taken(batch)))
        before = f'{{"logOffset":{batch - 1}}}' if batch else None
        self.bronze.batch(batch, lines.withColumn("ingested_at", at), before, f'{{"logOffset":{batch}}}')

    def proven(self, *, after: int | None = None, deep: bool = False) -> Link:
        span = self.bronze.span(after)
        held = bronze_files(span, self.rows(), MaskVersions(lambda: self.spark, lambda _: None))
        there = frozenset(file.place for file in held.files if Path(file.place).exists())
        return file_rows(span, str(self.logs), held, there if deep else None)

    def rows(self) -> TableRows:
        return TableRows(lambda: self.spark, self.with_spark)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Source:
    made = Source(spark, tmp_path_factory.mktemp("lake"))
    shutil.copytree(made.logs, made.logs.with_name("as-read"))
    return made


@pytest.fixture(params=[False, True], ids=["plain", "spark"])
def source(made: Source, tmp_path: Path, request: pytest.FixtureRequest) -> Source:
    """Restore the files as they were read, in their original directory, and a copy of bronze; one for each reader."""
    shutil.rmtree(made.logs)
    shutil.copytree(made.logs.with_name("as-read"), made.logs)
    source = copy(made)
    source.bronze, source.with_spark = made.bronze.copied(tmp_path), request.param
    return source


@pytest.mark.usefixtures("compiled_expressions")
def test_files_read_once_and_completely_hold(source: Source) -> None:
    link = source.proven()
    assert (link.said, link.holds, link.notes) == ("61 rows of 8 files, each read once and whole", True, ())
    assert source.proven(after=0).said == "1 row of 1 file, each read once and whole"
    deep = source.proven(deep=True)
    assert (deep.said, deep.holds, deep.notes) == ("61 rows of 8 files, 8 read again and equal line by line", True, ())


def test_a_file_read_twice_is_named(source: Source) -> None:
    source.read(2, "a.log")
    said = "a.log is in bronze more than once: ingested at 2017-07-14 02:40:00.000 and at 2017-07-14 02:40:02.000"
    for after in (None, 1):
        link = source.proven(after=after)
        assert (link.holds, link.said) == (False, said)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            "DELETE FROM {} WHERE value = cast('two' AS binary) AND file LIKE '%/a.log'",
            "a.log had 15 bytes when it was read, its 3 lines in bronze have 11",
        ),
        (
            "UPDATE {} SET value = cast('twooo' AS binary) WHERE value = cast('two' AS binary) AND file LIKE '%/a.log'",
            "a.log had 15 bytes when it was read, its 4 lines in bronze have 17",
        ),
        (
            "UPDATE {} SET value = cast('o' AS binary) WHERE file LIKE '%/later.log'",
            "later.log had 6 bytes when it was read, its 1 line in bronze has 2",
        ),
        (
            "UPDATE {} SET file_size = 16 WHERE value = cast('two' AS binary) AND file LIKE '%/a.log'",
            "a.log has rows of different sizes or modification times",
        ),
        ("UPDATE {} SET file = NULL WHERE file LIKE '%/later.log'", "1 row belongs to no file"),
    ],
)
def test_rows_that_differ_from_the_file_are_named(source: Source, edit: str, said: str) -> None:
    source.bronze.edit(edit)
    link = source.proven()
    assert not link.holds
    assert said in link.said


def test_rows_deleted_after_their_commit_are_named_by_batch(source: Source) -> None:
    source.bronze.edit("DELETE FROM {} WHERE file LIKE '%/later.log'")
    said = "batch 1, ingested at 2017-07-14 02:40:01.000, wrote 1 row, 0 are in the table"
    assert source.proven().said == said
    assert source.proven(after=0).said == said


def test_rows_of_no_batch_are_named(source: Source) -> None:
    source.bronze.edit("UPDATE {} SET ingested_at = timestamp'2020-01-01' WHERE file LIKE '%/later.log'")
    link = source.proven()
    assert not link.holds
    assert "1 row ingested at 2020-01-01 00:00:00.000 belongs to no batch" in link.said


@pytest.mark.usefixtures("compiled_expressions")
def test_a_deep_proof_finds_edited_bytes(source: Source) -> None:
    source.write("a.log", FILES["a.log"].replace(b"two", b"TWO"))
    assert source.proven().holds
    link = source.proven(deep=True)
    assert (
        link.said == "a.log was changed after it was read: bronze has 4 lines of it, it now has 4, with other content"
    )
    assert not link.holds


def test_a_deep_proof_counts_the_lines_of_files_that_are_gone(source: Source) -> None:
    (source.logs / "a.log").unlink()
    assert source.proven().uncompared == ()
    link = source.proven(deep=True)
    assert link.holds, link.said
    assert link.uncompared == Uncompared.of_lines(4, "of files that were not read again")


def test_files_whose_commits_are_gone_are_compared_by_their_size(source: Source) -> None:
    cut = source.bronze.span(0)
    assert cut.start
    before = sum(commit.rows_added for commit in source.bronze.commits[:1])
    span = replace(cut, start=replace(cut.start, rows=before), includes_earlier=True)
    versions = MaskVersions(lambda: source.spark, lambda _: None)

    def link() -> Link:
        now = replace(span, version=source.bronze.version)
        return file_rows(now, str(source.logs), bronze_files(now, source.rows(), versions), None)

    assert (link().holds, link().said) == (True, "61 rows of 8 files, each read once and whole")
    source.bronze.edit("DELETE FROM {} WHERE file LIKE '%/a.log' AND value = CAST('two' AS BINARY)")
    assert "a.log had" in link().said


def test_the_same_content_under_two_names_is_noted(source: Source) -> None:
    source.write("copy.log", b"later\n")
    source.read(2, "copy.log")
    link = source.proven(deep=True)
    assert link.holds, link.said
    assert link.notes == ("same content under several names, each counted by design: copy.log and later.log",)
