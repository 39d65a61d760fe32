"""A table can be a source as long as its other writers only append."""

import json
from dataclasses import replace

import pytest

from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.delta_source import LOOK, DeltaSource
from oncelake.exactly_once.state import State
from tests.support.memory import MemoryFiles, at, commit, metadata
from tests.support.states import source_table


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE", "RESTORE", "OPTIMIZE", "REORG"])
def test_a_version_changed_by_hand_is_not_read(operation: str) -> None:
    files = MemoryFiles()
    source = source_table(files, 4)
    commit(files, "source", 4, operation=operation, version="2")
    files.texts[f"source/_delta_log/{4:020d}.json"] += '\n{"remove":{"path":"x","dataChange":true}}'
    diagnosis = source.trouble(json.dumps(at(3)), None, {})
    assert diagnosis is not None
    assert diagnosis.state is State.SOURCE_REPLACED
    assert diagnosis.seen == f"bronze.access_log was changed by {operation} in version 4"
    assert source.trouble(json.dumps(at(5)), None, {}) is None
    commit(files, "source", 4, operation="OPTIMIZE")
    assert source.trouble(json.dumps(at(3)), None, {}) is None


def changed_by_hand(files: MemoryFiles, number: int, operation: str = "DELETE") -> None:
    """Write a commit that removes a data file, which is still on the disk; a RESTORE is to the third version."""
    commit(files, "source", number, operation=operation, version="3")
    removed = f'{{"remove":{{"path":"part%20{number}","dataChange":true}}}}'
    files.texts[f"source/_delta_log/{number:020d}.json"] += f"\n{removed}"
    files.texts[f"source/part {number}"] = ""


def undo(files: MemoryFiles) -> str | None:
    """Return the statement that undoes what keeps a stage at version 3 from reading on."""
    source = DeltaSource("bronze.access_log", DeltaLog(files, "source"))
    diagnosis = source.trouble(json.dumps(at(3)), None, {})
    assert diagnosis is not None
    return diagnosis.undo


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE"])
def test_a_change_by_hand_is_undone_by_the_version_before_it(operation: str) -> None:
    files = MemoryFiles()
    source_table(files, 4)
    changed_by_hand(files, 4, operation)
    changed_by_hand(files, 5)
    commit(files, "source", 6, operation="OPTIMIZE")
    assert undo(files) == "RESTORE TABLE delta.`source` TO VERSION AS OF 3"


def test_no_restore_is_advised_after_vacuum_has_deleted_the_files() -> None:
    files = MemoryFiles()
    source_table(files, 4)
    changed_by_hand(files, 4)
    del files.texts["source/part 4"]
    assert undo(files) is None


def test_no_restore_is_advised_that_would_remove_a_batch() -> None:
    files = MemoryFiles()
    source_table(files, 4)
    changed_by_hand(files, 4)
    commit(files, "source", 5, metadata(4))
    assert undo(files) is None


def test_no_restore_is_advised_to_a_version_that_the_log_no_longer_has() -> None:
    files = MemoryFiles()
    source_table(files, 4)
    changed_by_hand(files, 4)
    files.texts[f"source/_delta_log/{4:020d}.json"] += '\n{"metaData":{"id":"source-id","configuration":{}}}'
    assert undo(files) is not None
    del files.texts[f"source/_delta_log/{0:020d}.json"]
    assert undo(files) is None


def test_a_restore_is_not_undone_by_another_one() -> None:
    files = MemoryFiles()
    source_table(files, 4)
    changed_by_hand(files, 4)
    changed_by_hand(files, 5, "RESTORE")
    assert undo(files) is None
    changed_by_hand(files, 6)
    assert undo(files) == "RESTORE TABLE delta.`source` TO VERSION AS OF 5"


