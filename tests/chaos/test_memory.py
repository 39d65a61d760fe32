"""A run of the chaos test goes on where the last one stopped, and its results add up."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import page
from tests.chaos.game import Result
from tests.chaos.memory import Memory
from tests.chaos.play import Played

NUMBERS = {"files": 4, "tail": 2}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "build" / "chaos.json"


def played(kind: str, seed: int) -> Played:
    """Return the result of a sequence that runs once; the one of seed 1 on files breaks the invariant."""
    broken = {seed: Result([], ["lost"], Counter(), [])} if (kind, seed) == ("files", 1) else {}
    return Played(1, Counter({"run: exit 0": 1}), broken)


def test_a_run_goes_on_where_the_last_one_was_stopped(path: Path) -> None:
    order: list[tuple[str, int]] = []

    def play(kind: str, seed: int) -> Played:
        if len(order) == 3:
            raise KeyboardInterrupt
        order.append((kind, seed))
        return played(kind, seed)

    with pytest.raises(KeyboardInterrupt):
        Memory(path).play_on(NUMBERS, play)
    assert order == [("files", 0), ("tail", 0), ("files", 1)], "each kind in turn, by how much of it is played"
    rest: list[tuple[str, int]] = []

    def play_rest(kind: str, seed: int) -> Played:
        rest.append((kind, seed))
        return played(kind, seed)

    memory = Memory(path)
    assert not memory.play_on(NUMBERS, play_rest)
    assert rest == [("files", 2), ("tail", 1), ("files", 3)]
    assert {kind: record.counts for kind, record in memory.records.items()} == {
        "files": Counter({"run: exit 0": 4}),
        "tail": Counter({"run: exit 0": 2}),
    }
    assert list(Memory(path).of("files").broken) == [1], "a violation is remembered"


def test_a_run_that_is_over_says_what_is_left(path: Path) -> None:
    assert Memory(path).play_on(NUMBERS, played, seconds=0) == {"files", "tail"}
    assert not path.exists()


def test_a_file_that_is_no_record_is_refused_by_name(path: Path) -> None:
    path.parent.mkdir()
    for text in ("", "[]", json.dumps({"files": {"sequences": 3}})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"chaos\.json holds no record.*--fresh"):
            Memory(path)


def test_the_page_sums_up_all_runs(path: Path) -> None:
    for number in (1, 3):
        Memory(path).play_on({"files": number}, played)
    said = page.summary("a directory", Memory(path).of("files"))
    assert "seeds 0 to 2: 3 sequences on a directory, violations: 1, seed 1." in said
    assert "| run: exit 0 | 3 |" in said
