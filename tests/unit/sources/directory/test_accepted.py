"""Accepting a loss covers the file's state at that time; an unreadable record accepts nothing."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncelake.exactly_once.files import LocalFiles
from oncelake.sources.directory.accepted import read_accepted, write_accepted
from oncelake.sources.directory.census import CensusInputs, Fault, FaultKey, Faulty, FileRecord, take
from oncelake.sources.directory.listing import ListedFile, Problem

NOW = datetime(2026, 11, 23, 5, 36, 40, 7, tzinfo=UTC)
GREW = Faulty("/logs/a.log", Fault.GREW, 7, 1_400, 2)


def accept(lake: Path, *faults: Faulty, now: datetime = NOW) -> Path:
    return Path(write_accepted(LocalFiles(), str(lake), faults, now))


def accepted(lake: Path) -> frozenset[FaultKey]:
    return read_accepted(LocalFiles(), str(lake))


def faults(lake: Path, size: int, modified: int) -> list[Fault]:
    inputs = CensusInputs({}, 0, 0, {GREW.path: FileRecord(2, 1)}, True, lambda _: True, accepted=accepted(lake))
    return [fault.fault for fault in take([ListedFile(GREW.path, size, modified)], inputs).faults]


def test_an_acceptance_is_read_back_with_its_user_and_time(tmp_path: Path) -> None:
    assert accepted(tmp_path) == frozenset()
    odd = Faulty("/logs/caf\udce9 \u2028.log", Fault.NAME, 3, 4)
    path = accept(tmp_path, GREW, odd)
    assert accepted(tmp_path) == {GREW.key, odd.key}
    value = json.loads(path.read_text())
    assert (value["at"], value["files"][0]["fault"]) == ("2026-11-23 05:36:40 UTC", "grew")
    assert value["by"]
    accept(tmp_path, Faulty("/logs/b.log", Fault.CHANGED, 1, 1), now=NOW.replace(microsecond=8))
    assert len(accepted(tmp_path)) == 3, "a later record takes nothing away from an earlier one"


def test_an_acceptance_covers_only_its_size_and_time(tmp_path: Path) -> None:
    accept(tmp_path, GREW)
    assert faults(tmp_path, 7, 1_400) == []
    assert faults(tmp_path, 8, 1_400) == [Fault.GREW]
    assert faults(tmp_path, 7, 1_401) == [Fault.GREW]


def test_an_acceptance_covers_only_its_fault(tmp_path: Path) -> None:
    link = "/logs/app"
    accept(tmp_path, Faulty(link, Fault.DANGLING))
    inputs = CensusInputs({}, 0, 0, {}, True, lambda _: True, accepted=accepted(tmp_path))
    for problem, fault in ((Problem.RIGHTS, Fault.RIGHTS), (Problem.LOOP, Fault.LOOP), (Problem.DANGLING, None)):
        found = take([ListedFile(link, 0, 0, problem=problem)], inputs).faults
        assert [each.fault for each in found] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ('"form": 1', '"form": 2'),
        ('"form"', '"shape"'),
        ('"size": 7', '"size": "seven"'),
        ('"size": 7', '"size": null'),
        ('"path"', '"name"'),
        ("}", ""),
    ],
)
def test_an_unreadable_record_accepts_nothing(tmp_path: Path, change: str, to: str) -> None:
    path = accept(tmp_path, GREW)
    path.write_text(path.read_text().replace(change, to))
    assert accepted(tmp_path) == frozenset()
    assert faults(tmp_path, 7, 1_400) == [Fault.GREW]


def test_a_half_written_or_foreign_record_accepts_nothing(tmp_path: Path) -> None:
    path = accept(tmp_path, GREW)
    path.rename(path.with_name(f".{path.name}"))
    path.with_name("notes.txt").write_text("[]")
    path.with_name("list.json").write_text("[]")
    assert accepted(tmp_path) == frozenset()
