"""Play a sequence of operations on logs against the planner of growing files, and judge what was read.

The judge knows which bytes were written, which line each of them is of, and which files hold a line now; no rule of the
product. After each reading to the end, every line that a file holds either counts once, or a file that holds it is
named. No line ever counts twice. A line that was deleted before anybody read it need not count.
"""

import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple
from unittest import mock
from urllib.parse import unquote

from oncelake.common.errors import SourceError
from oncelake.sources.tail import content as tail_content
from oncelake.sources.tail import plan as tail_files
from oncelake.sources.tail import survey as tail_survey
from oncelake.sources.tail.content import ends_of
from oncelake.sources.tail.plan import LastStart, TailFiles
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.source import TailSource
from oncelake.sources.tail.survey import is_written
from tests.model.file_system import ROOT, MemoryDisk, Node
from tests.model.log_world import Log, Rotation, World, every_layout

EVERYTHING = 2**40
QUIET = 2.0
_LIMITS = (1, 60, 300, EVERYTHING)
LAYOUTS = tuple(every_layout())
ROTATIONS: tuple[Rotation, ...] = (None, "rename", "copytruncate")
# The operations of the reader, and those of the world, with how often each is drawn.
_READER = {"plan": 6, "finish": 5, "catch_up": 9, "restart": 3, "lose": 1, "until": 1}
_WORLD = {
    "append": 14, "append_much": 4, "append_half": 2, "append_twins": 6, "write_pair": 1, "rotate": 12,
    "reopen": 3, "copy": 8, "copy_rest": 5, "cut": 9, "pack": 12, "pack_rest": 8, "pack_end": 9, "repack": 3,
    "unpack": 4, "unpack_end": 4, "add_member": 3, "replace": 3, "crash": 3, "restore": 12, "move": 3, "take_away": 2,
    "put_back": 4, "delete": 2, "link": 1, "hide": 1, "date": 1, "wait": 6, "deny": 1, "heal": 2, "miss": 1,
    "race": 2, "reboot": 1,
}  # fmt: skip
_KINDS = {**_READER, **_WORLD}
_CUMULATIVE = [sum([*_KINDS.values()][: at + 1]) for at in range(len(_KINDS))]


