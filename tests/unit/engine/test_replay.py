"""An unfinished replay of quarantine is completed from what it wrote, or not at all; without Spark."""

from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import StateError
from oncelake.engine.replay import Replay
from oncelake.engine.start_gate import refuse_unless_finished
from oncelake.exactly_once.commit import CommitKind
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata

NONE: Any = None


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make a lake where silver has the lines of a replay, quarantine still has them too, and the verdicts are lost."""
    house, files = House(tmp_path), MemoryFiles()
    for name in ("silver/access_log", "silver/quarantine"):
        commit(files, name, 0, operation="CREATE TABLE")
        commit(files, name, 1, metadata(0, name.replace("/", ".")))
    replay = {"id": "once", "version": 3, "reasons": []}
    commit(files, "silver/access_log", 2, metadata(0, rows=10, replay=replay, event=CommitKind.REPLAY))
    for name, text in files.texts.items():
        (house.lake / name).parent.mkdir(parents=True, exist_ok=True)
        (house.lake / name).write_text(text)
    return house


def test_nothing_starts_during_an_unfinished_replay(house: House) -> None:
    with pytest.raises(StateError, match=r"a replay of silver\.quarantine is unfinished"):
        refuse_unless_finished(house.chain())


def test_a_replay_is_not_completed_without_its_verdicts(house: House) -> None:
    said = r"an unfinished replay moved lines to silver\.access_log, but its record of these .*oncelake rebuild silver"
    with pytest.raises(StateError, match=said):
        Replay(house.chain(), NONE, NONE).go()
