"""The state of an alert survives a file that is only half written, and is never given up silently."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oncelake.common.errors import StateError
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.alerts.state import STATE_FILES, AlertState, Entry, read_state, status_of, write_state

STATE = AlertState("proof fails", 5, entries=(Entry("k", 1, None, "text"),), done=(1, 2), version=7)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    files, where = LocalFiles(), str(tmp_path / "_alerts" / "a")
    assert read_state(files, where) is None
    written = write_state(files, where, STATE)
    assert read_state(files, where) == written == STATE
    assert written.number == 1


def test_the_newest_state_that_can_be_read_counts(tmp_path: Path) -> None:
    files, where = LocalFiles(), str(tmp_path)
    write_state(files, where, STATE)
    second = write_state(files, where, replace(STATE, number=1, version=8))
    (tmp_path / f"{second.number + 1:012}.json").write_text('{"form": 1, "when"')
    state = read_state(files, where)
    assert state == second
    third = write_state(files, where, state)
    assert third.number == second.number + 2


def test_few_files_are_kept(tmp_path: Path) -> None:
    state = STATE
    for _ in range(10):
        state = write_state(LocalFiles(), str(tmp_path), state)
    assert len(list(tmp_path.iterdir())) == STATE_FILES


def test_a_state_that_cannot_be_read_is_an_error_and_no_new_beginning(tmp_path: Path) -> None:
    write_state(LocalFiles(), str(tmp_path), STATE)
    (tmp_path / f"{1:012}.json").write_text(json.dumps({"form": 99}))
    with pytest.raises(StateError, match="the state of the alert cannot be read"):
        read_state(LocalFiles(), str(tmp_path))


def test_a_state_of_another_condition_is_new() -> None:
    assert status_of("a", "proof fails", "email", STATE).state == "open"
    assert status_of("a", "refused > 5%", "email", STATE).state == "new"