class Step(NamedTuple):
    """One operation with the numbers that choose what it is applied to."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass(frozen=True)
class Scenario:
    """A sequence, and the world in which it is played.

    Attributes:
        layout: which logs there are, as a place in `LAYOUTS`.
        rotation: the setting of the source.
        ways: how each log is rotated.
        records: whether several lines are one record.
        keeps_births: whether the file system keeps times of creation.
        steps: the operations.
    """

    layout: int
    rotation: Rotation
    ways: int
    records: bool
    keeps_births: bool
    steps: tuple[Step, ...]


class ViolationError(AssertionError):
    """Raised when a line counts twice, or not at all without being named."""


def draw(seed: int) -> Scenario:
    """Draw the sequence of a seed."""
    of = random.Random(seed)
    names = [*_KINDS]
    count = of.randrange(5, 60)
    kinds = of.choices(names, cum_weights=_CUMULATIVE, k=count)
    steps = tuple(Step(kind, of.randrange(120), of.randrange(120), of.randrange(120)) for kind in kinds)
    return Scenario(
        of.randrange(len(LAYOUTS)),
        ROTATIONS[seed % 3],
        of.randrange(243 * 8),
        of.random() < 0.15,
        of.random() < 0.8,
        steps,
    )


def world_of(sequence: Scenario) -> World:
    """Make the world of a sequence."""
    logs, ways = [], sequence.ways
    for path, is_twin, is_numbered in LAYOUTS[sequence.layout]:
        way = sequence.rotation or ("rename", "copytruncate")[ways % 2]
        logs.append(Log(path, way, ("number", "date", "middle")[ways // 2 % 3], is_twin, is_numbered))
        ways //= 6
    # without times of creation, nothing tells a file from one that is created at its inode with the same lines
    disk = MemoryDisk(sequence.keeps_births, has_twins=any(log.is_twin for log in logs))
    return World(disk, sequence.rotation, logs, sequence.records)


@contextmanager
def small_reach() -> Iterator[None]:
    """Let digests reach less far, so that small files cross what only large ones do otherwise."""
    with (
        mock.patch.multiple(tail_content, CHUNK=256, REACH=1024, BLOCK=512, _ENDS=64),
        mock.patch.multiple(tail_files, BLOCK=512, TASK_BYTES=(400, 4000), _FILE_BYTES=64),
        mock.patch.multiple(tail_survey, REACH=1024),
    ):
        yield


def last_start(text: bytes) -> int:
    """Return where the last line that begins with a digit begins; -1 without one."""
    at = len(text)
    while at > 0:
        at = text.rfind(b"\n", 0, at - 1) + 1
        if text[at : at + 1].isdigit():
            return at
    return -1


class Source(TailSource):
    """The directory in memory as a source."""

    reader: "Reader"

    @cached_property
    def files(self) -> TailFiles:
        """Return the files."""
        return self.reader.files


class Reader:
    """A query that reads the files, its table, and the judge of both.

    Attributes:
        world: the files.
        bronze: the lines that were read, by the file's ID and the byte at which they start.
        count: how often each text was read.
        read: how many bytes were read.
        at: the position.
        planned: the end of the batch that is planned; None without one.
        seen: the lines that must count: a reading to the end has found them in a file that was not named.
        needed: how often each text is among them.
        reasons: why files were named at the end.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.bronze: dict[int, dict[int, bytes]] = {}
        self.count: Counter[bytes] = Counter()
        self.read = 0
        self.at = TailPosition()
        self.planned: TailPosition | None = None
        self.seen: set[int] = set()
        self.needed: Counter[bytes] = Counter()
        self.reasons: Counter[str] = Counter()
        self.restart()

    def restart(self) -> None:
        """Start a new process, which knows what is written only."""
        self.at = TailPosition.parse(self.at.to_json()) or TailPosition()
        if self.planned is not None:
            self.planned = TailPosition.parse(self.planned.to_json())
        last = LastStart(last_start, QUIET) if self.world.records else None
        self.files = TailFiles(ROOT, last, rotation=self.world.rotation, ingested=self._ingested, store=self.world.disk)

    def _ingested(self, number: int, low: int) -> tuple[int, bytes]:
        lines = sorted(self.bronze.get(number, {}).items())
        kept = [(at, line) for at, line in lines if at + len(line) >= low]
        first, text = kept[0][0] if kept else 0, bytearray()
        for at, line in kept:
            if at != first + len(text):
                break
            text += line + b"\n"
        return first, bytes(text)

    def step(self, step: Step) -> None:
        """Apply an operation of the reader."""
        if step.kind == "plan":
            self.plan(_LIMITS[step.a % 4])
        elif step.kind == "finish":
            self.finish()
        elif step.kind == "catch_up":
            self.catch_up(_LIMITS[step.a % 3 + 1] if step.b % 3 == 0 else EVERYTHING)
        elif step.kind == "restart":
            self.restart()
        elif step.kind == "lose":
            self.planned = None
            self.restart()
        elif step.kind == "until":
            self.plan(EVERYTHING, self.files.sizes())

    def plan(self, most: int, until: Mapping[tuple[int, int], int] | None = None) -> None:
        """Plan a batch, if none is planned."""
        if self.planned is None:
            end = self.files.plan(self.at, most, until)
            self.planned = end if end != self.at else None

    def finish(self, *, must: bool = False) -> None:
        """Read the planned batch."""
        if self.planned is None:
            return
        lines = self._read(self.at, self.planned)
        if lines is None:
            self._skip_lost(self.planned, must=must)
            return
        for number, at, line in lines:
            self.bronze.setdefault(number, {})[at] = line
            self.count[line] += 1
            if self.count[line] > self.world.written[line]:
                raise ViolationError(f"{line!r} counts {self.count[line]} times")
            self.read += len(line) + 1
        self.at, self.planned = self.planned, None
        if self.at.read != self.read:
            raise ViolationError(f"the position has {self.at.read} bytes, and {self.read} were read")
        entries = [*self.at.files.items(), *((-1, copy) for copy in self.at.copies)]
        known = {(*entry[:2], entry.path): (number, entry) for number, entry in entries}
        self.world.recorded = {(*place, entry.born) for place, (_, entry) in known.items()}
        self.world.times = {entry.modified for _, entry in entries}
        for path, node in self.world.disk.names.items():
            number, entry = known.get((*node.identity, path), (0, None))
            if entry is not None and entry.born in (0, node.born):
                node.is_read, node.is_copy = True, number < 0
                node.is_cut = node.is_cut and not self._is_as_read(node, number)

    def _skip_lost(self, planned: TailPosition, *, must: bool) -> None:
        """Skip the bytes of a batch that fails, if they are gone."""
        try:
            lost = self.files.lost(self.at, planned)
        except SourceError:  # a file that may hold the bytes cannot be read now
            return
        if lost:
            self._skip()
        elif must:
            raise ViolationError("a batch fails, but its bytes are there")

    def _is_as_read(self, node: Node, number: int) -> bool:
        """Return True if a file begins with what a position says of it."""
        if number < 0:
            return True
        start, lines = self.at.files[number].start, self.bronze[number]
        return node.text[start : self.at.files[number].offset] == b"".join(line + b"\n" for line in lines.values())

    def _skip(self) -> None:
        """Skip the bytes that are gone, as `recover --accept-loss` does."""
        if any(node.error for node in self.world.disk.names.values()):
            return
        assert self.planned is not None
        source = Source(ROOT, self.world.rotation)
        source.__dict__["files"] = self.files
        skipped = source.skip_gone(self.at.to_json(), self.planned.to_json())
        if skipped is None:
            raise ViolationError("bytes are gone, and nothing is skipped")
        at = TailPosition.parse(skipped[0])
        assert at is not None
        self.read += at.read - self.at.read
        self.at, self.planned = at, None

    def _read(self, start: TailPosition, end: TailPosition) -> list[tuple[int, int, bytes]] | None:
        """Return the lines of a batch, as TailSource.java reads them; None if it fails."""
        found: list[tuple[int, int, bytes]] = []
        for text in self.files.slices(start, end, 2):
            fields, node = self._opened(text)
            if node is None:
                now = self.files.find(text, end)
                fields, node = self._opened(now) if now else (fields, None)
            if node is None:
                return None
            content = node.text
            if int(fields[5]) > len(content) and not content.endswith(b"\n"):
                content += b"\n"
            at, stop = int(fields[6]), int(fields[7])
            if at > int(fields[4]) and content[at - 1 : at] != b"\n":
                at = content.find(b"\n", at) + 1 or len(content)
            while at < stop:
                close = content.find(b"\n", at)
                if close < 0:
                    raise ViolationError(f"{fields[2]} is read to {stop}, within a line")
                if close >= int(fields[5]):
                    return None
                found.append((int(fields[1]), at, content[at:close]))
                at = close + 1
        return found

    def _opened(self, text: str) -> tuple[list[str], Node | None]:
        fields = text.split("\t")
        node = self.world.disk.at(unquote(fields[2]))
        if node is None or node.error:
            return fields, None
        same = ends_of(io.BytesIO(node.data), int(fields[8])) == fields[9] != ""
        return fields, node if same else None

    def catch_up(self, most: int = EVERYTHING, *, last: bool = False) -> None:
        """Read until nothing is planned, and judge."""
        self.finish(must=last)
        for _ in range(400):
            if self.planned is not None:
                return  # it fails as long as a file cannot be read
            self.plan(most)
            if self.planned is None:
                self.judge(last=last)
                return
            self.finish(must=last)
        raise ViolationError("batch after batch is planned")

    def judge(self, *, last: bool) -> None:
        """Raise ViolationError if a line of a file that is there counts too rarely, and its file is not named."""
        self.world.disk.race = None  # what happens after the last reading is not judged
        named = self.named(last=last)
        ids: set[int] = set()
        excused: set[int] = set()
        for path, node in self.world.disk.names.items():
            if path in named:
                excused.update(node.lines)
            elif node.data:
                ids.update(node.lines[: -1 if self._is_open(node) else None])
        ids -= excused
        ids -= self.world.ended
        for number in sorted(ids - self.seen):
            self.needed[self.world.texts[number]] += 1
        new, self.seen = ids - self.seen, self.seen | ids
        for number in sorted(new):
            line = self.world.texts[number]
            if self.count[line] < self.needed[line]:
                where = [path for path, node in self.world.disk.names.items() if number in node.lines]
                raise ViolationError(f"{line!r} of {where} counts {self.count[line]} times, not {self.needed[line]}")

    def _is_open(self, node: Node) -> bool:
        """Return True if a compressed file ends within a line that another file may end."""
        names = self.world.disk.names.values()
        return (
            not node.text.endswith(b"\n")
            and node.data != node.text
            and any(other.text.startswith(node.text) for other in names if other.data == other.text)
        )

    def named(self, *, last: bool) -> set[str]:
        """Return the files that the survey or the proof names as not read to their end."""
        now = self.world.disk.now()
        survey = self.files.survey(self.at)
        waiting = self.files.waiting(self.at)
        faults = [(file.path, reason) for file, reason in survey.faults(now)]
        notes = [file.path for file in survey.others if file.hidden]
        notes += [file.path for file, reason in survey.aside if is_written(file, reason, now)]
        paths = [*(path for path, _ in faults), *notes]
        if last:
            self.reasons.update(reason[:40] for _, reason in faults)
            for path in waiting.keys() - {*paths}:
                node = self.world.disk.at(path)
                assert node is not None
                if waiting[path] > len(node.text) - node.text.rfind(b"\n") - 1:
                    raise ViolationError(f"{path} waits with {waiting[path]} bytes, whatever runs")
        else:
            paths += waiting
        nodes = {id(self.world.disk.at(path)) for path in paths}
        return {name for name, node in self.world.disk.names.items() if id(node) in nodes}


