"""The judge of the chaos test detects each violation, and its steps can be played again."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.bronze import BronzeFiles
from tests.chaos.directory import Content, Listing, is_hidden, look
from tests.chaos.draw import draw, draw_logs, draw_records, draw_sources, draw_topic
from tests.chaos.game import Result
from tests.chaos.judge import Judge
from tests.chaos.operations import Place
from tests.chaos.product import Outcome
from tests.chaos.shrink import shrunk
from tests.chaos.steps import Step, parse, parsed, spelled
from tests.chaos.world import Directory

A, B = b"a.log", b"sub/b.log"
LINES = (b"one", b"two", b"two")
FILE = Content(12, 1_000, LINES)
HOLDS, FAILS = Outcome(ok=True, said=""), Outcome(ok=False, said="a.log grew")


def held(*lines: bytes, stamp: tuple[int, int] = (12, 1_000)) -> BronzeFiles:
    return BronzeFiles(Counter(lines), {stamp})


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    judge = Judge(Directory(Place.below(tmp_path)))
    judge.saw(Listing({A: FILE}))
    return judge


@pytest.mark.parametrize(
    ("listing", "bronze"),
    [
        pytest.param({A: FILE}, {A: held(b"one", b"two")}, id="a line is missing"),
        pytest.param({A: FILE}, {A: held(*LINES, b"one")}, id="a line is there twice"),
        pytest.param({A: FILE}, {A: held(*LINES), B: held(b"one")}, id="lines of a file that never was"),
        pytest.param({A: Content(13, 1_000, (*LINES, b""))}, {A: held(*LINES)}, id="the file grew"),
        pytest.param({A: Content(12, 2_000, (b"new",))}, {A: held(*LINES)}, id="another file of the same name"),
        pytest.param({A: Content(12, 1_000, None)}, {}, id="the file cannot be read"),
        pytest.param({A: Content(0, 2_000, ())}, {A: held(*LINES)}, id="the file was emptied"),
        pytest.param({}, {A: held(b"one")}, id="a file that is gone was read in part"),
    ],
)
def test_a_proof_that_holds_in_spite_of_a_fault_breaks_the_invariant(
    judge: Judge, listing: dict[bytes, Content], bronze: dict[bytes, BronzeFiles]
) -> None:
    judge.proved(replace(FAILS), Listing(listing), bronze, deep=False, sound=True)
    assert judge.broken == []
    judge.proved(HOLDS, Listing(listing), bronze, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_only_a_deep_proof_must_detect_a_change_with_equal_size_and_time(judge: Judge) -> None:
    swapped = Listing({A: Content(12, 1_000, (b"eno", *LINES[1:]))})
    judge.proved(HOLDS, swapped, {A: held(*LINES)}, deep=False, sound=True)
    assert judge.broken == []
    judge.proved(HOLDS, swapped, {A: held(*LINES)}, deep=True, sound=True)
    assert len(judge.broken) == 1


def test_a_link_to_a_directory_above_it_is_a_fault(judge: Judge) -> None:
    judge.proved(HOLDS, Listing({A: FILE}, loops=(b"up",)), {A: held(*LINES)}, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_an_empty_directory_is_a_fault_and_missing_files_are_not(judge: Judge) -> None:
    judge.proved(HOLDS, Listing({}), {A: held(*LINES)}, deep=False, sound=True)
    assert judge.broken == []
    judge.proved(HOLDS, Listing({}, empty=True), {A: held(*LINES)}, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_a_waiting_file_must_be_read_by_the_next_run(judge: Judge) -> None:
    there = Listing({A: FILE})
    for bronze in ({A: held(*LINES)}, {}):
        judge.proved(HOLDS, there, {}, deep=False, sound=True)
        judge.ran([there], Outcome(ok=True, said=""), bronze, alone=True)
        assert len(judge.broken) == (not bronze)


def test_a_file_renamed_after_its_ingest_must_be_named_with_its_old_name(judge: Judge) -> None:
    judge.proved(HOLDS, Listing({A: FILE}), {A: held(*LINES)}, deep=False, sound=True)
    renamed, both = Listing({B: FILE}), {A: held(*LINES), B: held(*LINES)}
    judge.proved(replace(HOLDS, said="b.log is a.log, which is gone"), renamed, both, deep=False, sound=True)
    assert judge.broken == []
    judge = Judge(judge.world, had=judge.had)
    judge.proved(HOLDS, renamed, both, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_a_file_that_a_run_skips_must_be_named(judge: Judge) -> None:
    there = Listing({A: FILE})
    judge.ran([there], HOLDS, {}, alone=True)
    judge.proved(FAILS, there, {}, deep=False, sound=True)
    assert judge.broken == []
    judge.ran([there], HOLDS, {}, alone=True)
    judge.proved(replace(FAILS, said="something is wrong"), there, {}, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_a_file_deleted_before_it_was_read_must_be_named(judge: Judge) -> None:
    judge.ran([Listing({A: FILE}), Listing({})], HOLDS, {}, alone=False)
    judge.proved(HOLDS, Listing({}), {}, deep=False, sound=True)
    assert len(judge.broken) == 1


def test_a_proof_that_fails_on_a_complete_lake_is_a_false_alarm(judge: Judge) -> None:
    judge.proved(FAILS, Listing({A: FILE}), {A: held(*LINES)}, deep=False, sound=True)
    assert judge.broken == ["prove does not hold, and every file is in bronze as it is"]


def test_a_rebuild_that_loses_a_line_is_detected(judge: Judge) -> None:
    judge.repaired("rebuild", HOLDS, {A: held(*LINES)}, {A: held(b"one")}, given_up=None)
    assert judge.broken == []
    judge.repaired("rebuild", HOLDS, {A: held(*LINES)}, {A: held(b"one")})
    assert len(judge.broken) == 1


def test_an_accepted_loss_covers_only_the_lines_of_that_time(judge: Judge) -> None:
    judge.accepts([A])
    judge.proved(HOLDS, Listing({A: FILE}), {}, deep=False, sound=True)
    judge.ran([Listing({A: FILE})], HOLDS, {}, alone=True)
    judge.proved(HOLDS, Listing({A: FILE}), {}, deep=False, sound=True)
    assert judge.broken == []


def test_an_unhandled_error_is_detected(judge: Judge) -> None:
    judge.proved(replace(FAILS, unforeseen="KeyError"), Listing({}), {}, deep=False, sound=True)
    assert len(judge.broken) == 1


@pytest.mark.parametrize(
    ("name", "directory", "hidden"),
    [
        (b"a.log", False, False),
        (b".a.log", False, True),
        (b"_a.log", False, True),
        (b"_a=b.log", False, False),
        (b"a._COPYING_", False, True),
        (b"_metadata.log", False, True),
        (b"_metadata.d", True, False),
        (b"_common_metadata", True, False),
        (b"_other", True, True),
        (b".d", True, True),
    ],
)
def test_files_that_spark_ignores_are_hidden(name: bytes, directory: bool, hidden: bool) -> None:
    assert is_hidden(name, directory=directory) is hidden


def test_every_kind_of_file_in_a_directory_is_read(tmp_path: Path) -> None:
    place = Place.below(tmp_path)
    steps = """
        create a.log #1 #2
        create sub/e.log.gz #2 #2
        create %E9.log #3 #1
        create whole.log.gz #4 #2
        truncate whole.log.gz #50
        create .dot/a.log #5 #2
        link linked sub
        link no.log nowhere
        loop sub/up
        pipe pipe
        empty empty.log
    """
    assert all(place.apply(step) for step in parsed(steps))
    assert not place.apply(parse("append nothing.log #1 #1"))
    listing = look(place.root)
    assert {path: content.lines and len(content.lines) for path, content in listing.files.items()} == {
        b"a.log": 2,
        b"sub/e.log.gz": 2,
        b"linked/e.log.gz": 2,
        b"\xe9.log": 1,
        b"whole.log.gz": None,
        b"pipe": (),
        b"empty.log": (),
    }
    assert listing.loops == (b"linked/up", b"sub/up")
    assert listing.strange == (b"no.log", b"pipe", b"\xe9.log")


@pytest.mark.parametrize("drawn", [draw, draw_logs, draw_records, draw_sources, draw_topic])
def test_a_seed_always_draws_the_same_steps_and_they_can_be_parsed(drawn: Callable[[int], list[Step]]) -> None:
    for seed in range(200):
        steps = drawn(seed)
        assert drawn(seed) == steps == parsed(spelled(steps))


def test_a_sequence_is_shortened() -> None:
    def play(steps: Sequence[Step]) -> Result:
        kept = list(steps)
        return Result(kept, ["lost"] if parse("delete b.log") in kept else [], Counter(), [])

    long = parsed("create a.log #1 #1\ndelete b.log\nrun\nprove")
    assert shrunk(play(long), play, seconds=5).steps == [parse("delete b.log")]
