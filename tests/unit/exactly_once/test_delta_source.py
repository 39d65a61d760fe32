"""A table can be a source as long as its other writers only append."""

import json

import pytest

from oncelake.exactly_once.state import State
from tests.support.memory import MemoryFiles, at, commit
from tests.support.states import source_table


@pytest.mark.parametrize("operation", ["DELETE", "UPDATE", "MERGE", "RESTORE"])
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