@pytest.mark.parametrize(
    ("operation", "adds", "exhausted"),
    [
        ("OPTIMIZE", '{"add":{"path":"x","dataChange":false}}', True),
        ("VACUUM START", "", True),
        ("REORG", '{"add":{"path":"x","dataChange":false}}', True),
        ("OPTIMIZE", '{"add":{"path":"x","dataChange":true}}', False),
        ("WRITE", '{"add":{"path":"x","dataChange":true}}', False),
        ("SET TBLPROPERTIES", '{"metaData":{}}', True),
        ("ADD COLUMNS", '{"metaData":{}}', False),
    ],
)
def test_a_version_that_adds_no_row_need_not_be_read(operation: str, adds: str, exhausted: bool) -> None:
    files = MemoryFiles()
    source = source_table(files, 3)
    assert source.exhausted(json.dumps(at(3)))
    assert not source.exhausted(json.dumps({**at(3), "index": 0}))
    commit(files, "source", 3, operation=operation)
    files.texts[f"source/_delta_log/{3:020d}.json"] += f"\n{adds}"
    assert source.exhausted(json.dumps(at(3))) is exhausted
    assert source.exhausted(json.dumps(at(4)))


@pytest.mark.parametrize(("index", "feed", "is_read"), [(1, True, True), (0, True, False), (1, False, False)])
def test_a_version_is_read_with_its_last_file_of_change_data(*, index: int, feed: bool, is_read: bool) -> None:
    files = MemoryFiles()
    source = replace(source_table(files, 3), changes=feed)
    commit(files, "source", 3, metadata(3))
    changed = ['{"add":{"path":"x","dataChange":true}}', '{"cdc":{"path":"a"}}', '{"cdc":{"path":"b"}}']
    files.texts[f"source/_delta_log/{3:020d}.json"] += "\n".join(["", *changed])
    within = json.dumps({**at(3), "index": index})
    assert source.exhausted(within) is is_read
    assert (source.backlog(within, changes=True).count == 0) is is_read
    assert not source.exhausted(json.dumps({**at(3), "index": index, "isStartingVersion": True}))
    commit(files, "source", 4, metadata(4))
    files.texts[f"source/_delta_log/{4:020d}.json"] += f"\n{changed[0]}"
    assert not source.exhausted(within)
    assert not source.exhausted(json.dumps({**at(4), "index": 0}))


def test_versions_without_rows_are_read_past_when_they_span_days() -> None:
    files = MemoryFiles()
    source = source_table(files, 3)
    commit(files, "source", 3, metadata(3))
    commit(files, "source", 4, operation="OPTIMIZE")
    assert source.exhausted(json.dumps(at(3)))
    assert source.commit_log.last_alike(2) == 4
    later = f"source/_delta_log/{4:020d}.json"
    files.texts[later] = files.texts[later].replace('"timestamp":1004', f'"timestamp":{1004 + 4 * 24 * 3600 * 1000}')
    source = replace(source, commit_log=DeltaLog(files, "source"))
    assert not source.exhausted(json.dumps(at(3)))
    assert source.exhausted(json.dumps(at(4)))


def test_a_batch_without_rows_need_not_be_read() -> None:
    files = MemoryFiles()
    source = source_table(files, 3)
    commit(files, "source", 3, metadata(3))
    assert source.exhausted(json.dumps(at(3)))
    files.texts[f"source/_delta_log/{3:020d}.json"] += '\n{"add":{"path":"x","dataChange":true}}'
    assert not source.exhausted(json.dumps(at(3)))


def test_many_or_missing_versions_are_left_to_the_query() -> None:
    files = MemoryFiles()
    source = source_table(files, 3)
    for version in range(3, 3 + LOOK):
        commit(files, "source", version, operation="OPTIMIZE")
    assert source.exhausted(json.dumps(at(4)))
    assert not source.exhausted(json.dumps(at(2)))
    del files.texts[f"source/_delta_log/{5:020d}.json"]
    assert not source.exhausted(json.dumps(at(4)))
