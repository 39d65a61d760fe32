"""A directory of growing files says what waits in it and what is gone, and answers what Java asks; without Spark."""

import json
from pathlib import Path

import pytest

from oncelake.common.errors import REFUSED, SourceError
from oncelake.exactly_once.state import State
from oncelake.sources.tail.plan import LastStart, TailFiles
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.source import Planner, TailSource
from tests.support.memory import metadata, offsets
from tests.support.tailing import EVERYTHING, LogDirectory, ReadFiles, drain, pack


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory.with_lines(tmp_path / "logs", 3)


@pytest.fixture
def source(logs: LogDirectory) -> TailSource:
    return TailSource(str(logs.path))


def planner(logs: LogDirectory) -> Planner:
    return Planner(TailFiles(str(logs.path)), EVERYTHING, cores=2)


def test_bytes_wait_until_they_are_read(logs: LogDirectory, source: TailSource) -> None:
    size = logs.log.stat().st_size
    assert (source.backlog(None).count, source.backlog(None).unit) == (size, "bytes")
    _, at = drain(source.files, TailPosition())
    assert source.backlog(at.to_json()).count == 0
    assert source.exhausted(at.to_json())
    logs.write(1, half=True)
    assert (source.backlog(at.to_json()).count or 0) > 30
    assert not source.exhausted(at.to_json())
    _, at = drain(source.files, at)
    assert source.exhausted(at.to_json()), "half a line is nothing to do"
    assert (source.backlog(at.to_json()).count or 0) > 0


def test_files_whose_last_line_has_no_end_are_named(logs: LogDirectory) -> None:
    logs.write(1, half=True)
    (logs.path / "whole.log").write_bytes(b"one\n")
    (logs.path / "begun.log").write_bytes(b"half of one")
    files = [str(logs.log), str(logs.path / "begun.log")]
    assert TailSource(str(logs.path)).without_end() == files
    _, at = drain(TailFiles(str(logs.path)), TailPosition())
    source = TailSource(str(logs.path)).after(lambda: metadata(0, after=offsets(json.loads(at.to_json()))))
    assert source.without_end() == files, "what is read does not end them"
    with (logs.path / "begun.log").open("ab") as file:
        file.write(b" and the rest\n")
    assert source.without_end() == files[:1]
    assert TailSource("/none").without_end() == []


def test_a_run_warns_of_what_is_not_read_and_of_what_is_not_read_on(logs: LogDirectory, source: TailSource) -> None:
    packed = pack(logs.log, keep=True)
    (logs.path / "other.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"0" * 40)
    _, at = drain(source.files, TailPosition())
    with packed.open("ab") as file:
        file.write(packed.read_bytes())
    grown, other = sorted(source.after(lambda: metadata(1, after=offsets(json.loads(at.to_json())))).warnings())
    assert grown.startswith(f"{packed}: it has grown, and what was added may be the log")
    assert grown.endswith("; it is not read on")
    assert other.endswith("; it is not read")
    census = source.census(at.to_json())
    assert (source.backlog(at.to_json()).count, census.waiting) == (0, [])
    assert (census.read, len(census.faults)) == ([str(logs.log)], 2)


def test_a_compressed_file_counts_by_what_it_holds(logs: LogDirectory, source: TailSource) -> None:
    size = logs.log.stat().st_size
    pack(logs.log)
    assert source.backlog(None).count == source.waiting_bytes(None) == size


def test_bytes_that_wait_in_a_log_that_was_compressed_are_counted(logs: LogDirectory, source: TailSource) -> None:
    _, at = drain(source.files, TailPosition())
    size = logs.log.stat().st_size
    logs.write(2)
    rest = logs.log.stat().st_size - size
    pack(logs.log)
    assert source.backlog(at.to_json()).count == rest
    assert not source.exhausted(at.to_json())


def test_another_directory_or_kind_is_another_source(source: TailSource) -> None:
    for recorded in ({"kind": "tail", "path": "/elsewhere"}, {"kind": "files", "path": source.path}):
        diagnosis = source.trouble(None, None, recorded)
        assert diagnosis is not None
        assert diagnosis.state is State.SOURCE_REPLACED
    assert source.trouble(None, None, source.identity()) is None


def test_bytes_that_a_planned_batch_needs_can_be_skipped_when_they_are_gone(
    logs: LogDirectory, source: TailSource
) -> None:
    (logs.path / "other").write_bytes(b"other\n")
    end = source.files.plan(TailPosition(), EVERYTHING)
    assert source.trouble(None, end.to_json(), {}) is None
    assert source.skip_gone(None, end.to_json()) is None
    gone = next(number for number, file in end.files.items() if file.inode == logs.log.stat().st_ino)
    size = logs.log.stat().st_size
    logs.log.unlink()
    diagnosis = source.trouble(None, end.to_json(), {})
    assert diagnosis is not None
    words = f"bytes 0 to {size - 1} of file {gone}"
    assert (diagnosis.state, diagnosis.seen) == (
        State.SOURCE_TRIMMED,
        f"the planned batch needs {words}, which are gone",
    )
    skipped = source.skip_gone(None, end.to_json())
    assert skipped is not None
    at = TailPosition.parse(skipped[0])
    assert at is not None
    assert (skipped[1], at.read, at.files, at.following) == ([words], 0, {}, end.following)
    lines, after = drain(source.files, at)
    assert (lines, after.read) == ([b"other"], end.read - size)


@pytest.mark.parametrize("rest", ["cut", "copy"])
def test_what_a_cut_file_and_its_copy_hold_of_skipped_bytes_is_read_once(logs: LogDirectory, rest: str) -> None:
    files = ReadFiles(logs.path)
    logs.write(20)
    first, at = drain(files, TailPosition())
    if rest == "copy":
        logs.write(2)
        logs.copy()
    logs.write(10)
    end = files.plan(at, EVERYTHING)
    if rest == "copy":
        logs.cut()
    else:
        with logs.log.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in logs.lines[:25]))
    source = TailSource(str(logs.path))
    source.__dict__["files"] = files
    skipped = source.skip_gone(at.to_json(), end.to_json())
    assert skipped is not None
    assert first + drain(files, TailPosition.parse(skipped[0]) or at)[0] == logs.lines[:25]


