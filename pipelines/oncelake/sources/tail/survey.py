"""Compare the files of a directory with a position: which file is which, whatever it is called now.

The rules, in this order; docs/tail.md has them for users:

- The same inode with the same time of creation, and an unchanged last megabyte, is the same file.
- Another inode continues a file that is gone if its content begins with all bytes that were read of that file, and its
  path is the same, or its name is one that rotating or compressing makes of the other's, or its time is equal.
- A file that was cut, but still begins with most of what was read of it, goes on after the last line end of both.
- Two files that are there at once are two files. But `X` and `X.gz` are one if one begins with the other's content.
  And a file whose whole content is the beginning of another one, under a name that rotating makes of the other's, may
  be a copy of it that `copytruncate` makes: the setting `rotation` says so, or the file waits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from posixpath import basename, dirname, join, split

from oncelake.bronze.settings import Rotation
from oncelake.common.errors import SourceError
from oncelake.common.wording import count_of
from oncelake.sources.directory.listing import ListedFile, Problem, above, is_packed
from oncelake.sources.directory.names import BACKUPS, origins, unpacked
from oncelake.sources.tail.content import NOT_COMPLETE, REACH, Digest, FileMovedError, FileStore, Hasher, based
from oncelake.sources.tail.identity import Contents, Identity, key_of
from oncelake.sources.tail.lost import LostFiles
from oncelake.sources.tail.position import TailedFile, TailPosition

# Returns what bronze holds of a file's content from about a byte on, and the byte at which that begins; None if bronze
# is not at hand. Raises NotComparableError if bronze does not hold the bytes as they were read.
Ingested = Callable[[int, int], tuple[int, bytes] | None]
# A position has an entry for each file that is there, and each commit has two positions.
MOST_FILES = 10_000
# At most this many listings are tried while files are renamed.
_LISTINGS = 5
# The bytes of a byte order mark, which is in no row.
_MARK = 3
# A compressed file that is not complete after this many seconds is not being written any more.
_WRITTEN = 60.0
_REPLACED = (
    "it begins with all that {} holds: a log that an editor or rsync has written again beside its backup, or a log of "
    "its own? Set source.rotation to copytruncate or to rename"
)
_UNDECIDED = (
    "its whole content is the beginning of {}: a copy that logrotate's copytruncate makes, or a log of its own? Set "
    "source.rotation to copytruncate or to rename"
)
HAD_NO_END = "its last line had no end when it was read, and has more text now"
GROWN_BY_LOG = "it has grown, and what was added may be the log {}"
CUT_AND_MASKED = "it was cut after it was read, and bronze has its lines masked, so they cannot be compared"


class NotComparableError(OSError):
    """Raised when nothing says which bytes of a file were read."""


def not_at_hand(number: int, low: int) -> None:
    """Return None: bronze is not at hand."""


@dataclass
class Survey:
    """The files of a directory, compared with a position.

    Attributes:
        known: the files that were read, whole or in part, by ID.
        new: the files that were not read yet.
        starts: the byte from which a new file is read, if that is not its beginning; -1 if only a run finds out.
        cut: the ID of the file that a new one goes on with, by the new file's identity: it was cut, or copied.
        copies: files that hold nothing but what another file holds, with that file.
        undecided: files that are such copies or logs of their own, with the path of the other file.
        spent: copies that the position knows, of files that were cut or are gone: all that they hold was read.
        orphans: undecided files that the position knows as copies, and whose originals are gone.
        found: the copies that the position knows, each with the file that it is now, whatever that holds by now.
        doubtful: the copies and undecided files that are told apart only by the setting `rotation`.
        aside: files that hold no text, are compressed and cannot be read to their end, or cannot be read on, with the
            reason.
        unreadable: files that cannot be opened or read, with the reason.
        archived: the IDs of files that were appended to a compressed file, with that one.
        away: the IDs of the files that are not there.
        others: what is not read: hidden files, what is not a regular file, and what has a problem.
    """

    known: dict[int, ListedFile] = field(default_factory=dict)
    new: list[ListedFile] = field(default_factory=list)
    starts: dict[Identity, int] = field(default_factory=dict)
    cut: dict[Identity, int] = field(default_factory=dict)
    copies: list[tuple[ListedFile, ListedFile]] = field(default_factory=list)
    undecided: list[tuple[ListedFile, str]] = field(default_factory=list)
    spent: dict[TailedFile, ListedFile] = field(default_factory=dict)
    orphans: dict[TailedFile, ListedFile] = field(default_factory=dict)
    found: dict[TailedFile, ListedFile] = field(default_factory=dict)
    doubtful: set[Identity | None] = field(default_factory=set)
    aside: list[tuple[ListedFile, str]] = field(default_factory=list)
    unreadable: list[tuple[ListedFile, str]] = field(default_factory=list)
    archived: dict[int, ListedFile] = field(default_factory=dict)
    away: list[int] = field(default_factory=list)
    others: list[ListedFile] = field(default_factory=list)

    @property
    def stopped(self) -> set[Identity | None]:
        """The files that are not read, or not read on; not those that are just being compressed."""
        return {file.identity for file, reason in self.aside if reason != NOT_COMPLETE}

    def faults(self, now: float) -> Iterator[tuple[ListedFile, str]]:
        """Yield the files whose lines no run reads, with the reason.

        Args:
            now: the time in seconds since 1970; a compressed file that changed just now is still being written.
        """
        yield from ((file, file.problem) for file in self.others if file.problem is not None and not file.hidden)
        yield from self.unreadable
        yield from ((file, reason) for file, reason in self.aside if not is_written(file, reason, now))
        yield from self.questions()

    def questions(self) -> Iterator[tuple[ListedFile, str]]:
        """Yield the files that are copies or logs of their own, with the question that a setting answers."""
        for file, name in self.undecided:
            yield file, (_REPLACED if name.endswith(BACKUPS) else _UNDECIDED).format(name)


def is_read_whole(file: ListedFile, entry: TailedFile) -> bool:
    """Return True if a compressed file is as it was when all of it was read.

    At another inode, or from another time, a file of the same size may hold more.
    """
    is_there = file.identity is not None and entry.inode == file.identity[1]
    # guard: equal-size-at-other-inode
    return is_there and entry.packed == file.size and entry.modified in (0, file.modified)


def is_written(file: ListedFile, reason: str, now: float) -> bool:
    """Return True if a compressed file is not complete and changed just now, so that more of it is to come."""
    return reason == NOT_COMPLETE and 0 <= now - file.modified / 1000 < _WRITTEN


class Surveyor:
    """Compares the files of a directory with positions.

    Args:
        path: the directory, or a pattern of directories and files.
        store: the file system that holds it.
        rotation: how its logs are rotated; None if that is not known.
        ingested: returns what bronze holds of a file.

    Attributes:
        others: the names of the files of the last listing that are known by another one of their names.
    """

    def __init__(
        self, path: str, store: FileStore, rotation: Rotation | None = None, ingested: Ingested = not_at_hand
    ) -> None:
        self.path = path
        self.contents = Contents(store)
        self._root = f"{above(path).rstrip('/')}/"
        self._store = store
        self._rotation = rotation
        self._ingested = ingested
        self._goes_on: dict[tuple[object, ...], int] = {}
        self.others: list[ListedFile] = []

    def listed(self) -> list[ListedFile]:
        """List the files that are there, a file with several names once.

        Raises:
            SourceError: the directory cannot be listed, or holds too many files.
        """
        try:
            listed = sorted(self._store.listing(self.path), key=lambda file: (file.hidden, file.path))
        except OSError as error:
            raise SourceError(f"the source {self.path} cannot be listed: {error.strerror or error}") from None
        files: dict[Identity | str, ListedFile] = {}
        self.others = []
        for file in listed:
            first = files.setdefault(file.identity or file.path, file)
            if first is not file and not file.hidden:
                files[first.identity or first.path], other = self._own(first, file)
                self.others.append(other)
        if len(files) > MOST_FILES:
            raise SourceError(
                f"the source {self.path} holds {count_of(len(files), 'file')}; kind tail follows at most "
                f"{MOST_FILES:,}. Move old files away, name fewer by a pattern, or read them with kind files"
            )
        self.contents.forget_all_but(files)
        return list(files.values())

    def _own(self, *names: ListedFile) -> tuple[ListedFile, ListedFile]:
        """Return two names of a file, first the one that is no link: a link can lead elsewhere tomorrow."""
        resolve, root = self._store.resolve, self._store.resolve(self._root)
        one, other = sorted(names, key=lambda file: resolve(file.path) != f"{root.rstrip('/')}/{self.name(file)}")
        return one, other

    def name(self, file: ListedFile) -> str:
        """Return a file's path below the directory."""
        return file.path.removeprefix(self._root)

    def place_of(self, entry: TailedFile) -> str:
        """Return the path that a file had when it was read."""
        return join(self._root, entry.path)  # if the source is one file, the entry has its whole path

    def survey(self, at: TailPosition) -> Survey:
        """Compare the files that are there with a position.

        Raises:
            SourceError: the directory cannot be listed.
        """
        for _ in range(_LISTINGS - 1):
            try:
                return _Comparison(self, at, self.listed(), is_last=False).survey()
            except FileMovedError:
                continue
        return _Comparison(self, at, self.listed(), is_last=True).survey()

    def decides(self, *, is_certain: bool) -> bool | None:
        """Return whether a file that holds the beginning of another one is a copy of it; None if nobody knows."""
        if is_certain or self._rotation == "copytruncate":
            return True
        return False if self._rotation == "rename" else None  # guard: copy-or-twin-undecided

    def goes_on(self, file: ListedFile, number: int, files: Mapping[int, TailedFile]) -> int:
        """Return the byte from which a file that was cut is read on: after the last line end that it has in common
        with what was read. 0 if too little is in common, so that it is a new file; -1 if only a run finds out.

        Args:
            file: the file.
            number: the ID of the file that was read.
            files: the files of the position, by ID.

        Raises:
            OSError: the file cannot be opened or read, or what was read of it cannot be compared.
        """
        entry = files[number]
        if not entry.digest or (is_packed(file.path) and not entry.packed):
            return 0
        low, size = based(entry.offset), self.contents.size(file)
        if size * 2 <= entry.offset or size <= low:
            return 0
        if low and self.contents.digests(file, [low])[low].whole != Hasher(low, entry.base).whole:
            return 0
        key = (key_of(file), number, entry)
        if key not in self._goes_on:
            read = self._read_before(number, files, low)
            if read is None:
                return -1
            self._goes_on[key] = self._common(file, entry, *read)
        return self._goes_on[key]

    def _read_before(self, number: int, files: Mapping[int, TailedFile], low: int) -> tuple[int, bytes] | None:
        """Return what bronze holds of a file from a byte on: where that begins, and the bytes.

        What was read of a file before it was cut has another ID.
        """
        entry = files[number]
        read = self._ingested(number, max(low, entry.start))
        while read is not None and entry.start > low and entry.original in files:
            number, entry = entry.original, files[entry.original]
            before, (first, text) = self._ingested(number, max(low, entry.start)), read
            if before is not None and before[0] < first <= before[0] + len(before[1]):
                read = before[0], before[1][: first - before[0]] + text
        return read

    def _common(self, file: ListedFile, entry: TailedFile, first: int, text: bytes) -> int:
        low, offset = based(entry.offset), entry.offset
        if first > low + _MARK:  # rows of another file, or of none, hold what stands before
            hasher = Hasher(low, entry.base)
            hasher.update(self.contents.read(file, low, first - low) + text)
            if hasher.whole != entry.digest:  # guard: cut-log-begins-as-read
                return 0
        now = self.contents.read(file, first, len(text))
        common = next((at for at, (one, other) in enumerate(zip(text, now, strict=False)) if one != other), len(now))
        if (first + common) * 2 <= offset or first + common < offset - REACH:
            return 0  # guard: most-of-cut-log-left
        return first + text.rfind(b"\n", 0, common) + 1


