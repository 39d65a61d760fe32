"""Which file is which: rotated, compressed, replaced, cut, copied and equal files each count as docs/tail.md says."""

import bz2
import errno
import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from oncelake.bronze.settings import Rotation
from oncelake.common.errors import SourceError
from oncelake.sources.directory.listing import ListedFile
from oncelake.sources.directory.names import origins, shifts
from oncelake.sources.tail.content import BLOCK, Disk, FileMovedError, ends_of
from oncelake.sources.tail.identity import Contents
from oncelake.sources.tail.position import TailedFile, TailPosition
from oncelake.sources.tail.survey import GROWN_BY_LOG
from tests.support.tailing import EVERYTHING, Later, ReadFiles, drain, pack
from tests.support.tailing import read as read_between

START = TailPosition()


def lines(first: int, last: int) -> bytes:
    return b"".join(b"2026-11-26 10:00:00 INFO line %d\n" % number for number in range(first, last + 1))


def texts(first: int, last: int) -> list[bytes]:
    return lines(first, last).split(b"\n")[:-1]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def files(logs: Path) -> ReadFiles:
    return ReadFiles(logs, rotation=None)


def faults(files: ReadFiles, at: TailPosition) -> dict[str, str]:
    return {Path(file.path).name: reason for file, reason in files.survey(at).faults(time.time())}


def replaced(path: Path, text: bytes) -> None:
    """Replace a file by one with another inode, as rsync, sed -i and editors do."""
    other = path.with_name("another-name")
    other.write_bytes(text)
    other.rename(path)