def test_a_directory_that_is_away_is_told_and_nothing_is_known(logs: LogDirectory, source: TailSource) -> None:
    end = source.files.plan(TailPosition(), EVERYTHING).to_json()
    logs.path.rename(logs.path.with_name("away"))
    assert source.backlog(None).count is None
    assert source.waiting_bytes(None) is None
    assert not source.exhausted(end)
    (said,) = source.warnings()
    assert "cannot be listed" in said
    diagnosis = source.trouble(None, end, {})
    assert diagnosis is not None
    assert diagnosis.state is State.SOURCE_TRIMMED
    assert planner(logs).apply(f"latest\t{TailPosition().to_json()}").startswith(f"!{REFUSED}the source ")


def test_a_link_that_loops_is_a_warning(logs: LogDirectory, source: TailSource) -> None:
    (logs.path / "loop").symlink_to(logs.path)
    (said,) = source.warnings()
    assert "it is a link to a directory above it" in said


def test_the_planner_answers_the_requests_of_java(logs: LogDirectory) -> None:
    asked = planner(logs)
    start = asked.apply("initial")
    end = asked.apply(f"latest\t{start}")
    assert asked.apply(f"latest\t{end}") == end
    (told,) = asked.apply(f"slices\t{start}\t{end}").split("\n")
    assert asked.apply(f"find\t{told}") == told
    assert asked.apply("stop") == ""
    logs.write(5)
    assert asked.apply(f"latest\t{end}") == end, "what was written after the stop is for the next run"
    assert planner(logs).apply(f"latest\t{end}") != end
    logs.log.unlink()
    assert planner(logs).apply(f"latest\t{start}") == ""
    (told,) = asked.apply(f"slices\t{start}\t{end}").split("\n")
    assert asked.apply(f"find\t{told}") == "", "the task that reads it fails"
    assert asked.apply("slices\tnonsense").startswith("!JSONDecodeError: ")


def test_a_query_that_ends_waits_until_the_last_record_is_whole(logs: LogDirectory) -> None:
    logs.log.write_bytes(b"1 a\n b\n")
    asked = Planner(
        TailFiles(str(logs.path), LastStart(lambda text: 0 if text.startswith(b"1") else -1, 0.3)), EVERYTHING
    )
    start = asked.apply("initial")
    assert asked.apply(f"latest\t{start}") == "", "the record may go on"
    assert asked.apply("stop") == ""
    end = TailPosition.parse(asked.apply(f"latest\t{start}"))
    assert end is not None
    assert end.read == len(b"1 a\n b\n")


def test_a_new_file_is_claimed_before_a_batch_reads_it(logs: LogDirectory) -> None:
    claimed: list[str] = []
    asked = Planner(TailFiles(str(logs.path)), EVERYTHING, claim=claimed.append)
    end = asked.apply(f"latest\t{asked.apply('initial')}")
    assert claimed == [str(logs.log)]
    logs.write(2)
    assert asked.apply(f"latest\t{end}") != end
    assert claimed == [str(logs.log)], "it is read on"

    def refused(path: str) -> None:
        raise SourceError(f"{path} is read by another source")

    other = Planner(TailFiles(str(logs.path)), EVERYTHING, claim=refused)
    assert other.apply(f"latest\t{other.apply('initial')}") == f"!{REFUSED}{logs.log} is read by another source"
