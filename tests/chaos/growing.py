"""A directory of growing logs: its lines, whatever file holds them, and what bronze has of each."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.bronze import BronzeFiles, accepted_losses, rows_of
from tests.chaos.directory import Content, Listing, look, unpacked
from tests.chaos.log_operations import (
    BOM,
    HEADER,
    OPENERS,
    TWINS,
    VERBS,
    WITHIN,
    LogPlace,
    refuses,
    stream,
    unpacked_members,
)
from tests.chaos.operations import VERBS as PLACE_VERBS
from tests.chaos.steps import Step
from tests.chaos.world import World, record_format

_RECORDS = r"""
pattern: '^(?<time>\S+) (?<level>\S+) (?<message>.*)$'
time: iso8601
record: {starts: '^L'}
"""
# A compressed file that has changed within this many seconds may get the end of its last line.
_PACKED_QUIET = 60.0


@dataclass(frozen=True)
class Lines(Listing):
    """The lines of a directory at one moment.

    Attributes:
        holders: the inodes of the files that hold each line, by stream.
        sizes: the size of each file, by its inode.
    """

    holders: Mapping[bytes, Mapping[bytes, set[int]]] = field(default_factory=dict, compare=False)
    sizes: Mapping[int, int] = field(default_factory=dict, compare=False)

    def has_grown(self, before: "Lines") -> bool:
        """Return True if there are lines that were not there before, or a file has more bytes."""
        is_larger = (size > before.sizes.get(inode, size) for inode, size in self.sizes.items())
        return bool(self.files.keys() - before.files.keys()) or any(is_larger)


@dataclass
class Logs(LogPlace, World):
    """A directory that is tailed. Its parts are the lines; each but the header is written once, or once to each twin.

    Attributes:
        to_read: the lines that batches have planned to read.
        given_up: the lines that are lost by consent.
        within: the files that each line is in, or was in last.
    """

    to_read: set[bytes] = field(default_factory=set)
    given_up: list[bytes] = field(default_factory=list)
    within: dict[bytes, set[bytes]] = field(default_factory=dict)
    _losses: int = 0

    @property
    def sets(self) -> list[str]:
        """Return settings for small batches."""
        sets = ["source.kind=tail", "source.max_bytes_per_batch=700"]
        sets += [f"source.rotation={self.rotation}"] if self.rotation is not None else []
        return [*sets, f"source.format={record_format(self.place, _RECORDS)}"] if self.records else sets

    def apply(self, step: Step) -> bool:
        """Apply an operation to the directory; return whether there was anything to apply it to."""
        verb = VERBS.get(step.verb)
        if verb is None and refuses(self, step):
            return False
        try:
            if verb is not None:
                verb(self, step)
                return True
            PLACE_VERBS[step.verb](self.place, step)
            if step.verb == "date":
                self.dated.add(os.stat(self.place.at(step)).st_ino)
        except OSError:
            return False
        return True

    def refused(self) -> Collection[int]:
        """Return the inodes of the files that the product may not open."""
        return self.denied

    def look(self) -> Listing:
        """Read every line whose end is written, and every line of the compressed files that are complete."""
        holders: dict[bytes, dict[bytes, set[int]]] = {}
        listing = look(self.place.root)
        strange = [*listing.strange]
        within: dict[bytes, set[bytes]] = {}
        for name in listing.files:
            path = self.place.root + b"/" + name
            lines = _lines(path)
            is_bare = self.rotation is None and not lines and listing.files[name].size
            strange += [name] if lines is None or is_bare or os.stat(path).st_ino in self.denied else []
            for line in lines or ():
                if line in self.begun:
                    continue
                holders.setdefault(line, {}).setdefault(stream(name), set()).add(os.stat(path).st_ino)
                within.setdefault(line, set()).add(name)
        parts = [_part(line, number) for line, streams in holders.items() for number in range(len(streams))]
        self.within |= {_part(line, number): names for line, names in within.items() for number in range(len(TWINS))}
        missing = not os.path.isdir(self.place.root)
        found = {part: Content(0, 0, (part,)) for part in parts}
        status = [os.stat(self.place.root + b"/" + name) for name in listing.files]
        sizes = {file.st_ino: file.st_size for file in status}
        return Lines(found, listing.loops, tuple(strange), missing, holders, sizes)

    def held(self, table: Path) -> Mapping[bytes, BronzeFiles]:
        """Return what bronze holds of each line; a header only if there are more than were written."""
        lines: Counter[bytes] = Counter()
        for value in self.values(table):
            lines.update(value.split(b"\n"))
        for line in (*self.begun, *([HEADER] if lines[HEADER] <= self.headers else [])):
            del lines[line]
        parts = [_part(line, number) for line, count in lines.items() for number in range(count)]
        return {part: BronzeFiles(Counter({part: 1}), {(0, 0)}) for part in parts}

    def values(self, table: Path) -> Iterator[bytes]:
        """Yield the records of bronze."""
        yield from (row["value"] for row in rows_of(table, ["value"]))

    def accepted(self, table: Path) -> list[bytes]:
        """Return the lines that are lost by consent."""
        count = len(list(accepted_losses(table)))
        if count < self._losses:
            self.given_up.clear()
        if count > self._losses:
            self.given_up += self.lost(self.held(table))
            self.to_read.clear()  # what is left of that batch is planned again
        self._losses = count
        return list(self.given_up)

    def lost(self, bronze: Mapping[bytes, BronzeFiles]) -> list[bytes]:
        """Return the lines that a batch had planned to read, and that are in no file."""
        lines = self.to_read - self.look().files.keys() - bronze.keys() - set(self.given_up)
        return sorted(lines - self._in_complete_members() if lines else lines)

    def _in_complete_members(self) -> set[bytes]:
        """Return the lines that can be read from compressed files to which something is just being added."""
        lines: set[bytes] = set()
        for name in look(self.place.root).files:
            path = self.place.root + b"/" + name
            if path.endswith(tuple(OPENERS)) and _lines(path) is None:
                lines.update(unpacked_members(path).split(b"\n"))
        return lines

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names a file that a line is in."""
        names = [os.path.basename(name).decode() for name in self.within.get(part, {b"?"})]
        return any(name in said for name in names) or re.search(r"and [\d,]+ more", said) is not None

    def owed(self, seen: Sequence[Listing]) -> Iterable[bytes]:
        """Return the lines that were in the same files all the time, or in more.

        What is deleted before it is planned is gone unseen, and what gets another inode waits for the next run. If
        a record, or its first half, is written while a run reads, the one before it is whole only for the next run.
        """
        listings = [listing for listing in seen if isinstance(listing, Lines)]
        if self.records and any(listing.has_grown(listings[0]) for listing in listings):
            return ()
        first, *later = (listing.holders for listing in listings)
        return [
            _part(line, number)
            for line, streams in first.items()
            for number in range(
                sum(
                    all(inodes <= holders.get(line, {}).get(name, set()) for holders in later)
                    for name, inodes in streams.items()
                )
            )
        ]

    def planned(self, checkpoint: Path) -> None:
        """Record the lines that the newest planned batch reads up to."""
        plans = [path for path in (checkpoint / "offsets").glob("*") if path.name.isdigit()]
        if not plans:
            return
        newest = max(plans, key=lambda path: int(path.name)).read_text().splitlines()[-1]
        there = json.loads(newest)["tail"]["files"].values()
        for name in look(self.place.root).files:
            path = self.place.root + b"/" + name
            status = os.stat(path)
            for device, inode, end, *_ in there:
                if (device, inode) == (status.st_dev, status.st_ino) and _reaches(path, end):
                    self.to_read.update(_lines(path, end) or ())

    def forgotten(self) -> None:
        """Record that nothing says any more what was planned."""
        self.to_read.clear()

    def emptied(self, *, accepted: bool) -> None:
        """Record that bronze is read again from the files that are there."""
        super().emptied(accepted=accepted)
        self.to_read.clear()

    def wrong(self, table: Path, *, whole: bool) -> Iterator[str]:
        """Yield the rows that are not one record; forget which logs were cut or crashed and have been read since."""
        bronze = self.held(table) if whole and (self.copied or self.crashed) else {}
        for changed in (self.copied, self.crashed):
            for name in [name for name, is_over in changed.items() if is_over]:
                lines = _lines(self.place.root + b"/" + name)
                if lines and bronze.keys() >= set(lines):
                    del changed[name]
        for row in rows_of(table, ["value"]) if self.records else ():
            first, *rest = row["value"].split(b"\n")
            if any(line.startswith(b"L") for line in rest):
                yield f"two records are in one row: {row['value']!r}"
            if first.startswith(WITHIN) and _tag(first) not in self.torn:
                yield f"a row does not begin with a record: {row['value']!r}"


