"""A proof begins only on a lake that is whole, and weighs again what was moved since the last one."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import StateError
from oncelake.engine.start_gate import MARKER
from oncelake.exactly_once.commit import CommitKind
from oncelake.proof.pin_lake import PinnedLake, pin_lake
from oncelake.proof.prove import Proof
from oncelake.proof.record import Proven, Record
from tests.support.house import House
from tests.support.memory import MemoryFiles, checkpoint, commit, metadata

SILVER, QUARANTINE = "silver/access_log", "silver/quarantine"


def test_a_lake_in_the_middle_of_a_rebuild_is_not_proven(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.lake.mkdir()
    (house.lake / MARKER).write_text(json.dumps({"stages": ["silver"]}))
    spark: Any = None
    with pytest.raises(StateError, match="a rebuild of silver was begun and not finished"):
        next(Proof(house.chain(), spark).links())


@pytest.mark.parametrize("replayed", [False, True])
def test_silver_is_proven_from_its_beginning_after_a_replay(tmp_path: Path, *, replayed: bool) -> None:
    files = MemoryFiles()
    for name in (SILVER, QUARANTINE):
        commit(files, name, 0, operation="CREATE TABLE")
        for batch in range(2):
            commit(files, name, batch + 1, metadata(batch, name.replace("/", ".")))
    if replayed:
        moved = {"event": CommitKind.REPLAY, "rows": 20, "replay": {"id": "once", "version": 2, "reasons": []}}
        for name in (SILVER, QUARANTINE):
            commit(files, name, 3, metadata(1, name.replace("/", "."), **moved))
    checkpoint(files, "_checkpoints/silver", planned=1)
    house = House(tmp_path)
    for name, text in files.texts.items():
        (house.lake / name).parent.mkdir(parents=True, exist_ok=True)
        (house.lake / name).write_text(text)
    whole = lake(house, Record({}))
    tables = {"silver.access_log": whole.silver, "silver.quarantine": whole.quarantine}
    record = Record({name: Proven.up_to(each.table_id, each.span.commits[0]) for name, each in tables.items() if each})
    again = lake(house, record).silver
    assert again
    assert again.span.whole == replayed


def lake(house: House, record: Record) -> PinnedLake:
    return pin_lake(house.chain(), record, None)