class Faulty(Disk):
    """A disk that fails to open some files."""

    def __init__(self) -> None:
        self.errors: dict[str, OSError] = {}

    def open(self, file: ListedFile) -> BinaryIO:
        error = self.errors.get(Path(file.path).name)
        if error is not None:
            raise error
        return super().open(file)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_compressed_log_that_grows_is_read_on(
    logs: Path, files: ReadFiles, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    log = logs / f"app.log.{ending}"
    at, whole = START, b""
    for first in (1, 11, 21):
        whole += pack(lines(first, first + 9))
        log.write_bytes(whole)
        read, at = drain(files.restarted(), at)
        assert read == texts(first, first + 9)
    log.write_bytes(whole + pack(lines(31, 40))[:-3])
    assert drain(files, at) == ([], at), "its last member is not complete"
    assert files.survey(at).aside


def test_a_compressed_log_whose_last_line_goes_on_in_the_next_member_waits_for_it(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log.gz"
    log.write_bytes(gzip.compress(b"one\ntw"))
    assert drain(files, START)[0] == []
    assert files.waiting(START) == {str(log): 7}
    log.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\n"))
    assert drain(files, START)[0] == [b"one", b"two"]


def test_a_last_line_without_an_end_is_read_when_the_compressed_file_is_quiet(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log.gz"
    log.write_bytes(gzip.compress(b"one\ntw"))
    os.utime(log, (1, 1))
    read, at = drain(files, START)
    assert read == [b"one", b"tw"]
    log.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"\nthree\n"))
    assert drain(files, at)[0] == [b"three"]
    log.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n"))
    assert drain(files, at)[0] == []
    assert "had no end when it was read" in faults(files, at)["app.log.gz"]


@pytest.mark.parametrize("keep", [False, True])
def test_an_archive_that_is_unpacked_or_packed_again_is_the_same_file(logs: Path, files: ReadFiles, keep: bool) -> None:
    packed = logs / "app.log.1.gz"
    packed.write_bytes(gzip.compress(lines(1, 100), 1))
    _, at = drain(files, START)
    replaced(packed, gzip.compress(lines(1, 100), 9))
    assert drain(files, at)[0] == []
    (logs / "app.log.1").write_bytes(lines(1, 100))
    if not keep:
        packed.unlink()
    assert drain(files.restarted(), at)[0] == []
    with (logs / "app.log.1").open("ab") as file:
        file.write(lines(101, 101))
    read, at = drain(files.restarted(), at)
    assert read == texts(101, 101)
    assert drain(files.restarted(), at)[0] == []


@pytest.mark.parametrize("rotation", ["rename", None])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_file_that_is_just_being_unpacked_is_a_copy(logs: Path, rotation: Rotation | None, is_read: bool) -> None:
    files = ReadFiles(logs, rotation=rotation)
    packed, log = logs / "app.log.1.gz", logs / "app.log.1"
    packed.write_bytes(gzip.compress(lines(1, 100)))
    at = drain(files, START)[1] if is_read else START
    log.write_bytes(lines(1, 50) + lines(51, 51)[:9])
    (logs / "other.log").write_bytes(b"x\n")
    read, at = drain(files, at)
    assert sorted(read) == sorted([b"x", *([] if is_read else texts(1, 100))])
    assert not faults(files, at)
    with log.open("ab") as file:
        file.write(lines(51, 100)[9:])
    assert drain(files, at)[0] == []
    packed.unlink()
    with log.open("ab") as file:
        file.write(lines(101, 101))
    assert drain(files, at)[0] == texts(101, 101)


def test_a_file_that_is_just_being_unpacked_continues_no_twin_of_another_directory(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    for directory in ("b", "c"):
        (logs / directory).mkdir()
    (logs / "b/app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    (logs / "c/app.log").write_bytes(lines(1, 1))
    _, at = drain(files, START)
    (logs / "c/app.log").unlink()
    time.sleep(0.02)  # its inode can be used again, then with another time of creation
    (logs / "b/app.log.1").write_bytes(lines(1, 4))
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("rotation", ["rename", "copytruncate"])
def test_a_file_that_was_unpacked_unseen_goes_on_when_its_archive_is_gone(logs: Path, rotation: Rotation) -> None:
    files = ReadFiles(logs, rotation=rotation)
    packed, log = logs / "app.log.1.gz", logs / "app.log.1"
    packed.write_bytes(gzip.compress(lines(1, 100)))
    log.write_bytes(lines(1, 50))
    _, at = drain(files, START)
    with log.open("ab") as file:
        file.write(lines(51, 100))
    (logs / "other.log").write_bytes(b"x\n")
    read, at = drain(files, at)
    assert read == [b"x"]
    packed.unlink()
    assert drain(files, at)[0] == []
    with log.open("ab") as file:
        file.write(lines(101, 101))
    assert drain(files, at)[0] == texts(101, 101)


@pytest.mark.parametrize("name", ["app.log.1.gz", "app.log.2.gz"])
def test_an_archive_in_another_directory_continues_the_log_that_is_gone(
    logs: Path, files: ReadFiles, name: str
) -> None:
    (logs / "app.log.1").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "old").mkdir()
    (logs / "old" / name).write_bytes(gzip.compress(lines(1, 6)))
    time_of_it = (logs / "app.log.1").stat().st_mtime_ns
    os.utime(logs / "old" / name, ns=(time_of_it, time_of_it))  # as gzip keeps it
    (logs / "app.log.1").unlink()
    assert drain(files, at)[0] == texts(6, 6)


def test_a_log_that_is_compressed_before_it_is_read_to_its_end_is_read_on(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log.1"
    log.write_bytes(lines(1, 100))
    os.utime(log, (0, 0))
    (logs / "other.log").write_bytes(lines(201, 202))
    at = files.plan(START, 100)
    begun = read_between(files, START, at)
    log.with_name("app.log.1.gz").write_bytes(gzip.compress(lines(1, 100)))
    log.unlink()
    rest, _ = drain(files, at, 1)
    assert sorted(begun + rest) == sorted(texts(1, 100) + texts(201, 202))


def test_an_archive_that_grows_while_others_are_read_is_read_on(logs: Path, files: ReadFiles) -> None:
    packed, other = logs / "app.log.1.gz", logs / "other.log"
    packed.write_bytes(gzip.compress(lines(1, 5)))
    other.write_bytes(lines(201, 202))
    os.utime(other, (0, 0))
    _, at = drain(files, START)
    with packed.open("ab") as file:
        file.write(gzip.compress(lines(6, 7)))
    with other.open("ab") as file:
        file.write(lines(203, 209))
    os.utime(other, (0, 0))
    read, _ = drain(files, at, 1)
    assert sorted(read) == sorted(texts(6, 7) + texts(203, 209))


def test_a_log_and_its_compressed_copy_are_one_file_also_when_the_log_grows(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log"
    log.write_bytes(lines(1, 5))
    (logs / "app.log.gz").write_bytes(gzip.compress(lines(1, 5)))
    read, at = drain(files, START)
    assert read == texts(1, 5)
    with log.open("ab") as file:
        file.write(lines(6, 9))
    read, at = drain(files, at)
    assert read == texts(6, 9)
    log.write_bytes(b"another one\n")
    read, at = drain(files.restarted(), at)
    assert read == [b"another one"], "the archive holds nothing new"


def test_a_small_log_that_is_replaced_by_itself_and_more_is_read_on(logs: Path, files: ReadFiles) -> None:
    (logs / "app.log").write_bytes(lines(1, 2))
    _, at = drain(files, START)
    replaced(logs / "app.log", lines(1, 3))
    assert drain(files, at)[0] == texts(3, 3)


def test_a_file_that_is_restored_with_its_time_is_the_same_one(logs: Path, files: ReadFiles) -> None:
    (logs / "app.log").write_bytes(lines(1, 2))
    _, at = drain(files, START)
    (logs / "archive").mkdir()
    shutil.copy2(logs / "app.log", logs / "archive" / "some name")
    (logs / "app.log").unlink()
    assert drain(files, at)[0] == []


def test_a_later_file_of_another_name_with_equal_lines_is_another_file(logs: Path, files: ReadFiles) -> None:
    for name, later in (
        ("job-a.log", "job-b.log"),
        ("day1/out.log", "day2/out.log"),
        ("report-01.log", "report-02.log"),
    ):
        for path in (logs / name, logs / later):
            path.parent.mkdir(exist_ok=True)
        (logs / name).write_bytes(lines(1, 40))
        os.utime(logs / name, (100.0, 100.5))
        _, at = drain(files, START)
        time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
        (logs / name).unlink()
        (logs / later).write_bytes(lines(1, 40))
        assert drain(files, at)[0] == texts(1, 40), later
        (logs / later).unlink()


def test_equal_files_that_are_there_at_once_all_count(logs: Path, files: ReadFiles) -> None:
    for number in range(8):
        (logs / f"job{number}").mkdir()
        (logs / f"job{number}" / "out.log").write_bytes(lines(1, 32))
        (logs / f"worker-{number}.log").write_bytes(lines(1, 2))
    read, at = drain(files, START)
    assert len(read) == 8 * 34
    assert drain(files.restarted(), at)[0] == []
    assert faults(files, at) == {}


def test_logs_with_equal_ends_and_another_middle_are_two(logs: Path, files: ReadFiles) -> None:
    def text(middle: bytes) -> bytes:
        return lines(1, 100) + middle * 3 + lines(1, 100)

    (logs / "a").write_bytes(text(b"x\n"))
    _, at = drain(files, START)
    (logs / "b").write_bytes(text(b"y\n"))
    read, at = drain(files, at)
    assert len(read) == 203
    with (logs / "a").open("r+b") as file:
        file.write(text(b"z\n"))
    read, _ = drain(files.restarted(), at)
    assert len(read) == 203


@pytest.mark.parametrize("rotation", ["rename", "copytruncate", None])
def test_a_copy_under_a_rotated_name_is_what_the_setting_says(logs: Path, rotation: str | None) -> None:
    files = ReadFiles(logs, rotation=rotation)  # type: ignore[arg-type]
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    shutil.copyfile(logs / "app.log", logs / "app.log.1")
    read, _ = drain(files, at)
    assert read == (texts(1, 5) if rotation == "rename" else [])
    if rotation is None:
        assert "the beginning of app.log: a copy" in faults(files, at)["app.log.1"]
        assert "source.rotation" in faults(files, at)["app.log.1"]


def test_an_undecided_file_is_read_when_it_gains_lines_of_its_own(logs: Path, files: ReadFiles) -> None:
    (logs / "app.log").write_bytes(lines(1, 5))
    (logs / "app.log.1").write_bytes(lines(1, 5))
    read, at = drain(files, START)
    assert read == texts(1, 5)
    with (logs / "app.log.1").open("ab") as file:
        file.write(b"of its own\n")
    read, at = drain(files.restarted(), at)
    assert read == [*texts(1, 5), b"of its own"]
    assert faults(files, at) == {}


def test_an_undecided_file_is_a_copy_when_its_original_is_cut(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log"
    log.write_bytes(lines(1, 5))
    shutil.copyfile(log, logs / "app.log.1")
    read, at = drain(files, START)
    with log.open("ab") as file:
        file.write(lines(6, 7))
    read, at = drain(files, at)
    assert read == texts(6, 7)
    with log.open("r+b") as file:
        file.truncate()
        file.write(b"x\n")
    read, at = drain(ReadFiles(logs, rotation=None, bronze=files.bronze), at)
    assert read == [b"x"]
    assert faults(files, at) == {}


def test_an_undecided_file_is_not_forgotten_when_its_original_is_deleted(logs: Path, files: ReadFiles) -> None:
    (logs / "app.log").write_bytes(lines(1, 5))
    (logs / "app.log.1").write_bytes(lines(1, 3))
    _, at = drain(files, START)
    (logs / "other.log").write_bytes(b"x\n")
    _, at = drain(files, at)
    (logs / "app.log").unlink()
    again = ReadFiles(logs, rotation=None, bronze=files.bronze)
    assert drain(again, at)[0] == []
    assert "the beginning of app.log" in faults(again, at)["app.log.1"]
    assert drain(ReadFiles(logs, rotation="rename"), at)[0] == texts(1, 3)
    assert drain(ReadFiles(logs, rotation="copytruncate"), at)[0] == []


@pytest.mark.parametrize(
    "name", ["app.log.1", "app.log-20261126", "old/app.log.1", "app-2026-11-26.log", "app.log.old"]
)
def test_the_copy_of_a_log_that_was_cut_is_read_on(logs: Path, name: str) -> None:
    files = ReadFiles(logs, rotation="copytruncate")
    (logs / "old").mkdir()
    log = logs / "app.log"
    log.write_bytes(lines(1, 5))
    _, at = drain(files, START)
    with log.open("ab") as file:
        file.write(lines(6, 7))
    shutil.copyfile(log, logs / name)
    with log.open("r+b") as file:
        file.truncate()
        file.write(lines(101, 120))
    assert sorted(drain(files.restarted(), at)[0]) == sorted(texts(6, 7) + texts(101, 120))


def half_copied(logs: Path, name: str) -> tuple[ReadFiles, TailPosition]:
    """Read a log while it is copied; then the copy gets the rest, and the log is cut."""
    files = ReadFiles(logs, rotation="copytruncate")
    (logs / "app.log").write_bytes(lines(1, 10))
    (logs / "app.log.1").write_bytes(lines(1, 3))
    read, at = drain(files, START)
    assert read == texts(1, 10)
    with (logs / "app.log.1").open("ab") as copy:
        copy.write(lines(4, 10))
    os.truncate(logs / "app.log", 0)
    (logs / "app.log.1").rename(logs / name)
    return files, at


def test_a_copy_that_was_known_by_its_beginning_loses_its_end(logs: Path) -> None:
    files, at = half_copied(logs, "app.log.1")
    (logs / "other.log").write_bytes(lines(50, 50))
    read, at = drain(files, at)
    assert read == texts(50, 50)
    os.truncate(logs / "app.log.1", len(lines(1, 9)) - 5)
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_copy_with_more_than_its_log_had_loses_its_end(logs: Path, is_cut_off: bool) -> None:
    files, at = half_copied(logs, "app.log.1")
    with (logs / "app.log.1").open("ab") as copy:
        copy.write(lines(11, 14))
    read, at = drain(files, at)
    assert read == texts(11, 14)
    if is_cut_off:
        os.truncate(logs / "app.log.1", len(lines(1, 13)) - 5)
    with (logs / "app.log.1").open("ab") as copy:
        copy.write(b"\n" + lines(20, 20))
    assert drain(files, at)[0][-1:] == texts(20, 20)
    assert len(drain(files, at)[0]) <= 2


def test_a_copy_that_gets_its_rest_and_another_name_at_once_is_the_log(logs: Path) -> None:
    files, at = half_copied(logs, "kept.txt")
    assert drain(files, at)[0] == []


def test_an_archive_that_grows_continues_no_log_with_its_first_lines(logs: Path) -> None:
    files = ReadFiles(logs, rotation="copytruncate")
    for name in ("out.1", "out.3"):
        (logs / name).write_bytes(lines(1, 2))
    read, at = drain(files, START)
    assert read == texts(1, 2) * 2
    (logs / "out.1").unlink()
    (logs / "out.3").write_bytes(lines(1, 20))
    (logs / "out.3.gz").write_bytes(gzip.compress(lines(1, 20)))
    (logs / "out.3").write_bytes(lines(1, 30))
    read, at = drain(files, at)
    assert read == texts(3, 30)
    (logs / "out.3").unlink()
    with (logs / "out.3.gz").open("ab") as packed:
        packed.write(gzip.compress(lines(40, 41)))
    assert drain(files, at)[0] == texts(40, 41)


def test_a_member_goes_on_within_the_last_line_of_a_copy(logs: Path) -> None:
    files = ReadFiles(logs, rotation="copytruncate")
    log, copy, packed = logs / "app.log", logs / "app.log.1", logs / "app.log.1.gz"
    log.write_bytes(b"one\ntwo\nthr")
    shutil.copy(log, copy)
    log.write_bytes(b"one\ntwo\nthree\nfour\n")
    read, at = drain(files, START)
    assert read == [b"one", b"two", b"three", b"four"]
    os.truncate(log, 0)
    packed.write_bytes(gzip.compress(copy.read_bytes()))
    copy.unlink()
    (logs / "other.log").write_bytes(b"other\n")
    read, at = drain(files, at)
    assert read == [b"other"]
    packed.write_bytes(packed.read_bytes() + gzip.compress(b"ough\nfive\n"))
    assert drain(files, at)[0] == [b"through", b"five"]


def test_no_other_number_continues_a_log_whose_archive_is_there(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "out.1").write_bytes(lines(1, 2))
    (logs / "out.1.gz").write_bytes(gzip.compress(lines(1, 2)))
    read, at = drain(files, START)
    assert read == texts(1, 2)
    (logs / "out.1").unlink()
    (logs / "out.3.gz").write_bytes(gzip.compress(lines(1, 2)))
    os.utime(logs / "out.3.gz", (1, 1))
    assert drain(files, at)[0] == texts(1, 2), "another log, with the same lines"


def test_an_archive_continues_the_log_of_its_own_directory_before_a_shorter_twin(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    for directory in ("b", "c"):
        (logs / directory).mkdir()
    (logs / "b/app.log").write_bytes(lines(1, 2))
    (logs / "c/app.log.1").write_bytes(lines(1, 4))
    (logs / "c/app.log").write_bytes(lines(5, 5))
    _, at = drain(files, START)
    (logs / "b/app.log").unlink()
    (logs / "c/app.log.1").unlink()
    (logs / "c/app.log.2.gz").write_bytes(gzip.compress(lines(1, 4)))
    (logs / "c/app.log").rename(logs / "c/app.log.1")
    assert drain(files, at)[0] == []


def test_an_archive_continues_the_log_of_its_own_directory_before_a_longer_twin(logs: Path) -> None:
    files = ReadFiles(logs, rotation=None)
    for directory, last in (("a", 50), ("b", 5)):
        (logs / directory).mkdir()
        (logs / directory / "app.log").write_bytes(lines(1, last))
    _, at = drain(files, START)
    for directory in ("a", "b"):
        (logs / directory / "app.log").unlink()
        (logs / directory / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 50)))
    os.utime(logs / "b/app.log.1.gz", (7_000, 7_000))
    (logs / "a/app.log").write_bytes(lines(51, 51))
    assert sorted(drain(files, at)[0]) == sorted(texts(6, 51))


def test_an_archive_continues_the_log_of_its_own_directory_before_a_twin_of_its_second(logs: Path) -> None:
    files = ReadFiles(logs, rotation=None)
    for directory, second in (("b", 5_000.3), ("c", 6_000.2)):
        (logs / directory).mkdir()
        (logs / directory / "app.log").write_bytes(lines(1, 4))
        os.utime(logs / directory / "app.log", (second, second))
    _, at = drain(files, START)
    (logs / "b/app.log").unlink()
    (logs / "b/app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    os.utime(logs / "b/app.log.1.gz", (6_000, 6_000))
    (logs / "c/app.log-20261129").write_bytes(lines(1, 4))
    (logs / "c/app.log").write_bytes(b"")
    assert drain(files, at)[0] == texts(5, 5)


@pytest.mark.parametrize("name", ["app.log.2", "app.log.2.gz", "app.log-20261128.gz"])
def test_a_log_with_its_time_goes_on_before_another_one_of_its_directory_with_the_same_header(
    logs: Path, name: str
) -> None:
    files, log, rotated = ReadFiles(logs, rotation=None), logs / "app.log", logs / "app.log.1"
    rotated.write_bytes(lines(1, 3))
    log.write_bytes(lines(1, 1))
    os.utime(rotated, (5_000.25, 5_000.25))
    _, at = drain(files, START)
    rotated.unlink()
    log.unlink()
    (logs / name).write_bytes(gzip.compress(lines(1, 3)) if name.endswith(".gz") else lines(1, 3))
    os.utime(logs / name, (5_000.25, 5_000.25))
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("end", ["cut", "deleted", "created again"])
@pytest.mark.parametrize("has_more", [False, True])
def test_an_archive_that_a_log_is_appended_to_is_named_and_counts_no_line_again(
    logs: Path, end: str, has_more: bool
) -> None:
    files, log, packed = ReadFiles(logs), logs / "app.log", logs / "app.log.gz"
    if has_more:
        packed.write_bytes(gzip.compress(lines(1, 5)))
    at, expected = START, texts(1, 5) if has_more else []
    read: list[bytes] = []
    for day in range(1, 5):
        log.write_bytes(lines(day * 100, day * 100 + 20))
        more, at = drain(files.restarted(), at)
        read, expected = read + more, expected + texts(day * 100, day * 100 + 20)
        assert sorted(read) == sorted(expected)
        with packed.open("ab") as opened:
            opened.write(gzip.compress(log.read_bytes()))
        if end == "cut":
            os.truncate(log, 0)
        else:
            log.unlink()
        if end == "created again":
            log.write_bytes(b"")
        more, at = drain(files.restarted(), at)
        assert more == []
        named = [reason for file, reason in files.survey(at).faults(time.time()) if file.path == str(packed)]
        assert named == ([GROWN_BY_LOG.format("app.log")] if day > 1 or has_more else [])


def named(files: ReadFiles, at: TailPosition) -> list[str]:
    return [file.path for file, _ in files.survey(at).faults(time.time())]


@pytest.mark.parametrize("end", ["cut", "deleted", "renamed"])
def test_a_log_that_is_appended_to_its_copy_counts_once_when_it_is_cut(logs: Path, end: str) -> None:
    files, log = ReadFiles(logs), logs / "app.log"
    log.write_bytes(lines(1, 20))
    _, at = drain(files, START)
    packed = pack(log, keep=True)
    _, at = drain(files, at)
    with packed.open("ab") as opened:
        opened.write(gzip.compress(log.read_bytes()))
    _, at = drain(files, at)
    assert named(files, at) == [str(packed)]
    if end == "cut":
        os.truncate(log, 0)
    elif end == "deleted":
        log.unlink()
    else:
        log.rename(logs / "web.log")
    read, at = drain(files.restarted(), at)
    assert read == []
    assert named(files, at) == [str(packed)]


def append_member(archive: Path, first: int, last: int) -> bytes:
    """Append lines to an archive; return what it held before."""
    before = archive.read_bytes()
    archive.write_bytes(before + gzip.compress(lines(first, last)))
    return before


@pytest.mark.parametrize("is_other_inode", [False, True])
def test_an_archive_that_is_put_back_to_an_earlier_state_goes_on_where_it_was_left(
    logs: Path, files: ReadFiles, is_other_inode: bool
) -> None:
    archive = logs / "app.log.gz"
    archive.write_bytes(gzip.compress(lines(1, 20)))
    _, at = drain(files, START)
    earlier = append_member(archive, 21, 30)
    _, at = drain(files, at)
    if is_other_inode:
        archive.rename(logs.parent / "before")
    archive.write_bytes(earlier)
    assert drain(files.restarted(), at)[0] == []
    assert files.waiting(at) == {}
    append_member(archive, 31, 35)
    assert drain(files.restarted(), at)[0] == texts(31, 35)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_archive_that_is_compressed_again_in_place_and_moved_is_the_same_file(
    logs: Path, files: ReadFiles, end: bytes
) -> None:
    archive = logs / "app.log.gz"
    archive.write_bytes(gzip.compress(lines(1, 20)[:-1] + end, 1))
    os.utime(archive, (1e9, 1e9))
    read, at = drain(files, START)
    assert read == texts(1, 20)
    archive.write_bytes(gzip.compress(lines(1, 20)[:-1] + end, 9))
    (logs / "old").mkdir()
    moved = archive.rename(logs / "old" / "other.gz")
    assert drain(files.restarted(), at)[0] == []
    append_member(moved, 21, 22)
    assert drain(files.restarted(), at)[0] == (texts(21, 22) if end else [])


@pytest.mark.parametrize("is_same", [True, False])
def test_an_archive_whose_first_lines_are_in_rows_of_a_log_that_is_gone_goes_on_if_it_begins_as_it_did(
    logs: Path, files: ReadFiles, is_same: bool
) -> None:
    log, archive = logs / "app.log", logs / "old" / "app.log.gz"
    log.write_bytes(lines(1, 20))
    _, at = drain(files, START)
    packed = pack(log, keep=True)
    _, at = drain(files, at)
    archive.parent.mkdir()
    packed.rename(archive)
    log.unlink()
    (logs / "other.log").write_bytes(lines(101, 102))
    _, at = drain(files, at)
    append_member(archive, 21, 24)
    earlier = append_member(archive, 25, 30)
    more, at = drain(files, at)
    assert more == texts(21, 30)
    archive.write_bytes(earlier if is_same else gzip.compress(lines(2, 21) + lines(21, 24)))
    assert drain(files.restarted(), at)[0] == ([] if is_same else [*texts(2, 21), *texts(21, 24)])


@pytest.mark.parametrize("end", ["cut", "deleted"])
def test_an_archive_that_runs_meet_between_appending_and_cutting_counts_no_line_again(logs: Path, end: str) -> None:
    files, log, packed = ReadFiles(logs), logs / "app.log", logs / "app.log.gz"
    at, expected, read = START, list[bytes](), list[bytes]()
    for day in range(1, 5):
        with log.open("ab") as opened:
            opened.write(lines(day * 100, day * 100 + 9))
        expected += texts(day * 100, day * 100 + 9)
        more, at = drain(files.restarted(), at)
        read += more
        with packed.open("ab") as opened:
            opened.write(gzip.compress(log.read_bytes()))
        for _ in range(2):
            more, at = drain(files.restarted(), at)
            assert more == []
            assert named(files, at) == ([str(packed)] if day > 1 else [])
            if log.exists() and end == "cut":
                os.truncate(log, 0)
            elif log.exists():
                log.unlink()
    assert read == expected


def archived(logs: Path, files: ReadFiles) -> tuple[Path, TailPosition]:
    """Append a log that was read to an archive, and delete it; return the archive, and the position before that."""
    log, packed = logs / "app.log", logs / "app.log.gz"
    packed.write_bytes(gzip.compress(lines(1, 5)))
    log.write_bytes(lines(100, 120))
    _, at = drain(files, START)
    with packed.open("ab") as opened:
        opened.write(gzip.compress(log.read_bytes()))
    log.unlink()
    return packed, at


@pytest.mark.parametrize("name", ["old/app.log.gz", "app.log-20261130.gz", "app.log.1.gz"])
def test_an_archive_with_a_log_is_named_wherever_it_is_moved(logs: Path, name: str) -> None:
    files = ReadFiles(logs)
    packed, at = archived(logs, files)
    (logs / "old").mkdir()
    moved = packed.rename(logs / name)
    read, at = drain(files, at)
    assert read == []
    assert named(files, at) == [str(moved)]


def test_a_log_that_is_renamed_and_appended_to_an_archive_each_night_counts_once(logs: Path) -> None:
    files, log, packed = ReadFiles(logs), logs / "app.log", logs / "app.log.1.gz"
    at, expected, read = START, list[bytes](), list[bytes]()
    for night in range(1, 4):
        log.write_bytes(lines(night * 100, night * 100 + 9))
        more, at = drain(files.restarted(), at)
        expected, read = expected + texts(night * 100, night * 100 + 9), read + more
        with packed.open("ab") as opened:
            opened.write(gzip.compress(log.read_bytes()))
        log.unlink()
        more, at = drain(files.restarted(), at)
        assert more == []
        assert read == expected
        assert named(files, at) == ([str(packed)] if night > 1 else [])


@pytest.mark.parametrize("way", ["level", "zeros", "empty member"])
def test_an_archive_that_holds_nothing_more_is_not_named(logs: Path, way: str) -> None:
    files, packed = ReadFiles(logs), logs / "app.log.gz"
    packed.write_bytes(gzip.compress(lines(1, 500), 1))
    (logs / "app.log").write_bytes(lines(1000, 1020))
    _, at = drain(files, START)
    other = {
        "level": gzip.compress(lines(1, 500), 9),
        "zeros": packed.read_bytes() + bytes(512),
        "empty member": packed.read_bytes() + gzip.compress(b""),
    }[way]
    (logs / ".new").write_bytes(other)
    (logs / ".new").rename(packed)
    assert drain(files, at)[0] == []
    assert named(files, at) == []


def test_a_compressed_file_that_was_read_is_not_opened_again_until_it_changes(logs: Path) -> None:
    class Counting(Later):
        """A disk on another day that counts how often a file is opened."""

        opened, days = 0, 1.0

        def open(self, file: ListedFile) -> BinaryIO:
            self.opened += 1
            return super().open(file)

    (logs / "app.log").write_bytes(lines(1, 9))
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(11, 19)))
    (logs / "app.log.2.bz2").write_bytes(bz2.compress(lines(21, 29)))
    files = ReadFiles(logs, store=Counting())
    _, at = drain(files, START)
    disk = Counting()
    assert len(ReadFiles(logs, bronze=files.bronze, store=disk).survey(at).known) == 3
    assert disk.opened == 0


def test_an_archive_stays_named_as_long_as_it_is_there(logs: Path) -> None:
    disk = Later()
    files = ReadFiles(logs, store=disk)
    packed, at = archived(logs, files)
    for day in (1.0, 8.0, 16.0):
        disk.days = day
        (logs / f"{day}.log").write_bytes(lines(int(day) + 500, int(day) + 500))
        read, at = drain(files, at)
        assert len(read) == 1
        assert named(files, at) == [str(packed)]


def test_lines_that_a_log_and_its_archive_both_get_count_once_and_the_archive_is_named(logs: Path) -> None:
    files, log, packed = ReadFiles(logs), logs / "app.log", logs / "app.log.gz"
    log.write_bytes(lines(1, 10))
    packed.write_bytes(gzip.compress(lines(1, 10)))
    read, at = drain(files, START)
    assert read == texts(1, 10)
    for text in (lines(1, 10), lines(11, 12)):  # appended once more, and what the log gets later
        with packed.open("ab") as opened:
            opened.write(gzip.compress(text))
    more, at = drain(files, at)
    assert more == []
    assert [reason for _, reason in files.survey(at).faults(time.time())] == [GROWN_BY_LOG.format("app.log")]
    with log.open("ab") as opened:
        opened.write(lines(11, 12))
    assert drain(files, at)[0] == texts(11, 12)


@pytest.mark.parametrize("rotation", [None, "rename", "copytruncate"])
def test_a_log_is_cut_and_goes_on_beside_a_compressed_copy_that_was_read_on(
    logs: Path, rotation: Rotation | None
) -> None:
    files, log, packed = ReadFiles(logs, rotation=rotation), logs / "app.log.1", logs / "app.log.1.gz"
    log.write_bytes(lines(1, 10))
    _, at = drain(files, START)
    packed.write_bytes(gzip.compress(lines(1, 10)))
    (logs / "other.log").write_bytes(lines(50, 50))  # so that there is a batch, which records the copy
    read, at = drain(files, at)
    assert read == texts(50, 50)
    log = log.rename(logs / "web.log")
    with packed.open("ab") as opened:
        opened.write(gzip.compress(lines(101, 102)))
    read, at = drain(files, at)
    assert read == texts(101, 102)
    os.truncate(log, len(lines(1, 8)))
    with log.open("ab") as opened:
        opened.write(lines(201, 201))
    assert drain(files, at)[0] == texts(201, 201)


def test_a_file_of_another_device_with_the_inode_number_size_and_times_of_a_log_is_not_that_log(logs: Path) -> None:
    (logs / "other.log").write_bytes(lines(2, 2))
    (listed,) = Disk().listing(str(logs))
    file, contents = replace(listed, changed=5_000_000_000), Contents(Disk())
    assert file.identity is not None
    device, inode = file.identity
    stamp = contents.stamp(file)
    assert stamp
    here, elsewhere = (
        TailedFile(number, inode, file.size, "app.log", file.modified, born=1, stamp=stamp)
        for number in (device, device + 1)
    )
    assert contents.is_same(file, here)
    assert not Contents(Disk()).is_same(file, elsewhere)


@pytest.mark.parametrize("number", [1, 2, 11])
def test_a_rotated_file_is_packed_and_moved_to_another_directory(logs: Path, number: int) -> None:
    files, rotated = ReadFiles(logs, rotation=None), logs / "app.log.1"
    rotated.write_bytes(lines(1, 2))
    (logs / "app.log").write_bytes(lines(3, 4))
    _, at = drain(files, START)
    rotated.unlink()
    (logs / "old").mkdir()
    moved = logs / f"old/app.log.{number}.gz"
    moved.write_bytes(gzip.compress(lines(1, 5)))
    os.utime(moved, (7_000, 7_000))
    assert drain(files, at)[0] == texts(3, 5)


def test_a_rotated_file_beside_another_log_is_not_the_one_that_is_gone(logs: Path) -> None:
    files, rotated = ReadFiles(logs, rotation="rename"), logs / "app.log.1"
    rotated.write_bytes(lines(1, 2))
    _, at = drain(files, START)
    rotated.unlink()
    (logs / "b").mkdir()
    (logs / "b/app.log").write_bytes(lines(3, 4))
    archive = logs / "b/app.log.1.gz"
    archive.write_bytes(gzip.compress(lines(1, 2)))
    os.utime(archive, (7_000, 7_000))
    assert sorted(drain(files, at)[0]) == sorted(texts(1, 4))


@pytest.mark.parametrize("number", [1, 2])
def test_a_rotated_file_of_another_directory_is_not_the_one_that_is_gone(logs: Path, number: int) -> None:
    files = ReadFiles(logs, rotation="rename")
    for directory in ("web1", "web2"):
        (logs / directory).mkdir()
    (logs / "web1/app.log.1").write_bytes(lines(1, 1))
    _, at = drain(files, START)
    (logs / "web1/app.log.1").unlink()
    archive = logs / f"web2/app.log.{number}.gz"
    archive.write_bytes(gzip.compress(lines(1, 4)))
    os.utime(archive, (7_000, 7_000))
    assert drain(files, at)[0] == texts(1, 4)


@pytest.mark.parametrize("rotation", [None, "rename", "copytruncate"])
@pytest.mark.parametrize("last", [3, 5])
def test_a_rotated_log_beside_an_archive_of_its_header_goes_on(
    logs: Path, rotation: Rotation | None, last: int
) -> None:
    files, log = ReadFiles(logs, rotation=rotation), logs / "app.log"
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 1)))
    log.write_bytes(lines(1, 3))
    _, at = drain(files, START)
    log.unlink()
    (logs / "app.log.1").write_bytes(lines(1, last))
    os.utime(logs / "app.log.1", (7_000, 7_000))
    log.write_bytes(lines(6, 7))
    assert sorted(drain(files, at)[0]) == sorted([*texts(4, last), *texts(6, 7)])