@dataclass
class Result:
    """How a sequence ended.

    Attributes:
        problem: the violation; empty without one.
        counts: the operations that were applied.
        reasons: why files were named at the end.
    """

    problem: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


def play(sequence: Scenario, say: Callable[[str], None] | None = None) -> Result:
    """Play a sequence; the product's constants are made small by `small_reach`."""
    world = world_of(sequence)
    reader = Reader(world)
    try:
        for step in sequence.steps:
            if step.kind in _READER:
                reader.step(step)
                world.counts[step.kind] += 1
            else:
                world.apply(*step)
                if step.kind == "reboot":
                    reader.restart()
            if say:
                say(f"{step}\n    {shown(world)}\n    read {reader.at.read} {reader.at.files} {reader.at.copies}")
        world.end()
        reader.catch_up()
        reader.restart()
        reader.catch_up(last=True)
        world.disk.clock += 200 * 10**9
        before = reader.read
        reader.restart()
        reader.catch_up(last=True)
        if reader.read != before:
            raise ViolationError("more is read of files that do not change")
    except ViolationError as violation:
        return Result(str(violation), world.counts, reader.reasons)
    except Exception as error:
        if say:
            raise
        return Result(f"{type(error).__name__}: {error}", world.counts, reader.reasons)
    return Result("", world.counts, reader.reasons)


def shown(world: World) -> str:
    """Return the files in words."""
    return "; ".join(f"{path} {node.identity} {len(node.data)} {node.lines}" for path, node in world.disk.names.items())


def shortened(sequence: Scenario) -> Scenario:
    """Return a sequence with as few steps as possible that still breaks the rule."""
    steps, size = list(sequence.steps), max(len(sequence.steps) // 2, 1)
    while size:
        at = 0
        while at < len(steps):
            fewer = [*steps[:at], *steps[at + size :]]
            if play(replace(sequence, steps=tuple(fewer))).problem:
                steps = fewer
            else:
                at += size
        size = size // 2 if size > 1 else 0
    return replace(sequence, steps=tuple(steps))
