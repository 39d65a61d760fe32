"""A recovery that needs lines that the source does not have, or that would keep doubled rows, is refused."""

import json
from pathlib import Path

import pytest

from oncelake.common.errors import StateError
from oncelake.engine.markers import MARKER
from oncelake.engine.start_gate import refuse_unless_finished, refuse_unless_startable
from oncelake.exactly_once.recovery import plan
from tests.support.house import House
from tests.support.memory import MemoryFiles, checkpoint, commit, metadata, table
from tests.support.states import case, source_table

OTHER = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def files() -> MemoryFiles:
    """Make a table of three batches, and its checkpoint."""
    files = MemoryFiles()
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    return files


def recreate_source(files: MemoryFiles) -> None:
    """Recreate the source table with the same length: it has another ID."""
    path = "source/_delta_log/00000000000000000000.json"
    files.texts[path] = files.texts[path].replace("source-id", "another-id")


@pytest.mark.parametrize("gone", [True, False])
def test_a_replaced_or_trimmed_source_is_not_used_for_recovery(files: MemoryFiles, *, gone: bool) -> None:
    source = source_table(files, 9)
    if gone:
        files.texts["source/_delta_log/00000000000000000005.json"] += "\n" + json.dumps(
            {"metaData": {"id": "source-id", "configuration": {}}}
        ).replace('": ', '":')
        for version in range(5):
            files.remove(f"source/_delta_log/{version:020d}.json")
    else:
        recreate_source(files)
    with pytest.raises(StateError, match=r"No checkpoint can fix that\. Fix: oncelake rebuild silver"):
        plan(case(files, source))


def test_a_table_written_by_two_instances_is_not_recovered(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(2, query_id=OTHER))
    with pytest.raises(StateError, match=r"does not follow version 3, batch 2 .* oncelake rebuild silver"):
        plan(case(files))


def test_a_checkpoint_is_not_written_for_another_source(files: MemoryFiles) -> None:
    source = source_table(files, 4)
    files.remove("ckpt")
    assert plan(case(files, source)).texts
    recreate_source(files)
    with pytest.raises(
        StateError, match=r"is table another-id, positions are of table source-id\. Fix: oncelake rebuild"
    ):
        plan(case(files, source))


def test_a_restored_table_is_recovered_under_a_new_query_id(files: MemoryFiles) -> None:
    commit(files, "table", 4, operation="RESTORE", version="2")
    recovery = plan(case(files), lambda: "new")
    assert [each.query_id for each in recovery.commits] == ["new"]
    assert json.loads(recovery.texts["metadata"]) == {"id": "new"}


def test_nothing_starts_during_an_unfinished_rebuild(tmp_path: Path) -> None:
    house = House(tmp_path)
    refuse_unless_startable(house.chain())
    house.lake.mkdir()
    (house.lake / MARKER).write_text(json.dumps({"stages": ["silver", "gold.error_log"]}))
    for refuse in (refuse_unless_finished, refuse_unless_startable):
        with pytest.raises(StateError, match=r"a rebuild of silver, gold\.error_log is unfinished"):
            refuse(house.chain())