def test_an_archive_is_followed_beside_an_older_archive_of_its_log(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    log, kept = logs / "app.log", logs / "app.log.gz"
    log.write_bytes(lines(1, 2))
    kept.write_bytes(gzip.compress(lines(1, 2)))  # gzip -k, before the log gets its next name
    read, at = drain(files, START)
    assert read == texts(1, 2)
    log.unlink()
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 2), 1))
    log.write_bytes(lines(3, 3))
    read, at = drain(files, at)
    assert read == texts(3, 3)
    (logs / "app.log.1.gz").unlink()
    (logs / "app.log.2.gz").write_bytes(gzip.compress(lines(1, 2), 5))
    os.utime(logs / "app.log.2.gz", (7_000, 7_000))
    log.rename(logs / "app.log.1")
    log.write_bytes(lines(4, 4))
    assert drain(files, at)[0] == texts(4, 4)


def test_a_rotated_log_is_found_after_it_was_shifted_and_compressed(logs: Path, files: ReadFiles) -> None:
    (logs / "app.log.1").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "app.log.2.gz").write_bytes(gzip.compress(lines(1, 6)))
    (logs / "app.log.1").unlink()
    (logs / "app.log.1").write_bytes(lines(11, 12))
    read, _ = drain(files, at)
    assert sorted(read) == sorted(texts(6, 6) + texts(11, 12))


