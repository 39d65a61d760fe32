"""A lake that may be written during a proof is pinned so that its tables match; without a JVM."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import StateError
from oncelake.common.lake import QUARANTINE, Table
from oncelake.engine.markers import MARKER
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.proven import ProvenTable
from oncelake.proof.pin import Limits, PinnedLake, from_beginning, pin, pin_lake
from oncelake.proof.positions import PositionOrigin, follow
from oncelake.proof.prove import Proof
from tests.support.house import House
from tests.support.memory import MemoryFiles, at, checkpoint, commit, metadata, offsets

SILVER, BESIDE = "silver/access_log", "silver/quarantine"


@pytest.fixture
def files() -> MemoryFiles:
    """Make silver of three batches, the first of which is in quarantine too; its checkpoint has two as done."""
    files = MemoryFiles()
    commit(files, SILVER, 0, operation="CREATE TABLE")
    commit(files, BESIDE, 0, operation="CREATE TABLE")
    for batch in range(3):
        commit(files, SILVER, batch + 1, metadata(batch, beside={str(QUARANTINE): 0 if batch else None}))
    commit(files, BESIDE, 1, metadata(0, str(QUARANTINE), rows=0))
    checkpoint(files, "_checkpoints/silver", planned=2, committed=1)
    return files


@pytest.fixture
def pinned(tmp_path: Path, files: MemoryFiles) -> Callable[..., PinnedLake]:
    def look(record: Mapping[str, ProvenTable] | None = None, *, full: bool = False) -> PinnedLake:
        house = House(tmp_path)
        for name, text in files.texts.items():
            path = house.lake / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return pin_lake(house.chain(), record or {}, None, full=full)

    return look


def batches(lake: PinnedLake) -> tuple[int, int]:
    assert lake.silver
    assert lake.quarantine
    return len(lake.silver.span.commits), len(lake.quarantine.span.commits)


def test_a_batch_that_may_not_be_in_quarantine_yet_is_left_out(pinned: Callable[..., PinnedLake]) -> None:
    lake = pinned()
    assert batches(lake) == (2, 1)
    assert lake.silver
    assert lake.silver.notes == ("batch 2 is excluded: it may still be written to silver.quarantine",)


def test_a_batch_that_the_checkpoint_has_as_done_is_not_left_out(
    files: MemoryFiles, pinned: Callable[..., PinnedLake]
) -> None:
    checkpoint(files, "_checkpoints/silver", planned=2)
    assert batches(pinned()) == (3, 1)


def test_a_batch_that_is_in_quarantine_is_not_left_out(files: MemoryFiles, pinned: Callable[..., PinnedLake]) -> None:
    commit(files, BESIDE, 2, metadata(2, str(QUARANTINE), rows=10))
    assert batches(pinned()) == (3, 2)


def test_the_checkpoint_of_another_query_is_ignored(files: MemoryFiles, pinned: Callable[..., PinnedLake]) -> None:
    checkpoint(files, "_checkpoints/silver", planned=2, query="another")
    assert batches(pinned()) == (2, 1)


def test_quarantine_is_cut_with_silver(files: MemoryFiles, pinned: Callable[..., PinnedLake]) -> None:
    inside = offsets({**at(3), "index": 5})
    commit(files, SILVER, 3, metadata(2, after=inside, beside={str(QUARANTINE): 0}))
    commit(files, BESIDE, 2, metadata(2, str(QUARANTINE), rows=10))
    assert batches(pinned()) == (2, 1)


def test_a_batch_that_only_quarantine_has_is_kept(files: MemoryFiles, pinned: Callable[..., PinnedLake]) -> None:
    commit(files, BESIDE, 2, metadata(7, str(QUARANTINE), rows=10))
    lake = pinned()
    assert batches(lake) == (3, 2)
    assert lake.silver
    assert lake.quarantine
    link = follow(lake.quarantine, PositionOrigin("bronze.access_log", "source-id", 9), lake.silver.span)
    assert "matches no batch in silver.access_log" in link.said


def test_silver_is_proven_from_its_beginning_if_quarantine_was_recreated(
    files: MemoryFiles, pinned: Callable[..., PinnedLake]
) -> None:
    checkpoint(files, "_checkpoints/silver", planned=2)
    whole = pinned()
    assert whole.silver
    assert whole.quarantine
    silver = ProvenTable.up_to(whole.silver.table_id, whole.silver.span.commits[1])
    beside = ProvenTable.up_to(whole.quarantine.table_id, whole.quarantine.span.commits[0])
    record = {"silver.access_log": silver, "silver.quarantine": beside}
    assert batches(pinned(record)) == (1, 0)
    assert batches(pinned(record, full=True)) == (3, 1)
    recreated = ProvenTable("another", 1, 0, silver.query_id, beside.end, 10)
    assert batches(pinned({**record, "silver.quarantine": recreated})) == (3, 1)


def test_a_lake_with_an_unfinished_rebuild_is_not_proven(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.lake.mkdir()
    (house.lake / MARKER).write_text(json.dumps({"stages": ["silver"]}))
    spark: Any = None
    with pytest.raises(StateError, match="a rebuild of silver is unfinished"):
        next(Proof(house.chain(), spark).links())


@pytest.mark.parametrize("replayed", [False, True])
def test_silver_is_proven_from_its_beginning_after_a_replay(tmp_path: Path, *, replayed: bool) -> None:
    files = MemoryFiles()
    for name in (SILVER, BESIDE):
        commit(files, name, 0, operation="CREATE TABLE")
        for batch in range(2):
            commit(files, name, batch + 1, metadata(batch, name.replace("/", ".")))
    if replayed:
        moved = {"event": CommitKind.REPLAY, "rows": 20, "replay": {"id": "once", "version": 2, "reasons": []}}
        for name in (SILVER, BESIDE):
            commit(files, name, 3, metadata(1, name.replace("/", "."), **moved))
    checkpoint(files, "_checkpoints/silver", planned=1)
    house = House(tmp_path)
    for name, text in files.texts.items():
        (house.lake / name).parent.mkdir(parents=True, exist_ok=True)
        (house.lake / name).write_text(text)
    whole = pin_lake(house.chain(), {}, None)
    tables = {"silver.access_log": whole.silver, "silver.quarantine": whole.quarantine}
    record = {name: ProvenTable.up_to(table.table_id, table.span.commits[0]) for name, table in tables.items() if table}
    again = pin_lake(house.chain(), record, None).silver
    assert again
    assert again.span.whole == replayed


def test_a_table_that_replaced_another_one_is_whole_without_the_older_log() -> None:
    files = MemoryFiles()
    commit(files, "table", 4, metadata(0, "gold.errors"), operation="CREATE OR REPLACE TABLE AS SELECT")
    commit(files, "table", 5, metadata(1, "gold.errors"))
    known = {"metadata": {"id": "new", "configuration": {}, "schemaString": "{}"}}
    files.texts[f"table/_delta_log/{5:020}.crc"] = json.dumps(known)
    pinned_table = pin(Table("gold", "errors"), "table", DeltaLog(files, "table"), Limits(from_beginning))
    assert pinned_table is not None
    assert (pinned_table.gaps, pinned_table.span.whole, len(pinned_table.span.commits)) == ((), True, 2)
