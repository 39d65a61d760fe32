"""What `recover` reports of a stage is true afterwards, and no line is given up without consent; without Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import StateError
from oncelake.engine.chain import named
from oncelake.engine.recover import RecoveryResult, recover
from oncelake.engine.start_gate import refuse_unless_startable, way_out
from oncelake.exactly_once.delta_log import Commit
from oncelake.exactly_once.state import Diagnosis, State
from tests.support.house import House
from tests.support.memory import QUERY, MemoryFiles, at, checkpoint, commit, metadata, offsets

BRONZE, SILVER = "bronze/access_log", "silver/access_log"


def put(house: House, files: MemoryFiles) -> None:
    for name, text in files.texts.items():
        path = house.lake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def recovered(house: House, stage: str, *, dry_run: bool = False) -> RecoveryResult:
    chain, spark = house.chain(), None
    without_spark: Any = spark
    return recover(chain, without_spark, named(chain.stages, stage), accept_loss=False, dry_run=dry_run)


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_stage_that_is_still_refused_is_reported(tmp_path: Path, *, trimmed: bool) -> None:
    """Silver lost its checkpoint; if bronze's log lacks what silver reads next, recover reports it at once."""
    house, files = House(tmp_path), MemoryFiles()
    for version in range(6):
        commit(files, BRONZE, version)
    last = f"{BRONZE}/_delta_log/{5:020d}.json"
    files.texts[last] += '\n{"metaData":{"id":"source-id","configuration":{}}}'
    first = f"{BRONZE}/_delta_log/{0:020d}.json"
    files.texts[first] = files.texts[first].replace(f"{BRONZE}-id", "source-id")
    for version in range(4) if trimmed else ():
        files.remove(f"{BRONZE}/_delta_log/{version:020d}.json")
    if trimmed:  # as clean-up leaves a log
        files.write(f"{BRONZE}/_delta_log/{3:020d}.checkpoint.parquet", "PAR1\0\0\0\0PAR1")
    commit(files, SILVER, 0, operation="CREATE TABLE")
    commit(files, SILVER, 1, metadata(0, after=offsets(at(2))))
    put(house, files)
    outcome = recovered(house, "silver")
    assert outcome.state == State.CHECKPOINT_LOST.value
    if trimmed:
        assert str(outcome.refused).startswith(
            "the checkpoint was rewritten, but the stage still may not start. silver: source trimmed: versions 2 to 3"
        )
    else:
        assert outcome.refused is None
        assert json.loads((house.checkpoint("silver") / "metadata").read_text()) == {"id": QUERY}


def test_a_run_does_not_start_if_a_stage_is_refused(tmp_path: Path) -> None:
    house, files = House(tmp_path), MemoryFiles()
    refuse_unless_startable(house.chain())
    commit(files, SILVER, 0, operation="CREATE TABLE")
    commit(files, SILVER, 1, metadata(0))
    put(house, files)
    with pytest.raises(
        StateError, match=r"silver: checkpoint lost: .* If it started now, every line would be read again"
    ):
        refuse_unless_startable(house.chain())


def test_a_loss_is_accepted_only_with_consent(tmp_path: Path) -> None:
    house, files = House(tmp_path), MemoryFiles()
    commit(files, BRONZE, 0, operation="CREATE TABLE")
    checkpoint(files, "_checkpoints/bronze", planned=0, committed=-1)
    files.texts["_checkpoints/bronze/offsets/0"] = offsets({"logOffset": 0})
    gone = json.dumps({"path": f"file://{house.logs}/gone.log", "timestamp": 1, "batchId": 0})
    files.texts["_checkpoints/bronze/sources/0/0"] = f"v1\n{gone}"
    put(house, files)
    outcome = recovered(house, "bronze", dry_run=True)
    assert outcome.state == State.SOURCE_TRIMMED.value
    assert "oncelake recover bronze --accept-loss" in str(outcome.refused)
    assert outcome.steps == ()


def test_the_way_out_of_a_changed_table_names_the_table_that_stops_the_stage(tmp_path: Path) -> None:
    """Rows that a DELETE took from silver are a matter of gold; an INSERT into quarantine stops silver."""
    house, files = House(tmp_path), MemoryFiles()
    for table, operation in ((SILVER, "DELETE"), ("silver/quarantine", "WRITE")):
        commit(files, table, 0, operation="CREATE TABLE")
        commit(files, table, 1, metadata(0, table.replace("/", "."), after=offsets(at(1)), query_id=QUERY))
        commit(files, table, 2, operation=operation)
    put(house, files)
    chain = house.chain()
    state = chain.stage_state(named(chain.stages, "silver"))
    changes = (Commit(2, statement, {}, {}, 1_002, None, changes_data=True) for statement in ("DELETE", "WRITE"))
    pairs = zip(state.table_states.items(), changes, strict=True)
    changed = {table: replace(held, changed=change) for (table, held), change in pairs}
    state = replace(state, table_states=changed, diagnosis=Diagnosis(State.TABLE_CHANGED, "", 0))
    assert f"RESTORE TABLE delta.`{house.lake}/silver/quarantine` TO VERSION AS OF 1" in way_out(state)
