"""Bronze is not emptied if one of its lines cannot be read again from the file that it came from."""

import bz2
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import bounded_reader
from oncelake.bronze.transform import from_files
from oncelake.common.lake import place_of
from oncelake.sources.directory.comparison import files_lost, load

pytestmark = pytest.mark.spark

NAME = "a [x] %20é.log"
LINES = b"one\ntwo\ntwo\nthree\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / NAME).write_bytes(LINES)
    (logs / "b.log.gz").write_bytes(gzip.compress(LINES))
    (logs / "c.log").write_bytes(b"\xef\xbb\xbfwith a mark\r\n\nlast without newline")
    for path in logs.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return logs


@pytest.fixture
def bronze(spark: SparkSession, logs: Path) -> DataFrame:
    """Return bronze as Spark reads it from the current files."""
    lines = spark.read.format("text").option("lineSep", "\n").option("recursiveFileLookup", "true").load(str(logs))
    kept = from_files(lines).localCheckpoint()
    assert kept.count() == 11
    return kept


def rewritten(name: str, content: bytes) -> Callable[[Path], None]:
    def write(logs: Path) -> None:
        (logs / name).write_bytes(content)

    return write


def unseen(name: str, content: bytes) -> Callable[[Path], None]:
    def write(logs: Path) -> None:
        times = (logs / name).stat()
        (logs / name).write_bytes(content)
        os.utime(logs / name, ns=(times.st_atime_ns, times.st_mtime_ns))

    return write


def moved(name: str, to: str) -> Callable[[Path], None]:
    def move(logs: Path) -> None:
        (logs / to).parent.mkdir(exist_ok=True)
        (logs / name).rename(logs / to)

    return move


def renamed_and_touched(logs: Path) -> None:
    (logs / "c.log").rename(logs / "d.log")
    os.utime(logs / "d.log", (1, 1))


def repacked(name: str, to: str, content: bytes) -> Callable[[Path], None]:
    def pack(logs: Path) -> None:
        times = (logs / name).stat()
        (logs / name).unlink()
        (logs / to).write_bytes(content)
        os.utime(logs / to, ns=(times.st_atime_ns, times.st_mtime_ns))

    return pack


KEPT: dict[str, Callable[[Path], None]] = {
    "untouched": lambda _: None,
    "touched": lambda logs: os.utime(logs / NAME),
    "grew": rewritten(NAME, LINES + b"four\n"),
    "grew, compressed": rewritten("b.log.gz", gzip.compress(LINES + b"four\n")),
    "compressed in another way": rewritten("b.log.gz", gzip.compress(LINES, compresslevel=1)),
    "in another order": rewritten(NAME, b"two\nthree\ntwo\none\n"),
    "under another name": moved("c.log", "d.log"),
    "compressed": repacked(NAME, f"{NAME}.gz", gzip.compress(LINES)),
    "unpacked": repacked("b.log.gz", "b.log", LINES),
    "compressed in another format": repacked("b.log.gz", "b.log.bz2", bz2.compress(LINES)),
    "compressed, with more lines": repacked(NAME, f"{NAME}.gz", gzip.compress(LINES + b"four\n")),
}
LOST: dict[str, tuple[Callable[[Path], None], str]] = {
    "rotated and grown past its size": (rewritten(NAME, b"new\n" * 50), "it lacks 4 of the 4 lines"),
    "same size, other lines": (rewritten(NAME, LINES.upper()), "it lacks 4 of the 4 lines"),
    "same size and time, other lines": (unseen(NAME, LINES.upper()), "it lacks 4 of the 4 lines"),
    "one of two equal lines is gone": (rewritten(NAME, b"one\ntwo\nthree\nfour\nfive\n"), "it lacks 1 of the 4 lines"),
    "shorter": (rewritten(NAME, LINES[:-6]), "it lacks 1 of the 4 lines"),
    "its last line went on": (rewritten("c.log", b"with a mark\r\n\nlast without newline, and more\n"), "1 of the 3"),
    "rotated, compressed": (rewritten("b.log.gz", gzip.compress(b"new\n" * 9_999)), "it lacks 4 of the 4 lines"),
    "empty": (rewritten(NAME, b""), "is now empty"),
    "a broken archive": (rewritten("b.log.gz", gzip.compress(LINES)[:-9]), "cannot be read again"),
    "hidden by its name": (moved("c.log", "_c.log"), "no longer exists"),
    "in a hidden directory": (moved("c.log", ".old/c.log"), "no longer exists"),
    "under another name and later": (renamed_and_touched, "no longer exists"),
    "compressed, without a line": (repacked(NAME, f"{NAME}.gz", gzip.compress(LINES[:-6])), "no longer exists"),
    "compressed, and not whole": (repacked(NAME, f"{NAME}.gz", gzip.compress(LINES)[:-9]), "no longer exists"),
    "all gone": (shutil.rmtree, "no longer exists"),
}


