"""Every file of a source has exactly one state, and no state that hides a line lets the proof hold."""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from oncelake.sources.directory.census import (
    Census,
    CensusInputs,
    Fault,
    FaultKey,
    Faulty,
    FileRecord,
    PlannedFile,
    fault_message,
    take,
)
from oncelake.sources.directory.content import Aside, Content, content_of
from oncelake.sources.directory.listing import Problem, has_pattern, is_named, listing

MADE = 1_400_000_000_000


def write(path: Path, content: bytes = b"x\n", modified: int = MADE) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(modified * 1_000_000, modified * 1_000_000))
    return str(path)


def census(  # noqa: PLR0913 - one state of a source
    root: Path,
    planned: Mapping[str, PlannedFile] | None = None,
    recorded: Mapping[str, FileRecord] | None = None,
    *,
    position: int = 0,
    now: int | None = None,
    may_start: bool = True,
    may_read: Callable[[str], bool] = lambda _: True,
    has_lines: Callable[[list[str]], set[str]] = set,
    accepted: frozenset[FaultKey] = frozenset(),
    content: Callable[[str], Content | None] = lambda _: None,
) -> Census:
    inputs = CensusInputs(
        planned or {},
        position,
        position if now is None else now,
        recorded if recorded is not None else {},
        may_start=may_start,
        may_read=may_read,
        has_lines=has_lines,
        accepted=accepted,
        content=content,
        source=(str(root), 1, 2),
    )
    return take(listing(str(root)), inputs)


def states(found: Census) -> dict[str, list[str]]:
    return {
        "read": [Path(each).name for each in found.read],
        "waiting": [Path(each.path).name for each in found.waiting],
        "hidden": sorted(Path(each.path).name for each in found.hidden),
        "empty": sorted(Path(each.path).name for each in found.empty),
        "gone": [Path(each).name for each in found.gone],
    }


def faults(found: Census) -> dict[str, Fault]:
    return {Path(fault.path).name: fault.fault for fault in found.faults}


def test_each_file_is_in_one_state(tmp_path: Path) -> None:
    read, waits, planned, empty = (str(tmp_path / name) for name in ("read.log", "new.log", "open.log", "empty.log"))
    for path in (read, waits, planned):
        write(Path(path))
    write(Path(empty), b"")
    write(tmp_path / ".hidden.log")
    write(tmp_path / "_dir" / "below.log")
    found = census(
        tmp_path,
        {read: PlannedFile(MADE, 0), planned: PlannedFile(MADE, 1)},
        {read: FileRecord(2, MADE), str(tmp_path / "away.log"): FileRecord(2, MADE)},
    )
    assert found.faults == []
    assert states(found) == {
        "read": ["read.log"],
        "waiting": ["new.log", "open.log"],
        "hidden": [".hidden.log", "below.log"],
        "empty": ["empty.log"],
        "gone": ["away.log"],
    }


@pytest.mark.parametrize(
    ("content", "modified", "fault", "size"),
    [
        (b"x\ny\n", MADE, Fault.GREW, "4 bytes"),
        (b"x", MADE, Fault.SHRANK, "1 byte"),
        (b"", MADE, Fault.SHRANK, "0 bytes"),
        (b"x\ny\n", 0, Fault.GREW, "4 bytes"),
    ],
)
def test_a_file_of_another_size_is_a_fault_whatever_its_time(
    tmp_path: Path, content: bytes, modified: int, fault: Fault, size: str
) -> None:
    path = write(tmp_path / "a.log", content, modified)
    found = census(tmp_path, {path: PlannedFile(MADE, 0)}, {path: FileRecord(2, MADE)})
    assert faults(found) == {"a.log": fault}
    assert f"{path} {fault} from 2 to {size} after it was read" in fault_message(found.faults[0], "bronze")


