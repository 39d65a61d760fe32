"""Random sequences on growing files in memory: every line counts once, and planted mistakes are found."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import pytest

from oncelake.sources.tail import lost as tail_lost
from oncelake.sources.tail.identity import Contents
from oncelake.sources.tail.survey import Surveyor
from tests.model.log_play import draw, play, small_reach

SEQUENCES = 300
MOST = 2_000
# Sequences in which an earlier version read a line twice, or not at all.
FOUND = (
    9049, 223497, 223816, 268016, 276116, 293633, 316082, 335521, 339225, 373514, 379920, 419559, 455548, 482959,
    549569, 552447, 561773, 602803, 613813, 625565, 727041, 727308, 1001308, 1009388, 1013894, 1021822, 1023986,
    765676, 4006295, 4063023, 5004915, 6002987, 7006338, 10098156, 10098910,
    10135073, 40110017, 50091384, 50202453, 90099858, 120192467, 120196422, 140702061,
    140745532, 160463985, 170029558, 200476251, 241226344, 247177147, 247259927, 249324109,
    254088859, 255084437, 255139170, 255157688, 256004953,
)  # fmt: skip
# A mistake in the product: what is replaced, and by what.
MISTAKES: Mapping[str, tuple[object, str, Callable[..., object]]] = {
    "no file is found by its content": (Contents, "begins_with", lambda *_: False),
    "no name is one that rotating makes": (tail_lost, "origins", lambda _: ()),
    "a file that was cut is a new one": (Surveyor, "goes_on", lambda *_: 0),
    "an inode is a file for ever": (Contents, "is_same", lambda *_: True),
    "no file is a copy": (Contents, "is_beginning", lambda *_: False),
    "a copy is always a log": (Surveyor, "decides", lambda *_, **__: False),
    "a compressed file has a line end": (Contents, "written", Contents.size),
}


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_reach():
        yield


@contextmanager
def planted(mistake: str) -> Iterator[None]:
    owner, name, wrong = MISTAKES[mistake]
    with mock.patch.object(owner, name, wrong):
        yield


@pytest.mark.parametrize("first", range(0, SEQUENCES, 100))
def test_each_line_counts_once_or_its_file_is_named(first: int) -> None:
    problems = {seed: problem for seed in range(first, first + 100) if (problem := play(draw(seed)).problem)}
    assert problems == {}


def test_what_was_found_by_a_million_sequences_stays_right() -> None:
    problems = {seed: problem for seed in FOUND if (problem := play(draw(seed)).problem)}
    assert problems == {}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_product_is_found(mistake: str) -> None:
    with planted(mistake):
        assert any(play(draw(seed)).problem for seed in range(MOST)), f"{mistake}: no sequence finds it"


def test_a_seed_is_one_sequence() -> None:
    assert draw(7) == draw(7)
    assert draw(7).steps[:2] != draw(8).steps[:2]
    assert play(draw(7)) == play(draw(7))