def lost_of(spark: SparkSession, bronze: DataFrame, path: str) -> list[str]:
    return files_lost(bronze, path, MaskVersions(lambda: spark, lambda _: None))


@pytest.mark.parametrize("case", KEPT)
def test_a_file_that_still_has_every_line_passes(spark: SparkSession, logs: Path, bronze: DataFrame, case: str) -> None:
    KEPT[case](logs)
    assert lost_of(spark, bronze, str(logs)) == []


def test_a_renamed_file_that_changed_since_stands_for_the_one_that_is_gone(
    spark: SparkSession, logs: Path, bronze: DataFrame
) -> None:
    at = (logs / "c.log").stat()
    state = (at.st_size, at.st_mtime_ns // 1_000_000)
    renamed_and_touched(logs)
    (logs / "d.log").write_bytes((logs / "d.log").read_bytes() + b"\nmore\n")
    versions = MaskVersions(lambda: spark, lambda _: None)
    assert files_lost(bronze, str(logs), versions, {str(logs / "d.log"): {state}}) == []
    (logs / "d.log").write_bytes(b"more\n")
    (lost,) = files_lost(bronze, str(logs), versions, {str(logs / "d.log"): {state}})
    assert "c.log no longer exists" in lost


@pytest.mark.parametrize("case", LOST)
def test_a_file_with_a_missing_line_is_named(spark: SparkSession, logs: Path, bronze: DataFrame, case: str) -> None:
    change, expected = LOST[case]
    change(logs)
    lost = lost_of(spark, bronze, str(logs))
    assert len(lost) == (3 if case == "all gone" else 1)
    assert expected in lost[0]


def test_files_outside_the_source_path_count_as_lost(
    spark: SparkSession, logs: Path, bronze: DataFrame, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy2(logs / "c.log", other)
    for path in (str(other), str(tmp_path / "none"), f"{tmp_path}/no*"):
        lost = lost_of(spark, bronze, path)
        assert len(lost) == 3
        assert all(f"outside source.path {path}" in each for each in lost)


def test_an_unreadable_file_counts_as_lost(
    spark: SparkSession, logs: Path, bronze: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: not path.endswith("c.log"))
    assert [each.partition("c.log ")[2] for each in lost_of(spark, bronze, str(logs))] == [
        "is not readable by this process"
    ]


@pytest.mark.parametrize("form", ["text", "binaryFile", "oncelake.RecordFormat"])
def test_each_file_is_loaded_once_whatever_its_name_is(spark: SparkSession, tmp_path: Path, form: str) -> None:
    names = (
        *(
            "plain.log",
            "[a]{b,c}*.log",
            "a[bc].log",
            "abc.log",
            "q?.log",
            "\\.log",
            "a\\*b.log",
            "{x,y}.log",
            "x.log",
            "{x.log",
        ),
        *("]x.log", "a[b.log", "[^a].log", "[a-b].log", "d[1]/e{2}.log", "end\\", "n\nl[.log", " #?é%20[.log", "*"),
    )
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"one\n")
    paths = [str(tmp_path / name) for name in names]
    reader = bounded_reader(spark.read) if "." in form else spark.read.format(form)
    rows = load(reader, paths).select("_metadata.file_path").collect()
    assert sorted(place_of(row[0]) for row in rows) == sorted(paths)


def test_lines_of_kafka_cannot_be_read_from_files(spark: SparkSession, logs: Path, bronze: DataFrame) -> None:
    records = bronze.limit(1).selectExpr("* EXCEPT (file)", "CAST(NULL AS STRING) AS file")
    assert lost_of(spark, records, str(logs)) == ["bronze holds lines of Kafka, but the source is a directory"]
