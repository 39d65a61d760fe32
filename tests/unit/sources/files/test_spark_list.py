"""Spark's list of files: what is read of it, and that a damaged part of it hides no file."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from oncelake.common.errors import StateError
from oncelake.sources.files.position import listing_number
from oncelake.sources.files.spark_list import FileSourceLog
from oncelake.sources.tail.position import TailPosition
from tests.support.memory import MemoryFiles

PLACE, LISTED = "ckpt/sources/0", 45


@dataclass
class Watched(MemoryFiles):
    """A file system that records what is read."""

    seen: list[str] = field(default_factory=list)

    def read(self, path: str) -> str | None:
        self.seen.append(path.removeprefix(f"{PLACE}/"))
        return super().read(path)


@pytest.fixture
def files() -> Watched:
    """Return the list after 45 listings of one file each, with the parts that Spark keeps for a while."""
    files = Watched()
    for number in range(LISTED):
        compacts = number % 10 == 9
        name = f"{number}.compact" if compacts else str(number)
        files.write(f"{PLACE}/{name}", part(range(number + 1) if compacts else [number]))
    return files


def part(numbers: Iterable[int]) -> str:
    """Return the text of a part of the list."""
    entries = ({"path": f"file:///logs/{number}", "timestamp": 7, "batchId": number} for number in numbers)
    return "\n".join(["v1", *map(json.dumps, entries)])


def numbers(files: Watched) -> list[int]:
    """Return the numbers of the files that are listed."""
    return [number for _, _, number in FileSourceLog(files, "ckpt").entries()]


def test_only_the_newest_compact_and_what_follows_are_read(files: Watched) -> None:
    assert numbers(files) == [*range(LISTED)]
    assert sorted(files.seen) == ["39.compact", "40", "41", "42", "43", "44"]


@pytest.mark.parametrize("damaged", ["", part(range(40))[:-1], part(range(40)).removeprefix("v1\n")])
def test_an_incomplete_compact_hides_no_file(files: Watched, damaged: str) -> None:
    files.texts[f"{PLACE}/39.compact"] = damaged
    assert {*range(LISTED)} - {*numbers(files)} <= {39}


def test_a_file_that_was_listed_twice_counts_with_its_later_time(files: Watched) -> None:
    files.texts[f"{PLACE}/44"] = part([44]).replace("/logs/44", "/logs/3").replace('"timestamp": 7', '"timestamp": 9')
    listed = {path: modified for path, modified, _ in FileSourceLog(files, "ckpt").entries()}
    assert listed["file:///logs/3"] == 9


@pytest.mark.parametrize("at", [TailPosition().to_json(), '{"alog":{"0":7}}'])
def test_a_position_of_another_source_is_refused(at: str) -> None:
    assert listing_number('{"logOffset":3}') == 3
    with pytest.raises(
        StateError, match="is a directory of complete files, but the last position is of another source"
    ):
        listing_number(at)
