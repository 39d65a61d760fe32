"""Whatever is written, renamed, cut, compressed and deleted between two looks, each line is read once."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from oncelake.sources.tail.position import TailPosition
from tests.support.tailing import EVERYTHING, LogDirectory, ReadFiles, drain, pack, read

SETTINGS = settings(
    max_examples=100,
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


class Rotations(RuleBasedStateMachine):
    """A log, what happens to its files, and the batches that read them.

    Attributes:
        read: the lines of all finished batches.
        at: the position after them.
        planned: the end of a batch that is planned and not read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.logs = LogDirectory(self.place)
        self.files = ReadFiles(self.place)
        self.read: list[bytes] = []
        self.at = TailPosition()
        self.planned: TailPosition | None = None
        self.is_copied = False

    def teardown(self) -> None:
        self.finish()
        self.files = self.files.restarted()
        if self.is_copied:
            self.logs.cut()
        if self.logs.half:
            self.logs.write(1)
        lines, _ = drain(self.files, self.at)
        self.read += lines
        assert Counter(self.read) == Counter(self.logs.lines)
        shutil.rmtree(self.place)

    @rule(count=st.integers(1, 5), half=st.booleans())
    @precondition(lambda self: not self.is_copied)
    def write(self, count: int, half: bool) -> None:
        self.logs.write(count, half=half)

    @rule()
    @precondition(lambda self: not self.is_copied and not self.logs.half)
    def write_much(self) -> None:
        self.logs.write(60)

    @rule()
    @precondition(lambda self: not self.is_copied and not self.logs.half)
    def rename(self) -> None:
        self.logs.rename()

    @rule()
    @precondition(lambda self: self.logs.log.exists() and not self.is_copied and not self.logs.half)
    def copy(self) -> None:
        self.logs.copy()
        self.is_copied = True

    @rule(count=st.integers(1, 5))
    @precondition(lambda self: self.is_copied)
    def write_and_read_after_the_copy(self, count: int) -> None:
        """Without the reading, the cut would take these lines before anybody could read them."""
        self.finish()
        self.logs.write(count)
        lines, self.at = drain(self.files, self.at)
        self.read += lines

    @rule()
    @precondition(lambda self: self.is_copied)
    def cut(self) -> None:
        self.logs.cut()
        self.is_copied = False

    @rule(opener=st.sampled_from([".gz", ".bz2"]), last=st.booleans())
    @precondition(lambda self: any(path.suffix[1:].isdigit() for path in self.logs.rotated()[1:]))
    def pack(self, opener: str, last: bool) -> None:
        plain = [path for path in self.logs.rotated()[1:] if path.suffix[1:].isdigit()]
        pack(plain[-1 if last else 0], opener=opener)

    @rule()
    @precondition(lambda self: len(self.logs.rotated()) > 2 and self.planned is None)
    def delete_what_was_read(self) -> None:
        last = str(self.logs.rotated()[-1])
        for number, found in self.files.survey(self.at).known.items():
            file = self.at.files[number]
            if found.path == last and (file.packed or file.offset == found.size):
                Path(last).unlink()

    @rule(most=st.sampled_from([1, 100, 1000, EVERYTHING]))
    @precondition(lambda self: self.planned is None)
    def plan(self, most: int) -> None:
        end = self.files.plan(self.at, most)
        if end != self.at:
            self.planned = TailPosition.parse(end.to_json())

    @rule()
    @precondition(lambda self: self.planned is not None)
    def finish(self) -> None:
        if self.planned is not None:
            self.read += read(self.files, self.at, self.planned)
            self.at, self.planned = self.planned, None

    @rule()
    def restart(self) -> None:
        self.files = self.files.restarted()

    @rule()
    def catch_up(self) -> None:
        self.finish()
        lines, self.at = drain(self.files, self.at)
        self.read += lines

    @invariant()
    def none_twice(self) -> None:
        twice = [line for line, count in Counter(self.read).items() if count > 1]
        assert not twice

    @invariant()
    def counts_bytes(self) -> None:
        assert self.at.read == sum(len(line) + 1 for line in self.read)


def test_each_line_is_read_once_whatever_happens_to_its_file() -> None:
    run_state_machine_as_test(Rotations, settings=SETTINGS)