def test_a_file_with_the_same_size_and_another_time_must_be_compared(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", modified=MADE + 1)
    found = census(tmp_path, {path: PlannedFile(MADE, 0)}, {path: FileRecord(2, MADE)})
    assert ([each.path for each in found.touched], found.read, found.faults) == ([path], [path], [])


def test_a_file_that_spark_listed_and_never_read_is_a_fault(tmp_path: Path) -> None:
    """It was empty at that time, or missing when its batch was read."""
    path = write(tmp_path / "a.log")
    found = census(tmp_path, {path: PlannedFile(MADE, 0)}, has_lines=set)
    assert faults(found) == {"a.log": Fault.NEVER_READ}


@pytest.mark.parametrize("number", [None, 0, 1])
def test_a_file_that_is_set_aside_is_a_fault_in_whatever_state_it_is(tmp_path: Path, number: int | None) -> None:
    path = write(tmp_path / "a.zip", b"PK\x03\x04")
    planned = {path: PlannedFile(MADE, number)} if number is not None else {}
    found = census(tmp_path, planned, has_lines=lambda _: set(), content=content_of)
    assert faults(found) == {"a.zip": Fault.NOT_UNPACKED}
    text = fault_message(found.faults[0], "bronze")
    assert text.startswith(f"{path}: it holds zip, which is not unpacked; what is: .gz, ")
    assert ": it is set aside, and its lines are in no table; unpack it, or " in text
    assert text.endswith(f"; or oncelake census accept {path}")
    accepted = frozenset([found.faults[0].key])
    assert faults(census(tmp_path, planned, content=content_of, accepted=accepted)) == {}
    read = census(tmp_path, planned, {path: FileRecord(4, MADE)}, content=content_of)
    assert faults(read) == {}, "an earlier version has read it"


def test_every_reason_to_set_a_file_aside_is_a_fault_with_a_way_out() -> None:
    for reason in Aside:
        assert "oncelake census accept /a.log" in fault_message(
            Faulty("/a.log", Fault[reason.name], why="it is odd"), "bronze"
        )


def test_a_file_that_was_read_under_another_name_is_recorded_for_its_size_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "new.log")
    record = frozenset([("renamed", path, 2, MADE)])
    gone = {str(tmp_path / "old.log"): FileRecord(2, MADE)}
    passed = census(tmp_path, {path: PlannedFile(MADE, 0)}, gone, has_lines=set, accepted=record)
    assert (faults(passed), passed.renamed, states(passed)["gone"]) == ({}, [path], ["old.log"])
    waiting = census(tmp_path, {}, gone, accepted=record)
    assert (waiting.renamed, states(waiting)["waiting"]) == ([], ["new.log"])
    write(tmp_path / "new.log", b"x\nmore\n")
    grown = census(tmp_path, {path: PlannedFile(MADE, 0)}, gone, has_lines=set, accepted=record)
    assert faults(grown) == {"new.log": Fault.NEVER_READ}


def test_a_compressed_file_without_a_line_is_empty(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log.gz")
    found = census(tmp_path, {path: PlannedFile(MADE, 0)}, has_lines=lambda _: set())
    assert (faults(found), states(found)["empty"]) == ({}, ["a.log.gz"])


def test_a_planned_file_that_changed_is_named_until_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"more\n", MADE + 5)
    assert faults(census(tmp_path, {path: PlannedFile(MADE, 1)})) == {"a.log": Fault.PLAN_CHANGED}
    assert faults(census(tmp_path, {path: PlannedFile(MADE, 1)}, {path: FileRecord(5, MADE + 5)}, position=1)) == {}


def test_a_missing_planned_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "other.log")
    away = str(tmp_path / "away.log")
    found = census(tmp_path, {away: PlannedFile(MADE, 1)})
    assert faults(found) == {"away.log": Fault.GONE}
    assert "recover bronze --accept-loss" in fault_message(found.faults[0], "bronze")