def _lines(path: bytes, end: int | None = None) -> list[bytes] | None:
    """Return the lines of a file whose ends are written; None if it is compressed and not complete.

    A compressed file whose last line has no end is complete when it has not changed for a minute.

    Args:
        path: the file.
        end: how many of its bytes count, if it is not compressed; None for all.
    """
    try:
        with open(path, "rb") as opened:
            held = opened.read() if os.path.isfile(path) else b""
    except OSError:
        return None
    whole = unpacked(path, held)
    if whole is None or (whole is not held and not whole.endswith(b"\n") and 0 <= _age(path) < _PACKED_QUIET):
        return None
    if whole is held:
        whole = held[:end]
        whole = whole[: whole.rfind(b"\n") + 1]
    lines = whole.removeprefix(BOM).removesuffix(b"\n").split(b"\n") if whole else []
    return [line for line in lines if line != HEADER]


def _age(path: bytes) -> float:
    return time.time() - os.stat(path).st_mtime


def _reaches(path: bytes, end: int) -> bool:
    """Return whether a file holds this many bytes; of a compressed file, whether it is one."""
    return path.endswith(tuple(OPENERS)) or os.path.getsize(path) >= end


def _tag(line: bytes) -> bytes:
    return line.removeprefix(WITHIN).split(b".", 1)[0]


def _part(line: bytes, number: int) -> bytes:
    """Return the name of a line that twins hold, too, by its number among them."""
    return line if number == 0 else line + b" of twin %d" % (number + 1)
