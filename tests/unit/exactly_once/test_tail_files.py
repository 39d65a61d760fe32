"""A growing file is read on under any name, cut files and copies are told apart, and only whole records are planned."""

import gzip
import os
import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from oncelake.common.errors import SourceError
from oncelake.exactly_once import tail_files
from oncelake.exactly_once.positions import TailPosition
from oncelake.exactly_once.tail_files import LastStart, TailFiles, ranges
from tests.support.tailing import EVERYTHING, LogDirectory, drain, pack, read

LONG = b"2026-11-26 10:00:00 INFO " + b"x" * 1200 + b"\n"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path)


@pytest.fixture
def files(logs: LogDirectory) -> TailFiles:
    return TailFiles(str(logs.path))


def last_start(text: bytes) -> int:
    """Find the last line that begins with a digit, as Records.java does."""
    found = [match.start() for match in re.finditer(rb"^\d", text, re.MULTILINE)]
    return found[-1] if found else -1


def test_a_line_without_its_end_waits(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(2, half=True)
    first, at = drain(files, TailPosition())
    assert first == logs.lines[:2]
    assert files.plan(at, EVERYTHING) == at
    logs.write(1)
    assert drain(files, at)[0] == logs.lines[2:]


def test_a_renamed_file_is_read_on_and_its_successor_from_its_beginning(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(3)
    _, at = drain(files, TailPosition())
    logs.write(2)
    logs.rename()
    logs.write(4)
    lines, at = drain(files, at)
    assert sorted(lines) == sorted(logs.lines[3:])
    assert sorted(at.files) == [0, 1]


def test_a_new_file_is_claimed_before_it_is_read(logs: LogDirectory) -> None:
    claimed: list[str] = []
    files = TailFiles(str(logs.path), claim=claimed.append)
    logs.write(3)
    at = files.plan(TailPosition(), EVERYTHING)
    assert [Path(each).name for each in claimed] == ["app.log"]
    logs.write(2)
    files.plan(at, EVERYTHING)
    assert len(claimed) == 1, "it is read on"

    def refused(path: str) -> None:
        raise SourceError(f"{path} is read by another source")

    with pytest.raises(SourceError, match="read by another source"):
        TailFiles(str(logs.path), claim=refused).plan(TailPosition(), EVERYTHING)


def test_a_file_that_was_cut_is_a_new_one_and_its_copy_is_read_on(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(30)
    _, at = drain(files, TailPosition())
    logs.write(5)
    logs.copy()
    assert [Path(one.path).name for one, _ in files.match(at).copies] == ["app.log.1"]
    logs.cut()
    logs.write(50)
    lines, at = drain(TailFiles(files.path), at)
    assert sorted(lines) == sorted(logs.lines[30:])


@pytest.mark.parametrize("half", [False, True])
def test_a_copy_holds_nothing_new_if_its_file_was_read_further_before_it_was_cut(
    logs: LogDirectory, files: TailFiles, half: bool
) -> None:
    logs.write(30, half=half)
    _, at = drain(files, TailPosition())
    assert "copies" not in at.to_json()
    logs.copy()
    logs.write(5)
    _, at = drain(files, at)
    logs.cut()
    assert drain(TailFiles(files.path), at) == ([], at)
    logs.write(3)
    lines, at = drain(TailFiles(files.path), at)
    assert lines == logs.lines[35:]
    assert [Path(each.path).name for each in files.match(at).spent.values()] == ["app.log.1"]
    pack(logs.path / "app.log.1")
    logs.write(3)
    lines, at = drain(TailFiles(files.path), at)
    assert lines == logs.lines[38:]
    assert drain(TailFiles(files.path), at) == ([], at)
    (logs.path / "app.log.1.gz").write_bytes(gzip.compress(b"another one\n"))
    assert drain(files, at)[0] == [b"another one"]


def test_a_compressed_file_is_known_by_what_it_holds(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(40)
    logs.rename()
    _, at = drain(files, TailPosition())
    packed = pack(logs.path / "app.log.1", keep=True)
    assert [Path(one.path).name for one, _ in files.match(at).copies] == ["app.log.1.gz"]
    (logs.path / "app.log.1").unlink()
    assert files.plan(at, EVERYTHING) == at
    logs.write(1)
    lines, at = drain(files, at)
    assert lines == logs.lines[40:]
    assert at.files[0].packed == packed.stat().st_size
    packed.rename(logs.path / "app.log.2.gz")
    assert drain(TailFiles(files.path), at)[0] == []


def test_a_compressed_file_that_is_being_written_waits(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(200)
    logs.rename()
    packed = pack(logs.path / "app.log.1")
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    assert files.plan(TailPosition(), EVERYTHING) == TailPosition()
    assert [Path(each.path).name for each in files.match(TailPosition()).partial] == ["app.log.1.gz"]
    packed.write_bytes(whole)
    assert drain(files, TailPosition())[0] == logs.lines


def test_a_file_with_the_inode_of_a_deleted_one_is_a_new_one(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(3)
    _, at = drain(files, TailPosition())
    with logs.log.open("r+b") as file:  # the same inode for certain
        file.truncate()
        file.write(b"another one\n" * 20)
    lines, after = drain(files, at)
    assert lines == [b"another one"] * 20
    assert sorted(after.files) == [0, 1]


def test_files_that_begin_with_the_same_lines_are_all_read(logs: LogDirectory, files: TailFiles) -> None:
    header = b"#Version: 1.0\n"
    for name in ("a", "b", "c"):
        (logs.path / name).write_bytes(header + name.encode() + b"\n")
    lines, at = drain(files, TailPosition())
    assert sorted(lines) == [b"#Version: 1.0"] * 3 + [b"a", b"b", b"c"]
    (logs.path / "d").write_bytes(header)
    assert drain(files, at)[0] == [], "it holds nothing but what another file begins with"
    (logs.path / "d").write_bytes(header + b"d\n")
    assert drain(files, at)[0] == [b"#Version: 1.0", b"d"]


def test_a_short_file_that_is_like_a_deleted_one_is_a_new_one(logs: LogDirectory, files: TailFiles) -> None:
    (logs.path / "a").write_bytes(b"#Version: 1.0\n")
    _, at = drain(files, TailPosition())
    (logs.path / "b").write_bytes(b"#Version: 1.0\nb\n")
    (logs.path / "a").unlink()
    assert drain(files, at)[0] == [b"#Version: 1.0", b"b"]


def test_a_file_that_was_moved_to_another_disk_is_read_on(logs: LogDirectory, files: TailFiles) -> None:
    (logs.path / "a").write_bytes(LONG)
    _, at = drain(files, TailPosition())
    (logs.path / "b").write_bytes(LONG + b"more\n")
    (logs.path / "a").unlink()
    assert drain(files, at)[0] == [b"more"]


def test_hard_links_and_symbolic_links_are_one_file(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(3)
    os.link(logs.log, logs.path / ".hidden")
    (logs.path / "current").symlink_to(logs.log)
    assert drain(files, TailPosition())[0] == logs.lines


@pytest.mark.parametrize("most", [1, 30, 100, 1000])
def test_a_batch_reads_about_as_much_as_allowed(logs: LogDirectory, files: TailFiles, most: int) -> None:
    logs.write(50)
    at, batches, lines = TailPosition(), 0, []
    while (end := files.plan(at, most)) != at:
        assert end.read - at.read <= max(most, len(logs.lines[-1]) + 1)
        lines += read(files, at, end)
        at, batches = end, batches + 1
    assert lines == logs.lines
    assert batches >= at.read // max(most, 40)


def test_only_what_was_there_at_the_stop_is_planned(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(3)
    until = files.sizes()
    logs.write(3)
    (logs.path / "new.log").write_bytes(b"new\n")
    end = files.plan(TailPosition(), EVERYTHING, until)
    assert read(files, TailPosition(), end) == logs.lines[:3]


def test_a_batch_is_found_in_the_renamed_cut_or_compressed_file(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(40)
    end = files.plan(TailPosition(), EVERYTHING)
    (told,) = files.slices(TailPosition(), end, 1)
    logs.rename()
    logs.write(3)
    assert read(TailFiles(files.path), TailPosition(), end) == logs.lines[:40]
    pack(logs.path / "app.log.1")
    assert read(TailFiles(files.path), TailPosition(), end) == logs.lines[:40]
    assert "app.log.1.gz\t1\t" in files.find(told)
    (logs.path / "app.log.1.gz").unlink()
    assert files.find(told) == ""
    (told,) = files.slices(TailPosition(), end, 1)
    assert unquote(told.split("\t")[2]).startswith("bytes 0 to "), "no file is there"
    assert files.find(told) == ""
    assert [each.file_id for each in files.lost(TailPosition(), end)] == [0]


def test_a_file_that_is_another_one_by_now_is_not_planned(
    logs: LogDirectory, files: TailFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(3)
    listed = files.listed()
    logs.rename()
    logs.log.write_bytes(b"another one\n" * 50)
    monkeypatch.setattr(files, "listed", lambda: listed)
    assert files.plan(TailPosition(), EVERYTHING) == TailPosition()


def test_a_file_that_is_cut_after_it_was_listed_is_not_planned(
    logs: LogDirectory, files: TailFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(30)
    _, at = drain(files, TailPosition())
    logs.write(3)
    matched = files.match(at)
    with logs.log.open("r+b") as file:
        file.write(b"another one\n" * 200)
    monkeypatch.setattr(files, "match", lambda _: matched)
    assert files.plan(at, EVERYTHING) == at


def test_a_big_file_is_split_between_tasks_and_small_ones_share_one(logs: LogDirectory, files: TailFiles) -> None:
    (logs.path / "big").write_bytes(LONG * 9_000)
    for number in range(5):
        (logs.path / f"{number}").write_bytes(b"small %d\n" % number)
    end = files.plan(TailPosition(), EVERYTHING)
    tasks = [int(told.split("\t")[0]) for told in files.slices(TailPosition(), end, 2)]
    assert len(set(tasks)) in (2, 3, 4)
    assert len(read(files, TailPosition(), end)) == 9_005


def test_a_position_remembers_the_latest_of_the_files_that_are_gone(
    logs: LogDirectory, files: TailFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "REMEMBERED", 3)
    at = TailPosition()
    for number in range(9):
        logs.log.unlink(missing_ok=True)
        logs.log.write_bytes(LONG + b"%d\n" % number * (number + 1))
        _, at = drain(files, at)
    assert sorted(at.files) == [5, 6, 7, 8]
    assert (at.following, at.read) == (9, 9 * len(LONG) + 2 * 45)


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


def test_a_directory_that_is_away_is_an_error_and_nothing_is_forgotten(logs: LogDirectory, files: TailFiles) -> None:
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
    logs: LogDirectory, files: TailFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "MOST_FILES", 2)
    for number in range(3):
        (logs.path / f"{number}").write_bytes(b"x\n")
    with pytest.raises(SourceError, match=r"holds 3 files; kind tail follows at most 2\. Move old files away"):
        files.listed()


def test_a_position_is_one_line_of_json_and_reads_back(logs: LogDirectory, files: TailFiles) -> None:
    logs.write(3)
    (logs.path / "b.log.gz").write_bytes(b"")
    at = files.plan(TailPosition(), EVERYTHING)
    text = at.to_json()
    assert "\n" not in text
    assert TailPosition.parse(text) == at
    assert (at.numbers(), at.words("logs")) == ({"bytes": at.read}, f"{at.read} bytes of 1 file")
    assert [(each.start, each.end) for each in ranges(TailPosition(), at)] == [(0, at.read)]
