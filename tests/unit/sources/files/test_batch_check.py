"""A batch of files is read as planned, or it fails with the name of the file; without Spark."""

import os
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame

from oncelake.common.errors import ReceiptError, SourceError
from oncelake.sources.directory.content import content_of
from oncelake.sources.directory.listing import COMPRESSED, is_packed
from oncelake.sources.files.batch_check import Reading, check_plan, check_read

BOM = b"\xef\xbb\xbf"
# only files on another store are looked up through Spark
NO_SPARK = cast(DataFrame, None)


def write(path: Path, content: bytes = b"x\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def sizes(*paths: str) -> dict[str, int]:
    """Return the sizes that Spark would read of these files."""
    return {path: os.path.getsize(path) for path in paths}  # noqa: PTH202


def check(reading: Reading, *, counted: int, bytes_: int, rows: int | None) -> None:
    check_read(reading, {"rows": counted, "bytes": bytes_}, rows)


def test_files_read_as_planned_pass(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.log"), write(tmp_path / "b.log", b"one\ntwo\n")]
    reading = check_plan(NO_SPARK, paths, sizes(*paths))
    assert (reading.least, reading.most) == (10, 10)
    check(reading, counted=3, bytes_=10, rows=3)


def test_a_planned_file_that_spark_does_not_list_again_is_refused_by_name(tmp_path: Path) -> None:
    there, gone = write(tmp_path / "a.log"), str(tmp_path / "9.log")
    with pytest.raises(SourceError, match=f"^{gone}: planned for this batch, and missing .* nothing of the batch was"):
        check_plan(NO_SPARK, [there, gone], sizes(there))
    back = write(tmp_path / "9.log")
    with pytest.raises(SourceError, match=f"^{back}: planned"):  # it is back, but Spark has left it out
        check_plan(NO_SPARK, [there, back], sizes(there))
    many = [str(tmp_path / f"gone-{number}.log") for number in range(7)]
    with pytest.raises(SourceError, match=r"gone-4\.log and 2 more: planned"):
        check_plan(NO_SPARK, many, {})


def test_a_planned_file_that_holds_no_text_is_refused_by_name(tmp_path: Path) -> None:
    there = write(tmp_path / "a.log")
    check_plan(NO_SPARK, [there], sizes(there), content_of)
    (tmp_path / "a.log").write_bytes(b"PK\x03\x04")
    with pytest.raises(SourceError, match=r"a\.log: it holds zip, .*; planned for this batch, of which nothing was"):
        check_plan(NO_SPARK, [there], sizes(there), content_of)


@pytest.mark.parametrize("name", ["empty.log", "_metadata.log", ".a.log", "a.log._COPYING_", "_x", "pipe"])
def test_a_planned_file_that_spark_skips_correctly_is_not_missing(tmp_path: Path, name: str) -> None:
    if name == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        write(tmp_path / name, b"" if name == "empty.log" else b"x\n")
    reading = check_plan(NO_SPARK, [str(tmp_path / name)], {})
    assert (reading.least, reading.most) == (0, 0)


def test_a_name_with_a_colon_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a:b.log")
    with pytest.raises(SourceError, match=r"a:b\.log: its name holds a colon.*rename it, then run: oncelake recover"):
        check_plan(NO_SPARK, [path], {})


@pytest.mark.parametrize("link", ["loop", "deep/loop"])
def test_files_behind_a_link_to_a_directory_above_it_are_refused(tmp_path: Path, link: str) -> None:
    path = write(tmp_path / "logs" / "a.log")
    (tmp_path / "logs" / link).parent.mkdir(exist_ok=True)
    (tmp_path / "logs" / link).symlink_to(tmp_path / "logs")
    again = str(tmp_path / "logs" / link / "a.log")
    with pytest.raises(SourceError, match=f"logs/{link}: it is a link to a directory above it.*Remove the link"):
        check_plan(NO_SPARK, [path, again], sizes(path, again))


def test_files_behind_a_link_to_another_directory_are_read(tmp_path: Path) -> None:
    write(tmp_path / "other" / "a.log")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "other")
    path = str(tmp_path / "logs" / "link" / "a.log")
    assert check_plan(NO_SPARK, [path], sizes(path)).most == 2


def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "a.log")
    with pytest.raises(SourceError, match=rf"^{path} cannot be read \(No such file or directory\); the next start"):
        check_plan(NO_SPARK, [path], {path: 2})


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\ntwo\n", 8),
        (b"one\ntwo", 8),
        (b"one\n\n", 5),
        (b"\n", 1),
        (BOM + b"one\n", 4),
        (BOM + b"one", 4),
        (BOM, 0),
        (BOM + b"\n", 1),
        (b"one\r\ntwo\r", 10),
        (b"x", 2),
    ],
)
def test_the_bytes_of_a_files_lines_are_known_before_it_is_read(tmp_path: Path, content: bytes, lines: int) -> None:
    path = write(tmp_path / "a.log", content)
    reading = check_plan(NO_SPARK, [path], sizes(path))
    assert (reading.least, reading.most) == (lines, lines)


