"""Find the files of a tailed directory again, whatever they are called now, and plan which bytes are read next.

A file is known by its inode, and by a hash of the first and the last kilobyte of what was read of it. So a file that
was renamed is read on, and one that was cut, or that has got the inode of a deleted file, is a new one.
A file with another inode that begins with what was read of a known file is a copy of it. While the known file is there,
a copy is not read. When it is cut or gone, the copy is read on where the known file was left.
Of a compressed file, the content is compared. It is read when all of it is there.
"""

import bz2
import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import quote

from oncelake.common.errors import SourceError
from oncelake.common.wording import count_of
from oncelake.exactly_once.listing import Found, Problem, is_packed, listing
from oncelake.exactly_once.positions import TailedFile, TailPosition

# How many bytes at both ends of what was read are hashed; TailSource.java has the same number.
_ENDS = 1024
_BLOCK = 1024**2
# A position remembers this many files that are gone: one that is missed in a listing, or put back, is known again.
REMEMBERED = 100
# A position has an entry for each file that is there, and each commit has two positions.
MOST_FILES = 10_000
_OPENERS: Mapping[str, Callable[[BinaryIO], gzip.GzipFile | bz2.BZ2File]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
}
# A task reads at least and at most this many bytes, as Spark's tasks do; each file counts for some more.
TASK_BYTES = (4 * 1024**2, 128 * 1024**2)
_FILE_BYTES = 64 * 1024


@dataclass
class Matched:
    """The files that are there now, compared with a position.

    Attributes:
        known: the files that were read, whole or in part, by ID.
        new: the files that were not read yet.
        copies: files that hold nothing but what another file holds, with that file.
        spent: copies that the position knows: all that they hold was read, whatever became of the file.
        partial: compressed files that are not complete, or broken.
        gone: the IDs of the files that are not there.
        others: what is not read: hidden files, what is not a regular file, and what has a problem.
    """

    known: dict[int, Found] = field(default_factory=dict)
    new: list[Found] = field(default_factory=list)
    copies: list[tuple[Found, Found]] = field(default_factory=list)
    spent: dict[TailedFile, Found] = field(default_factory=dict)
    partial: list[Found] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    others: list[Found] = field(default_factory=list)

    @property
    def unreadable(self) -> list[Found]:
        """The files and links that are not read because of a problem."""
        return [each for each in self.others if each.problem is not None and not each.hidden]


@dataclass(frozen=True)
class Range:
    """The bytes of one file that a batch reads.

    Attributes:
        file_id: the file's ID.
        start: the first byte.
        end: the byte after the last one.
        file: the file as it is after the batch.
    """

    file_id: int
    start: int
    end: int
    file: TailedFile


@dataclass(frozen=True)
class _Content:
    """The content of a compressed file.

    Attributes:
        size: its bytes, with a line end at its end; None if it is not complete.
        checks: its hash up to some of its bytes.
        first_line: its first line, or as much of it as is compared.
    """

    size: int | None = None
    checks: Mapping[int, str] = field(default_factory=dict)
    first_line: bytes = b""


@dataclass(frozen=True)
class LastStart:
    """How the last record of some lines is found.

    Attributes:
        find: returns the first byte of the last line that starts a record; -1 without one.
        quiet: the seconds after which a file that has not grown has no more lines of its last record.
        is_split: False if one task must read a range of a file, as only the line before shows where a record starts.
    """

    find: Callable[[bytes], int]
    quiet: float
    is_split: bool = True


