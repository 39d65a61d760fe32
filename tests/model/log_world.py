"""Programs that write logs into a file system in memory, and what people and tools do to their files.

Every operation takes numbers, and chooses what it is applied to among what is there. So a sequence of operations
stays one if some of them are left out. Each written line has a number; a file's lines are the numbers of the lines that
it holds. What nobody can tell apart (docs/tail.md) is not done here; the conditions say why.
"""

import bz2
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import basename
from typing import Literal

from tests.model.file_system import ERRORS, MemoryDisk, Node

Rotation = Literal["rename", "copytruncate"] | None
DAY = 24 * 3600 * 10**9
# A file that is away for longer counts as a new one.
_REMEMBERED = 6 * DAY
_NUMBERED = re.compile(r"(?P<log>.+)\.(?P<number>\d+)(?P<packed>\.gz|\.bz2)?")
_WAITS = (10**7, 10**9, 3 * 10**9, 70 * 10**9, 3600 * 10**9, DAY // 2)
_FUTURE = 400 * DAY


@dataclass(eq=False)
class Log:
    """A program's log.

    Attributes:
        path: where the program creates it.
        way: how its files are rotated.
        style: how they are named then: a number, a date, or a date before the ending.
        is_twin: whether another program writes the same lines elsewhere.
        is_numbered: whether its own name ends in a number.
        node: the file that the program has open; None if it has none.
    """

    path: str
    way: str
    style: str
    is_twin: bool = False
    is_numbered: bool = False
    node: Node | None = None


@dataclass
class Copy:
    """A copy that is being made, after which the log is cut.

    Attributes:
        log: the log.
        original: its file.
        node: the copy.
        is_whole: whether all of it is copied.
    """

    log: Log
    original: Node
    node: Node
    is_whole: bool = False


@dataclass
class Packing:
    """A file that is being compressed.

    Attributes:
        source: the path of the file.
        node: the file.
        target: the path of the compressed file.
        packed: the compressed file.
        data: its bytes when it is complete.
        stage: how far this is: 0, half of it is written; 1, all of it.
    """

    source: str
    node: Node
    target: str
    packed: Node
    data: bytes
    stage: int = 0


@dataclass
class Unpacking:
    """A file that is being decompressed.

    Attributes:
        path: the path of the compressed file.
        packed: the compressed file.
        node: what it is unpacked to.
    """

    path: str
    packed: Node
    node: Node


@dataclass
class Away:
    """A file that was moved out or deleted, to be put back.

    Attributes:
        path: its path.
        node: the file, as it was.
        since: when that was.
        is_deleted: whether another file comes back with the same content.
        is_known: whether the position has its path, or its time.
    """

    path: str
    node: Node
    since: int
    is_deleted: bool
    is_known: bool


@dataclass
class World:
    """The file system, the logs and what was written.

    Attributes:
        disk: the file system.
        rotation: the setting of the source.
        logs: the logs.
        texts: the text of each line, by its number.
        records: whether some lines go on the record of the line before.
        counts: how often each operation was applied.
        recorded: the devices, inodes, paths and births in the position.
        times: the times in the position.
        serial: the number of the next text.
        tails: the contents of compressed files that end within a line, by the number of that line.
        ended: those of these lines that the compressed file's original ended later, so that they need not count.
        copy: the copy that is being made.
        packing: the file that is being compressed.
        away: the files that can come back.
        last_written: the file that was written last of those with a first line, and the second of that, by that line.
    """

    disk: MemoryDisk
    rotation: Rotation
    logs: list[Log]
    records: bool = False
    texts: list[bytes] = field(default_factory=list)
    written: Counter[bytes] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    recorded: set[tuple[int, int, str, int]] = field(default_factory=set)
    times: set[int] = field(default_factory=set)
    serial: int = 0
    tails: dict[int, bytes] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    copy: Copy | None = None
    packing: Packing | None = None
    unpacking: Unpacking | None = None
    away: list[Away] = field(default_factory=list)
    last_written: dict[bytes, tuple[Node, int]] = field(default_factory=dict)
    operations: Mapping[str, Callable[[int, int, int], bool]] = field(init=False)

    def __post_init__(self) -> None:
        self.operations = {
            name.removeprefix("do_"): getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")
        }

    def apply(self, name: str, a: int, b: int, c: int) -> None:
        """Apply an operation, if there is something that it can be applied to."""
        self.disk.clock += 1_000_000 * (1 + (a ^ b ^ c) % 400)
        if self.disk.clock // 1_000_000 % 1000 == 0:
            self.disk.clock += 1_000_000
        if self.operations[name](a, b, c):
            self.counts[name] += 1

    def line(self, text: bytes) -> int:
        """Note a line, and return its number."""
        self.texts.append(text)
        self.written[text] += 1
        return len(self.texts) - 1

    def plain(self, *, closed: bool = False) -> list[str]:
        """Return the paths of uncompressed files; with `closed`, of those that no program writes to."""
        busy = {log.node for log in self.logs} if closed else set()
        busy |= {self.packing.node, self.packing.packed} if self.packing else set()
        busy |= {self.copy.node, self.copy.original} if self.copy else set()
        busy |= {self.unpacking.node} if self.unpacking else set()
        return [path for path, node in sorted(self.disk.names.items()) if not _is_packed(path) and node not in busy]

    def packed(self) -> list[str]:
        """Return the paths of complete compressed files."""
        busy = {self.packing.packed if self.packing else None, self.unpacking.packed if self.unpacking else None}
        return [
            path
            for path, node in sorted(self.disk.names.items())
            if _is_packed(path) and node not in busy and not node.is_odd
        ]

    def append(self, node: Node, data: bytes) -> None:
        """Append bytes to an uncompressed file."""
        whole = node.text + data
        tail = node.text[node.text.rfind(b"\n") + 1 :]
        if tail:
            self.ended |= {number for number, text in self.tails.items() if node.text.startswith(text)}
            for other in self.disk.names.values():
                if other is not node and other.data == other.text and other.text.endswith(tail):
                    other.is_ended = other.is_ended or node.text.startswith(other.text)
        parts = (tail + data).split(b"\n")
        node.lines += tuple(self.line(part) for part in parts[:-1])
        node.text = whole
        self._wait_for_second_of_twin(node)
        self.disk.write(node, whole)

    def _wait_for_second_of_twin(self, node: Node) -> None:
        """Wait while another file with the same first line was written in this second.

        Otherwise an archive with this second as its time could be made of either file.
        """
        first = node.text.partition(b"\n")[0]
        other, second = self.last_written.get(first, (node, 0))
        if other is not node and second == self.disk.clock // 10**9:
            self.disk.clock += 1_003_000_000
        self.last_written[first] = node, self.disk.clock // 10**9

    def new_lines(self, count: int, length: int) -> bytes:
        """Return lines that nobody wrote before, also not as half a line and the next one."""
        lines: list[bytes] = []
        while len(lines) < count:
            self.serial += 1
            pad = b"x" * (self.serial * 7 % 13 + length)
            head = b" at %d" if self.records and self.serial % 3 == 1 else b"%d"
            line = head % self.serial + b" " + pad
            if line not in self.written:
                lines.append(line + b"\n")
        return b"".join(lines)

    def opened(self, log: Log, *, reuse: bool = False) -> Node:
        """Return the file that a program writes to; it creates one if it has none."""
        node = log.node or self.disk.names.get(log.path) or self.disk.create(log.path, reuse=reuse)
        log.node = node
        return node

    # what programs do

    def do_append(self, a: int, b: int, c: int) -> bool:
        node = self.opened(self.logs[a % len(self.logs)], reuse=bool(c & 1))
        data = self.new_lines(b % 5 + 1, 8)
        if c % 4 == 0:
            data += self.new_lines(1, 8)[: 1 + c % 9]
        self.append(node, data)
        return True

    def do_append_much(self, a: int, b: int, c: int) -> bool:
        node = self.opened(self.logs[a % len(self.logs)], reuse=bool(c & 1))
        self.append(node, self.new_lines(b % 20 + 10, 30 + c % 60))
        return True

    def do_append_half(self, a: int, b: int, c: int) -> bool:
        node = self.opened(self.logs[a % len(self.logs)])
        self.append(node, self.new_lines(1, 8)[: 1 + c % 9])
        return True

    def do_append_twins(self, a: int, b: int, c: int) -> bool:
        twins = [log for log in self.logs if log.is_twin]
        data = self.new_lines(b % 4 + 1, 8 + c % 60)
        for log in twins if c % 3 else twins[a % 3 : a % 3 + 1]:
            self.append(self.opened(log), data)
            self.disk.clock += 1_003_000_000  # otherwise a file with a time in seconds can be any of them
        return bool(twins)

    def do_write_pair(self, a: int, b: int, c: int) -> bool:
        """Write two files of equal size with equal ends."""
        self.disk.has_twins = True
        head, tail, body = self.new_lines(1, 80), self.new_lines(1, 80), self.new_lines(1, 5)
        for name in ("left", "right"):
            path = f"{name}{self.serial}.txt"
            self.append(
                self.disk.create(path, reuse=bool(c & 1)),
                head + (body if name == "left" else body[::-1][1:] + b"\n") + tail,
            )
            self.disk.clock += 1_005_000_000
        return True

    # rotation

    def _shift(self, log: Log) -> bool:
        """Raise the numbers of a log's rotated files."""
        found = [(int(match["number"]), match) for path in self.disk.names if (match := _NUMBERED.fullmatch(path))]
        mine = sorted((pair for pair in found if pair[1]["log"] == log.path), key=lambda pair: -pair[0])
        if self.packing and any(self.packing.source == pair[1][0] for pair in mine):
            return False
        if not all(self._is_known(match[0]) or match["packed"] for _, match in mine):
            return False
        for number, match in mine:
            self.disk.rename(match[0], f"{log.path}.{number + 1}{match['packed'] or ''}")
        return True

    def _rotated(self, log: Log) -> str | None:
        """Make room for a rotated file and return its path; None if that is not possible now."""
        if log.style == "number":
            return f"{log.path}.1" if self._shift(log) else None
        self.serial += 1
        date = f"{20260000 + self.serial}"
        if log.style == "middle":
            return log.path.replace(".log", f"-{date}.log") if ".log" in log.path else f"{log.path}-{date}"
        return f"{log.path}-{date}"

    def _leaves_gap(self, log: str) -> bool:
        """Return True if no file would take the number of a rotated one that the position does not have at its path."""
        taken: dict[int, bool] = {0: True}
        for path in self.disk.names:
            match = _NUMBERED.fullmatch(path)
            if match and match["log"] == log:
                number = int(match["number"])
                taken[number] = taken.get(number, True) and self._is_recorded(path)
        return any(not recorded and number - 1 not in taken for number, recorded in taken.items())

    def do_rotate(self, a: int, b: int, c: int) -> bool:
        """Rename a log; its program opens a new file now or later."""
        log = self.logs[a % len(self.logs)]
        node = self.disk.names.get(log.path)
        if node is None or log.way != "rename" or (log.is_twin and not node.is_read) or log.is_numbered:
            return False
        if (self.packing and self.packing.node is node) or not self._is_steady(log.path):
            return False
        # without the log beside it, a file with a raised number may be a log of its own
        creates = any(path.startswith(f"{log.path}.") and not self._is_recorded(path) for path in self.disk.names)
        if self._leaves_gap(log.path):
            return False
        to = self._rotated(log)
        if to is None:
            return False
        self.disk.rename(log.path, to)
        if b % 3 or creates:
            log.node = self.disk.create(log.path, reuse=bool(c & 1)) if b % 3 == 1 or creates else None
        return True

    def do_reopen(self, a: int, b: int, c: int) -> bool:
        """Let a program that still writes to a renamed file open its log."""
        log = self.logs[a % len(self.logs)]
        if log.node is None or self.disk.names.get(log.path) is log.node or (self.copy and self.copy.log is log):
            return False
        log.node = None
        return True

    def do_copy(self, a: int, b: int, c: int) -> bool:
        """Copy a log, the first half of copytruncate; whole, or a part first."""
        log = self.logs[a % len(self.logs)]
        node = self.disk.names.get(log.path)
        if (
            self.copy
            or node is None
            or not self._is_alone(log.path)
            or not node.text
            or log.way != "copytruncate"
            or log.is_numbered
        ):
            return False
        if (
            not self._is_steady(log.path)
            or (log.is_twin and not node.is_read)
            or node is not log.node
            or (self.packing and self.packing.node is node)
        ):
            return False
        to = self._rotated(log)
        if to is None:
            return False
        if to == self.disk.missed:
            self.disk.missed = None  # nobody can know a copy that no listing shows until its log is cut
        self.copy = Copy(log, node, self.disk.create(to, reuse=bool(c & 1)))
        if b % 2:
            self._copy_all(self.copy)
        else:
            self._copy_part(self.copy, node.text[: len(node.text) * (c % 8) // 8], node)
        return True

    def _copy_part(self, copy: Copy, text: bytes, node: Node) -> None:
        copy.node.text, copy.node.is_later = text, True
        copy.node.lines = node.lines[: text.count(b"\n")]
        self.disk.write(copy.node, text)

    def _copy_all(self, copy: Copy) -> None:
        copy.is_whole = True
        self._copy_part(copy, copy.original.text, copy.original)

    def do_copy_rest(self, a: int, b: int, c: int) -> bool:
        """Copy what a copy lacks."""
        if not self.copy or self.copy.is_whole:
            return False
        self._copy_all(self.copy)
        return True

    def do_cut(self, a: int, b: int, c: int) -> bool:
        """Cut a log whose copy is complete."""
        copy = self.copy
        if not copy or not copy.is_whole:
            return False
        node = copy.original
        node.text, node.lines = b"", ()
        self.disk.write(node, b"")
        self.copy = None
        return True

    # compressed files

    def do_pack(self, a: int, b: int, c: int) -> bool:
        """Begin to compress a file that no program writes to."""
        plain = self.plain(closed=c % 5 > 0)
        paths = [
            path for path in plain if self.disk.names[path].lines and self._is_alone(path) and self._is_steady(path)
        ]
        if self.packing or not paths:
            return False
        source = paths[a % len(paths)]
        if source == self.disk.missed:
            return False
        node = self.disk.names[source]
        ending = ".bz2" if b % 5 == 0 else ".gz"
        target = source + ending
        if target in self.disk.names or basename(source).startswith("."):
            return False
        packed = self.disk.create(target, reuse=bool(c & 1))
        data = compressed(node.text, ending, b)
        self.packing = Packing(source, node, target, packed, data)
        if b % 2:
            self.disk.write(packed, data[: len(data) * (c % 8) // 8])
        else:
            self.do_pack_rest(a, b, c)
        return True

    def do_pack_rest(self, a: int, b: int, c: int) -> bool:
        """Write the rest of a compressed file; the time of the file is kept, or not."""
        packing = self.packing
        if not packing or packing.stage:
            return False
        packing.data = compressed(packing.node.text, packing.target[packing.target.rfind(".") :], b)
        packing.stage = 1
        node = packing.packed
        node.text, node.lines, node.is_later = packing.node.text, packing.node.lines, True
        tail = node.text[node.text.rfind(b"\n") + 1 :]
        if tail:
            node.lines += (self.line(tail),)
            self.tails[node.lines[-1]] = node.text
            if packing.node.is_ended:
                self.ended.add(node.lines[-1])
        self.disk.write(node, packing.data)
        if b % 3:
            node.modified = packing.node.modified // (10**9 if b % 3 == 2 else 1) * (10**9 if b % 3 == 2 else 1)
        return True

    def do_pack_end(self, a: int, b: int, c: int) -> bool:
        """Delete the file that was compressed, or keep it."""
        packing = self.packing
        if not packing or not packing.stage:
            return False
        self.packing = None
        if c % 4 and self.disk.names.get(packing.source) is packing.node:
            self._unlink(packing.source)
        return True

    def do_repack(self, a: int, b: int, c: int) -> bool:
        """Compress a compressed file again, at another level."""
        recorded = [path for path in self.packed() if self._is_recorded(path)]
        path = self._chosen([path for path in recorded if not self.disk.names[path].is_cut], a)
        if path is None:
            return False
        old = self.disk.names[path]
        self._replace(path, compressed(old.text, path[path.rfind(".") :], b), old, keep=bool(c & 2), reuse=bool(c & 1))
        return True

    def do_unpack(self, a: int, b: int, c: int) -> bool:
        """Begin to decompress a file next to it."""
        logs = {log.path for log in self.logs}
        whole = [path for path in self.packed() if self.disk.names[path].text.endswith(b"\n")]
        whole = [path for path in whole if path[: path.rfind(".")] not in logs]
        paths = [path for path in whole if not (self.disk.names[path].is_copy or self.disk.names[path].is_cut)]
        path = self._chosen([path for path in paths if self._is_recorded(path)], a)
        if self.unpacking or path in (None, self.disk.missed) or path[: path.rfind(".")] in self.disk.names:
            return False
        packed = self.disk.names[path]
        if self._is_elsewhere(packed):  # it would be there twice
            return False
        self.unpacking = Unpacking(path, packed, self.disk.create(path[: path.rfind(".")], reuse=bool(c & 1)))
        node = self.unpacking.node
        node.text, node.is_later = packed.text[: len(packed.text) * (c % 8) // 8], True
        node.lines = packed.lines[: node.text.count(b"\n")]
        self.disk.write(node, node.text)
        return bool(b % 2) or self.do_unpack_end(a, b, c)

    def do_unpack_end(self, a: int, b: int, c: int) -> bool:
        """Write the rest of an unpacked file, and delete the compressed one, or keep it."""
        unpacking = self.unpacking
        if not unpacking:
            return False
        packed, node = unpacking.packed, unpacking.node
        self.unpacking = None
        node.text, node.lines = packed.text, packed.lines
        self.disk.write(node, node.text)
        if b % 3:
            node.modified = packed.modified
        if b % 4 and self.disk.names.get(unpacking.path) is packed:
            self._unlink(unpacking.path)
        return True

    def do_add_member(self, a: int, b: int, c: int) -> bool:
        """Append lines to a compressed file, which makes a second member in it."""
        path = self._chosen([path for path in self.packed() if self._is_known(path)], a)
        node = self.disk.names[path] if path is not None else None
        if path is None or node is None or path[: path.rfind(".")] in self.disk.names or self._is_elsewhere(node):
            return False
        data = self.new_lines(1 + b % 3, 8)
        tail = node.text[node.text.rfind(b"\n") + 1 :]
        parts = (tail + data).split(b"\n")[:-1]
        kept = node.lines[:-1] if tail else node.lines
        node.lines = (*kept, *(self.line(part) for part in parts))
        node.is_odd = bool(tail)
        if node.is_copy:
            node.is_read, node.is_later = False, True
        node.text += data
        self.disk.write(node, node.data + compressed(data, path[path.rfind(".") :], b))
        return True

    # what people do

    def do_replace(self, a: int, b: int, c: int) -> bool:
        """Write a file again at another inode, perhaps with one more line, as rsync, editors and sed do."""
        logs, names = {log.path for log in self.logs}, self.disk.names
        seen = [
            path
            for path in self.plain()
            if path in logs or (*names[path].identity, path, names[path].born) in self.recorded
        ]
        paths = [path for path in seen if names[path].text and self._is_alone(path) and self._is_steady(path)]
        path = self._chosen(paths, a)
        if path is None:
            return False
        old = self.disk.names[path]
        keep = c % 4 == 0
        node = self._replace(path, old.text, old, keep=keep, reuse=bool(c & 1))
        if not keep and b % 2 and not old.is_copy and (old.is_read or not old.is_later):
            self.append(node, self.new_lines(1, 8))
        return True

    def _replace(self, path: str, data: bytes, old: Node, *, keep: bool, reuse: bool) -> Node:
        numbers = [log for log in self.logs if log.node is old]
        self._unlink(path)
        node = self.disk.create(path, reuse=reuse)
        node.text, node.lines, node.is_later, node.is_cut = old.text, old.lines, True, old.is_cut
        node.is_ended = old.is_ended
        self.disk.write(node, data)
        if keep:
            node.modified = old.modified
        for log in numbers:
            log.node = None
        return node

    def _unlink(self, path: str) -> Node:
        node = self.disk.unlink(path)
        if node in self.disk.names.values():
            node.is_read, node.is_later = False, True
        for log in self.logs:
            if log.node is node and node not in self.disk.names.values():
                log.node = None
        return node

    def _is_known(self, path: str) -> bool:
        """Return False if a file continues another one, and the position does not have its inode."""
        node = self.disk.names[path]
        return node.is_read or not node.is_later

    def _is_steady(self, path: str) -> bool:
        """Return False if a file was just cut, or a compressed copy of it is not known yet.

        Then its content says of no other file what it was, if it is at another inode before anybody looks.
        """
        packed = [self.disk.names.get(path + ending) for ending in (".gz", ".bz2")]
        is_steady = self._is_known(path) and not self.disk.names[path].is_cut
        return is_steady and all(node is None or node.is_read for node in packed)

    def _is_recorded(self, path: str) -> bool:
        """Return False if a file was read, or continues another one, and the position does not have it at its path."""
        node = self.disk.names[path]
        return (*node.identity, path, node.born) in self.recorded if node.is_read else not node.is_later

    def _is_single(self, path: str) -> bool:
        """Return False if a compressed file and what it was made of are both there: they belong together by name."""
        beside = {path + ".gz", path + ".bz2", path[: path.rfind(".")] if _is_packed(path) else ""}
        return beside.isdisjoint(self.disk.names)

    def _is_alone(self, path: str) -> bool:
        """Return True if a file has one name: what is at two names, and then differs, is two files."""
        return sum(1 for node in self.disk.names.values() if node is self.disk.names[path]) == 1

    def _is_elsewhere(self, node: Node) -> bool:
        """Return True if what a compressed file was made of is still there."""
        return any(other.lines[:1] == node.lines[:1] and other is not node for other in self.disk.names.values())

    def _may_go(self, path: str) -> bool:
        """Return False if without a file, another one that nobody knows may be taken for it.

        Its twins may if their names are numbers, and so may a file of a raised number, without the log or the others.
        """
        if any(log.is_numbered for log in self.logs) and not all(node.is_read for node in self.disk.names.values()):
            return False
        match = _NUMBERED.fullmatch(path)
        others = [other for other in self.disk.names if match and other.startswith(f"{match['log']}.")]
        others += [other for other in (f"{path}.gz", f"{path}.bz2") if other in self.disk.names]
        # a number is raised beside the log alone
        others += [other for other in self.disk.names if other.startswith(f"{path}.") and not self._is_at_inode(other)]
        return all(other == path or self._is_recorded(other) for other in others)

    def _is_at_inode(self, path: str) -> bool:
        """Return True if the position has the inode of a file."""
        node = self.disk.names[path]
        return (*node.identity, node.born) in {(*place[:2], place[3]) for place in self.recorded}

    def _chosen(self, paths: list[str], number: int) -> str | None:
        return paths[number % len(paths)] if paths else None

    def do_crash(self, a: int, b: int, c: int) -> bool:
        """Cut the last bytes of a file, as a crash of the machine does."""
        path = self._chosen([path for path in self.plain() if self.disk.names[path].text and self._is_known(path)], a)
        if (
            path is None
            or not self._may_go(path)
            or self.disk.names[path].is_cut
            or self.disk.names[path].is_copy
            or f"{path}.gz" in self.disk.names
            or f"{path}.bz2" in self.disk.names
        ):
            return False
        node = self.disk.names[path]
        size = len(node.text)
        kept = size - 1 - b % min(max(size // 3, 1), 300)
        if kept * 2 <= size:
            return False
        node.text, node.is_cut = node.text[:kept], True
        node.lines = node.lines[: node.text.count(b"\n")]
        self.disk.write(node, node.text)
        return True

    def do_restore(self, a: int, b: int, c: int) -> bool:
        """Put a compressed file back to what it was earlier, in place."""
        whole = [path for path in self.packed() if self._is_recorded(path) and self._is_single(path)]
        path = self._chosen([path for path in whole if not self.disk.names[path].is_copy], a)
        if path is None or not self._may_go(path) or self.disk.names[path].is_cut:
            return False
        node = self.disk.names[path]
        lines = node.text.splitlines(keepends=True)
        text = b"".join(lines[: max(len(lines) - 1 - b % 3, 0)])
        if len(text) * 2 <= len(node.text) + 1:  # a last line without an end counts with one
            return False
        node.text, node.lines, node.is_cut = text, node.lines[: text.count(b"\n")], True
        self.disk.write(node, compressed(text, path[path.rfind(".") :], b))
        return True

    def do_move(self, a: int, b: int, c: int) -> bool:
        """Move a file to the directory of old ones, on its device or another one."""
        closed = [path for path in [*self.plain(closed=True), *self.packed()] if not path.startswith(("b/", "old/"))]
        path = self._chosen([path for path in closed if self._is_known(path) and self._is_single(path)], a)
        if path is None or f"old/{path}" in self.disk.names or not self._may_go(path):
            return False
        node = self.disk.names[path]
        node.is_read, node.is_later = False, True
        self.disk.rename(path, f"old/{path}")
        return True

    def do_take_away(self, a: int, b: int, c: int) -> bool:
        """Move a file out, or delete it."""
        paths = [*self.plain(closed=c % 3 > 0), *self.packed()]
        path = self._chosen([path for path in paths if self._is_single(path)], a)
        if path is None or not self._may_go(path):
            return False
        node = self.disk.names[path]
        is_new = not node.is_read and not node.is_later
        is_known = is_new or (*node.identity, path, node.born) in self.recorded or node.modified // 10**6 in self.times
        self._unlink(path)
        if node not in self.disk.names.values():
            self.away.append(Away(path, node, self.disk.clock, b % 2 == 0, is_known))
            if b % 2:  # it keeps its inode
                self.disk.free_numbers[node.device % 10].remove(node.number)
        return True

    def do_put_back(self, a: int, b: int, c: int) -> bool:
        """Put a file back, or restore it from a copy with its time."""
        self.away = [away for away in self.away if self.disk.clock - away.since < _REMEMBERED]
        if not self.away:
            return False
        away = self.away.pop(a % len(self.away))
        if away.path in self.disk.names or (away.is_deleted and (away.node.is_cut or not away.is_known)):
            return False  # nobody has seen what it was before it was cut, or where and from when it is
        if _is_packed(away.path) and away.path[: away.path.rfind(".")] in self.disk.names:
            return False  # it belongs to the file beside it by its name
        if not away.is_deleted:
            device = self.disk.device(away.path)
            if device != away.node.device and not self.disk.keeps_births:  # it was away during a reboot
                if away.node.is_cut or not away.is_known:
                    return False
                away.node.is_read, away.node.is_later = False, True
            self.disk.names[away.path] = away.node
            away.node.device, away.node.changed = device, self.disk.clock
            return True
        node = self.disk.create(away.path, reuse=bool(c & 1))
        node.text, node.lines, node.is_later = away.node.text, away.node.lines, True
        node.is_cut, node.is_ended = away.node.is_cut, away.node.is_ended
        self.disk.write(node, away.node.data)
        node.modified = away.node.modified // (10**9 if b % 2 else 1) * (10**9 if b % 2 else 1)
        return True

    def do_delete(self, a: int, b: int, c: int) -> bool:
        """Delete a file for good."""
        path = self._chosen([*self.plain(closed=c % 3 > 0), *self.packed()], a)
        if path is None or not self._may_go(path):
            return False
        self._unlink(path)
        return True

    def do_link(self, a: int, b: int, c: int) -> bool:
        """Add a second name of a file, or a link to it."""
        path = self._chosen([path for path in self.plain() if self._is_steady(path) and self._is_recorded(path)], a)
        # the link alone does not show the file's name
        if path is None or path == self.disk.missed or basename(path).startswith("."):
            return False
        self.serial += 1
        directory = "b/" if path.startswith("b/") else ""
        if b % 3:
            self.disk.links[f"{directory}{'current' if b % 2 else 'z-current'}"] = path
            return True
        node = self.disk.names[f"{directory}link{self.serial}"] = self.disk.names[path]
        node.changed, node.is_read, node.is_later = self.disk.clock, False, True
        return True

    def do_hide(self, a: int, b: int, c: int) -> bool:
        """Rename a file so that it is ignored, or an ignored one back."""
        hidden = [path for path in self.disk.names if basename(path).startswith(".")]
        if hidden:
            path = hidden[a % len(hidden)]
            to = path.replace(".h-", "")
        else:
            path = self._chosen([path for path in self.plain(closed=True) if self._is_single(path)], a) or ""
            if path and not self._may_go(path):
                return False
            to = f"{path[: -len(basename(path))]}.h-{basename(path)}"
        if not path or to in self.disk.names:
            return False
        self.disk.rename(path, to)
        return True

    def do_date(self, a: int, b: int, c: int) -> bool:
        """Set the time of a file to one in the future or in the past."""
        path = self._chosen(sorted(self.disk.names), a)
        if path is None:
            return False
        node = self.disk.names[path]
        # its time may be all that is left of what it was, after a reboot or at another inode
        if not ((self.disk.keeps_births and self._is_at_inode(path)) or self._is_recorded(path)):
            return False
        self.serial += 1
        node.modified = self.serial * 1_001_000_000 + (self.disk.clock // 10**9 * 10**9 + _FUTURE if b % 2 else 0)
        node.changed = self.disk.clock
        return True

    def do_wait(self, a: int, b: int, c: int) -> bool:
        self.disk.clock += _WAITS[a % len(_WAITS)]
        return True

    # faults

    def _visible(self) -> list[str]:
        """Return the paths of the files that can be missed, or unreadable, for a while.

        Not of a copy that is being made: nobody knows it when its original is cut or deleted. Not of those that links
        lead to, which alone do not show the file's name. And not of logs that are copied and not renamed.
        """
        busy = {self.copy.node if self.copy else None, self.packing.packed if self.packing else None}
        busy |= {self.unpacking.node} if self.unpacking else set()
        linked = {*self.disk.links.values(), *(log.path for log in self.logs if log.way == "copytruncate")}
        return [path for path, node in sorted(self.disk.names.items()) if node not in busy and path not in linked]

    def do_deny(self, a: int, b: int, c: int) -> bool:
        """Let the opening of a file fail, until `heal`."""
        path = self._chosen(self._visible(), a)
        if path is None:
            return False
        self.disk.names[path].error = ERRORS[b % len(ERRORS)]
        return True

    def do_heal(self, a: int, b: int, c: int) -> bool:
        for node in self.disk.names.values():
            node.error = 0
        return True

    def do_miss(self, a: int, b: int, c: int) -> bool:
        busy = self.packing.source if self.packing else None
        self.disk.missed = self._chosen([path for path in self._visible() if path != busy and self._is_single(path)], a)
        return self.disk.missed is not None

    def do_race(self, a: int, b: int, c: int) -> bool:
        """Rotate a log between the next listing and the opening after it."""
        work = (self.do_rotate, self.do_append, self.do_cut, self.do_pack_end, self.do_delete)[b % 5]
        self.disk.race = lambda: work(a, b // 5, c)
        return True

    def do_reboot(self, a: int, b: int, c: int) -> bool:
        names = self.disk.names
        if not self.disk.keeps_births and any(names[path].is_cut or not self._is_recorded(path) for path in names):
            return False  # nothing says what the file at this inode was
        self.disk.reboot()
        if not self.disk.keeps_births:
            for node in self.disk.names.values():
                node.is_read, node.is_later = False, True
        return True

    def end(self) -> None:
        """End what is being done, repair every fault, and let time pass."""
        self.disk.missed = self.disk.race = None
        self.do_heal(0, 0, 0)
        if self.copy:
            self.do_copy_rest(0, 0, 0)
            self.do_cut(0, 0, 0)
        if self.packing:
            self.do_pack_rest(0, 0, 0)
            self.do_pack_end(0, 0, 1)
        self.do_unpack_end(0, 1, 0)
        self.disk.clock += 200 * 10**9


def compressed(text: bytes, ending: str, level: int) -> bytes:
    """Compress a text; another level gives other bytes."""
    if ending == ".bz2":
        return bz2.compress(text, 1 + level % 2)
    data = bytearray(gzip.compress(text, level % 10, mtime=0))
    data[4] = level % 200
    return bytes(data)


def _is_packed(path: str) -> bool:
    return path.endswith((".gz", ".bz2"))


def every_layout() -> Iterator[tuple[tuple[str, bool, bool], ...]]:
    """Yield the logs of each world: the path, whether it is a twin, whether its own name is a number."""
    yield (("app.log", False, False),)
    yield (("app.log", False, False), ("a/web.log", False, False))
    yield (("a/app.log", True, False), ("b/app.log", True, False), ("c/app.log", True, False))
    yield (("out.1", True, True), ("out.2", True, True), ("out.3", True, True))
    yield (("a/app.log", True, False), ("b/app.log", True, False), ("syslog", False, False))