def test_the_bytes_of_a_file_on_another_store_are_known_up_to_its_first_and_last() -> None:
    reading = check_plan(NO_SPARK, ["s3a://logs/a.log"], {"s3a://logs/a.log": 8})
    assert (reading.least, reading.most) == (5, 9)
    for bytes_ in range(5, 10):
        check(reading, counted=2, bytes_=bytes_, rows=2)


@pytest.mark.parametrize(("counted", "bytes_", "rows"), [(2, 9, 2), (2, 7, 2), (2, 8, 1), (2, 8, 3), (0, 0, 0)])
def test_a_batch_of_other_bytes_or_rows_than_its_files_fails(
    tmp_path: Path, counted: int, bytes_: int, rows: int
) -> None:
    path = write(tmp_path / "a.log", b"one\ntwo\n")
    reading = check_plan(NO_SPARK, [path], sizes(path))
    check(reading, counted=2, bytes_=8, rows=2)
    with pytest.raises(ReceiptError, match=f"had 8 bytes of lines .*, but {bytes_} were read .* oncelake rebuild"):
        check(reading, counted=counted, bytes_=bytes_, rows=rows)


def test_a_failed_batch_names_the_file_whose_size_changed(tmp_path: Path) -> None:
    same, other = write(tmp_path / "a.log"), write(tmp_path / "b.log")
    reading = check_plan(NO_SPARK, [same, other], sizes(same, other))
    write(tmp_path / "b.log", b"longer\n")
    with pytest.raises(ReceiptError, match=f"a file changed while it was read, probably {other}. The batch is in"):
        check(reading, counted=2, bytes_=9, rows=2)


def test_compressed_files_are_checked_by_name_and_not_by_bytes(tmp_path: Path) -> None:
    plain, packed = write(tmp_path / "a.log"), write(tmp_path / "b.log.GZ", b"\x1f\x8b, of any size")
    reading = check_plan(NO_SPARK, [plain, packed], sizes(plain, packed))
    assert (reading.least, reading.most) == (2, 2)
    assert all(is_packed(f"a.log{end}") for end in COMPRESSED)
    assert not is_packed("a.gz.log")
    with pytest.raises(SourceError, match=r"b\.log\.GZ: planned for this batch, and missing"):
        check_plan(NO_SPARK, [plain, packed], sizes(plain))


def test_a_compressed_file_that_changes_after_the_listing_fails_its_batch(tmp_path: Path) -> None:
    packed, gone = write(tmp_path / "b.log.gz", b"archive"), write(tmp_path / "c.log.gz", b"archive")
    reading = check_plan(NO_SPARK, [packed, gone], sizes(packed, gone))
    (tmp_path / "c.log.gz").unlink()
    check(reading, counted=2, bytes_=0, rows=2)
    write(tmp_path / "b.log.gz", b"archive and more")
    with pytest.raises(ReceiptError, match=f"^{packed}: compressed, and its size changed .* oncelake rebuild bronze"):
        check(reading, counted=2, bytes_=0, rows=2)


def test_a_file_that_was_not_planned_fails_its_batch(tmp_path: Path) -> None:
    planned, other = write(tmp_path / "a.log"), write(tmp_path / "b.log" / "c.log")
    with pytest.raises(SourceError, match=f"^{other}: not planned for this batch"):
        check_plan(NO_SPARK, [planned], sizes(planned, other))