def test_a_log_whose_last_bytes_vanished_in_a_crash_goes_on(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log"
    log.write_bytes(lines(1, 100))
    _, at = drain(files, START)
    log.write_bytes(lines(1, 100)[:-20])
    with log.open("ab") as file:
        file.write(lines(101, 102))
    read, after = drain(files, at)
    assert read == [lines(100, 100)[:-20] + texts(101, 101)[0], texts(102, 102)[0]]
    assert sorted((entry.start, entry.original) for entry in after.files.values()) == [(0, -1), (len(lines(1, 99)), 0)]
    assert drain(files.restarted(), after)[0] == []
    with log.open("ab") as file:
        file.write(lines(103, 103))
    assert drain(files.restarted(), after)[0] == texts(103, 103)


def test_a_log_that_was_copied_and_cut_is_not_one_that_lost_its_end_for_equal_dates(logs: Path) -> None:
    files = ReadFiles(logs, rotation="copytruncate")
    line = b"2026-11-26 10:00:00 INFO line %d\n"
    (logs / "app.log").write_bytes(line % 1)
    read, at = drain(files, START)
    assert read == [b"2026-11-26 10:00:00 INFO line 1"]
    (logs / "app.log.1").write_bytes(line % 1)
    (logs / "app.log").write_bytes(line % 2)
    assert drain(files, at)[0] == [b"2026-11-26 10:00:00 INFO line 2"]


ROTATIONS = ["rename", "copytruncate", None]


def again(files: ReadFiles, at: TailPosition, rotation: Rotation | None) -> tuple[list[bytes], TailPosition]:
    """Read on as a process that has just started."""
    return drain(ReadFiles(files.path, rotation=rotation, bronze=files.bronze), at)


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_an_archive_that_is_kept_when_its_log_is_renamed_is_no_other_file(
    logs: Path, rotation: Rotation | None, ending: str
) -> None:
    files = ReadFiles(logs, rotation=rotation)
    (logs / "app.log").write_bytes(lines(1, 10))
    _, at = drain(files, START)
    pack(logs / "app.log", opener=ending, keep=True)
    read, at = again(files, at, rotation)
    assert not read
    (logs / "app.log").rename(logs / "app.log.1")
    (logs / "app.log").write_bytes(lines(11, 12))
    assert again(files, at, rotation)[0] == texts(11, 12)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_file_that_is_unpacked_when_its_archive_is_renamed_is_no_other_file(
    logs: Path, rotation: Rotation | None
) -> None:
    files = ReadFiles(logs, rotation=rotation)
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 10)))
    _, at = drain(files, START)
    (logs / "app.log.1").write_bytes(lines(1, 10))
    read, at = again(files, at, rotation)
    assert not read
    (logs / "app.log.1.gz").rename(logs / "app.log.2.gz")
    assert not again(files, at, rotation)[0]