def test_a_file_that_a_parallel_run_has_read_is_no_fault(tmp_path: Path) -> None:
    path, away = write(tmp_path / "a.log"), str(tmp_path / "away.log")
    found = census(
        tmp_path, {path: PlannedFile(MADE, 1), away: PlannedFile(MADE, 1)}, position=0, now=1, may_start=False
    )
    assert (faults(found), states(found)["waiting"]) == ({}, ["a.log"])


def test_no_file_waits_for_a_stage_that_would_be_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.log")
    assert faults(census(tmp_path, may_start=False)) == {"a.log": Fault.BLOCKED}


def test_an_unreadable_file_is_a_fault_and_does_not_wait(tmp_path: Path) -> None:
    write(tmp_path / "a.log")
    assert faults(census(tmp_path, may_read=lambda _: False)) == {"a.log": Fault.RIGHTS}


def test_names_that_java_cannot_decode_and_broken_links_are_faults(tmp_path: Path) -> None:
    for name in (b"caf\xe9.log", b"d\xff/below.log"):
        write(Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))))  # noqa: PTH118
    (tmp_path / "link.log").symlink_to("nowhere")
    (tmp_path / "self.log").symlink_to("self.log")
    write(tmp_path / "co:lon.log")
    write(tmp_path / "é.log")
    found = census(tmp_path)
    assert [fault.fault for fault in found.faults] == [
        Fault.NAME,
        Fault.COLON,
        Fault.NAME,
        Fault.DANGLING,
        Fault.DANGLING,
    ]
    assert states(found)["waiting"] == ["é.log"]
    assert faults(census(tmp_path, accepted=frozenset(fault.key for fault in found.faults))) == {}
    assert [each.problem for each in listing(str(tmp_path), "ascii") if each.path.endswith("é.log")] == [Problem.NAME]


def test_a_path_without_permission_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.log", "sub/b.log", "closed/c.log"):
        write(tmp_path / name)
    look = os.stat

    def refused(path: bytes | str, **named: Any) -> os.stat_result:
        if os.fsencode(path).rsplit(b"/", 1)[-1] in (b"b.log", b"closed"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return look(path, **named)

    monkeypatch.setattr(os, "stat", refused)
    found = census(tmp_path)
    assert faults(found) == {"b.log": Fault.RIGHTS, "closed": Fault.RIGHTS}
    assert states(found)["waiting"] == ["a.log"]
    with pytest.raises(PermissionError):
        list(listing(f"{tmp_path}/clo*"))


def test_a_colon_beside_the_matches_of_a_pattern_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path / "app-1" / "a.log")
    (tmp_path / "x:y").mkdir()
    found = list(listing(f"{tmp_path}/app-*"))
    assert [(Path(each.path).name, each.problem) for each in found] == [("x:y", Problem.COLON), ("a.log", None)]


def test_a_directory_with_a_colon_hides_no_file(tmp_path: Path) -> None:
    read = write(tmp_path / "2026-11-23T10:00" / "a.log")
    write(tmp_path / "2026-11-23T10:00" / "b.log")
    found = census(tmp_path, recorded={read: FileRecord(2, MADE)})
    assert (faults(found), states(found)["read"], states(found)["waiting"]) == ({}, ["a.log"], ["b.log"])


def test_a_read_file_is_compared_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "é.log")
    inputs = CensusInputs({}, 0, 0, {path: FileRecord(2, MADE)}, may_start=True, may_read=lambda _: True)
    assert take(listing(str(tmp_path), "ascii"), inputs).faults == []
    write(tmp_path / "é.log", b"")
    assert [fault.fault for fault in take(listing(str(tmp_path), "ascii"), inputs).faults] == [Fault.SHRANK]


def test_a_file_matched_twice_by_a_pattern_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "sub" / "a.log")
    inputs = CensusInputs({}, 0, 0, {}, may_start=True, may_read=lambda _: True)
    assert len(take(listing(f"{tmp_path}/{{logs,logs/sub}}"), inputs).waiting) == 1


