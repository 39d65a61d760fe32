"""A directory of growing logs for operations: programs write to them, tools rotate, compress and delete them."""

import bz2
import gzip
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.bronze import Held, accepted_losses, rows_of
from tests.chaos.directory import Content, Listing, look, unpacked
from tests.chaos.operations import VERBS as PLACE_VERBS
from tests.chaos.operations import Place
from tests.chaos.steps import Step
from tests.chaos.world import World, record_format

_RECORDS = r"""
pattern: '^(?<time>\S+) (?<level>\S+) (?<message>.*)$'
time: iso8601
record: {starts: '^L'}
"""
_BOM = b"\xef\xbb\xbf"
# The first line of many logs: it says nothing about which log it is.
_HEADER = b"# log"
# What begins a line that is not the first one of its record.
_WITHIN = b"\t"
# A file is quiet if it has not grown for two seconds; what a program wrote at once counts as written longer ago.
_QUIET = 5.0
_KINDS = (
    b"L%d.%d",
    b"L%d.%d \xff\xfe",
    b"L%d.%d\r",
    b"L%d.%d \xe2\x80\xa8 \xc2\x85",
    b"L%d.%d\x00",
    b"L%d.%d " + b"x" * 300,
)
_OPENERS: Mapping[bytes, Callable[[bytes], bytes]] = {b".gz": gzip.compress, b".bz2": bz2.compress}


@dataclass(frozen=True)
class Lines(Listing):
    """The lines of a directory at one moment.

    Attributes:
        inodes: the files that hold each line.
    """

    inodes: Mapping[bytes, set[int]] = field(default_factory=dict, compare=False)


@dataclass
class Logs(World):
    """A directory that is tailed. Its parts are the lines; each but the header is written once.

    Attributes:
        records: whether the log format puts several lines together.
        headers: how many headers were written.
        copied: the logs that were copied to be cut, and whether they were cut.
        to_read: the lines that batches have planned to read.
        given_up: the lines that are lost by consent.
        torn: the tags of the records that were not written at once.
        begun: the beginnings of lines that got their ends; a copy may hold them without.
        within: the file that each line is in, or was in last.
    """

    place: Place
    records: bool = False
    headers: int = 0
    copied: dict[bytes, bool] = field(default_factory=dict)
    to_read: set[bytes] = field(default_factory=set)
    given_up: list[bytes] = field(default_factory=list)
    torn: set[bytes] = field(default_factory=set)
    begun: set[bytes] = field(default_factory=set)
    within: dict[bytes, bytes] = field(default_factory=dict)
    _losses: int = 0

    @property
    def sets(self) -> list[str]:
        """Return settings for small batches."""
        sets = ["source.kind=tail", "source.max_bytes_per_batch=700"]
        return [*sets, f"source.format={record_format(self.place, _RECORDS)}"] if self.records else sets

    def apply(self, step: Step) -> bool:
        """Apply an operation to the directory; return whether there was anything to apply it to."""
        verb = VERBS.get(step.verb)
        if verb is None and any(name in self.copied for name in step.names):
            return False  # who moves a log between its copy and its cut makes two logs of one
        try:
            if verb is None:
                PLACE_VERBS[step.verb](self.place, step)
            else:
                verb(self, step)
        except OSError:
            return False
        return True

    def look(self) -> Listing:
        """Read every line whose end is written, and every line of the compressed files that are complete."""
        found: dict[bytes, Content] = {}
        files: dict[bytes, set[int]] = {}
        listing = look(self.place.root)
        broken = []
        for name in listing.files:
            path = self.place.root + b"/" + name
            lines = _lines(path)
            broken += [name] if lines is None else []
            for line in lines or ():
                if line in self.begun:
                    continue
                found[line] = Content(0, 0, (line,))
                files.setdefault(line, set()).add(os.stat(path).st_ino)
                self.within[line] = name
        missing = not os.path.isdir(self.place.root)
        return Lines(found, listing.loops, (*listing.strange, *broken), missing, files)

    def held(self, table: Path) -> Mapping[bytes, Held]:
        """Return what bronze holds of each line; a header only if there are more than were written."""
        lines: Counter[bytes] = Counter()
        for value in self.values(table):
            lines.update(value.split(b"\n"))
        for line in (*self.begun, *([_HEADER] if lines[_HEADER] <= self.headers else [])):
            del lines[line]
        return {line: Held(Counter({line: count}), {(0, 0)}) for line, count in lines.items()}

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

    def lost(self, bronze: Mapping[bytes, Held]) -> list[bytes]:
        """Return the lines that a batch had planned to read, and that are in no file."""
        return sorted(self.to_read - self.look().files.keys() - bronze.keys() - set(self.given_up))

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names the file that a line is in."""
        name = os.path.basename(self.within.get(part, b"?")).decode()
        return name in said or re.search(r"and [\d,]+ more", said) is not None

    def owed(self, seen: Sequence[Listing]) -> Iterable[bytes]:
        """Return the lines that were in one file all the time.

        What is deleted before it is planned is gone unseen, and what is copied or compressed waits for the next run. If
        a record is written while a run reads, the one before it is whole only for the next run.
        """
        if self.records and any(listing.files.keys() - seen[0].files.keys() for listing in seen):
            return ()
        files = [each.inodes for each in seen if isinstance(each, Lines)]
        return [line for line in seen[0].files if set.intersection(*(each.get(line, set()) for each in files))]

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
        """Yield the rows that are not one record; forget the copies of logs that have been read since they were cut."""
        bronze = self.held(table) if whole and self.copied else {}
        for name in [name for name, is_cut in self.copied.items() if is_cut]:
            lines = _lines(self.place.root + b"/" + name)
            if lines and bronze.keys() >= set(lines):
                del self.copied[name]
        for row in rows_of(table, ["value"]) if self.records else ():
            first, *rest = row["value"].split(b"\n")
            if any(line.startswith(b"L") for line in rest):
                yield f"two records are in one row: {row['value']!r}"
            if first.startswith(_WITHIN) and _tag(first) not in self.torn:
                yield f"a row does not begin with a record: {row['value']!r}"

    def log(self, step: Step, number: int = 0) -> bytes:
        """Return the path of a step's log, or of a rotated file of it."""
        path = self.place.at(step)
        return path if not number else next(iter(_rotated(path, number)), path + b".%d" % number)

    def written(self, path: bytes) -> None:
        """Date a file back, as one whose last record is whole by now."""
        if self.records:
            os.utime(path, (time.time() - _QUIET, time.time() - _QUIET))