@pytest.mark.parametrize("names", [("app.log.2", "app.log.1"), ("app.log-20261129", "app.log-20261130")])
@pytest.mark.parametrize("rotation", ["copytruncate", None])
def test_a_copy_of_a_rotation_that_ended_before_it_cut_the_log_is_not_read(
    logs: Path, rotation: Rotation | None, names: tuple[str, str]
) -> None:
    files, (older, newer) = ReadFiles(logs, rotation=rotation), names
    (logs / "app.log").write_bytes(lines(1, 10))
    _, at = drain(files, START)
    first = logs / newer if newer == "app.log.1" else logs / older
    shutil.copy2(logs / "app.log", first)
    read, at = again(files, at, rotation)
    assert not read
    with (logs / "app.log").open("ab") as file:
        file.write(lines(11, 20))
    first.rename(logs / older)
    shutil.copy2(logs / "app.log", logs / newer)
    (logs / "app.log").write_bytes(b"")
    read, at = again(files, at, rotation)
    assert read == texts(11, 20)
    (logs / "app.log").write_bytes(lines(21, 22))
    read, at = again(files, at, rotation)
    assert read == texts(21, 22)
    assert again(files, at, rotation) == ([], at)


def test_a_log_that_crashed_goes_on_at_another_inode_when_its_own_is_another_files(
    logs: Path, files: ReadFiles
) -> None:
    log, other = logs / "app.log", logs / "other.log"
    log.write_bytes(lines(1, 100))
    _, at = drain(files, START)
    replaced(log, lines(1, 99) + lines(101, 101))
    other.write_bytes(b"x\n")
    entry, inode = at.files[0], other.stat().st_ino
    moved = TailedFile(
        entry.device, inode, entry.offset, entry.path, digest=entry.digest, base=entry.base, born=entry.born
    )
    at = replace(at, files={0: moved})
    assert sorted(drain(files, at)[0]) == sorted([*texts(101, 101), b"x"])


def test_a_log_that_lost_more_than_half_of_itself_is_a_new_one(logs: Path, files: ReadFiles) -> None:
    log = logs / "app.log"
    log.write_bytes(lines(1, 100))
    _, at = drain(files, START)
    log.write_bytes(lines(1, 40))
    assert drain(files, at)[0] == texts(1, 40)


def test_a_big_log_that_lost_half_a_megabyte_goes_on(logs: Path, files: ReadFiles) -> None:
    log, text = logs / "app.log", lines(1, 100_000)
    log.write_bytes(text)
    _, at = drain(files, START)
    log.write_bytes(text[: -500 * 1024])
    kept = text[: -500 * 1024].rfind(b"\n") + 1
    with log.open("ab") as file:
        file.write(b"\nnew\n")
    read, after = drain(files, at)
    assert read == [text[kept : -500 * 1024], b"new"]
    assert after.files[1].start == kept


def test_planned_bytes_of_a_file_that_cannot_be_opened_are_not_gone(logs: Path) -> None:
    disk = Faulty()
    log = logs / "app.log"
    log.write_bytes(lines(1, 5))
    end = ReadFiles(logs).plan(START, EVERYTHING)
    log.rename(logs / "app.log.1")
    disk.errors["app.log.1"] = PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(SourceError, match=r"may be in app\.log\.1, which cannot be read: Permission denied"):
        ReadFiles(logs, store=disk).lost(START, end)
    disk.errors.clear()
    assert ReadFiles(logs, store=disk).lost(START, end) == []
    (logs / "app.log.1").unlink()
    assert len(ReadFiles(logs, store=disk).lost(START, end)) == 1