def test_a_hidden_directory_named_by_a_pattern_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "_old" / "a.log", b"longer\n")
    inputs = CensusInputs({}, 0, 0, {path: FileRecord(2, MADE)}, may_start=True, may_read=lambda _: True)
    found = take(listing(f"{tmp_path}{{,/_old}}"), inputs)
    assert ([fault.fault for fault in found.faults], found.hidden) == ([Fault.GREW], [])


def test_only_hadoops_matches_of_a_pattern_count_and_unreadable_names_are_faults(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        write(tmp_path / name)
    write(Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9.log"))))  # noqa: PTH118
    (tmp_path / "c.log").symlink_to("gone")
    found = list(listing(f"{tmp_path}/*.log", named=[str(tmp_path / "b.log")]))
    assert [Path(each.path).name for each in found if each.problem is None] == ["b.log"]
    assert {each.problem for each in found} == {None, Problem.NAME, Problem.DANGLING}


def test_a_link_to_a_directory_above_the_source_is_a_loop(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a.log")
    (tmp_path / "logs" / "up").symlink_to("..")
    (tmp_path / "logs" / ".hid").symlink_to("..")
    assert faults(census(tmp_path / "logs")) == {"up": Fault.LOOP}
    found = [each for each in listing(f"{tmp_path}/logs/*") if each.problem and not each.hidden]
    assert {each.path for each in found} == {f"{tmp_path}/logs/{name}" for name in ("up", ".hid")}


def test_a_broken_link_is_a_fault_if_a_pattern_names_it(tmp_path: Path) -> None:
    write(tmp_path / "a.log")
    for name in ("b.log", "c.txt", "sub"):
        (tmp_path / name).symlink_to("gone")
    for pattern, name in (("*.log", "b.log"), ("s*/x.log", "sub")):
        problems = [(Path(each.path).name, each.problem) for each in listing(f"{tmp_path}/{pattern}") if each.problem]
        assert problems == [(name, Problem.DANGLING)]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/logs", ["/logs/a.log", "/logs/b/c.log", "/logs"]),
        ("/logs/*.log", ["/logs/a.log", "/logs/a.log/b", "/logs"]),
        ("/logs/{a,b}-?/x", ["/logs/a-1", "/logs/b-2/x/c.log"]),
    ],
)
def test_a_path_belongs_to_a_source_by_its_name_alone(path: str, named: list[str]) -> None:
    every = ["/logs/a.log", "/logs/a.log/b", "/logs/a.txt", "/logs/b/c.log", "/logs/a-1", "/logs/b-2/x/c.log", "/logs"]
    found = [each for each in every if is_named(path, each)]
    assert [each for each in found if each in named] == [each for each in every if each in named]
    assert path == "/logs" or "/logs/a.txt" not in found
    assert not is_named(path, "/other/a.log")


def test_a_compressed_file_that_grew_must_be_read_again(tmp_path: Path) -> None:
    read = {write(tmp_path / "a.log.gz", b"xyz"): FileRecord(2, MADE)}
    (faulty,) = census(tmp_path, recorded=read).faults
    message = fault_message(faulty, "bronze")
    assert "lines from anywhere in it may be missing; read all files again: oncelake rebuild bronze; or" in message
    assert "reread" not in message


def test_a_link_loop_is_a_fault_and_any_other_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a.log")
    write(tmp_path / "other" / "b.log")
    (tmp_path / "logs" / "loop").symlink_to(".")
    (tmp_path / "logs" / "elsewhere").symlink_to(tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    found = census(tmp_path / "link")
    assert faults(found) == {"loop": Fault.LOOP}
    assert sorted(states(found)["waiting"]) == ["a.log", "b.log"]


def test_spark_enters_directories_named_metadata_and_reads_no_file_of_such_a_name(tmp_path: Path) -> None:
    for name in (
        "_metadata_of/a.log",
        "_common_metadata/b.log",
        "_metadata_of/_x/c.log",
        "_metadata.log",
        "_k=v/d.log",
    ):
        write(tmp_path / name)
    found = census(tmp_path)
    assert sorted(states(found)["waiting"]) == ["a.log", "b.log", "d.log"]
    assert states(found)["hidden"] == ["_metadata.log", "c.log"]


def test_a_directory_that_cannot_be_listed_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "closed" / "a.log")
    write(tmp_path / "b.log")
    opened = os.scandir

    def refuse(path: bytes) -> object:
        if path.endswith(b"closed"):
            raise PermissionError(13, "Permission denied")
        return opened(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert faults(census(tmp_path)) == {"closed": Fault.RIGHTS}
    with pytest.raises(PermissionError):
        list(listing(str(tmp_path / "closed")))


def test_an_accepted_fault_is_a_fault_again_after_another_change(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"longer\n")
    recorded = {path: FileRecord(2, MADE)}
    accepted = frozenset({("grew", path, 7, MADE)})
    assert faults(census(tmp_path, recorded=recorded, accepted=accepted)) == {}
    write(tmp_path / "a.log", b"longer still\n")
    assert faults(census(tmp_path, recorded=recorded, accepted=accepted)) == {"a.log": Fault.GREW}


def test_a_source_that_is_empty_after_it_was_read_is_a_fault(tmp_path: Path) -> None:
    recorded = {str(tmp_path / "a.log"): FileRecord(2, MADE)}
    assert faults(census(tmp_path, recorded=recorded)) == {tmp_path.name: Fault.SOURCE_EMPTY}
    assert (
        faults(census(tmp_path, recorded=recorded, accepted=frozenset({("source is empty", str(tmp_path), 1, 2)})))
        == {}
    )
    assert faults(census(tmp_path)) == {}


def test_a_missing_source_cannot_be_listed(tmp_path: Path) -> None:
    for path in (tmp_path / "away", tmp_path / "away" / "no*"):
        with pytest.raises(FileNotFoundError):
            list(listing(str(path)))


def test_a_pattern_without_matches_is_an_empty_source(tmp_path: Path) -> None:
    inputs = CensusInputs(
        {}, 0, 0, {"/a.log": FileRecord(2, MADE)}, True, lambda _: True, source=(f"{tmp_path}/*.log", 1, 2)
    )
    assert [fault.fault for fault in take(listing(f"{tmp_path}/*.log"), inputs).faults] == [Fault.SOURCE_EMPTY]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", [".h.log", ".h/x.log", "a.log", "b/a.log", "b/c/a.log", "b1.log", "é.log"]),
        ("b", ["b/a.log", "b/c/a.log"]),
        ("b*", ["b/a.log", "b/c/a.log", "b1.log"]),
        ("{a,b1}.log", ["a.log", "b1.log"]),
        ("{b/c,.h}", [".h/x.log", "b/c/a.log"]),
        ("b[0-9].log", ["b1.log"]),
        ("[^b]*.log", [".h.log", "a.log", "é.log"]),
        ("?.log", ["a.log", "é.log"]),
        ("[éè].log", ["é.log"]),
        ("[b-a].log", []),
        ("*/c", ["b/c/a.log"]),
    ],
)
def test_patterns_match_as_in_hadoop(tmp_path: Path, pattern: str, found: list[str]) -> None:
    for name in ("a.log", "b/a.log", "b/c/a.log", "b1.log", ".h/x.log", ".h.log", "é.log"):
        write(tmp_path / name)
    listed = sorted(str(Path(each.path).relative_to(tmp_path)) for each in listing(f"{tmp_path}/{pattern}"))
    assert listed == found
    assert has_pattern(pattern) == (pattern != "b")


def test_a_single_file_is_a_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log")
    assert [each.path for each in listing(path)] == [path]
