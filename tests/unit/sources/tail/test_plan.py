"""A growing file is read on under any name, cut files and copies are told apart, and only whole records are planned."""

import errno
import gzip
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

import pytest

from oncelake.common.errors import SourceError
from oncelake.sources.directory.listing import ListedFile
from oncelake.sources.tail import plan as tail_files
from oncelake.sources.tail import survey as tail_survey
from oncelake.sources.tail.content import Disk
from oncelake.sources.tail.plan import LastStart, TailFiles, ranges
from oncelake.sources.tail.position import TailPosition
from tests.support.tailing import EVERYTHING, Later, LogDirectory, ReadFiles, drain, pack, read

LONG = b"2026-11-26 10:00:00 INFO " + b"x" * 1200 + b"\n"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path)


@pytest.fixture
def files(logs: LogDirectory) -> ReadFiles:
    return ReadFiles(logs.path)


def ago(path: Path, seconds: float = 100.0) -> None:
    """Date a file back by some seconds."""
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def last_start(text: bytes) -> int:
    """Find the last line that begins with a digit, as Records.java does."""
    found = [match.start() for match in re.finditer(rb"^\d", text, re.MULTILINE)]
    return found[-1] if found else -1


def test_a_line_without_its_end_waits(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(2, half=True)
    first, at = drain(files, TailPosition())
    assert first == logs.lines[:2]
    assert files.plan(at, EVERYTHING) == at
    logs.write(1)
    assert drain(files, at)[0] == logs.lines[2:]


def test_a_renamed_file_is_read_on_and_its_successor_from_its_beginning(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    _, at = drain(files, TailPosition())
    logs.write(2)
    logs.rename()
    logs.write(4)
    lines, at = drain(files, at)
    assert sorted(lines) == sorted(logs.lines[3:])
    assert sorted(at.files) == [0, 1]


def test_a_file_that_was_cut_is_a_new_one_and_its_copy_is_read_on(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(30)
    _, at = drain(files, TailPosition())
    logs.write(5)
    logs.copy()
    assert [Path(one.path).name for one, _ in files.survey(at).copies] == ["app.log.1"]
    logs.cut()
    logs.write(50)
    lines, at = drain(files.restarted(), at)
    assert sorted(lines) == sorted(logs.lines[30:])


@pytest.mark.parametrize("half", [False, True])
def test_a_copy_holds_nothing_new_if_its_file_was_read_further_before_it_was_cut(
    logs: LogDirectory, files: ReadFiles, half: bool
) -> None:
    logs.write(30, half=half)
    _, at = drain(files, TailPosition())
    assert "copies" not in at.to_json()
    logs.copy()
    logs.write(5)
    _, at = drain(files, at)
    logs.cut()
    assert drain(files.restarted(), at) == ([], at)
    logs.write(3)
    lines, at = drain(files.restarted(), at)
    assert lines == logs.lines[35:]
    assert [Path(each.path).name for each in files.survey(at).spent.values()] == ["app.log.1"]
    pack(logs.path / "app.log.1")
    logs.write(3)
    lines, at = drain(files.restarted(), at)
    assert lines == logs.lines[38:]
    assert drain(files.restarted(), at) == ([], at)
    (logs.path / "app.log.1.gz").write_bytes(gzip.compress(b"another one\n"))
    assert drain(files, at)[0] == [b"another one"]


def test_a_compressed_file_is_known_by_what_it_holds(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(40)
    logs.rename()
    _, at = drain(files, TailPosition())
    packed = pack(logs.path / "app.log.1", keep=True)
    assert [Path(one.path).name for one, _ in files.survey(at).copies] == ["app.log.1.gz"]
    (logs.path / "app.log.1").unlink()
    assert files.plan(at, EVERYTHING) == at
    logs.write(1)
    lines, at = drain(files, at)
    assert lines == logs.lines[40:]
    assert at.files[0].packed == packed.stat().st_size
    packed.rename(logs.path / "app.log.2.gz")
    assert drain(files.restarted(), at)[0] == []


def test_a_compressed_file_that_is_being_written_waits(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(200)
    logs.rename()
    packed = pack(logs.path / "app.log.1")
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    assert files.plan(TailPosition(), EVERYTHING) == TailPosition()
    assert [Path(file.path).name for file, _ in files.survey(TailPosition()).aside] == ["app.log.1.gz"]
    packed.write_bytes(whole)
    assert drain(files, TailPosition())[0] == logs.lines


def test_a_file_with_the_inode_of_a_deleted_one_is_a_new_one(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    _, at = drain(files, TailPosition())
    with logs.log.open("r+b") as file:  # the same inode for certain
        file.truncate()
        file.write(b"another one\n" * 20)
    lines, after = drain(files, at)
    assert lines == [b"another one"] * 20
    assert sorted(after.files) == [0, 1]


def test_files_that_begin_with_the_same_lines_are_all_read(logs: LogDirectory, files: ReadFiles) -> None:
    header = b"#Version: 1.0\n"
    for name in ("a", "b", "c"):
        (logs.path / name).write_bytes(header + name.encode() + b"\n")
    lines, at = drain(files, TailPosition())
    assert sorted(lines) == [b"#Version: 1.0"] * 3 + [b"a", b"b", b"c"]
    (logs.path / "d").write_bytes(header)
    assert drain(files, at)[0] == [b"#Version: 1.0"], "two files that are there at once are two files"


def test_a_short_file_that_is_like_a_deleted_one_is_a_new_one(logs: LogDirectory, files: ReadFiles) -> None:
    (logs.path / "a").write_bytes(b"#Version: 1.0\n")
    _, at = drain(files, TailPosition())
    (logs.path / "b").write_bytes(b"#Version: 1.0\nb\n")
    os.utime(logs.path / "b", (1, 1))  # an equal time would say that it is the same file
    (logs.path / "a").unlink()
    assert drain(files, at)[0] == [b"#Version: 1.0", b"b"]


def test_a_file_that_was_moved_to_another_disk_is_read_on(logs: LogDirectory, files: ReadFiles) -> None:
    (logs.path / "a").write_bytes(LONG)
    _, at = drain(files, TailPosition())
    shutil.copy2(logs.path / "a", logs.path / "b")
    (logs.path / "a").unlink()
    assert drain(files, at)[0] == []
    (logs.path / "b").write_bytes(LONG + b"more\n")
    (logs.path / "a").write_bytes(LONG + LONG)
    assert sorted(drain(files, at)[0]) == [LONG.strip(), LONG.strip(), b"more"]


def test_hard_links_and_symbolic_links_are_one_file(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    os.link(logs.log, logs.path / ".hidden")
    (logs.path / "current").symlink_to(logs.log)
    assert drain(files, TailPosition())[0] == logs.lines


@pytest.mark.parametrize("most", [1, 30, 100, 1000])
def test_a_batch_reads_about_as_much_as_allowed(logs: LogDirectory, files: ReadFiles, most: int) -> None:
    logs.write(50)
    at, batches, lines = TailPosition(), 0, []
    while (end := files.plan(at, most)) != at:
        assert end.read - at.read <= max(most, len(logs.lines[-1]) + 1)
        lines += read(files, at, end)
        at, batches = end, batches + 1
    assert lines == logs.lines
    assert batches >= at.read // max(most, 40)


def test_only_what_was_there_at_the_stop_is_planned(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    until = files.sizes()
    logs.write(3)
    (logs.path / "new.log").write_bytes(b"new\n")
    end = files.plan(TailPosition(), EVERYTHING, until)
    assert read(files, TailPosition(), end) == logs.lines[:3]


def test_a_batch_is_found_in_the_renamed_cut_or_compressed_file(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(40)
    end = files.plan(TailPosition(), EVERYTHING)
    (told,) = files.slices(TailPosition(), end, 1)
    logs.rename()
    logs.write(3)
    assert read(files.restarted(), TailPosition(), end) == logs.lines[:40]
    pack(logs.path / "app.log.1")
    assert read(files.restarted(), TailPosition(), end) == logs.lines[:40]
    assert "app.log.1.gz\t1\t" in files.find(told, end)
    (logs.path / "app.log.1.gz").unlink()
    assert files.find(told, end) == ""
    (told,) = files.slices(TailPosition(), end, 1)
    assert unquote(told.split("\t")[2]).startswith("bytes 0 to "), "no file is there"
    assert files.find(told, end) == ""
    assert [each.file_id for each in files.lost(TailPosition(), end)] == [0]


def test_a_file_that_is_another_one_by_now_is_not_planned(logs: LogDirectory) -> None:
    class Stale(Disk):
        """Lists a directory as it was."""

        def listing(self, path: str) -> list[ListedFile]:
            return listed

    logs.write(3)
    listed = [*Disk().listing(str(logs.path))]
    logs.rename()
    logs.log.write_bytes(b"another one\n" * 50)
    files = ReadFiles(logs.path, store=Stale())
    assert files.plan(TailPosition(), EVERYTHING) == TailPosition()


def test_a_file_that_is_cut_after_it_was_listed_is_not_planned(
    logs: LogDirectory, files: ReadFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(30)
    _, at = drain(files, TailPosition())
    logs.write(3)
    matched = files.survey(at)
    with logs.log.open("r+b") as file:
        file.write(b"another one\n" * 200)
    monkeypatch.setattr(files, "survey", lambda _: matched)
    assert files.plan(at, EVERYTHING) == at


def test_a_big_file_is_split_between_tasks_and_small_ones_share_one(logs: LogDirectory, files: ReadFiles) -> None:
    (logs.path / "big").write_bytes(LONG * 9_000)
    for number in range(5):
        (logs.path / f"{number}").write_bytes(b"small %d\n" % number)
    end = files.plan(TailPosition(), EVERYTHING)
    tasks = [int(told.split("\t")[0]) for told in files.slices(TailPosition(), end, 2)]
    assert len(set(tasks)) in (2, 3, 4)
    assert len(read(files, TailPosition(), end)) == 9_005


def test_a_file_that_is_gone_is_remembered_for_a_week(logs: LogDirectory) -> None:
    disk = Later()
    files = ReadFiles(logs.path, store=disk)
    (logs.path / "long-lived.log").write_bytes(LONG)
    _, at = drain(files, TailPosition())
    (logs.path / "long-lived.log").rename(logs.path.with_name("away"))
    for number in range(150):
        (logs.path / "job.log").write_bytes(b"%d\n" % number)
        _, at = drain(files, at)
        (logs.path / "job.log").unlink()
    disk.days = 6.9
    (logs.path / "new.log").write_bytes(b"new\n")
    _, at = drain(files, at)
    assert (len(at.files), at.forgotten) == (152, 0)
    logs.path.with_name("away").rename(logs.path / "long-lived.log")
    assert drain(files, at)[0] == []
    disk.days = 7.1
    (logs.path / "newer.log").write_bytes(b"newer\n")
    _, after = drain(files, at)
    assert (len(after.files), after.forgotten) == (3 + 1, 149)


def test_a_log_that_lost_its_end_is_remembered_as_long_as_it_is_there(logs: LogDirectory) -> None:
    disk = Later()
    files = ReadFiles(logs.path, store=disk)
    logs.log.write_bytes(b"".join(b"line %d\n" % number for number in range(20)))
    _, at = drain(files, TailPosition())
    os.truncate(logs.log, logs.log.stat().st_size - 20)
    for day in range(10):
        disk.days = float(day)
        (logs.path / "other.log").write_bytes(b"".join(b"day %d\n" % number for number in range(day + 1)))
        lines, at = drain(files, at)
        assert lines == [b"day %d" % day]


def test_files_that_are_gone_take_a_megabyte_of_a_position(
    logs: LogDirectory, files: ReadFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "REMEMBERED_BYTES", 1000)
    at = TailPosition()
    for number in range(30):
        (logs.path / f"{number}.log").write_bytes(b"%d\n" % number)
        _, at = drain(files, at)
        (logs.path / f"{number}.log").unlink()
    assert 5 < len(at.files) < 15
    assert at.forgotten + len(at.files) == 30
    assert max(at.files) == 29


def test_the_last_record_waits_until_the_next_one_starts_or_the_file_is_quiet(logs: LogDirectory) -> None:
    files = TailFiles(str(logs.path), LastStart(last_start, 60.0))
    logs.log.write_bytes(b"1 a\n b\n2 c\n d\n")
    at = files.plan(TailPosition(), EVERYTHING)
    assert at.files[0].offset == len(b"1 a\n b\n")
    assert files.plan(at, EVERYTHING) == at
    with logs.log.open("ab") as file:
        file.write(b" e\n3 f\n")
    assert files.plan(at, EVERYTHING).files[0].offset == len(b"1 a\n b\n2 c\n d\n e\n")
    ago = time.time() - 61
    os.utime(logs.log, (ago, ago))
    assert files.plan(at, EVERYTHING).files[0].offset == logs.log.stat().st_size


@pytest.mark.parametrize("most", [1, 8, 20])
def test_a_batch_ends_between_two_records(logs: LogDirectory, most: int) -> None:
    files = TailFiles(str(logs.path), LastStart(last_start, 0.0))
    logs.log.write_bytes(b"".join(b"%d a\n b\n\n" % number for number in range(9)))
    at = TailPosition()
    while (end := files.plan(at, most)) != at:
        assert end.files[0].offset % 8 == 0
        at = end
    assert at.read == logs.log.stat().st_size


def test_a_line_that_was_cut_waits_for_its_last_part_and_one_task_reads_it(
    logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_whole(text: bytes) -> int:
        """Return the end of the last line that does not go on; here, one with a P does."""
        lines = text.splitlines(keepends=True)
        while lines and lines[-1].startswith(b"P"):
            lines.pop()
        return len(b"".join(lines)) or -1

    monkeypatch.setattr(tail_files, "TASK_BYTES", (4, 4))
    files = TailFiles(str(logs.path), LastStart(last_whole, 60.0, is_split=False))
    logs.log.write_bytes(b"F one\nP two\nF two\n")
    at = files.plan(TailPosition(), EVERYTHING)
    assert at.files[0].offset == logs.log.stat().st_size, "a line that is whole does not wait for the next one"
    assert len(files.slices(TailPosition(), at, 4)) == 1
    with logs.log.open("ab") as file:
        file.write(b"P three\nP three\n")
    assert files.plan(at, EVERYTHING) == at
    with logs.log.open("ab") as file:
        file.write(b"F three\nP four\n")
    after = files.plan(at, EVERYTHING)
    assert after.files[0].offset == logs.log.stat().st_size - len(b"P four\n")
    assert len(files.slices(at, after, 4)) == 1


def test_a_directory_that_is_away_is_an_error_and_nothing_is_forgotten(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    _, at = drain(files, TailPosition())
    away = logs.path.with_name("away")
    logs.path.rename(away)
    with pytest.raises(SourceError, match="cannot be listed"):
        files.plan(at, EVERYTHING)
    logs.path.mkdir()
    assert files.plan(at, EVERYTHING) == at
    logs.path.rmdir()
    away.rename(logs.path)
    assert files.plan(at, EVERYTHING) == at


def test_too_many_files_are_refused_with_the_way_out(
    logs: LogDirectory, files: ReadFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_survey, "MOST_FILES", 2)
    for number in range(3):
        (logs.path / f"{number}").write_bytes(b"x\n")
    with pytest.raises(SourceError, match=r"holds 3 files; kind tail follows at most 2\. Move old files away"):
        files.listed()


def test_a_position_is_one_line_of_json_and_reads_back(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    (logs.path / "b.log.gz").write_bytes(b"")
    at = files.plan(TailPosition(), EVERYTHING)
    text = at.to_json()
    assert "\n" not in text
    assert TailPosition.parse(text) == at
    assert (at.numbers(), at.words("logs")) == ({"bytes": at.read}, f"{at.read} bytes of 1 file")
    assert [(each.start, each.end) for each in ranges(TailPosition(), at)] == [(0, at.read)]


def test_a_compressed_file_beside_its_original_is_a_copy_if_it_ends_within_a_line(
    logs: LogDirectory, files: ReadFiles
) -> None:
    logs.write(3, half=True)
    ago(pack(logs.log, keep=True))
    lines, at = drain(files, TailPosition())
    logs.write(2)
    more, at = drain(files, at)
    assert lines + more == logs.lines
    logs.log.unlink()
    assert drain(files.restarted(), at) == ([], at)


def test_the_rest_of_a_compressed_file_is_read_also_if_another_file_was_read_before(
    logs: LogDirectory, files: ReadFiles
) -> None:
    logs.write(40)
    end = files.plan(TailPosition(), 500)
    lines = read(files, TailPosition(), end)
    packed = pack(logs.log)
    (logs.path / "earlier.log").write_bytes(b"earlier\n" * 100)
    ago(logs.path / "earlier.log", 200)
    ago(packed)
    more, _ = drain(files, end, most=500)
    assert sorted(lines + more) == sorted([*logs.lines, *[b"earlier"] * 100])


@pytest.mark.parametrize("link", ["a-current", "z-current"])
def test_a_link_to_a_log_does_not_hide_its_name(logs: LogDirectory, files: ReadFiles, link: str) -> None:
    logs.write(30)
    (logs.path / link).symlink_to(logs.log)
    lines, at = drain(files, TailPosition())
    assert {file.path for file in at.files.values()} == {"app.log"}
    logs.copy()
    assert [Path(copy.path).name for copy, _ in files.survey(at).copies] == ["app.log.1"]
    logs.cut()
    logs.write(2)
    assert lines + drain(files.restarted(), at)[0] == logs.lines


def test_a_hard_link_does_not_hide_the_name_of_a_log(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(3)
    os.link(logs.log, logs.path / "a")
    _, at = drain(files, TailPosition())
    shutil.copyfile(logs.log, logs.path / "app.log.1")
    assert [Path(copy.path).name for copy, _ in files.survey(at).copies] == ["app.log.1"]


def test_a_new_file_at_the_path_of_one_that_was_cut_and_read_on_is_read_from_its_beginning(
    logs: LogDirectory, files: ReadFiles
) -> None:
    logs.write(30)
    first, at = drain(files, TailPosition())
    with logs.log.open("r+b") as file:
        file.truncate(sum(len(line) + 1 for line in logs.lines[:28]))
    logs.write(2)
    second, at = drain(files, at)
    assert first + second == logs.lines
    logs.log.unlink()
    logs.log.write_bytes(b"another one\n" * 100)
    assert drain(files, at)[0] == [b"another one"] * 100


@pytest.mark.parametrize("rest", [0, 1])
def test_a_log_that_was_cut_twice_is_read_on_twice(logs: LogDirectory, files: ReadFiles, rest: int) -> None:
    logs.write(30)
    lines, at = drain(files, TailPosition())
    for kept in (28, 28 + rest):
        with logs.log.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in logs.lines[:28]) + 33 * (kept - 28))
        logs.write(2)
        more, at = drain(files, at)
        lines += more
    assert lines == logs.lines


def shorten(log: Path, lines: int) -> None:
    """Remove the last lines of a log, as a crash of the machine does."""
    remaining = log.read_bytes().split(b"\n")[: -lines - 1]
    os.truncate(log, sum(len(line) + 1 for line in remaining))


def test_a_log_that_is_whole_again_after_it_was_listed_shorter_counts_once(logs: LogDirectory) -> None:
    logs.write(30)
    whole = logs.log.read_bytes()

    class Rewritten(Disk):
        """A disk on which the log is written again from its beginning, and a listing meets that."""

        def listing(self, path: str) -> Iterator[ListedFile]:
            os.truncate(logs.log, len(whole) * 7 // 10)
            yield from super().listing(path)
            logs.log.write_bytes(whole)

    files = ReadFiles(logs.path)
    lines, at = drain(files, TailPosition())
    met = ReadFiles(logs.path, bronze=files.bronze, store=Rewritten())
    assert met.plan(at, EVERYTHING) == at
    logs.write(2)
    assert lines + drain(files, at)[0] == logs.lines


def test_a_log_that_loses_its_end_again_after_a_month_is_read_on(logs: LogDirectory) -> None:
    disk = Later()
    files = ReadFiles(logs.path, store=disk)
    logs.write(30)
    lines, at = drain(files, TailPosition())
    for day in (10.0, 20.0, 30.0):
        disk.days = day
        shorten(logs.log, 1)
        logs.write(2)
        more, at = drain(files, at)
        lines += more
        assert lines == logs.lines
    assert at.forgotten == 0


def test_the_place_of_a_file_is_its_path_also_if_the_source_is_one_file(logs: LogDirectory) -> None:
    logs.write(3)
    for path in (logs.path, logs.log):
        files = ReadFiles(path)
        _, at = drain(files, TailPosition())
        assert [files.place_of(entry) for entry in at.files.values()] == [str(logs.log)]


def test_a_copy_beside_its_log_does_not_continue_a_log_of_another_directory(
    logs: LogDirectory, files: ReadFiles
) -> None:
    for name in ("a", "b"):
        (logs.path / name).mkdir()
        (logs.path / name / "app.log").write_bytes(b"equal\n")
    with (logs.path / "b" / "app.log").open("ab") as file:
        file.write(b"more\n" * 9)
    _, at = drain(files, TailPosition())
    gone = logs.path / "a" / "app.log"
    with gone.open("rb"):  # so that the file system does not give its inode to the copy
        gone.unlink()
        (logs.path / "b" / "app.log.1").write_bytes(b"equal\nmore\n")
        assert drain(files, at)[0] == []


def test_a_compressed_copy_beside_its_original_does_not_continue_another_file(
    logs: LogDirectory, files: ReadFiles
) -> None:
    for number in (1, 2):
        (logs.path / f"out.{number}").write_bytes(b"equal\n" * 3)
    _, at = drain(files, TailPosition())
    with (logs.path / "out.1").open("r+b") as file:
        file.truncate(12)
    pack(logs.path / "out.2", keep=True)
    assert drain(files, at)[0] == []


@pytest.mark.parametrize("is_read", [False, True])
def test_a_file_that_is_being_unpacked_is_not_read_twice(logs: LogDirectory, files: ReadFiles, is_read: bool) -> None:
    logs.write(40)
    packed, text = pack(logs.log), b"".join(line + b"\n" for line in logs.lines)
    lines, at = drain(files, TailPosition()) if is_read else ([], TailPosition())
    logs.log.write_bytes(text[: len(text) // 2])
    more, at = drain(files, at)
    logs.log.write_bytes(text)
    packed.unlink()
    last, at = drain(files.restarted(), at)
    assert lines + more + last == logs.lines


def test_a_file_is_not_taken_for_another_one_while_its_own_cannot_be_read(logs: LogDirectory) -> None:
    class Denied(Disk):
        """Refuses one name."""

        def open(self, file: ListedFile) -> BinaryIO:
            if is_denied and file.path.endswith("app.log"):
                raise OSError(errno.ESTALE, "Stale file handle")
            return super().open(file)

    is_denied, files = False, ReadFiles(logs.path, store=Denied())
    logs.write(30)
    lines, at = drain(files, TailPosition())
    pack(logs.log, keep=True)
    logs.write(3)
    (logs.path / "other.log").write_bytes(b"other\n")
    is_denied = True
    more, at = drain(files, at)
    assert more == [b"other"]
    assert [Path(file.path).name for file, _ in files.survey(at).unreadable] == ["app.log", "app.log.gz"]
    is_denied = False
    assert lines + drain(files, at)[0] == logs.lines


def test_a_copy_that_cannot_be_opened_does_not_stop_a_batch(logs: LogDirectory) -> None:
    class Busy(Disk):
        """Opens a copy only as often as it is compared."""

        def open(self, file: ListedFile) -> BinaryIO:
            if is_busy and file.path.endswith(".1"):
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(file)

    is_busy, files = False, ReadFiles(logs.path, store=Busy())
    logs.write(30)
    logs.copy()
    lines, at = drain(files, TailPosition())
    assert len(at.copies) == 1
    logs.write(3)
    files.survey(at)
    is_busy = True
    more, at = drain(files, at)
    assert (lines + more, len(at.copies)) == (logs.lines, 1)


def test_a_log_that_is_cut_between_the_listing_and_the_reading_is_listed_again(logs: LogDirectory) -> None:
    class Racing(Disk):
        """Cuts the log after it is listed."""

        def listing(self, path: str) -> list[ListedFile]:
            listed = [*super().listing(path)]
            if is_copied:
                logs.cut()
            return listed

    is_copied, files = False, ReadFiles(logs.path, store=Racing())
    logs.write(30)
    ago(logs.log)
    lines, at = drain(files, TailPosition())
    logs.copy()
    is_copied = True
    assert lines + drain(files, at)[0] == logs.lines


def test_a_copy_is_read_on_from_the_beginning_of_a_line(logs: LogDirectory, files: ReadFiles) -> None:
    logs.write(30, half=True)
    logs.copy()
    logs.write(1)
    lines, at = drain(files, TailPosition())
    logs.cut()
    with (logs.path / "app.log.1").open("ab") as file:
        file.write(b" is another one\n")
    half = logs.lines[30][: len(logs.lines[30]) // 2]
    assert lines == logs.lines
    assert drain(files, at)[0] == [half + b" is another one"]
