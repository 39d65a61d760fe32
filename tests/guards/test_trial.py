"""A guard whose tests pass without it is reported, and so is an entry that proves nothing, on a small made tree."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.guards.__main__ import chosen, main
from tests.guards.edits import Edit, becomes, removed
from tests.guards.guard import Guard

CODE = '''
def check(held):
    """Refuse what is not held."""
    limit = 1  # guard: limit-is-one
    if held < limit:  # guard: what-is-held
        raise ValueError(f"{held} is not held")  # guard: refusal-of-rest
    return held
'''
TESTS = """
import pytest
from oncelake.gate import check

def test_what_is_not_held_is_refused():
    with pytest.raises(ValueError, match="0 is not held"):
        check(0)

@pytest.mark.parametrize("held", [1, 2])
def test_what_is_held_passes(held):
    assert check(held) == held

def test_that_is_always_red():
    assert check(1) == 2

@pytest.mark.skip
def test_that_is_skipped():
    check(0)
"""
REFUSED, PASSES = "test_what_is_not_held_is_refused", "test_what_is_held_passes"
DROPPED = removed()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"pipelines/oncelake/__init__.py": "", "pipelines/oncelake/gate.py": CODE, "tests/unit/test_gate.py": TESTS}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def guard(name: str, *tests: str, off: Edit = DROPPED, tag: str = "refusal-of-rest") -> Guard:
    return Guard(tag, name, "nothing", off, tuple(f"unit/test_gate.py::{test}" for test in tests))


def test_a_guard_is_red_if_each_of_its_tests_fails_without_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (root / "pipelines/oncelake/gate.py").read_text()
    other = guard("held", PASSES, off=becomes("held == 2"), tag="what-is-held")
    assert main([], [guard("refused", REFUSED), other, guard("refused again", REFUSED)], root) == 0
    said = capsys.readouterr().out
    assert re.findall(r"^(\S+) +[\d.]+ s  [\w-]+: (.+)$", said, re.MULTILINE) == [
        ("red", "refused"),
        ("red", "held"),
        ("red", "refused again"),
    ]
    assert said.splitlines()[-1].startswith("3 of 3 guards are red, in ")
    assert (root / "pipelines/oncelake/gate.py").read_text() == before


def test_a_guard_without_a_failing_test_is_not_red(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    not_red = {
        "held": (
            guard("held", REFUSED, PASSES),
            r"without it, tests/unit/test_gate\.py::test_what_is_held_passes still",
        ),
        "no tag": (guard("no tag", REFUSED, tag="refusal-of-all"), "no line has the tag refusal-of-all"),
        "no value": (guard("no value", REFUSED, tag="limit-is-one"), "limit has no value"),
        "broken": (guard("broken", REFUSED, off=becomes("most"), tag="what-is-held"), "NameError: name .most"),
        "skipped": (guard("skipped", "test_that_is_skipped"), "was skipped"),
        "always": (guard("always", "test_that_is_always_red"), "fails with the guard in place"),
    }
    assert main([], [guard("refused", REFUSED), *(entry for entry, _ in not_red.values())], root) == 1
    said = capsys.readouterr().out
    for name, (_, why) in not_red.items():
        assert re.search(rf"^NOT RED .*: {name}: .*{why}", said, re.MULTILINE), said
    assert "1 of 7 guards are red" in said


def test_a_missing_test_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], [guard("refused", "test_that_is_gone")], root) == 1
    assert re.search(r"^NOT RED .*: refused: pytest ended with usage error", capsys.readouterr().out, re.MULTILINE)


def test_a_seed_chooses_the_same_guards_and_a_text_its_guards() -> None:
    guards = [guard(str(number), tag=f"tag-{number}") for number in range(20)]
    files = {f"tag-{number}": f"{number % 2}.py" for number in range(20)}
    few = chosen(guards, files, only=(), number=3, seed=7)
    assert len(few) == 3
    assert chosen(guards, files, only=(), number=3, seed=7) == few
    assert chosen(guards, files, only=(), number=3, seed=8) != few
    assert chosen(guards, files, only=["1.py"], number=None, seed=None) == guards[1::2]
    assert chosen(guards, files, only=["tag-12"], number=None, seed=None) == [guards[12]]
    with pytest.raises(ValueError, match="no guard's tag, name or file contains 'gone'"):
        chosen(guards, files, only=["gone"], number=None, seed=None)