def _lines(path: bytes, end: int | None = None) -> list[bytes] | None:
    """Return the lines of a file whose ends are written; None if it is compressed and not complete.

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
    if whole is None:
        return None
    if whole is held:
        whole = held[:end]
        whole = whole[: whole.rfind(b"\n") + 1]
    lines = whole.removeprefix(_BOM).removesuffix(b"\n").split(b"\n") if whole else []
    return [line for line in lines if line != _HEADER]


def _reaches(path: bytes, end: int) -> bool:
    """Return whether a file holds so many bytes; of a compressed file, whether it is one."""
    return path.endswith(tuple(_OPENERS)) or os.path.getsize(path) >= end


def _tag(line: bytes) -> bytes:
    return line.removeprefix(_WITHIN).split(b".", 1)[0]


def _rotated(path: bytes, number: int) -> list[bytes]:
    """Return the rotated file of a log with a number, compressed or not."""
    return [each for end in (b"", *_OPENERS) if os.path.exists(each := path + b".%d" % number + end)]


def _made(logs: Logs, step: Step) -> bytes:
    """Return lines that no other tag has; with records, two of three lines go with the one before."""
    tag, count = step.numbers[:2]
    lines = [_KINDS[(tag + at) % len(_KINDS)] % (tag, at) for at in range(count)]
    if logs.records:
        lines = [_WITHIN * bool(at % 3) + line for at, line in enumerate(lines)]
    return b"".join(line + b"\n" for line in lines)


def _start(logs: Logs, tag: int) -> bytes:
    """Return what a new log begins with: nothing, a header, or a byte order mark."""
    if tag % 3 == 0:
        logs.headers += 1
        return _HEADER + b"\n"
    return _BOM if tag % 7 == 0 else b""


def _add(logs: Logs, step: Step, text: bytes) -> None:
    """Append to a log, which is created if it is not there; first write the end of a line that lacks it."""
    if (logs.copied.get(step.names[0]) is False) != (step.verb == "append-copied"):
        raise FileNotFoundError
    path = logs.log(step)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+b") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(0)
        last = opened.read().rpartition(b"\n")[2]
        logs.begun |= {last.removeprefix(_BOM)} if last else set()
        opened.write((b" end\n" if last else b"") + (b"" if size else _start(logs, step.numbers[0])) + text)
    logs.written(path)


def _append(logs: Logs, step: Step) -> None:
    if not os.path.isdir(logs.place.root):
        raise FileNotFoundError
    _add(logs, step, _made(logs, step))


def _half(logs: Logs, step: Step) -> None:
    """Append the beginning of a line; the next append writes its end."""
    _append_half(logs, step, b"L%d.begun" % step.numbers[0])


def _half_record(logs: Logs, step: Step) -> None:
    """Append the first line of a record; the rest of it follows by `rest-of-record`."""
    _append_half(logs, step, b"L%d.first\n" % step.numbers[0])


def _append_half(logs: Logs, step: Step, text: bytes) -> None:
    if not os.path.isdir(logs.place.root):
        raise FileNotFoundError
    _add(logs, step, text)


def _rest_of_record(logs: Logs, step: Step) -> None:
    os.stat(logs.log(step))
    logs.torn.add(b"L%d" % step.numbers[0])
    _add(logs, step, _WITHIN + b"L%d.rest\n" % step.numbers[0])


def _shift(path: bytes) -> None:
    """Rename each rotated file of a log to the next number."""
    name = re.compile(re.escape(os.path.basename(path)) + rb"\.(\d+)(\.gz|\.bz2|)")
    found = [match for each in os.listdir(os.path.dirname(path)) if (match := name.fullmatch(each))]
    for match in sorted(found, key=lambda match: int(match[1]), reverse=True):
        os.rename(os.path.dirname(path) + b"/" + match[0], path + b".%d%b" % (int(match[1]) + 1, match[2]))


def _rotate(logs: Logs, step: Step) -> None:
    path = logs.log(step)
    _unless_copied(logs, step)
    os.stat(path)
    _shift(path)
    os.rename(path, path + b".1")


def _copy(logs: Logs, step: Step) -> None:
    """Copy a log, the first half of a rotation that cuts it."""
    path = logs.log(step)
    _unless_copied(logs, step)
    os.stat(path)
    _shift(path)
    shutil.copyfile(path, path + b".1")
    logs.written(path + b".1")
    logs.copied[step.names[0]] = False


def _cut(logs: Logs, step: Step) -> None:
    """Cut a copied log, the second half of such a rotation."""
    if logs.copied.get(step.names[0]) is not False:
        raise FileNotFoundError
    os.truncate(logs.log(step), 0)
    logs.copied[step.names[0]] = True


def _unless_copied(logs: Logs, step: Step) -> None:
    if step.names[0] in logs.copied:
        raise FileNotFoundError


def _pack(logs: Logs, step: Step) -> None:
    """Compress a rotated file, as logrotate does: it is deleted when its compressed file is complete."""
    path = _plain(logs, step)
    target, packed = _packed(logs, step, path)
    with open(target, "wb") as opened:
        opened.write(packed)
    os.remove(path)


def _pack_half(logs: Logs, step: Step) -> None:
    """Write the first half of a compressed file beside the one that it is to replace."""
    target, packed = _packed(logs, step, _plain(logs, step))
    with open(target, "wb") as opened:
        opened.write(packed[: len(packed) // 2])


def _plain(logs: Logs, step: Step) -> bytes:
    path = logs.place.at(step) + b".%d" % step.numbers[0]
    os.stat(path)
    return path


def _packed(logs: Logs, step: Step, path: bytes) -> tuple[bytes, bytes]:
    """Return the path and the bytes of the compressed file of a rotated one."""
    del logs
    end = (b".gz", b".bz2")[step.numbers[1] % 2]
    with open(path, "rb") as opened:
        return path + end, _OPENERS[end](opened.read())


def _drop(logs: Logs, step: Step) -> None:
    """Delete a rotated file, whether it was read or not."""
    found = _rotated(logs.place.at(step), step.numbers[0])
    if not found or (step.names[0] in logs.copied and step.numbers[0] == 1):
        raise FileNotFoundError
    for path in found:
        os.remove(path)


VERBS: dict[str, Callable[[Logs, Step], None]] = {
    "append": _append,
    "append-copied": _append,
    "half": _half,
    "half-record": _half_record,
    "rest-of-record": _rest_of_record,
    "rotate": _rotate,
    "copy": _copy,
    "cut": _cut,
    "pack": _pack,
    "pack-half": _pack_half,
    "drop": _drop,
}