def test_a_file_that_is_being_unpacked_stays_a_copy_while_its_archive_cannot_be_read(logs: Path) -> None:
    disk = Faulty()
    files = ReadFiles(logs, rotation="rename", store=disk)
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 20)))
    (logs / "other.log").write_bytes(lines(101, 102))
    _, at = drain(files, START)
    (logs / "app.log.1").write_bytes(lines(1, 18))
    _, at = drain(files, at)
    disk.errors["app.log.1.gz"] = PermissionError(errno.EACCES, "Permission denied")
    pack(logs / "other.log", keep=True)
    _, at = drain(files, at)
    (logs / "app.log.1").write_bytes(lines(1, 20))
    assert drain(files, at)[0] == []
    disk.errors.clear()
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.ESTALE, errno.EIO])
def test_what_cannot_be_opened_is_a_fault_and_never_gone_or_new(logs: Path, error: int) -> None:
    disk = Faulty()
    files = ReadFiles(logs, rotation=None, store=disk)
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    with (logs / "app.log").open("ab") as file:
        file.write(lines(6, 6))
    (logs / "new.log").write_bytes(lines(1, 1))
    disk.errors = dict.fromkeys(["app.log", "new.log"], OSError(error, os.strerror(error)))
    for again in range(4):
        (logs / "other.log").write_bytes(b"%d\n" % again * 9)
        _, at = drain(files, at)
        assert faults(files, at).keys() == {"app.log", "new.log"}
        assert os.strerror(error) in faults(files, at)["app.log"]
        assert files.survey(at).away == [number for number in at.files if at.files[number].gone]
    disk.errors.clear()
    assert sorted(drain(files, at)[0]) == sorted(texts(6, 6) + texts(1, 1))


@pytest.mark.parametrize(
    ("name", "held", "why"),
    [
        ("a.log", gzip.compress(b"one\n", mtime=0), "it holds gzip, but its name does not end in .gz"),
        ("a.log.gz", b"one\ntwo\nthree\n", "it holds no gzip, though its name ends in .gz"),
        ("a.log.zst", b"\x28\xb5\x2f\xfd" + b"x" * 20, "it holds zstd, which is not unpacked"),
        ("a.log", "one\n".encode("utf-16"), "it holds UTF-16"),
        ("a.log", b"PK\x03\x04" + b"x" * 20, "it holds zip"),
    ],
)
def test_a_file_that_holds_no_text_is_set_aside_by_name(
    logs: Path, files: ReadFiles, name: str, held: bytes, why: str
) -> None:
    (logs / name).write_bytes(held)
    (logs / "other.log").write_bytes(b"\0" * 9000 + b"one\n")
    assert len(drain(files, START)[0]) == 1
    assert why in faults(files, START)[name]


def test_a_file_that_is_renamed_between_the_listing_and_the_opening_is_found(logs: Path) -> None:
    class Renaming(Disk):
        """Renames a file before it is opened for the first time."""

        done = False

        def open(self, file: ListedFile) -> BinaryIO:
            if not self.done and file.path.endswith("app.log"):
                self.done = True
                (logs / "app.log").rename(logs / "app.log.1")
            return super().open(file)

    files = ReadFiles(logs, rotation=None)
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    with (logs / "app.log").open("ab") as file:
        file.write(lines(6, 6))
    again = ReadFiles(logs, rotation=None, store=Renaming(), bronze=files.bronze)
    found = again.survey(at)
    assert (found.away, found.unreadable) == ([], [])
    assert drain(again, at)[0] == texts(6, 6)


def test_a_rotated_file_that_gets_another_number_inode_and_time_at_once_is_read_once(logs: Path) -> None:
    files = ReadFiles(logs, rotation=None)
    (logs / "app.log.1").write_bytes(lines(1, 5))
    (logs / "app.log").write_bytes(lines(6, 8))
    _, at = drain(files, START)
    (logs / "app.log.2").write_bytes(lines(1, 5))
    (logs / "app.log.1").unlink()
    (logs / "app.log").rename(logs / "app.log.1")
    (logs / "app.log").write_bytes(lines(9, 9))
    for name in ("app.log", "app.log.1", "app.log.2"):
        os.utime(logs / name, (7_000, 7_000))
    assert drain(files, at)[0] == texts(9, 9)


def test_a_log_whose_own_name_is_a_number_continues_no_other_one(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "out.1").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "new").write_bytes(lines(1, 6))  # before the other one goes, whose inode it would get within a tick
    (logs / "out.1").unlink()
    (logs / "new").rename(logs / "out.2")
    os.utime(logs / "out.2", (1, 1))  # an equal time would say that it is the same file
    assert drain(files, at)[0] == texts(1, 6)


