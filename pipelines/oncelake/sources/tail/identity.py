"""What the listed files of a growing source hold, remembered until a file changes."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import BinaryIO

from oncelake.sources.directory.content import GROWING, content_in
from oncelake.sources.directory.listing import ListedFile, is_packed
from oncelake.sources.tail.content import (
    Digest,
    FileMovedError,
    FileStore,
    Hasher,
    PackedContent,
    based,
    blocks_of,
    content_blocks,
    content_ends,
    digests,
    ends_of,
    last_end,
    read_at,
    unpack,
)
from oncelake.sources.tail.position import TailedFile

Identity = tuple[int, int]
# A file that changed less than this many nanoseconds ago can change again without another time.
_RECENT = 2 * 10**9
# An earlier version took this many equal bytes at both ends for certain.
_CERTAIN = 1024


class Contents:
    """What listed files hold; remembered until a file changes."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._same: dict[Identity, tuple[str, TailedFile]] = {}
        self._digests: dict[tuple[object, ...], dict[int, Digest]] = {}
        self._packed: dict[tuple[object, ...], PackedContent] = {}
        self._aside: dict[tuple[object, ...], str | None] = {}
        self._added: dict[tuple[tuple[object, ...], int], dict[int, Digest]] = {}

    def forget_all_but(self, identities: Mapping[Identity | str, ListedFile]) -> None:
        """Forget the files that are not there."""
        self._same = {key: same for key, same in self._same.items() if key in identities}
        self._digests = {key: known for key, known in self._digests.items() if key[0] in identities}
        self._packed = {key: known for key, known in self._packed.items() if key[0] in identities}
        self._aside = {key: why for key, why in self._aside.items() if key[0] in identities}
        self._added = {key: known for key, known in self._added.items() if key[0][0] in identities}

    def stamp(self, file: ListedFile) -> str:
        """Return a text that differs if the size or a time of a file differs; empty if it changed just now."""
        if self.store.now() * 10**9 - file.changed < _RECENT:
            return ""
        return f"{zlib.crc32(f'{file.size} {file.modified} {file.changed}'.encode()):08x}"

    def packed(self, file: ListedFile, lengths: Iterable[int] = ()) -> PackedContent:
        """Return what a compressed file holds, with the digests of its first bytes.

        Raises:
            OSError: the file cannot be opened or read.
        """
        key = key_of(file)
        known = self._packed.get(key)
        if known is None or (known.problem is None and not known.digests.keys() >= {*lengths} - {0}):
            all_lengths = {*lengths, *(known.digests if known else ())}
            with self.store.open(file) as opened:
                known = unpack(opened, file.path, all_lengths)
            blank = dict.fromkeys(all_lengths, Digest("", ""))  # it does not reach them; do not ask again
            known = self._packed[key] = PackedContent(
                known.size, known.lines, {**blank, **known.digests}, known.problem
            )
        return known

    def why_aside(self, file: ListedFile) -> str | None:  # guard: binary-growing-file-aside
        """Return why a file holds nothing that can be read; None if it holds text.

        Raises:
            OSError: the file cannot be opened or read.
        """
        key = key_of(file)
        if key not in self._aside:
            with self.store.open(file) as opened:
                self._aside[key] = content_in(opened, file.path, file.size, GROWING).why or None
        return self._aside[key]

    def size(self, file: ListedFile) -> int:
        """Return the size of a file's content; of a compressed one, with a line end at its end."""
        return self.packed(file).ended if is_packed(file.path) else file.size

    def written(self, file: ListedFile) -> int:
        """Return the size of a file's content as it was written; also of a compressed one."""
        return self.packed(file).size if is_packed(file.path) else file.size

    def read(self, file: ListedFile, start: int, count: int) -> bytes:
        """Return bytes of a file's content from a place on; fewer if it is shorter."""
        with self.store.open(file) as opened:
            if not is_packed(file.path):
                return read_at(opened, start, count)
            return b"".join(_from(content_blocks(opened, file.path, start + count), start))

    def line_start(self, file: ListedFile, offset: int) -> int:
        """Return where the line begins that a byte of a file's content is in."""
        with self.store.open(file) as opened:
            if not is_packed(file.path):
                return last_end(opened, 0, offset)
            start = at = 0
            for block in content_blocks(opened, file.path, offset):
                end = block.rfind(b"\n")
                start = at + end + 1 if end >= 0 else start  # guard: archive-from-line-start
                at += len(block)
            return start

    def digests(self, file: ListedFile, lengths: Iterable[int]) -> Mapping[int, Digest]:
        """Return digests of the first bytes of a file's content, by their number.

        Raises:
            FileMovedError: it was cut after it was listed.
            OSError: the file cannot be opened or read.
        """
        if is_packed(file.path):
            return self.packed(file, lengths).digests
        known = self._digests.setdefault(key_of(file), {})
        missing = [length for length in lengths if length not in known and length <= file.size]
        if missing:
            with self.store.open(file) as opened:
                known |= digests(blocks_of(opened, 0, max(missing)), missing)
            if not known.keys() >= {*missing}:
                raise FileMovedError(f"{file.path} was cut after it was listed")
        return known

    def is_same(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file with the inode of a known one is that file: what was read of it last is unchanged.

        Raises:
            OSError: the file cannot be opened or read.
        """
        stamp = self.stamp(file)
        assert file.identity is not None
        is_unchanged = file.identity[0] == entry.device and stamp == entry.stamp  # guard: stamp-of-one-device
        # guard: unstamped-file-compared
        if stamp and (is_unchanged or self._same.get(file.identity) == (stamp, entry)):
            return True
        if not entry.packed and is_packed(file.path):
            return False
        if not entry.packed and file.size < entry.offset - entry.ended:
            return False
        if not self.is_at_inode(file, entry):
            return False
        with self.store.open(file) as opened:
            if entry.ends:
                same = ends_of(opened, entry.packed or entry.offset) == entry.ends
            else:
                same = self.hasher(opened, entry) is not None  # guard: growing-file-end-unchanged
        if entry.packed and is_packed(file.path) and not same:
            same = self.begins_with(file, entry)  # guard: archive-rewritten-in-place
        if same and stamp:
            self._same[file.identity] = stamp, entry
        return same

    def is_at_inode(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file is at the inode of a known one, and was not created later.

        Raises:
            OSError: the file cannot be opened.
        """
        if file.identity is None or file.identity[1] != entry.inode or not entry.born:
            return file.identity is not None and file.identity[1] == entry.inode
        with self.store.open(file) as opened:
            return self.store.born(opened) == entry.born  # guard: inode-not-created-later

    def still_begins_with(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if the content of a compressed file that has grown goes on where it was left.

        Raises:
            OSError: the file cannot be opened or read.
        """
        if entry.ended:
            return self._has_digest(file, entry)
        return not entry.digest or self.begins_with(file, entry)

    def hasher(self, opened: BinaryIO, entry: TailedFile) -> Hasher | None:
        """Return a hasher of the bytes that were read of an uncompressed file; None if the last ones are others."""
        start = based(entry.offset)
        hasher = Hasher(start, entry.base)
        for block in blocks_of(opened, start, entry.offset - entry.ended):
            hasher.update(block)
        hasher.update(b"\n" * entry.ended)
        # guard: planned-beginning-unchanged
        return hasher if hasher.size == entry.offset and hasher.whole == entry.digest else None

    def begins_with(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return True if a file's content begins with all that was read of a known file.

        Raises:
            OSError: a file cannot be opened or read.
        """
        if entry.ended:  # guard: unpacked-file-lacks-last-end
            return self._begins_with_ended(file, entry)
        return self._has_digest(file, entry) if entry.digest else self._begins_as_before(file, entry)

    def has_end(self, file: ListedFile, entry: TailedFile) -> bool:
        """Return False if an uncompressed file goes on within the last line that was read of it.

        Raises:
            OSError: the file cannot be opened or read.
        """
        if is_packed(file.path) or not entry.ended:
            return True
        with self.store.open(file) as opened:
            return has_end(opened, entry)

    def _has_digest(self, file: ListedFile, entry: TailedFile) -> bool:
        return self.digests(file, [entry.offset]).get(entry.offset) == (entry.digest, entry.base)

    def _begins_with_ended(self, file: ListedFile, entry: TailedFile) -> bool:
        """Compare with a file that was read to the end of a line which has none."""
        if is_packed(file.path) and self.packed(file).problem is not None:
            return False
        with self.store.open(file) as opened:
            ended = chain(content_blocks(opened, file.path, entry.offset - 1), [b"\n"])
            return digests(ended, [entry.offset]).get(entry.offset) == (entry.digest, entry.base)

    def is_beginning(self, file: ListedFile, other: ListedFile) -> bool:  # guard: copy-is-not-read
        """Return True if a file holds nothing but what another one holds, from its beginning.

        Raises:
            OSError: a file cannot be opened or read.
        """
        size = self.written(file)
        if not 0 < size <= self.size(other):
            return False
        digest = self.digests(file, [size]).get(size)
        return digest is not None and self.digests(other, [size]).get(size) == digest

    def first_added(self, file: ListedFile, offset: int, logs: Mapping[int, TailedFile]) -> int | None:
        """Return the ID of the first log that a compressed file has from a byte on, as far as the log was read.

        Raises:
            OSError: the file cannot be opened or read.
        """
        room = self.written(file) - offset
        read = {number: log for number, log in logs.items() if log.digest and 0 < log.offset <= room}
        added = self._added_from(file, offset, {log.offset for log in read.values()})
        same = (number for number, log in read.items() if added.get(log.offset) == (log.digest, log.base))
        return next(same, None)

    def _added_from(self, file: ListedFile, offset: int, lengths: Set[int]) -> Mapping[int, Digest]:
        """Return digests of what a compressed file has from a byte on, by their number."""
        known = self._added.setdefault((key_of(file), offset), {})
        if not known.keys() >= lengths:
            with self.store.open(file) as opened:
                blocks = _from(content_blocks(opened, file.path, self.written(file)), offset)
                known |= digests(blocks, lengths - known.keys())
        return known

    def _begins_as_before(self, file: ListedFile, entry: TailedFile) -> bool:
        """Compare with an entry of an earlier version, which has only a hash of both ends of what was read."""
        if entry.packed and file.size != entry.packed:
            return False
        with self.store.open(file) as opened:
            if entry.packed:
                return ends_of(opened, file.size) == entry.ends
            expected = is_packed(file.path) or entry.offset >= _CERTAIN
            return expected and content_ends(opened, file.path, entry.offset) == entry.ends


def _from(blocks: Iterable[bytes], start: int) -> Iterator[bytes]:
    """Yield the bytes of blocks from one on."""
    for block in blocks:
        yield block[start:]
        start = max(start - len(block), 0)


def has_end(opened: BinaryIO, entry: TailedFile) -> bool:  # guard: no-reading-within-line
    """Return True if a file does not go on within the last line that was read of it."""
    return not entry.ended or read_at(opened, entry.offset - 1, 1) in (b"", b"\n")


def key_of(file: ListedFile) -> tuple[object, ...]:
    """Return what tells a file from others, and from itself before it changed."""
    return file.identity, file.size, file.modified, file.changed