class TailFiles:
    """The files of a tailed directory; what was found out about a file is kept until it changes.

    Args:
        path: the directory, or a pattern of directories and files, on this machine.
        last_start: finds the last record of some lines; None if each line is a record.
        claim: claims a file before its first byte is read; raises SourceError if another source reads it.
    """

    def __init__(
        self, path: str, last_start: LastStart | None = None, claim: Callable[[str], None] = lambda _: None
    ) -> None:
        self._claim = claim
        self.path = path
        self._last_start = last_start
        self._contents: dict[tuple[object, ...], _Content] = {}
        self._claims: dict[tuple[int, int], tuple[int, int, TailedFile]] = {}
        self._copies: dict[tuple[object, ...], int] = {}

    def listed(self) -> list[Found]:
        """List the files that are there, a file with several names once.

        Raises:
            SourceError: the directory cannot be listed, or holds too many files.
        """
        try:
            every = sorted(listing(self.path), key=lambda each: (not each.hidden, each.path))
        except OSError as error:
            raise SourceError(f"the source {self.path} cannot be listed: {error.strerror or error}") from None
        found = {each.identity or each.path: each for each in every}
        if len(found) > MOST_FILES:
            raise SourceError(
                f"the source {self.path} holds {count_of(len(found), 'file')}; kind tail follows at most "
                f"{MOST_FILES:,}. Move old files away, name fewer by a pattern, or read them with kind files"
            )
        self._claims = {identity: each for identity, each in self._claims.items() if identity in found}
        self._contents = {key: each for key, each in self._contents.items() if key[0] in found}
        self._copies = {key: each for key, each in self._copies.items() if key[0] in found}
        return list(found.values())

    def match(self, at: TailPosition) -> Matched:
        """Compare the files that are there with a position.

        Raises:
            SourceError: the directory cannot be listed.
        """
        matched = Matched()
        there: list[Found] = []
        for each in self.listed():
            readable = each.identity is not None and each.problem in (None, Problem.COLON) and not each.hidden
            (there if readable else matched.others).append(each)
        by_inode: dict[int, list[int]] = {}
        for number, file in sorted(at.files.items(), reverse=True):
            by_inode.setdefault(file.inode, []).append(number)
        rest = []
        for each in there:
            numbers = by_inode.get(_inode(each), ())
            same = next((number for number in numbers if self._holds(each, at.files[number])), None)
            if same is not None and same not in matched.known:
                matched.known[same] = each
            elif copy := next((copy for copy in at.copies if self._is_spent(each, copy)), None):
                matched.spent[copy] = each
            else:
                rest.append(each)
        self._match_others(at, rest, matched)
        matched.gone = sorted(at.files.keys() - matched.known.keys())
        return matched

    def _match_others(self, at: TailPosition, rest: list[Found], matched: Matched) -> None:
        """Compare the files whose inode is not known with what was read of others."""
        inodes = {_inode(each) for each in rest}
        for each in sorted(rest, key=lambda each: (each.modified, each.path)):
            if is_packed(each.path) and self._content(each).size is None:
                matched.partial.append(each)
                continue
            lost = (number for number in at.files if number not in matched.known)
            same = next((number for number in lost if self._goes_on(each, at.files[number], inodes)), None)
            if same is not None:
                matched.known[same] = each
            elif each.size:
                matched.new.append(each)
        self._set_copies_aside(at, matched)

    def _set_copies_aside(self, at: TailPosition, matched: Matched) -> None:
        """Take the copies of other files out of the new ones; files with another first line are not compared.

        A copy of what was read of a known file stays one until that file is cut or gone.
        """
        new = []
        for each in matched.new:
            number = self._copies.get(_key(each))
            if number in matched.known:
                matched.copies.append((each, matched.known[number]))
            else:
                new.append(each)
        matched.new = []
        numbers = {each.identity: number for number, each in matched.known.items()}
        by_line: dict[bytes, list[Found]] = {}
        for each in matched.known.values() if new else ():
            by_line.setdefault(self._first_line(each), []).append(each)
        for each in sorted(new, key=lambda each: (self._size(each), not is_packed(each.path)), reverse=True):
            same = by_line.setdefault(self._first_line(each), [])
            other = next((one for one in same if self._is_copy(each, one)), None)
            if other is None:
                matched.new.append(each)
                same.append(each)
                continue
            matched.copies.append((each, other))
            number = numbers.get(other.identity)
            if number is not None and self._size(each) <= at.files[number].offset:
                self._copies[_key(each)] = number

    def _is_spent(self, found: Found, copy: TailedFile) -> bool:
        """Return True if a file is a copy that the position knows, also compressed by now, and holds no more."""
        if not is_packed(found.path):
            return _inode(found) == copy.inode and found.size == copy.offset and self._holds(found, copy)
        if not self._holds(found, copy):
            return False
        return self._size(found) - copy.offset in (0, 1)  # the end of a last line that lacked it

    def _goes_on(self, found: Found, file: TailedFile, inodes: set[int]) -> bool:
        """Return True if a file holds what was read of a file that is gone or was cut.

        Short texts can be the same by chance, such as a header. So much has to be the same, unless a copy is expected:
        because the known file was cut, or because this one is compressed.
        """
        expected = file.inode in inodes or is_packed(found.path) or file.offset >= _ENDS
        return expected and self._holds(found, file)

    def _is_copy(self, found: Found, other: Found) -> bool:
        """Return True if a file holds nothing but what another one holds, from its beginning."""
        size = self._size(found)
        check = self._check(found, size)
        return bool(check) and self._check(other, size) == check

    def _size(self, found: Found) -> int:
        """Return the size of what a file holds."""
        return (self._content(found).size or 0) if is_packed(found.path) else found.size

    def _check(self, found: Found, length: int) -> str:
        """Return the hash of the first bytes that a file holds; empty if it holds less."""
        if is_packed(found.path):
            return self._content(found, length).checks.get(length, "")
        return _check_of(found, length) if length <= found.size else ""

    def _first_line(self, found: Found) -> bytes:
        """Return the first line that a file holds, or as much of it as is compared."""
        if is_packed(found.path):
            return self._content(found).first_line
        with _opened(found) as file:
            return _line(os.pread(file.fileno(), _ENDS, 0)) if file is not None else b""

    def _holds(self, found: Found, file: TailedFile) -> bool:
        """Return True if a file begins with what was read of a file."""
        if file.packed:
            return found.size == file.packed and _check_of(found, found.size) == file.check
        if is_packed(found.path):
            return self._content(found, file.offset).checks.get(file.offset) == file.check
        if found.size < file.offset:
            return False
        assert found.identity is not None
        claim = (found.size, found.modified, file)
        if self._claims.get(found.identity) == claim:
            return True
        if _check_of(found, file.offset) != file.check:
            return False
        self._claims[found.identity] = claim
        return True

    def _content(self, found: Found, *offsets: int) -> _Content:
        """Return the content of a compressed file."""
        key = _key(found)
        known = self._contents.get(key)
        if known is None or (known.size is not None and any(each not in known.checks for each in offsets)):
            wanted = {*offsets, *(known.checks if known else ())}
            known = self._contents[key] = _unpacked(found, sorted(wanted))
        return known

    def plan(self, at: TailPosition, most: int, until: Mapping[tuple[int, int], int] | None = None) -> TailPosition:
        """Return the end of the next batch; the same position if there is nothing to read.

        Args:
            at: the position where the batch begins.
            most: about how many bytes the batch may read; at least one record is read.
            until: read no file beyond its size in this listing (see `sizes`), and no other file; None for all there is.

        Raises:
            SourceError: the directory cannot be listed.
        """
        matched = self.match(at)
        files, read, following = dict(at.files), at.read, at.following
        known = {each.identity: number for number, each in matched.known.items()}
        for each in sorted((*matched.known.values(), *matched.new), key=lambda each: (each.modified, each.path)):
            number = known.get(each.identity)
            was = at.files[number] if number is not None else TailedFile(0, 0, 0, "")
            left = most - (read - at.read)
            if left <= 0 or (until is not None and each.identity not in until):
                continue
            now = self._advanced(each, was, left, until)
            if now is None:
                continue
            if number is None:
                self._claim(each.path)
                number, following = following, following + 1
                known[each.identity] = number
            files[number] = now
            read += now.offset - was.offset
        if read == at.read:
            return at
        for number, each in matched.known.items():
            if files[number] == at.files[number]:
                files[number] = self._moved(each, files[number])
        for number in matched.gone[: max(len(matched.gone) - REMEMBERED, 0)]:
            del files[number]
        return TailPosition(
            read,
            following,
            files,
            self._copies_at(at, matched, {one: files[number].offset for one, number in known.items()}),
        )

    def _copies_at(
        self, at: TailPosition, matched: Matched, offsets: Mapping[tuple[int, int] | None, int]
    ) -> tuple[TailedFile, ...]:
        """Return the copies that hold less than what is read of their files, and the latest of those that are gone.

        When such a file is cut, only the position can tell that its copy holds nothing new.

        Args:
            at: the position before.
            matched: the files that are there.
            offsets: how many bytes of each of them are read now, by device and inode.
        """
        gone = [copy for copy in at.copies if copy not in matched.spent]
        there = [self._moved(each, copy) for copy, each in matched.spent.items()]
        for each, other in matched.copies:
            size = self._size(each)
            if size < offsets.get(other.identity, 0) and (check := self._check(each, size)):
                assert each.identity is not None
                there.append(self._moved(each, TailedFile(*each.identity, size, check)))
        return (*gone[-REMEMBERED:], *there)

    def quiet_in(self, at: TailPosition, until: Mapping[tuple[int, int], int]) -> float:
        """Return after how many seconds the last records of all files are whole, unless they grow; 0 if they are.

        Args:
            at: the position up to which they are read.
            until: their sizes (see `sizes`); a file that has grown since does not count.
        """
        if self._last_start is None:
            return 0.0
        matched = self.match(at)
        numbers = {each.identity: number for number, each in matched.known.items()}
        waits = 0.0
        for each in (*matched.known.values(), *matched.new):
            number = numbers.get(each.identity)
            offset = at.files[number].offset if number is not None else 0
            known = until.get(each.identity, -1) if each.identity is not None else -1
            if each.size == known > offset and not is_packed(each.path):
                waits = max(waits, self._last_start.quiet - (time.time() - each.modified / 1000))
        return waits

    def _moved(self, found: Found, file: TailedFile) -> TailedFile:
        """Return a file with the inode that it has now, and as a compressed one if it is compressed now."""
        assert found.identity is not None
        device, inode = found.identity
        if not is_packed(found.path) or file.packed:
            return file._replace(device=device, inode=inode)
        check = _check_of(found, found.size)
        return TailedFile(device, inode, file.offset, check, found.size) if check else file

    def sizes(self) -> dict[tuple[int, int], int]:
        """Return the sizes of the files that are there, by device and inode.

        Raises:
            SourceError: the directory cannot be listed.
        """
        return {each.identity: each.size for each in self.listed() if each.identity is not None}

    def _advanced(
        self, found: Found, was: TailedFile, most: int, until: Mapping[tuple[int, int], int] | None
    ) -> TailedFile | None:
        """Return a file as it is after a batch: read to the end of its last whole record, or about as far as allowed.

        None if there is nothing to read of it, or if it is another file by now.
        """
        assert found.identity is not None
        device, inode = found.identity
        if is_packed(found.path):
            size, check = self._content(found).size, _check_of(found, found.size)
            new = size is not None and size > was.offset and check
            return TailedFile(device, inode, size or 0, check, found.size) if new else None
        with _opened(found) as file:
            if file is None or _check_in(file, was.offset) != (was.check or _check_in(file, 0)):
                return None
            size = found.size if until is None else min(found.size, until[found.identity])
            end = self._end(file.fileno(), was.offset, size, most, quiet=self._is_quiet(found, size))
            check = _check_in(file, end)
            return TailedFile(device, inode, end, check) if end > was.offset and check else None

    def _is_quiet(self, found: Found, size: int) -> bool:
        """Return True if the last record of a file is whole, because the file has not grown for a while."""
        if self._last_start is None:
            return True
        return size == found.size and time.time() - found.modified / 1000 >= self._last_start.quiet

    def _end(self, file: int, start: int, size: int, most: int, *, quiet: bool) -> int:
        end = _last_end(file, start, size)
        if not quiet:
            end = self._before_last_start(file, start, end)
        window = most
        while end - start > window:
            limit = self._before_last_start(file, start, _last_end(file, start, start + window))
            if limit > start:
                return limit
            window *= 2
        return end

    def _before_last_start(self, file: int, start: int, end: int) -> int:
        """Return where the last record between two bytes starts; the first one if there is no start after it.

        If each line is a record, the last one is whole.
        """
        if self._last_start is None:
            return end
        upper = end
        while upper > start:
            lower = max(start, upper - _BLOCK)
            lower = lower if lower == start else _first_start(file, lower, upper)
            if lower == upper:
                lower = _last_end(file, start, upper - 1)
            found = self._last_start.find(os.pread(file, upper - lower, lower))
            if found >= 0 and lower + found > start:
                return lower + found
            upper = lower
        return start

    def slices(self, start: TailPosition, end: TailPosition, cores: int) -> list[str]:
        """Return what the tasks of a batch read, as TailSource.java takes it.

        Bytes that are gone have a path where no file is, so the task that reads them fails. A batch that the table
        holds already is planned again, and not read.

        Raises:
            SourceError: the directory cannot be listed.
        """
        wanted = ranges(start, end)
        found = self.listed()
        size = min(max(sum(each.end - each.start for each in wanted) // cores, TASK_BYTES[0]), TASK_BYTES[1])
        lines, task, filled = [], 0, 0
        for each in wanted:
            where = next(self._candidates(each, found), None)
            whole = (where is not None and is_packed(where.path)) or (
                self._last_start is not None and not self._last_start.is_split
            )
            step = each.end - each.start if whole else size
            for begin in range(each.start, each.end, step):
                stop = min(begin + step, each.end)
                if filled and filled + stop - begin > size:
                    task, filled = task + 1, 0
                filled += stop - begin + _FILE_BYTES
                gone = f"{range_words(each)} in {self.path}"
                lines.append(_slice(str(task), each, where or gone, begin, stop))
        return lines

    def find(self, told: str) -> str:
        """Return a slice with the path that its file has now; empty if it is gone."""
        task, file_id, _, packed, start, end, begin, stop, length, check = told.split("\t")
        file = TailedFile(0, 0, int(end), check, int(length) if packed == "1" else 0)
        each = Range(int(file_id), int(start), int(end), file)
        where = next(self._candidates(each, self.listed()), None)
        return "" if where is None else _slice(task, each, where, int(begin), int(stop))

    def lost(self, start: TailPosition, end: TailPosition) -> list[Range]:
        """Return the ranges between two positions whose bytes are gone.

        Raises:
            SourceError: the directory cannot be listed.
        """
        found = self.listed()
        return [each for each in ranges(start, end) if not any(self._candidates(each, found))]

    def _candidates(self, each: Range, found: list[Found]) -> Iterator[Found]:
        """Yield the files that hold the bytes of a range, the one with its inode first."""
        there = [one for one in found if one.identity is not None and not one.hidden and one.size]
        for one in sorted(there, key=lambda one: one.identity != (each.file.device, each.file.inode)):
            if (not is_packed(one.path) or each.file.packed or self._content(one).size) and self._holds(one, each.file):
                yield one


def ranges(start: TailPosition, end: TailPosition) -> list[Range]:
    """Return the bytes of each file between two positions, in the order in which files were first read."""
    offsets = {number: file.offset for number, file in start.files.items()}
    found = (Range(number, offsets.get(number, 0), file.offset, file) for number, file in sorted(end.files.items()))
    return [each for each in found if each.end > each.start]


def has_half_a_line(found: Found, offset: int) -> bool:
    """Return True if a file holds bytes after an offset that are not a whole line."""
    if is_packed(found.path) or found.size <= offset:
        return False
    with _opened(found) as file:
        return file is not None and os.pread(file.fileno(), 1, found.size - 1) not in (b"", b"\n")


def is_unpacked(path: str) -> bool:
    """Return True if a file is compressed in a way that can be read."""
    return any(path.lower().endswith(end) for end in _OPENERS)


def range_words(each: Range) -> str:
    """Return the bytes of a file in words."""
    return f"bytes {each.start:,} to {each.end - 1:,} of file {each.file_id}"


def _slice(task: str, each: Range, found: Found | str, begin: int, stop: int) -> str:
    length, check, packed = each.file.packed or each.end, each.file.check, bool(each.file.packed)
    path = found if isinstance(found, str) else found.path
    if isinstance(found, Found):
        packed = is_packed(path)
        if packed and not each.file.packed:
            length, check = found.size, _check_of(found, found.size)
    fields = (
        task,
        each.file_id,
        quote(os.fsencode(path)),
        int(packed),
        each.start,
        each.end,
        begin,
        stop,
        length,
        check,
    )
    return "\t".join(map(str, fields))


def _key(found: Found) -> tuple[object, ...]:
    return found.identity, found.size, found.modified


def _inode(found: Found) -> int:
    assert found.identity is not None
    return found.identity[1]


@contextmanager
def _opened(found: Found) -> Iterator[BinaryIO | None]:
    """Open a listed file; None if it is gone, cannot be read, or if another file has its name by now."""
    try:
        file = open(os.fsencode(found.path), "rb", buffering=0)  # noqa: PTH123, SIM115 - bytes; closed below
    except OSError:
        yield None
        return
    with file:
        status = os.fstat(file.fileno())
        yield file if (status.st_dev, status.st_ino) == found.identity else None


def _check(head: bytes, tail: bytes) -> str:
    return hashlib.sha256(head + tail).hexdigest()[:16]


def _check_in(file: BinaryIO, length: int) -> str:
    """Return the hash of both ends of the first bytes of a file; empty if it is shorter."""
    size = min(length, _ENDS)
    ends = os.pread(file.fileno(), size, 0), os.pread(file.fileno(), size, length - size)
    return _check(*ends) if len(ends[0]) == len(ends[1]) == size else ""


def _check_of(found: Found, length: int) -> str:
    """Return the hash of both ends of the first bytes of a file; empty if it is shorter, gone or another one."""
    with _opened(found) as file:
        return _check_in(file, length) if file is not None else ""


def _unpacked(found: Found, offsets: list[int]) -> _Content:
    """Read a compressed file, and hash both ends of what it holds up to some bytes."""
    opener = next((opener for end, opener in _OPENERS.items() if found.path.lower().endswith(end)), None)
    head, tail, size, checks = b"", b"", 0, {}
    try:
        with _opened(found) as packed:
            if opener is None or packed is None:
                return _Content()
            file = opener(packed)
            for block in _with_line_end(iter(lambda: file.read(_BLOCK), b"")):
                head = (head + block[:_ENDS])[:_ENDS]
                for offset in offsets:
                    if size < offset <= size + len(block):
                        ends = min(offset, _ENDS)
                        checks[offset] = _check(head[:ends], (tail + block[: offset - size])[-ends:])
                size, tail = size + len(block), (tail + block)[-_ENDS:]
    except (EOFError, OSError, zlib.error):
        return _Content()
    return _Content(size, checks, _line(head))


def _line(text: bytes) -> bytes:
    return text.split(b"\n", 1)[0]


def _with_line_end(blocks: Iterator[bytes]) -> Iterator[bytes]:
    last = b""
    for block in blocks:
        yield block
        last = block[-1:]
    if last not in (b"", b"\n"):
        yield b"\n"


def _last_end(file: int, start: int, end: int) -> int:
    """Return the byte after the last line end between two bytes of a file; the first one if there is none."""
    while end > start:
        lower = max(start, end - _BLOCK)
        found = os.pread(file, end - lower, lower).rfind(b"\n")
        if found >= 0:
            return lower + found + 1
        end = lower
    return start


def _first_start(file: int, start: int, end: int) -> int:
    """Return the first byte after a line end between two bytes of a file; the last one if there is none."""
    found = os.pread(file, end - start, start).find(b"\n")
    return start + found + 1 if found >= 0 else end