class _Comparison:
    """One comparison of listed files with a position."""

    def __init__(self, surveyor: Surveyor, at: TailPosition, listed: Iterable[ListedFile], *, is_last: bool) -> None:
        self._surveyor = surveyor
        self._contents = surveyor.contents
        self._name = surveyor.name
        self._at = at
        self._is_last = is_last
        self._survey = Survey()
        self._files: list[ListedFile] = []
        self._faulty: set[Identity | None] = set()
        self._claimed: set[Identity | None] = set()
        self._numbers: dict[Identity | None, int] = {}
        self._blocked: set[int] = set()
        self._blocked_copies: set[TailedFile] = set()
        self._at_place: set[int] = set()
        for file in listed:
            is_read = file.identity is not None and file.problem in (None, Problem.COLON) and not file.hidden
            (self._files if is_read else self._survey.others).append(file)
        self._identities = {file.identity: file for file in self._files}
        every = [*surveyor.others, *self._files]
        self._places = {self._name(file): self._identities.get(file.identity, file) for file in every}
        self._packed: dict[str, int] = {}
        self._copies: list[tuple[ListedFile, TailedFile]] = []
        self._lost_copies: dict[int, TailedFile] = {}

    @cached_property
    def _beside(self) -> Mapping[str, ListedFile]:
        """The compressed files by the path without the ending; of several, one that was read, or a known copy."""
        packed = [file for file in self._files if is_packed(file.path)]
        copies = {file.identity for file, _ in self._copies}  # guard: known-copy-before-new-form
        packed.sort(key=lambda file: (file.identity in self._claimed, file.identity in copies))
        return {unpacked(file.path): file for file in packed}

    @cached_property
    def _plain(self) -> Mapping[str, ListedFile]:
        """The files that are not compressed, by name; those that logback compresses, also without its mark."""
        plain = [(name, file) for name, file in self._places.items() if not is_packed(name)]
        return {**{unpacked(name): file for name, file in plain}, **dict(plain)}

    @cached_property
    def _inodes(self) -> Mapping[int, list[tuple[int, TailedFile]]]:
        """The files that were read by the numbers of their inodes, the newest first."""
        by_inode: dict[int, list[tuple[int, TailedFile]]] = {}
        for number, entry in sorted(self._at.files.items(), reverse=True):
            by_inode.setdefault(entry.inode, []).append((number, entry))
        return by_inode

    @cached_property
    def _cut_before(self) -> set[int]:
        """The IDs of the files that were cut and went on under another ID: no other file goes on as them.

        A copy that was read on has an ID of its own as well, and its original may still be cut.
        """
        files = self._at.files
        pairs = [(entry, files.get(entry.original)) for entry in files.values() if entry.start]
        # guard: original-of-copy-cut
        return {
            entry.original
            for entry, log in pairs
            if log is not None and (entry.inode == log.inode or entry.path == log.path)
        }

    @cached_property
    def _at_inode(self) -> Mapping[int, list[ListedFile]]:
        """The files by the numbers of their inodes, which several devices can have."""
        by_inode: dict[int, list[ListedFile]] = {}
        for file in self._files:
            assert file.identity is not None
            by_inode.setdefault(file.identity[1], []).append(file)
        return by_inode

    @cached_property
    def _by_base(self) -> Mapping[str, list[ListedFile]]:
        """The files by the last part of their names."""
        by_base: dict[str, list[ListedFile]] = {}
        for name, file in self._places.items():
            by_base.setdefault(basename(name), []).append(file)
        return by_base

    def survey(self) -> Survey:
        """Return the result."""
        survey = self._survey
        unmatched = self._by_inode()
        copies = self._copies
        grown = {
            file.identity: (file, entry)
            for file, entry in copies
            if self._is_unpacked_of(file, entry.original) or self._try(self._has_grown, file, entry)
        }
        unmatched = self._by_content(unmatched, grown)
        self._packed = {unpacked(file.path): number for number, file in survey.known.items() if is_packed(file.path)}
        self._continue_cut_files(unmatched)
        for file in unmatched:
            if file.identity not in self._faulty:
                self._try(self._compare_with_originals, file)
        for file, entry in copies:
            if file.identity not in self._claimed | self._faulty:
                self._try(self._compare_with_original, file, entry)
        for number, file in survey.known.items():
            entry = self._at.files[number]
            if is_packed(file.path) and self._has_changed(file, number):
                self._try(self._check_growth, file, entry)
            elif entry.ended and not is_packed(file.path):
                self._try(self._check_end, file, entry)
        self._set_archives_aside()
        survey.found = {entry: file for file, entry in copies}
        survey.away = [number for number in self._lost() if number not in self._blocked]
        return survey

    def _try(self, work: Callable[..., bool | None], file: ListedFile, *args: object) -> bool:
        """Do something with a file; if it cannot be read, note the reason, and return False."""
        try:
            return bool(work(file, *args))
        except FileMovedError:
            if not self._is_last:  # guard: renamed-file-listed-again
                raise
            faults, reason = self._survey.unreadable, "it is renamed again and again"
        except NotComparableError as error:
            faults, reason = self._survey.aside, str(error)
        except OSError as error:
            faults, reason = self._survey.unreadable, f"it cannot be read: {error.strerror or error}"
        if file.identity not in self._faulty:
            self._faulty.add(file.identity)
            faults.append((file, reason))  # guard: unopened-file-is-fault
        return False

    def _lost(self) -> list[int]:
        return [number for number in self._at.files if number not in self._survey.known]

    def _know(self, number: int, file: ListedFile) -> None:
        self._survey.known[number] = file
        self._claimed.add(file.identity)
        self._numbers[file.identity] = number

    def _by_inode(self) -> list[ListedFile]:
        """Find the files and the copies whose inodes the position has; return the other files."""
        copies: dict[int, list[TailedFile]] = {}
        for entry in sorted(self._at.copies, key=lambda copy: -copy.offset):
            copies.setdefault(entry.inode, []).append(entry)
        others: list[ListedFile] = []
        for file in self._files:
            assert file.identity is not None
            entries = self._inodes.get(file.identity[1], ())
            known = next((number for number, entry in entries if self._is_known(file, number, entry)), None)
            copy = next((copy for copy in copies.get(file.identity[1], ()) if self._is_same(file, copy)), None)
            if file.identity in self._faulty:
                near = {number for number, entry in entries if self._is_near(file, entry)}
                self._at_place |= near
                self._blocked |= near or {number for number, _ in entries}  # the number of a device can change
                unread = copies.get(file.identity[1], ())
                # guard: unreadable-copy-is-not-lost
                self._blocked_copies.update(copy for copy in unread if self._is_near(file, copy))
            elif known is not None:
                self._know(known, file)
            elif copy is not None:
                self._copies.append((file, copy))
            else:
                others.append(file)
        self._blocked -= self._survey.known.keys()  # guard: known-file-is-not-blocked
        return others

    def _is_known(self, file: ListedFile, number: int, entry: TailedFile) -> bool:
        return number not in self._survey.known and self._is_same(file, entry)

    def _is_same(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file with the inode of an entry is its file; the number of a device can change."""
        may_be = self._is_near(file, entry) or entry.born > 0
        return may_be and self._try(self._contents.is_same, file, entry)

    def _is_near(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file with the inode of an entry is on its device, or at its path."""
        assert file.identity is not None
        return entry.device == file.identity[0] or not entry.path or self._places.get(entry.path) is file

    def _check_growth(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a compressed file that has grown can be read on; note why not."""
        problem = self._contents.packed(file, [entry.offset]).problem
        if problem is None and not self._contents.still_begins_with(file, entry):
            problem = HAD_NO_END
        if problem is not None:
            self._survey.aside.append((file, problem))
        return problem is None

    def _set_archives_aside(self) -> None:  # guard: archive-by-appending-asked
        """Set aside the compressed files that have grown by what may be a log that is read, or was read.

        A compressed file that was not there before is none: it may be the log itself, with its rest.
        """
        survey, aside = self._survey, {file.identity for file, _ in self._survey.aside}
        copies = {file.identity for file, _ in self._copies}
        grown = [
            (file, number, self._at.files[number].offset)
            for number, file in survey.known.items()
            if file.identity in copies or self._has_changed(file, number)
        ]
        for file in survey.new:
            if file.identity in copies and file.identity in survey.starts:
                grown.append((file, survey.cut.get(file.identity, -1), survey.starts[file.identity]))
        for file, number, offset in grown:
            if is_packed(file.path) and offset and file.identity not in aside:
                self._try(partial(self._compare_growth, number=number, offset=offset), file)

    def _has_changed(self, file: ListedFile, number: int) -> bool:  # guard: read-archive-not-unpacked
        """Return True if a compressed file was compressed when it was read, and is not as it was then."""
        entry = self._at.files[number]
        return entry.packed != 0 and not is_read_whole(file, entry)

    def _compare_growth(self, file: ListedFile, *, number: int, offset: int) -> None:
        """Set aside a compressed file if a log was appended to it, by its name or by what was added.

        Args:
            file: the file.
            number: the ID of what it held before.
            offset: the byte from which it is to be read.
        """
        if self._contents.written(file) <= offset:  # guard: archive-without-growth
            return
        survey, name = self._survey, unpacked(self._name(file))
        plain, log = self._plain.get(name), None
        if plain is None:
            lost = sorted(set(self._lost()) - self._cut_before - {number})
            log = next((other for other in lost if self._at.files[other].path == name), None)
        elif not any(copy is plain and other is file for copy, other in survey.copies):
            log = self._numbers.get(plain.identity, -1)
        if log is None:  # guard: archive-by-what-was-added
            log = self._contents.first_added(file, offset, self._at.files)
        if log is not None:
            survey.archived[log] = file
            survey.aside.append((file, GROWN_BY_LOG.format(self._at.files[log].path if log >= 0 else name)))
            survey.new = [other for other in survey.new if other is not file]

    def _check_end(self, file: ListedFile, entry: TailedFile) -> None:
        """Note an unpacked file that goes on within the last line that was read."""
        if not self._contents.has_end(file, entry):
            self._survey.aside.append((file, HAD_NO_END))

    def _has_grown(self, file: ListedFile, entry: TailedFile) -> bool:
        return self._contents.written(file) > entry.offset

    def _by_content(
        self, unmatched: list[ListedFile], grown: Mapping[Identity | None, tuple[ListedFile, TailedFile]]
    ) -> list[ListedFile]:
        """Find the files that continue one that is gone; return the others that can be read.

        Args:
            unmatched: the files whose inodes the position does not have.
            grown: the copies that may continue one, with their entries, by identity: those that hold more than they
                did, or have the name of an unpacked file.
        """
        if not unmatched and not grown:
            return []
        cut = {number: file.identity for file in unmatched for number in self._cut_in_place(file)}
        lost = {number: self._at.files[number] for number in self._lost() if number not in self._blocked | cut.keys()}
        paths = {entry.path: number for number, entry in lost.items()}
        forms = set(map(unpacked, paths))
        self._lost_copies = self._copies_not_found()
        entries = [entry for _, entry in self._copies]
        entries += [entry for entry in self._lost_copies.values() if entry.path in self._places]
        packed = {entry.original for entry in entries if self._is_packed_form(entry)}
        index = LostFiles(lost, self._lost_copies, self._places, packed)
        unknown = LostFiles({number: self._at.files[number] for number in self._blocked}, {}, self._places, ())
        others = []
        every = [*unmatched, *(file for file, _ in grown.values())]

        def order(file: ListedFile) -> tuple[object, ...]:
            name = self._name(file)
            return name not in paths, unpacked(name) not in forms, file.modified, file.path

        for file in sorted(every, key=order):
            if file.size and not self._try(self._is_text, file, index):
                continue
            entry = grown[file.identity][1] if file.identity in grown else None
            is_double = file.identity in cut.values() or self._try(self._is_packed_beside, file)
            if entry is None and self._name(file) not in paths:
                is_double = is_double or self._try(self._is_unpacked_beside, file, index)
            if not is_double and file.identity not in self._faulty and self._try(self._continues, file, index, entry):
                continue
            if file.identity in self._faulty:
                self._blocked |= {paths[name] for name in [self._name(file)] if name in paths}
            elif not is_double and unknown and self._try(self._may_continue, file, unknown):
                continue
            elif entry is None and self._contents.size(file):
                others.append(file)
        return others

    def _is_packed_form(self, copy: TailedFile) -> bool:
        """Return True if a copy is the compressed form of its file, as the position knows both."""
        original = self._at.files.get(copy.original)
        # guard: packed-form-named-as-log
        is_beside = original is not None and unpacked(copy.path) == unpacked(original.path)
        return is_beside and bool(copy.packed) and not copy.doubtful

    def _is_packed_beside(self, file: ListedFile) -> bool:
        """Return True if a compressed file holds nothing but what the file beside it holds, of which it was made."""
        plain = self._plain.get(unpacked(self._name(file))) if is_packed(file.path) else None
        return plain is not None and self._contents.is_beginning(file, plain)

    # guard: unpacked-file-beside-its-archive
    def _is_unpacked_beside(self, file: ListedFile, index: LostFiles) -> bool:
        """Return True if a file is the archive beside it, unpacked: it begins with all that was read of the archive.

        So is a part of it, which is just being unpacked. A file that continues a longer one, which is gone, is not that
        archive.
        """
        packed = self._beside.get(unpacked(file.path)) if not is_packed(file.path) else None
        number = self._numbers.get(packed.identity) if packed is not None else None
        if packed is None or number is None:
            return False
        if not self._contents.begins_with(file, self._at.files[number]):
            return self._contents.is_beginning(file, packed)  # guard: part-of-archive-beside
        read = self._at.files[number].offset
        # guard: lost-log-before-short-archive
        return not any(lost >= 0 and length > read for lost, length in self._continued(file, index))

    def _copies_not_found(self) -> dict[int, TailedFile]:
        """Return the copies that are not found yet, by numbers below 0; not those that cannot be read."""
        matched = {copy for _, copy in self._copies} | self._blocked_copies
        return {-number: copy for number, copy in enumerate(self._at.copies, 1) if copy not in matched}

    def _is_text(self, file: ListedFile, index: LostFiles) -> bool:
        """Return True if a file's content can be read to its end, and is text; note why not."""
        problem = self._contents.why_aside(file)
        if problem is None and is_packed(file.path):
            lengths = index.lengths(self._name(file), file.modified) if index else ()
            problem = self._contents.packed(file, lengths).problem
        if problem is not None:
            self._survey.aside.append((file, problem))
        return problem is None

    def _continues(self, file: ListedFile, index: LostFiles, copy: TailedFile | None) -> bool:
        return self._continue_lost(file, index) if copy is None else self._continue_original(file, index, copy)

    def _continue_original(self, file: ListedFile, index: LostFiles, copy: TailedFile) -> bool:
        """Return True if a copy that has grown goes on with its own file, whatever its name is now, or with another.

        Of another file, as much must have been read as the copy held before.
        """
        if copy.original in index.files and self._know_first([copy.original], file):  # guard: grown-copy-continues-log
            return True
        # guard: archive-before-shorter-log
        continued = self._continued(file, index, is_copy=True)
        longer = (number for number, length in continued if number >= 0 and length >= copy.offset)
        return self._know_first(longer, file)

    def _continue_lost(self, file: ListedFile, index: LostFiles) -> bool:
        name = self._name(file)
        # the file at the inode of a blocked one may be another file
        if self._know_first((number for number in self._blocked if self._at.files[number].path == name), file):
            return True
        grown: int | None = None
        for number, length in self._continued(file, index):
            copy = self._lost_copies.get(number)
            if number >= 0 and number not in self._survey.known:
                self._know(number, file)
                return True
            if copy is not None and self._contents.size(file) - length in (0, 1):  # the end of a last line
                return self._find_copy(number, file)
            if copy is not None and copy.path == name:  # guard: grown-copy-with-new-inode
                grown = number if grown is None else grown
        return self._know_first(index.old, file) if grown is None else self._find_copy(grown, file)

    def _find_copy(self, number: int, file: ListedFile) -> bool:
        self._copies.append((file, self._lost_copies.pop(number)))
        return True

    def _know_first(self, numbers: Iterable[int], file: ListedFile) -> bool:
        """Return True if a file continues a lost one, and record it as the first of those that it continues."""
        lost = (number for number in numbers if number not in self._survey.known)
        number = next((number for number in lost if self._contents.begins_with(file, self._at.files[number])), None)
        if number is not None:
            self._know(number, file)
        return number is not None

    def _cut_in_place(self, file: ListedFile) -> list[int]:  # guard: renamed-cut-file-continues
        """Return the ID of the file that was cut and goes on as this one, by its inode."""
        assert file.identity is not None
        entries = self._inodes.get(file.identity[1], ())
        done = self._survey.known.keys() | self._cut_before  # guard: cut-log-goes-on-once
        lost = [(number, entry) for number, entry in entries if number not in done]
        return [number for number, entry in lost if self._try(self._is_cut_in_place, file, number, entry)][:1]

    def _is_cut_in_place(self, file: ListedFile, number: int, entry: TailedFile) -> bool:
        is_there = self._is_at_inode(file, entry)
        return is_there and self._surveyor.goes_on(file, number, self._at.files) != 0

    def _continued(self, file: ListedFile, index: LostFiles, *, is_copy: bool = False) -> Iterator[tuple[int, int]]:
        """Yield the IDs of the files of an index that a file may continue, with how much was read of them."""
        size = self._contents.size(file)
        for groups in index.candidates(self._name(file), file.modified, is_copy=is_copy):
            lengths = {length for entries in groups for length in entries if length <= size}
            known = self._contents.digests(file, lengths) if lengths else {}
            for entries in groups:
                for length in sorted(entries.keys() & lengths, reverse=True):
                    yield from ((number, length) for number in entries[length].get(known.get(length), ()))
                for length, number in self._ended(entries, size + 1):
                    if self._contents.begins_with(file, self._entry_of(number)):
                        yield number, length

    def _entry_of(self, number: int) -> TailedFile:
        """Return a file by its ID, or a copy that was gone by its number below 0."""
        return self._at.files[number] if number >= 0 else self._at.copies[-number - 1]

    # guard: packed-file-continues-last-line
    def _ended(self, entries: Mapping[int, Mapping[Digest | None, list[int]]], most: int) -> Iterator[tuple[int, int]]:
        """Yield how much was read, and the ID, of the files and copies whose last line was read without its end."""
        read = ((length, numbers) for length, group in entries.items() if length <= most for numbers in group.values())
        pairs = ((length, number) for length, numbers in read for number in numbers)
        yield from (pair for pair in pairs if self._entry_of(pair[1]).ended)

    def _may_continue(self, file: ListedFile, unknown: LostFiles) -> bool:  # guard: wait-for-file-to-continue
        """Return True if a file may continue one that cannot be looked for; note that."""
        number = next((number for number, _ in self._continued(file, unknown)), None)
        return number is not None and self._wait_for(file, number)

    def _wait_for(self, file: ListedFile, number: int) -> bool:
        why = f"it may go on with {self._at.files[number].path}, which is not known while a file is unreadable"
        self._survey.unreadable.append((file, why))
        self._faulty.add(file.identity)
        return True

    def _continue_cut_files(self, unmatched: list[ListedFile]) -> None:
        """Find the files that were cut, by inode or by path."""
        identities = {file.identity for file in unmatched}
        for number in (lost for lost in self._lost() if lost not in self._cut_before):  # guard: cut-log-continued-once
            entry = self._at.files[number]
            at_path = self._places.get(entry.path)  # guard: cut-log-at-its-path
            files = [*self._at_inode.get(entry.inode, ()), *([at_path] if at_path is not None else [])]
            # guard: unreadable-file-at-its-place
            files = [file for file in files if number not in self._at_place or self._is_near(file, entry)]
            continues = self._may_be_cut if number in self._blocked else self._continue_cut
            files = [file for file in files if file.identity in identities - self._faulty]
            any(self._try(continues, file, number, entry) for file in files)

    def _may_be_cut(self, file: ListedFile, number: int, entry: TailedFile) -> bool:
        """Continue a file that was cut if its birth tells that no unreadable file is that one; otherwise note it."""
        is_at_inode = entry.born > 0 and self._is_at_inode(file, entry)
        # guard: unreadable-file-by-birth-time
        if is_at_inode or (entry.born and self._places.get(entry.path) is not file):
            return is_at_inode and self._continue_cut(file, number, entry)  # guard: cut-log-by-birth-time
        return self._surveyor.goes_on(file, number, self._at.files) != 0 and self._wait_for(file, number)

    def _continue_cut(self, file: ListedFile, number: int, entry: TailedFile) -> bool:
        assert file.identity is not None
        if self._places.get(entry.path) is not file and not self._is_at_inode(file, entry):
            return False
        start = self._surveyor.goes_on(file, number, self._at.files)
        if start:
            self._survey.starts[file.identity] = start
            self._survey.cut[file.identity] = number
        return start != 0

    def _is_at_inode(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file is at the inode of a known one; the number of a device can change."""
        return (self._is_near(file, entry) or entry.born > 0) and self._contents.is_at_inode(file, entry)

    def _compare_with_originals(self, file: ListedFile) -> None:
        """Take a file for a new one, or for a copy of one that is there."""
        for other, is_certain in () if file.identity in self._survey.starts else self._originals(file):
            is_copy = self._surveyor.decides(is_certain=is_certain)
            if is_copy is not False and self._contents.is_beginning(file, other):
                self._set_aside(file, other, is_copy, is_certain=is_certain)
                return
        if self._may_have_backup(file):
            return
        beside = self._beside.get(unpacked(file.path)) if not is_packed(file.path) else None
        if beside is not None and self._is_unpacked_from(file, beside):
            self._survey.copies.append((file, beside))
        elif not self._takes_over(file):
            self._survey.new.append(file)

    def _takes_over(self, file: ListedFile) -> bool:
        """Return True if a file holds all that was read of its compressed form, which is a copy of it from now on."""
        number = None if is_packed(file.path) else self._packed.get(unpacked(file.path))
        if number is None or not self._contents.begins_with(file, self._at.files[number]):
            return False
        self._take_over(number, file)
        return True

    def _take_over(self, number: int, file: ListedFile) -> None:
        copy = self._survey.known[number]
        self._survey.copies.append((copy, file))
        del self._numbers[copy.identity]
        self._know(number, file)

    def _may_have_backup(self, file: ListedFile) -> bool:  # guard: log-beside-backup-asked
        """Return True if a file begins with all that another one holds, which was read and has the name of its backup.

        An editor or rsync has renamed the log then, and has written it again; or another log has the same lines.
        """
        directory, base = split(self._name(file))
        for name in (f"{origin}{mark}" for origin in (base, *origins(base)) for mark in BACKUPS):
            backup = self._places.get(join(directory, name))
            number = self._numbers.get(backup.identity) if backup is not None and backup is not file else None
            # guard: log-begins-with-whole-backup
            if backup is not None and number is not None and self._contents.is_beginning(backup, file):
                is_copy = self._surveyor.decides(is_certain=False)
                if is_copy is None:
                    self._set_aside(file, backup, is_copy, is_certain=False)
                elif is_copy:
                    self._take_over(number, file)
                return is_copy is not False
        return False

    def _is_unpacked_from(self, file: ListedFile, packed: ListedFile) -> bool:  # guard: file-being-unpacked-is-copy
        """Return True if a file holds a part of the compressed file beside it, as if that is just being unpacked.

        A file that holds all of it is one itself, except if the compressed file holds nothing new, or was read to the
        end of a last line that has no end.
        """
        is_copy = any(copy.identity == packed.identity for copy, _ in self._copies)
        written, number = self._contents.written(packed), self._packed.get(unpacked(file.path))
        is_ended = number is not None and self._at.files[number].offset > written
        is_part = is_copy or is_ended or file.size < written
        return is_part and self._contents.is_beginning(file, packed)

    def _is_unpacked_of(self, file: ListedFile, number: int) -> bool:  # guard: unpacked-file-continues-archive
        """Return True if a file has the name of a compressed file that was read, without its ending."""
        entry, name, now = self._at.files.get(number), self._name(file), self._survey.known.get(number)
        names = {entry.path if entry is not None else "", self._name(now) if now is not None else ""} - {name, ""}
        return not is_packed(name) and unpacked(name) in map(unpacked, names)

    def _set_aside(self, file: ListedFile, other: ListedFile, is_copy: bool | None, *, is_certain: bool) -> None:
        if not is_certain:
            self._survey.doubtful.add(file.identity)
        if is_copy:
            self._survey.copies.append((file, other))
        else:
            self._survey.undecided.append((file, self._name(other)))

    def _originals(self, file: ListedFile) -> Iterator[tuple[ListedFile, bool]]:
        """Yield the files that a file may be a copy of by its name, and whether it is one if its content says so."""
        directory, base = split(self._name(file))
        if is_packed(base):
            plain, other = self._plain.get(join(directory, unpacked(base))), self._beside.get(unpacked(file.path))
            if plain is not None:
                yield plain, True
            # guard: packed-forms-are-one-file
            if other not in (None, file) and self._contents.written(other) == self._contents.written(file):
                yield other, True
        for origin in origins(base):
            other = self._places.get(join(directory, origin))
            yield from ((other, False) for other in ([other] if other else self._elsewhere(directory, origin)))

    def _elsewhere(self, directory: str, base: str) -> Iterator[ListedFile]:
        """Yield the files with a name in the directories above a directory, and in those beside it."""
        for other in self._by_base.get(base, ()):
            place = dirname(self._name(other))
            if not place or directory.startswith(f"{place}/") or dirname(place) == dirname(directory):
                yield other

    def _compare_with_original(self, file: ListedFile, entry: TailedFile) -> None:
        """Decide what a copy that the position knows is now."""
        survey = self._survey
        assert file.identity is not None
        is_unpacked = self._is_unpacked_of(file, entry.original)
        # guard: packed-file-asked-for
        is_certain = entry.original < 0 or is_unpacked or (is_packed(file.path) and not entry.doubtful)
        is_copy = self._surveyor.decides(is_certain=is_certain)
        if (is_unpacked and self._takes_over(file)) or (not is_packed(file.path) and self._may_have_backup(file)):
            return
        has_grown, original = self._has_grown(file, entry), survey.known.get(entry.original)
        if is_copy is False or (original is not None and has_grown and not self._contents.is_beginning(file, original)):
            # guard: parted-log-is-new
            self._read_on(file, entry) if is_certain and not is_unpacked else survey.new.append(file)
        elif is_unpacked and original is None and entry.original not in self._blocked:  # it is no part of what is gone
            survey.new.append(file)
        elif original is not None:
            self._set_aside(file, original, is_copy, is_certain=is_certain)
        elif entry.original in self._blocked or (not has_grown and (is_copy or self._is_cut(entry.original))):
            survey.spent[entry] = file
            if has_grown:  # guard: grown-copy-of-blocked-log
                self._wait_for(file, entry.original)
        elif is_copy or self._is_cut(entry.original):
            self._read_on(file, entry)
        else:
            was = self._at.files.get(entry.original)
            survey.undecided.append((file, was.path if was else "a log that is gone"))
            survey.orphans[entry] = file
            survey.doubtful.add(file.identity)

    def _read_on(self, file: ListedFile, entry: TailedFile) -> None:
        """Read what a copy holds beyond what its file held, from the beginning of a line on."""
        if is_packed(file.path) and not self._check_growth(file, entry):
            return
        assert file.identity is not None
        self._survey.starts[file.identity] = self._contents.line_start(file, entry.offset)
        if entry.original >= 0:
            self._survey.cut[file.identity] = entry.original
        self._survey.new.append(file)

    def _is_cut(self, number: int) -> bool:
        """Return True if another content is at the inode of a file that was read."""
        entry = self._at.files.get(number)
        return entry is not None and any(self._is_at_inode(file, entry) for file in self._at_inode.get(entry.inode, ()))
