"""The checkpoints of a lake on S3 are those of a host: which ones another host left behind, without Spark."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oncelake.engine.chain import StageState, named
from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.diagnosis import planned_elsewhere
from oncelake.exactly_once.state import State
from oncelake.observe.status import checkpoint_lines, stage_status
from tests.support.house import House
from tests.support.memory import QUERY, MemoryFiles, at, checkpoint, commit, metadata, offsets

BRONZE, SILVER = "bronze/access_log", "silver/access_log"


def silver(house: House, *, per_host: bool) -> StageState:
    """Return the state of silver after its second batch, with the checkpoint that the house has."""
    files = MemoryFiles()
    for version in range(6):
        commit(files, BRONZE, version)
    commit(files, SILVER, 0, operation="CREATE TABLE")
    commit(files, SILVER, 1, metadata(0, after=offsets(at(2)), query_id=QUERY))
    commit(files, SILVER, 2, metadata(1, before=json.dumps(at(2)), after=offsets(at(4)), query_id=QUERY))
    write(house, files)
    chain = house.chain()
    chain = replace(chain, lake=replace(chain.lake, per_host=per_host))
    return chain.stage_state(named(chain.stages, "silver"))


def write(house: House, files: MemoryFiles) -> None:
    for name, text in files.texts.items():
        path = house.lake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(f"{BRONZE}-id", "source-id"))


def left_behind(house: House, planned: int) -> None:
    files = MemoryFiles()
    checkpoint(files, "_checkpoints/silver", planned=planned, committed=planned)
    write(house, files)


@pytest.mark.parametrize("planned", [None, 0])
def test_a_checkpoint_that_another_host_left_behind_is_recovered(tmp_path: Path, planned: int | None) -> None:
    house = House(tmp_path)
    if planned is not None:
        left_behind(house, planned)
    state = silver(house, per_host=True)
    assert state.diagnosis.state is (State.CHECKPOINT_LOST if planned is None else State.CHECKPOINT_BEHIND)
    assert state.recovers
    row = stage_status(state)
    assert row.may_start
    assert row.detail.endswith("; the next run on this host writes it again from the table")


def test_a_checkpoint_that_is_not_of_a_host_is_not_recovered_by_a_run(tmp_path: Path) -> None:
    state = silver(House(tmp_path), per_host=False)
    assert not state.recovers
    assert not stage_status(state).may_start


def test_a_checkpoint_ahead_of_its_table_is_no_matter_of_another_host(tmp_path: Path) -> None:
    house = House(tmp_path)
    left_behind(house, 5)
    state = silver(house, per_host=True)
    assert state.diagnosis.state is State.CHECKPOINT_AHEAD
    assert not state.recovers
    assert not stage_status(state).may_start


def test_the_checkpoints_of_a_host_are_named(tmp_path: Path) -> None:
    lake = House(tmp_path).chain().lake
    assert [*checkpoint_lines(lake)] == []
    assert [*checkpoint_lines(replace(lake, per_host=True))] == [
        f"the checkpoints of this host are in {lake.checkpoints}"
    ]


@pytest.mark.parametrize(("committed", "moved"), [(0, True), (1, False)])
def test_a_batch_that_this_host_planned_and_the_table_holds_may_be_another_hosts(committed: int, moved: bool) -> None:
    files = MemoryFiles()
    checkpoint(files, "ckpt", planned=1, committed=committed)
    commit(files, BRONZE, 0, metadata(1))
    diagnosis = planned_elsewhere(read_checkpoint(files, "ckpt"), DeltaLog(files, BRONZE).state())
    assert (diagnosis is not None) == moved
    assert diagnosis is None or diagnosis.state is State.CHECKPOINT_BEHIND