def test_a_compressed_copy_that_grows_and_gets_another_inode_is_read_on(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log").write_bytes(lines(1, 9))
    (logs / "app.log.gz").write_bytes(gzip.compress(lines(1, 5)))
    _, at = drain(files, START)
    (logs / "app.log").unlink()
    (logs / "new").write_bytes(gzip.compress(lines(1, 5) + lines(20, 21)))
    (logs / "new").replace(logs / "app.log.gz")
    assert drain(files, at)[0] == texts(20, 21)


def test_a_log_that_was_renamed_and_cut_continues_itself_and_no_twin(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    for name in ("a", "b"):
        (logs / name).mkdir()
        (logs / name / "app.log").write_bytes(lines(1, 6) + (lines(7, 9) if name == "a" else b""))
    _, at = drain(files, START)
    os.truncate(logs / "b/app.log", len(lines(1, 5)))
    os.truncate(logs / "a/app.log", len(lines(1, 8)))
    (logs / "a/app.log").rename(logs / "a/app-20261128.log")
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("made", [30, 22], ids=["whole", "being made"])
def test_a_copy_at_the_inode_of_a_log_that_was_cut_and_replaced_continues_what_it_was_made_of(
    logs: Path, made: int
) -> None:
    class WithoutBirths(Disk):
        """A disk that keeps no time of creation, as NFS."""

        def born(self, opened: BinaryIO) -> int:
            return 0

    files = ReadFiles(logs, rotation="copytruncate", store=WithoutBirths())
    log, elsewhere = logs / "app.log", logs.with_name(f"{logs.name}-inode")
    log.write_bytes(lines(1, 20))
    _, at = drain(files, START)
    os.truncate(log, len(lines(1, 18)))
    with log.open("ab") as opened:
        opened.write(lines(21, 24))
    read, at = drain(files, at)
    assert read == texts(21, 24)
    os.link(log, elsewhere)
    whole = lines(1, 18) + lines(21, 30)
    replaced(log, whole)
    read, at = drain(files, at)
    assert read == texts(25, 30)
    elsewhere.write_bytes(lines(1, 18) + lines(21, made))  # as if the copy got the inode that is free again
    elsewhere.rename(logs / "app.log-20261128")
    read, at = drain(files, at)
    assert read == []
    (logs / "app.log-20261128").write_bytes(whole)
    os.truncate(log, 0)
    assert drain(files, at)[0] == []


def test_a_log_that_was_cut_goes_on_beside_a_file_with_its_inode_number_that_cannot_be_read(logs: Path) -> None:
    class TwoDisks(Faulty):
        """Has a file of another device with the number of the log's inode."""

        def listing(self, path: str) -> Iterator[ListedFile]:
            number = (logs / "app.log").stat().st_ino
            for file in super().listing(path):
                yield replace(file, identity=(99, number)) if file.path.endswith("other.log") else file

    disk = TwoDisks()
    files = ReadFiles(logs, rotation="rename", store=disk)
    (logs / "app.log").write_bytes(lines(1, 6))
    _, at = drain(files, START)
    entry = TailedFile(77, *at.files[0][1:])  # as a reboot changes the number of the device
    at = replace(at, files={0: entry})
    os.truncate(logs / "app.log", len(lines(1, 5)))
    (logs / "other.log").write_bytes(lines(20, 40))
    disk.errors["other.log"] = OSError(errno.EACCES, "Permission denied")
    assert drain(files, at)[0] == []
    with (logs / "app.log").open("ab") as log:
        log.write(lines(7, 7))
    assert drain(files, at)[0] == texts(7, 7)


def test_a_copy_that_grows_while_its_log_cannot_be_looked_for_is_named(logs: Path) -> None:
    disk = Faulty()
    files = ReadFiles(logs, rotation="rename", store=disk)
    (logs / "app.log").write_bytes(lines(1, 5))
    (logs / "app.log.gz").write_bytes(gzip.compress(lines(1, 5)))
    _, at = drain(files, START)
    with (logs / "app.log").open("ab") as log:
        log.write(lines(6, 6))
    read, at = drain(files, at)
    assert read == texts(6, 6)
    (logs / "app.log").rename(logs / "elsewhere")
    disk.errors["elsewhere"] = OSError(errno.ESTALE, "Stale file handle")
    with (logs / "app.log.gz").open("ab") as packed:
        packed.write(gzip.compress(lines(21, 22)))
    assert "may go on with app.log" in faults(files, at)["app.log.gz"]
    assert drain(files, at)[0] == []
    (logs / "elsewhere").unlink()
    assert drain(files, at)[0] == texts(21, 22)


def test_a_file_that_may_continue_one_that_nobody_can_look_for_waits(logs: Path) -> None:
    disk = Faulty()
    files = ReadFiles(logs, rotation="rename", store=disk)
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "app.log.gz").write_bytes(gzip.compress(lines(1, 5)))
    (logs / "app.log").rename(logs / "elsewhere")
    disk.errors["elsewhere"] = OSError(errno.ESTALE, "Stale file handle")
    assert "may go on with app.log" in faults(files, at)["app.log.gz"]
    assert drain(files, at)[0] == []
    (logs / "elsewhere").unlink()
    assert faults(files, at) == {}
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("name", ["app.log.1", "app.log.1.gz", "old/app.log-20261126.bz2"])
def test_the_question_whether_a_file_is_a_copy_stays_until_it_is_answered(logs: Path, name: str) -> None:
    files = ReadFiles(logs, rotation=None)
    (logs / "old").mkdir()
    (logs / "app.log").write_bytes(lines(1, 1))
    packs: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    (logs / name).write_bytes(packs.get(Path(name).suffix, bytes)(lines(1, 1)))
    _, at = drain(files, START)
    for number in (2, 3):
        assert "or a log of its own" in faults(files, at)[Path(name).name]
        with (logs / "app.log").open("ab") as log:
            log.write(lines(number, number))
        read, at = drain(files, at)
        assert read == texts(number, number)
    if name == "app.log.1":
        pack(logs / name)
        assert "or a log of its own" in faults(files, at)[f"{name}.gz"]
    assert "or a log of its own" not in faults(ReadFiles(logs, rotation="copytruncate", bronze=files.bronze), at)
    assert drain(ReadFiles(logs, rotation="copytruncate", bronze=files.bronze), at)[0] == []
    assert drain(ReadFiles(logs, rotation="rename", bronze=files.bronze), at)[0] == texts(1, 1)


@pytest.mark.parametrize("keep", [False, True])
def test_a_file_is_unpacked_and_packed_whose_last_line_has_no_end(logs: Path, keep: bool) -> None:
    files = ReadFiles(logs, rotation="rename")
    log, packed, text = logs / "app.log.1", logs / "app.log.1.gz", lines(1, 5)[:-1]
    packed.write_bytes(gzip.compress(text))
    os.utime(packed, (1, 1))
    read, at = drain(files, START)
    assert read == texts(1, 5)
    log.write_bytes(text)
    if keep:
        assert drain(files, at)[0] == []
    packed.unlink()
    assert drain(files, at)[0] == []
    (logs / "other.log").write_bytes(lines(9, 9))  # so that there is another position
    read, at = drain(files, at)
    assert read == texts(9, 9)
    assert drain(files.restarted(), at)[0] == []
    with log.open("ab") as opened:
        opened.write(b"\n" + lines(6, 6))
    assert drain(files, at)[0] == texts(6, 6)
    log.write_bytes(text + b" goes on\n")
    assert "had no end" in faults(files, at)["app.log.1"]
    assert drain(files, at)[0] == []
    packed.write_bytes(gzip.compress(text))
    log.unlink()
    assert drain(files, at)[0] == []


@pytest.mark.parametrize(("ending", "pack_one"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("between", [b"\0" * 100, b"", b"text", b"BZh91"], ids=["zeros", "block", "text", "begun"])
def test_what_stands_between_two_members_is_a_fault(
    logs: Path, ending: str, pack_one: Callable[[bytes], bytes], between: bytes
) -> None:
    files, log = ReadFiles(logs, rotation="rename"), logs / f"app.log.{ending}"
    first = pack_one(lines(1, 5))
    between = between or b"\0" * (BLOCK - len(first))  # so that the next member begins a block
    log.write_bytes(first + between + pack_one(lines(6, 9)))
    (logs / "other.log").write_bytes(lines(20, 20))
    assert drain(files, START)[0] == texts(20, 20)
    assert "damaged" in faults(files, START)[log.name]
    log.write_bytes(pack_one(lines(1, 5)) + b"\0" * 100)
    assert sorted(drain(files, START)[0]) == sorted([*texts(1, 5), *texts(20, 20)])


def test_a_log_that_logback_compresses_is_read_once(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    being_packed, packed = logs / "app.2026-11-28.0.log.gz1234567890.tmp", logs / "app.2026-11-28.0.log.gz"
    (logs / "app.log").rename(being_packed)
    (logs / "app.log").write_bytes(lines(6, 6))
    read, at = drain(files, at)
    assert read == texts(6, 6)
    packed.write_bytes(gzip.compress(lines(1, 5)))
    assert drain(files, at)[0] == []
    being_packed.unlink()
    assert drain(files, at)[0] == []


def test_a_compressed_file_with_less_in_it_is_no_form_of_another_one(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log.gz").write_bytes(gzip.compress(lines(1, 5)))
    _, at = drain(files, START)
    (logs / "app.log.bz2").write_bytes(bz2.compress(lines(1, 1)))
    assert drain(files, at)[0] == texts(1, 1)


def test_two_compressed_forms_of_a_log_are_one_file(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    read, at = drain(files, START)
    (logs / "app.log.1.bz2").write_bytes(bz2.compress(lines(1, 5)))
    assert drain(files, at)[0] == []
    assert sorted(drain(files, START)[0]) == sorted(read) == texts(1, 5)
    (logs / "app.log.1.gz").unlink()
    assert drain(files, at)[0] == []
    (logs / "app.log.1").write_bytes(lines(1, 5))
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("mark", ["~", ".bak", ".orig"])
def test_a_log_that_is_replaced_beside_its_backup_is_asked_for(logs: Path, mark: str) -> None:
    files, log, backup = ReadFiles(logs, rotation=None), logs / "app.log", logs / f"app.log{mark}"
    log.write_bytes(lines(1, 5))
    _, at = drain(files, START)
    log.rename(backup)
    log.write_bytes(lines(1, 6))
    assert "or a log of its own" in faults(files, at)["app.log"]
    assert drain(files, at)[0] == []
    assert drain(ReadFiles(logs, rotation="copytruncate", bronze=files.bronze), at)[0] == texts(6, 6)
    assert drain(ReadFiles(logs, rotation="rename", bronze=files.bronze), at)[0] == texts(1, 6)
    backup.unlink()
    assert drain(files, at)[0] == texts(6, 6)


def test_an_archive_gets_another_number_inode_and_time_beside_a_log_with_its_old_number(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    (logs / "app.log").write_bytes(lines(6, 7))
    _, at = drain(files, START)
    (logs / "app.log.1.gz").unlink()
    (logs / "app.log.2.gz").write_bytes(gzip.compress(lines(1, 5), 1))
    os.utime(logs / "app.log.2.gz", (7_000, 7_000))
    (logs / "app.log").rename(logs / "app.log.1")
    (logs / "app.log").write_bytes(lines(8, 8))
    assert drain(files, at)[0] == texts(8, 8)


def test_a_rotated_log_is_packed_and_its_number_raised_beside_a_log_that_was_never_read(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log.1").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "app.log.1").unlink()
    (logs / "app.log.2.gz").write_bytes(gzip.compress(lines(1, 5)))
    os.utime(logs / "app.log.2.gz", (7_000, 7_000))
    (logs / "app.log.2").write_bytes(lines(8, 8))
    (logs / "app.log.1").write_bytes(lines(9, 9))
    assert sorted(drain(files, at)[0]) == texts(8, 9)


@pytest.mark.parametrize(("was", "now"), [("app.3.log", "app.2.log.gz"), ("app-1.log", "app-2.log.gz")])
def test_a_rotated_log_of_another_number_is_compressed_without_its_time(logs: Path, was: str, now: str) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / was).write_bytes(lines(1, 5))
    (logs / "app.log").write_bytes(lines(6, 6))
    _, at = drain(files, START)
    (logs / was).unlink()
    (logs / was).write_bytes(lines(8, 9))
    (logs / now).write_bytes(gzip.compress(lines(1, 5)))
    assert drain(files, at)[0] == texts(8, 9)


@pytest.mark.parametrize("name", ["app.log.2026-W48", "app.2026-Nov-28.log", "app-28-Nov-2026-pm.log"])
def test_a_copy_with_any_form_of_a_date_is_one_if_logs_are_copied(logs: Path, name: str) -> None:
    files = ReadFiles(logs, rotation="copytruncate")
    (logs / "app.log").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / name).write_bytes(lines(1, 5))
    assert drain(files, at)[0] == []
    (logs / "app.log").write_bytes(lines(6, 6))
    assert drain(files, at)[0] == texts(6, 6)


@pytest.mark.parametrize("rotation", [None, "rename", "copytruncate"])
def test_two_copies_of_a_copy_that_is_gone_are_found(logs: Path, rotation: Rotation | None) -> None:
    files = ReadFiles(logs, rotation=rotation)
    (logs / "app.log").write_bytes(lines(1, 5))
    (logs / "other.log").write_bytes(lines(20, 20))
    _, at = drain(files, START)
    (logs / "app.log.1").write_bytes(lines(1, 5))
    (logs / "other.log").write_bytes(lines(20, 21))
    _, at = drain(files, at)
    for name in ("app.log.2", "app.log.3"):
        (logs / name).write_bytes(lines(1, 5))
    (logs / "app.log.1").unlink()  # now, so that neither copy gets its inode
    read, _ = drain(files, at)
    assert read == (texts(1, 5) * 2 if rotation == "rename" else [])  # they are logs of their own then
    assert len(faults(files, at)) == (0 if rotation else 2)


@pytest.mark.parametrize("rotation", [None, "rename", "copytruncate"])
def test_the_first_line_of_a_log_that_starts_as_its_archive_does_counts(logs: Path, rotation: Rotation | None) -> None:
    files, log = ReadFiles(logs, rotation=rotation), logs / "app.log"
    log.write_bytes(lines(1, 5))
    _, at = drain(files, START)
    pack(log)
    (logs / "other.log").write_bytes(lines(20, 20))
    _, at = drain(files, at)
    log.write_bytes(lines(1, 1))
    with (logs / "other.log").open("ab") as other:
        other.write(lines(21, 21))
    read, at = drain(files, at)
    assert read == texts(21, 21)
    log.write_bytes(lines(1, 1) + lines(6, 9))
    assert drain(files, at)[0] == [*texts(1, 1), *texts(6, 9)]
    (logs / "app.log.gz").unlink()
    assert drain(files, at)[0] == [*texts(1, 1), *texts(6, 9)]


@pytest.mark.parametrize("rotation", ["rename", "copytruncate"])
def test_lines_of_a_backup_that_were_not_read_count(logs: Path, rotation: Rotation) -> None:
    files, log = ReadFiles(logs, rotation=rotation), logs / "app.log"
    log.write_bytes(lines(1, 1))
    _, at = drain(files, START)
    log.rename(logs / "app.log.bak")
    (logs / "app.log.bak").write_bytes(lines(1, 1) + lines(2, 5))
    log.write_bytes(lines(1, 1) + lines(6, 9))
    assert sorted(drain(files, at)[0]) == texts(1, 9)


def test_the_question_whether_a_log_beside_its_backup_is_a_copy_stays(logs: Path) -> None:
    files, log = ReadFiles(logs, rotation=None), logs / "app.log"
    log.write_bytes(lines(1, 5))
    _, at = drain(files, START)
    log.rename(logs / "app.log~")
    log.write_bytes(lines(1, 5))
    (logs / "other.log").write_bytes(lines(20, 20))
    _, at = drain(files, at)
    with log.open("ab") as opened:
        opened.write(lines(6, 6))
    assert "or a log of its own" in faults(files, at)["app.log"]
    assert drain(files, at)[0] == []
    log.rename(logs / "app.log.1")
    log.write_bytes(lines(7, 8))
    assert drain(files, at)[0] == texts(7, 8)
    assert "or a log of its own" in faults(files, at)["app.log.1"]
    assert sorted(drain(ReadFiles(logs, rotation="copytruncate", bronze=files.bronze), at)[0]) == texts(6, 8)


@pytest.mark.parametrize("more", [b"o\nthree\n", b"\nthree\n"])
def test_a_compressed_file_that_is_replaced_by_more_of_its_last_line_is_named(logs: Path, more: bytes) -> None:
    files, packed = ReadFiles(logs, rotation="rename"), logs / "app.log.gz"
    packed.write_bytes(gzip.compress(lines(1, 2) + b"tw"))
    os.utime(packed, (1, 1))
    _, at = drain(files, START)
    replaced(packed, gzip.compress(lines(1, 2) + b"tw" + more)[:-3])
    assert drain(files, at)[0] == [], "it is not complete"
    replaced(packed, gzip.compress(lines(1, 2) + b"tw" + more))
    read, _ = drain(files, at)
    assert read == ([] if more[:1] == b"o" else [b"three"])
    assert ("app.log.gz" in faults(files, at)) == (more[:1] == b"o")


def test_the_forms_of_a_log_that_are_rotated_together_stay_one_file(logs: Path) -> None:
    files = ReadFiles(logs, rotation="rename")
    (logs / "app.log.1").write_bytes(lines(1, 5))
    _, at = drain(files, START)
    (logs / "app.log.1.gz").write_bytes(gzip.compress(lines(1, 5)))
    (logs / "app.log.1.bz2").write_bytes(bz2.compress(lines(1, 5)))
    (logs / "app.log.1").unlink()
    (logs / "other.log").write_bytes(lines(20, 20))
    _, at = drain(files, at)
    for ending in ("", ".gz", ".bz2"):
        (logs / f"app.log.1{ending}").exists() and (logs / f"app.log.1{ending}").rename(logs / f"app.log.2{ending}")
    (logs / "app.log.2").write_bytes(lines(1, 5))
    assert drain(files, at)[0] == []


def test_a_file_that_is_renamed_all_the_time_is_a_fault(logs: Path) -> None:
    disk = Faulty()
    (logs / "app.log").write_bytes(lines(1, 5))
    disk.errors["app.log"] = FileMovedError("moved")
    files = ReadFiles(logs, rotation=None, store=disk)
    (logs / "app.log.1").write_bytes(lines(1, 5))
    assert faults(files, START)["app.log.1"] == "it is renamed again and again"


def test_ten_thousand_files_with_the_same_first_line_are_planned_in_time(logs: Path, files: ReadFiles) -> None:
    for number in range(3000):
        (logs / f"app-{number}.log").write_bytes(b"#Version: 1.0\n" + b"%d\n" % number)
    began = time.process_time()
    at = files.plan(START, EVERYTHING)
    once = time.process_time() - began
    assert len(at.files) == 3000
    for number in range(3000):
        (logs / f"app-{number}.log").rename(logs / f"app-{number}.log.1")
        (logs / f"app-{number}.log").write_bytes(b"#Version: 1.0\n" + b"%d\n" % number)
    began = time.process_time()
    files.plan(at, EVERYTHING)
    assert time.process_time() - began < 10 * once + 1, "the work is linear in the files"


def test_a_position_of_an_earlier_version_goes_on_and_gets_todays_form(logs: Path, files: ReadFiles) -> None:
    paths = [logs / name for name in ("app.log", "small.log", "app.log.2.gz", "big.log")]
    paths[0].write_bytes(lines(1, 5))
    paths[1].write_bytes(lines(1, 1))
    paths[2].write_bytes(gzip.compress(lines(1, 9)))
    paths[3].write_bytes(lines(1, 90))
    fields = []
    for path in paths:
        status = path.stat()
        with path.open("rb") as file:
            ends = ends_of(file, status.st_size)
        packed = [status.st_size] if path.suffix == ".gz" else []
        size = len(lines(1, 9)) if packed else status.st_size
        fields.append([status.st_dev, status.st_ino, size, ends, *packed])
    at = TailPosition(9999, 4, {number: TailedFile.parse(field) for number, field in enumerate(fields)})
    at = TailPosition.parse(at.to_json()) or at
    assert drain(files, at) == ([], at)
    with paths[0].open("ab") as file:
        file.write(lines(6, 6))
    (logs / "big.log.1.gz").write_bytes(gzip.compress(lines(1, 91)))
    paths[3].unlink()
    read, after = drain(files, at)
    assert sorted(read) == sorted(texts(6, 6) + texts(91, 91))
    assert all(entry.digest and entry.path for entry in after.files.values())


@pytest.mark.parametrize(
    ("name", "logs_of_it"),
    [
        ("app.log.1", ["app.log"]),
        ("app.log.3.gz", ["app.log"]),
        ("app.log-20261126", ["app.log"]),
        ("app.log-20261126-10.bz2", ["app.log", "app.log-20261126"]),
        ("app-2026-11-26.log", ["app.log", "app-2026.log", "app-2026-11.log"]),
        ("app.log.old", ["app.log"]),
        ("app.log~", ["app.log"]),
        ("worker-1.log.2", ["worker.log.2", "worker-1.log"]),
        ("job1.log", []),
        ("app.log", []),
        ("application.older", []),
    ],
)
def test_a_rotated_name_says_which_log_it_is_of(name: str, logs_of_it: list[str]) -> None:
    assert [*origins(name)] == logs_of_it


def test_a_rotation_raises_the_last_number_of_a_name() -> None:
    assert shifts("app.log.1") == shifts("app.log.1") == ("app.log.#", 1)
    assert shifts("app.log.12.gz") == ("app.log.#", 12)
    assert shifts("app.3.log") == ("app.#.log", 3)
    assert shifts("app.log") is None
