"""Drivers on several hosts of one lake on a store: nothing is lost or doubled, whatever is killed or paused."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from oncelake.engine import chain as chains
from oncelake.exactly_once.store_lease import StoreLease
from oncelake.exactly_once.write import TableWriter
from tests.model import drivers
from tests.model.chain_model import Replaced, replacing

# Sequences in which an earlier version read files a second time, or named the wrong cause.
FOUND = (64, 112, 388)
MOST = 100


@contextmanager
def _any_version(*_: object) -> Iterator[None]:
    yield


# What is switched off, what then goes wrong, and the seed from which on it is looked for.
OFF: Mapping[str, tuple[Replaced, str, int]] = {
    "a batch that another host wrote": ({chains: {"planned_elsewhere": lambda *_: None}}, "doubled", 100),
    "the version of a commit": ({drivers: {"at_version": _any_version}}, "doubled", 1_000),
    "the look before a commit": (
        {TableWriter: {"must_be_alone": lambda writer, *_: writer.log.versions()[-1]}},
        "doubled",
        200,
    ),
    "the lease as the cause of an error": ({StoreLease: {"check": lambda _: None}}, "StateError", 0),
}


def test_no_line_is_lost_or_doubled_and_each_host_goes_on() -> None:
    counts: Counter[str] = Counter()
    for seed in range(2_000_000, 2_000_100):
        counts += drivers.play(seed)
    assert counts["done"] > 300
    assert min(counts[event] for event in ("killed", "paused", "paused before a commit", "away", "LockedError")) > 5


def test_what_was_found_stays_right() -> None:
    for seed in FOUND:
        drivers.play(seed)


@pytest.mark.parametrize("off", OFF)
def test_a_guard_that_is_off_is_found(off: str) -> None:
    replaced, fault, first = OFF[off]
    with replacing(replaced):
        assert any(fault in problem for problem in map(_problem, range(first, first + MOST)))


def _problem(seed: int) -> str:
    try:
        drivers.play(seed)
    except drivers.ViolationError as violation:
        return str(violation)
    return ""


def test_a_seed_is_one_sequence() -> None:
    first, again = list[str](), list[str]()
    drivers.play(7, first.append)
    drivers.play(7, again.append)
    assert first == again != []
