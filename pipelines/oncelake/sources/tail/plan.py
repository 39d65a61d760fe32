"""Plan which bytes of a directory's growing files are read next, and find the planned bytes again."""

import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote

from oncelake.bronze.settings import Rotation
from oncelake.common.errors import SourceError
from oncelake.sources.directory.listing import ListedFile, is_packed
from oncelake.sources.tail.content import (
    BLOCK,
    Digest,
    Disk,
    FileStore,
    Hasher,
    based,
    blocks_of,
    ends_of,
    last_end,
    read_at,
)
from oncelake.sources.tail.identity import Identity, has_end
from oncelake.sources.tail.position import TailedFile, TailPosition
from oncelake.sources.tail.survey import Ingested, Survey, Surveyor, is_read_whole, not_at_hand

# Files that are gone are remembered for this many milliseconds, and in this many bytes of a position.
_REMEMBERED_MS = 7 * 24 * 3600 * 1000
REMEMBERED_BYTES = 1024**2
# A compressed file whose last line lacks its end is read to its end if it has not changed for this many seconds.
_PACKED_QUIET = 60.0
# A task reads at least and at most this many bytes, as Spark's tasks do; each file counts for some more.
TASK_BYTES = (4 * 1024**2, 128 * 1024**2)
_FILE_BYTES = 64 * 1024
# Records.java searches this many bytes of a line at most, at either end.
_LINE_ENDS = 4096


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
    """The files of a tailed directory.

    Args:
        path: the directory, or a pattern of directories and files, on this machine.
        last_start: finds the last record of some lines; None if each line is a record.
        rotation: how the logs are rotated; None if that is not known.
        ingested: returns what bronze holds of a file.
        store: the file system.
    """

    def __init__(
        self,
        path: str,
        last_start: LastStart | None = None,
        *,
        rotation: Rotation | None = None,
        ingested: Ingested = not_at_hand,
        store: FileStore | None = None,
    ) -> None:
        self.path = path
        self._store = store or Disk()
        self._surveyor = Surveyor(path, self._store, rotation, ingested)
        self._last_start = last_start
        self._without_end: dict[Identity, tuple[str, int]] = {}
        self.listed = self._surveyor.listed
        self.place_of = self._surveyor.place_of
        self.survey = self._surveyor.survey
        self.now = self._store.now

    def waiting(self, at: TailPosition, survey: Survey | None = None) -> dict[str, int]:
        """Return how many bytes of each file's content wait to be read, by path; no file of which none does.

        Args:
            at: the position.
            survey: the files compared with it; None to compare them now.

        Raises:
            SourceError: the directory cannot be listed.
        """
        survey, size = survey or self.survey(at), self._surveyor.contents.size
        remaining = {file.path: size(file) - max(_unread(file, survey).offset, 0) for file in survey.new}
        stopped = survey.stopped
        for number, file in survey.known.items():
            if not is_read_whole(file, at.files[number]) and file.identity not in stopped:
                remaining[file.path] = size(file) - at.files[number].offset
        return {path: count for path, count in remaining.items() if count > 0}

    def plan(self, at: TailPosition, most: int, until: Mapping[Identity, int] | None = None) -> TailPosition:
        """Return the end of the next batch; the same position if there is nothing to read, and no copy to remember.

        Args:
            at: the position where the batch begins.
            most: about how many bytes the batch may read; at least one record is read.
            until: read no file beyond its size in this listing (see `sizes`), and no other file; None for all there is.

        Raises:
            SourceError: the directory cannot be listed.
        """
        survey = self.survey(at)
        files, read, following = dict(at.files), at.read, at.following
        numbers = {file.identity: number for number, file in survey.known.items()}
        aside = {file.identity for file, _ in survey.aside}
        for file in sorted((*survey.known.values(), *survey.new), key=lambda file: (file.modified, file.path)):
            number = numbers.get(file.identity)
            room = most - (read - at.read)
            if room <= 0 or file.identity in aside or (until is not None and file.identity not in until):
                continue
            was = at.files[number] if number is not None else _unread(file, survey)
            now = self._advanced(file, was, room, until) if was.offset >= 0 else None
            if now is None:
                continue
            if number is None:
                number, following = following, following + 1
                numbers[file.identity] = number
            files[number] = now
            read += now.offset - was.offset
        offsets = {identity: (number, files[number].offset) for identity, number in numbers.items()}
        if read == at.read and not self._has_new_copy(at, survey, offsets):  # guard: copy-remembered-without-lines
            return at
        for number, file in survey.known.items():
            if files[number] == at.files[number]:
                files[number] = self._moved(file, files[number])
        now_ms = int(self._store.now() * 1000)
        for number in survey.away:
            files[number] = files[number]._replace(gone=files[number].gone or now_ms)
        copies = self._copies(at, survey, offsets)
        dropped = _dropped(files, now_ms, survey.archived.keys() | {*survey.cut.values()})
        remembered = {number: file for number, file in files.items() if number not in dropped}
        return TailPosition(read, following, remembered, copies, at.forgotten + len(dropped))

    def _copies(  # guard: short-copy-is-not-read
        self, at: TailPosition, survey: Survey, read: Mapping[Identity | None, tuple[int, int]]
    ) -> tuple[TailedFile, ...]:
        """Return the copies that hold no more than what is read of their files, and those that are gone.

        When such a file is cut, only the position can tell that its copy holds nothing new.

        Args:
            at: the position before.
            survey: the files that are there.
            read: the ID of each of them, and how many bytes of it are read now.
        """
        not_gone = at.files.keys() - {*survey.away}  # guard: copy-of-unreadable-file-kept
        copies = [
            self._moved(file, copy)._replace(original=copy.original if copy.original in not_gone else -1)
            for copy, file in survey.spent.items()
        ]
        copies += [self._moved(file, copy) for copy, file in survey.orphans.items()]
        pairs = self._pairs(survey)
        for file, original in pairs:
            try:
                number, size = self._original_of(file, original, read)
                if number >= 0:
                    digest = self._surveyor.contents.digests(file, [size])[size]
                    ended = size - self._surveyor.contents.written(file)
                    copy = self._moved(file, self._copy(file, size, digest, number)._replace(ended=ended))
                    copies.append(copy._replace(doubtful=int(file.identity in survey.doubtful)))
            except OSError:
                copies += [copy for copy, now in survey.found.items() if now is file]
        archives = {file.identity for file in survey.archived.values()}
        # guard: archive-stays-known
        copies += [copy for copy, file in survey.found.items() if file.identity in archives]
        now_ms = int(self._store.now() * 1000)
        identities = {file.identity for file, _ in pairs} | read.keys() | archives
        # guard: read-copy-is-forgotten
        done = {copy for copy, file in survey.found.items() if file.identity in identities}
        others = (
            copy._replace(gone=copy.gone or now_ms)
            for copy in at.copies
            if copy not in survey.spent
            and copy not in survey.orphans
            and copy not in done
            and now_ms - (copy.gone or now_ms) < _REMEMBERED_MS
        )
        return (*others, *copies)

    def _has_new_copy(self, at: TailPosition, survey: Survey, read: Mapping[Identity | None, tuple[int, int]]) -> bool:
        """Return True if a file is a copy that a position does not know: its original may be gone at the next look."""
        known = {(copy.inode, copy.original, copy.offset) for copy in at.copies}
        for file, original in self._pairs(survey):
            assert file.identity is not None
            with suppress(OSError):
                number, size = self._original_of(file, original, read)
                if number >= 0 and (file.identity[1], number, size) not in known:
                    return True
        return False

    def _pairs(self, survey: Survey) -> list[tuple[ListedFile, ListedFile | None]]:
        """Return the copies, with the files that they are copies of, also those that may be copies."""
        others = (*survey.known.values(), *survey.new) if survey.undecided else ()
        names = {self._surveyor.name(file): file for file in others}
        return [*survey.copies, *((file, names.get(name)) for file, name in survey.undecided)]

    def _original_of(
        self, file: ListedFile, original: ListedFile | None, read: Mapping[Identity | None, tuple[int, int]]
    ) -> tuple[int, int]:
        """Return the ID of a copy's original, -1 if not so much of that was read, and the size of the copy."""
        number, offset = read.get(original.identity, (-1, 0)) if original is not None else (-1, 0)
        size = self._surveyor.contents.size(file)
        return (number if size <= offset else -1), size

    def _copy(self, file: ListedFile, size: int, digest: Digest, number: int) -> TailedFile:
        """Return the entry of a copy, as far as that is known without opening it."""
        assert file.identity is not None
        entry = TailedFile(*file.identity, size, self._surveyor.name(file), file.modified, original=number)
        packed = file.size if is_packed(file.path) else 0
        return entry._replace(digest=digest.whole, base=digest.base, packed=packed)

    def quiet_in(self, at: TailPosition, until: Mapping[Identity, int]) -> float:
        """Return after how many seconds the last records of all files are whole, unless they grow; 0 if they are.

        Args:
            at: the position up to which they are read.
            until: their sizes (see `sizes`); a file that has grown since does not count.
        """
        if self._last_start is None:
            return 0.0
        survey = self.survey(at)
        numbers = {file.identity: number for number, file in survey.known.items()}
        waits = 0.0
        for file in (*survey.known.values(), *survey.new):
            number = numbers.get(file.identity)
            offset = at.files[number].offset if number is not None else 0
            known = until.get(file.identity, -1) if file.identity is not None else -1
            age = self._age(file)
            if file.size == known > offset and not is_packed(file.path) and age >= 0:
                waits = max(waits, self._last_start.quiet - age)
        return waits

    def _age(self, file: ListedFile) -> float:
        """Return the seconds since a file was modified; below 0 if its time is in the future."""
        return self._store.now() - file.modified / 1000

    def _moved(self, file: ListedFile, entry: TailedFile) -> TailedFile:
        """Return an entry with the place and the form that its file has now.

        The size of a compressed file says that all of it was read, so it is only noted then.
        """
        contents = self._surveyor.contents
        is_same = entry.stamp == contents.stamp(file) != "" and entry.path == self._surveyor.name(file)
        if is_same and not entry.gone and entry.digest:
            return entry
        try:
            # guard: packed-entry-kept-until-read
            if is_packed(file.path) and not is_read_whole(file, entry) and contents.written(file) > entry.offset:
                return entry
            digest = Digest(entry.digest, entry.base)
            if not entry.digest:
                digest = contents.digests(file, [entry.offset])[entry.offset]
            with self._store.open(file) as opened:
                return self._entry(file, opened, entry, digest)
        except OSError:
            return entry

    def _entry(self, file: ListedFile, opened: BinaryIO, entry: TailedFile, digest: Digest) -> TailedFile:
        """Return the entry of an open file of which so much was read as an entry says."""
        assert file.identity is not None
        device, inode = file.identity
        born = self._store.born(opened)
        packed, ends = (file.size, ends_of(opened, file.size)) if is_packed(file.path) else (0, "")
        name, stamp = self._surveyor.name(file), self._surveyor.contents.stamp(file)
        return entry._replace(
            device=device,
            inode=inode,
            path=name,
            modified=file.modified,
            born=born,
            stamp=stamp,
            digest=digest.whole,
            base=digest.base,
            packed=packed,
            ends=ends,
            gone=0,
        )

    def sizes(self) -> dict[Identity, int]:
        """Return the sizes of the files that are there, by device and inode.

        Raises:
            SourceError: the directory cannot be listed.
        """
        return {file.identity: file.size for file in self.listed() if file.identity is not None}

    def _advanced(
        self, file: ListedFile, was: TailedFile, most: int, until: Mapping[Identity, int] | None
    ) -> TailedFile | None:
        """Return a file as it is after a batch: read to the end of its last whole record, or about as far as allowed.

        None if there is nothing to read of it, or if it cannot be read, or is another file, by now.
        """
        try:
            if is_packed(file.path):
                return self._unpacked(file, was)
            assert file.identity is not None
            size = file.size if until is None else min(file.size, until[file.identity])
            stamp = self._surveyor.contents.stamp(file)
            if size <= was.offset or (stamp and self._without_end.get(file.identity) == (stamp, was.offset)):
                return None
            with self._store.open(file) as opened:
                hasher = self._hasher(opened, was)
                if hasher is None or not has_end(opened, was):
                    return None
                end = self._end(opened, was.offset, size, most, quiet=self._is_quiet(file, size))
                for block in blocks_of(opened, was.offset, end):
                    hasher.update(block)
                if end == was.offset and size == file.size and self._last_start is None:
                    self._without_end[file.identity] = stamp, was.offset
                if not hasher.size == end > was.offset:
                    return None
                return self._entry(file, opened, was._replace(offset=end, ended=0), hasher.digest())
        except OSError:
            return None

    def _hasher(self, opened: BinaryIO, was: TailedFile) -> Hasher | None:
        """Return a hasher of what was read of a file; None if the file holds something else by now."""
        if was.digest:
            return self._surveyor.contents.hasher(opened, was)
        if was.ends and ends_of(opened, was.offset) != was.ends:
            return None
        hasher = Hasher()
        for block in blocks_of(opened, 0, was.offset):
            hasher.update(block)
        return hasher if hasher.size == was.offset else None

    def _unpacked(self, file: ListedFile, was: TailedFile) -> TailedFile | None:
        """Return a compressed file as it is after a batch, which reads all of it.

        The last line may lack its end; it waits for a while, as more can be appended to the file.
        """
        if is_read_whole(file, was):
            return None
        contents = self._surveyor.contents
        packed = contents.packed(file, [was.offset])
        is_quiet = packed.lines == packed.size or not 0 <= self._age(file) < _PACKED_QUIET
        if not is_quiet or packed.ended <= was.offset or not contents.still_begins_with(file, was):
            return None
        with self._store.open(file) as opened:
            now = was._replace(offset=packed.ended, ended=packed.ended - packed.size)
            return self._entry(file, opened, now, packed.digests[packed.ended])

    def _is_quiet(self, file: ListedFile, size: int) -> bool:
        """Return True if the last record of a file is whole, because the file has not grown for a while."""
        if self._last_start is None:
            return True
        return size == file.size and not 0 <= self._age(file) < self._last_start.quiet

    def _end(self, file: BinaryIO, start: int, size: int, most: int, *, quiet: bool) -> int:
        end = last_end(file, start, size)
        if not quiet:
            end = self._before_last_start(file, start, end)
        window = most
        while end - start > window:
            limit = self._before_last_start(file, start, last_end(file, start, start + window))
            if limit > start:
                return limit
            window = max(2 * window, _first_start(file, start + window, end) - start)
        return end

    def _before_last_start(self, file: BinaryIO, start: int, end: int) -> int:
        """Return where the last record between two bytes starts; the first one if there is no start after it.

        If each line is a record, the last one is whole.
        """
        if self._last_start is None:
            return end
        upper = end
        while upper > start:
            lower = max(start, upper - BLOCK)
            lower = lower if lower == start else _first_start(file, lower, upper)
            if lower == upper:
                lower = last_end(file, start, upper - 1)
            offset = self._last_start_in(file, lower, upper, self._last_start)
            if offset >= 0 and lower + offset > start:
                return lower + offset
            upper = lower
        return start

    @staticmethod
    def _last_start_in(file: BinaryIO, lower: int, upper: int, last_start: LastStart) -> int:
        """Return where the last record of some lines starts, after the first of them; -1 without one.

        Of a line that is longer than a block, only both ends are read.
        """
        if upper - lower <= BLOCK:
            return last_start.find(read_at(file, lower, upper - lower))
        text = read_at(file, lower, _LINE_ENDS) + read_at(file, upper - _LINE_ENDS, _LINE_ENDS)
        offset = last_start.find(text)
        return upper - lower if offset == len(text) else offset

    def slices(self, start: TailPosition, end: TailPosition, cores: int) -> list[str]:
        """Return what the tasks of a batch read, as TailSource.java takes it.

        Bytes that are gone have a path where no file is, so the task that reads them fails. A batch that the table
        holds already is planned again, and not read.

        Raises:
            SourceError: the directory cannot be listed.
        """
        parts = ranges(start, end)
        listed = _Listed(self._surveyor)
        size = min(max(sum(part.end - part.start for part in parts) // cores, TASK_BYTES[0]), TASK_BYTES[1])
        lines, task, filled = [], 0, 0
        for part in parts:
            file = next(self._candidates(part.file, listed), None)
            whole = (file is not None and is_packed(file.path)) or (
                self._last_start is not None and not self._last_start.is_split  # guard: cut-line-in-one-task
            )
            step = part.end - part.start if whole else size
            for begin in range(part.start, part.end, step):
                stop = min(begin + step, part.end)
                if filled and filled + stop - begin > size:
                    task, filled = task + 1, 0
                filled += stop - begin + _FILE_BYTES
                lines.append(self._slice(str(task), part, file, begin, stop))
        return lines

    def find(self, text: str, end: TailPosition) -> str:
        """Return a slice of a batch with the path that its file has now; empty if it is gone."""
        task, file_id, _, _, start, stop, first, last, *_ = text.split("\t")
        entry = end.files[int(file_id)]
        file = next(self._candidates(entry, _Listed(self._surveyor)), None)
        part = Range(int(file_id), int(start), int(stop), entry)
        return "" if file is None else self._slice(task, part, file, int(first), int(last))

    def lost(self, start: TailPosition, end: TailPosition) -> list[Range]:
        """Return the ranges between two positions whose bytes are gone.

        Raises:
            SourceError: the directory cannot be listed, or a file that may hold the bytes cannot be read.
        """
        listed = _Listed(self._surveyor)
        return [part for part in ranges(start, end) if self._is_gone(part, listed)]

    def _is_gone(self, part: Range, listed: "_Listed") -> bool:
        unread: list[str] = []
        if any(self._candidates(part.file, listed, unread)):
            return False
        if unread:
            raise SourceError(
                f"the planned batch needs {range_words(part)}, which may be in {unread[0]}. Let this process read it"
            )
        return True

    def _candidates(
        self, entry: TailedFile, listed: "_Listed", unread: list[str] | None = None
    ) -> Iterator[ListedFile]:
        """Yield the files that hold what an entry says, the one with its inode first.

        Args:
            entry: the entry.
            listed: the files that are there.
            unread: gets the files that cannot be read, with the reason.
        """
        contents = self._surveyor.contents
        for file in listed.by_likelihood(entry):
            try:
                same = file.identity == entry[:2] and contents.is_same(file, entry)
                same = same and (entry.packed in (0, file.size) or contents.still_begins_with(file, entry))
                # guard: planned-bytes-still-there
                if same or (contents.begins_with(file, entry) and contents.has_end(file, entry)):
                    yield file
            except OSError as error:
                if unread is not None:
                    # guard: unreadable-file-may-hold-bytes
                    unread.append(f"{self._surveyor.name(file)}, which cannot be read: {error.strerror or error}")

    def _slice(self, task: str, part: Range, file: ListedFile | None, begin: int, stop: int) -> str:
        path, packed, length, ends = f"{range_words(part)} in {self.path}", False, part.end, ""
        if file is not None:
            path, packed = file.path, is_packed(file.path)
            length = file.size if packed else part.end - (part.file.ended if part.end == part.file.offset else 0)
            try:
                with self._store.open(file) as opened:
                    ends = ends_of(opened, length)
            except OSError:
                ends = ""
        place = quote(os.fsencode(path))
        modified = part.file.modified
        fields = (task, part.file_id, place, int(packed), part.start, part.end, begin, stop, length, ends, modified)
        return "\t".join(map(str, fields))


class _Listed:
    """The files that may hold planned bytes."""

    def __init__(self, surveyor: Surveyor) -> None:
        files = [file for file in surveyor.listed() if file.identity is not None and not file.hidden and file.size]
        self._files = files
        self._by_place = {file.identity: file for file in files} | {surveyor.name(file): file for file in files}

    def by_likelihood(self, entry: TailedFile) -> Iterator[ListedFile]:
        """Yield the file at the inode of an entry, the one at its path, and all others."""
        likely = [self._by_place.get(entry[:2]), self._by_place.get(entry.path)]
        yield from (file for file in likely if file is not None)
        yield from (file for file in self._files if file not in likely)


def _unread(file: ListedFile, survey: Survey) -> TailedFile:
    """Return the entry of a new file before it is read; its offset is -1 if only a run finds out where that begins."""
    assert file.identity is not None
    start = survey.starts.get(file.identity, 0)
    return TailedFile(0, 0, start, start=start, original=survey.cut.get(file.identity, -1))


def _dropped(files: Mapping[int, TailedFile], now_ms: int, needed: Set[int]) -> set[int]:
    """Return the files that are gone for too long, and the oldest of those that need too much room.

    What was read of a file before it was cut is needed as long as the file: it tells how much is left at the next cut.
    That looks at the last megabyte.

    Args:
        files: the files, by ID.
        now_ms: the time in milliseconds since 1970.
        needed: those that are needed in any case.
    """
    room, dropped = REMEMBERED_BYTES, set()
    for number, file in sorted(files.items(), key=lambda item: item[1].gone, reverse=True):
        if file.gone:
            room -= len(str(file.to_json()))
            if room < 0 or now_ms - file.gone > _REMEMBERED_MS:  # guard: gone-files-remembered
                dropped.add(number)
    dropped -= needed  # guard: log-in-archive-remembered
    for number in files.keys() - dropped:  # guard: cut-log-kept-with-rest
        low, file = based(files[number].offset), files[number]
        while file.start > low and file.original in files:
            dropped.discard(file.original)
            file = files[file.original]
    return dropped


def ranges(start: TailPosition, end: TailPosition) -> list[Range]:
    """Return the bytes of each file between two positions, in the order in which files were first read."""
    parts = []
    for number, file in sorted(end.files.items()):
        was = start.files.get(number)
        parts.append(Range(number, was.offset if was is not None else file.start, file.offset, file))
    return [part for part in parts if part.end > part.start]


def half_read(survey: Survey, at: TailPosition) -> list[ListedFile]:
    """Return the files that end within a line after a position, by their paths."""
    known = [file for number, file in survey.known.items() if _has_half_a_line(file, at.files[number].offset)]
    return sorted([*known, *(file for file in survey.new if _has_half_a_line(file, 0))], key=lambda file: file.path)


def _has_half_a_line(listed: ListedFile, offset: int) -> bool:
    """Return True if a file holds bytes after an offset that are not a whole line."""
    if is_packed(listed.path) or listed.size <= offset:
        return False
    try:
        with Disk().open(listed) as file:
            return read_at(file, listed.size - 1, 1) not in (b"", b"\n")
    except OSError:
        return False


def range_words(part: Range) -> str:
    """Return the bytes of a file in words."""
    return f"bytes {part.start:,} to {part.end - 1:,} of file {part.file_id}"


def _first_start(file: BinaryIO, start: int, end: int) -> int:
    """Return the first byte after a line end between two bytes of a file; the last one if there is none."""
    for block in blocks_of(file, start, end):
        place = block.find(b"\n")
        if place >= 0:
            return start + place + 1
        start += len(block)
    return end
