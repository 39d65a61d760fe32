"""Two instances never give a wrong answer silently; with one shared checkpoint, they never give a wrong one at all."""

from collections import Counter

import pytest

from tests.model.chain_model import faults
from tests.model.exploring import State, finish
from tests.model.instances import begun, overlaps

KINDS = ("kafka", "files")


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_resumes_after_its_successor_writes_nothing_twice(kind: str) -> None:
    ends: Counter[str] = Counter()
    ended = {}
    for state in begun(kind, lots=2):
        for overlap in overlaps(state, kind):
            assert not faults(overlap.texts).doubled, str(overlap)
            assert not faults(overlap.texts).twice, str(overlap)
            key = State(overlap.texts).key
            if key not in ended:
                ended[key] = finish(dict(overlap.texts), kind, 2)
            assert ended[key] == "exact", str(overlap)
            ends[f"{overlap.first.kind}, {overlap.second.kind}"] += 1
    assert ends["StageError, done"] > 10
    assert ends["StageError, died"] > 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_instance_with_its_own_checkpoints_is_never_silent(kind: str) -> None:
    ends: Counter[str] = Counter()
    for state in begun(kind, lots=2):
        for overlap in overlaps(state, kind, root="other"):
            wrong = faults(overlap.texts)
            assert not overlap.silent or not (wrong.doubled or wrong.twice), str(overlap)
            ends[f"{overlap.first.kind}, {overlap.second.kind}"] += 1
    assert ends["StageError, done"] > 5
    assert ends["done, StateError"] > 20


def test_the_next_start_detects_lines_doubled_by_two_instances() -> None:
    (state,) = begun("kafka", lots=1)
    doubled = [overlap for overlap in overlaps(state, "kafka", root="other") if faults(overlap.texts).doubled]
    assert doubled
    for overlap in doubled:
        assert "StateError" in finish(dict(overlap.texts), "kafka", 1), str(overlap)
