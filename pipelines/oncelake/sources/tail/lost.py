"""Find which of the files that are gone a file may continue: by its path, a rotated form of its name, or its time."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from posixpath import dirname, join, split

from oncelake.sources.directory.listing import is_packed
from oncelake.sources.directory.names import BACKUPS, origins, shifts, unnumbered, unpacked
from oncelake.sources.tail.content import Digest
from oncelake.sources.tail.position import TailedFile

# A rotation raises the number of a file to this at most.
_MOST_SHIFTS = 1_000


class LostFiles:
    """The files and copies that are gone, by what a file that continues one of them has in common with it.

    Args:
        files: the files that are gone, by ID.
        copies: the copies that are gone, by numbers below 0.
        places: the names of the files that are there.
        packed: the IDs of those whose compressed forms are there, so that no file with another number continues them.

    Attributes:
        files: the files that are gone, by ID.
        old: those that an earlier version read, which have only a hash of both ends.
    """

    def __init__(
        self,
        files: Mapping[int, TailedFile],
        copies: Mapping[int, TailedFile],
        places: Collection[str],
        packed: Container[int],
    ) -> None:
        self._places = places
        forms = set(map(unpacked, places))
        self.files = files
        self.old = {number: entry for number, entry in files.items() if not entry.digest}
        self._by_key: dict[tuple[object, ...], dict[int, dict[Digest | None, list[int]]]] = {}
        for number, entry in {**files, **copies}.items():
            for key in _keys_of(entry, forms, is_packed=number in packed) if entry.digest else ():
                of_length = self._by_key.setdefault(key, {}).setdefault(entry.offset, {})
                of_length.setdefault(Digest(entry.digest, entry.base), []).append(number)

    def __bool__(self) -> bool:
        """Return False if nothing is gone."""
        return bool(self._by_key or self.old)

    def candidates(
        self, name: str, modified: int, *, is_copy: bool = False
    ) -> Iterator[list[Mapping[int, Mapping[Digest | None, list[int]]]]]:
        """Yield the IDs of files that one with a name and a time may continue, by how much was read, and its digest.

        First those with its path or its time, then those in its directory of whose name rotating may make its name,
        then those with its second, then others: of twins that are gone, each goes on in its own directory.

        Args:
            name: the file's path below the source's directory.
            modified: its time in milliseconds since 1970.
            is_copy: True if it is a known copy of another file.
        """
        yield self._entries(self._near(name, modified))
        directory, base = split(name)
        rotated = list(origins(base))
        yield self._entries(("place", directory, origin) for origin in rotated)  # guard: own-directory-first
        yield self._entries(self._in_second(modified))
        keys: list[tuple[object, ...]] = []
        # otherwise the log beside it is the one it is made of
        away = [origin for origin in rotated if join(directory, origin) not in self._places]
        elsewhere: list[tuple[object, ...]] = [("name", origin) for origin in away]
        if away and len(away) == len(rotated):  # guard: rotated-file-moved-and-packed
            for place in _above(directory):
                elsewhere += [("place", place, unpacked(base)), *(("shift", place, *lower) for lower in _lower(base))]
        is_beside = is_packed(base) and join(directory, unpacked(base)) in self._places
        if not is_beside:
            keys.append(("number", directory, unnumbered(base)))
        if not (is_beside and is_copy):  # guard: raised-archive-beside-log
            keys += [("shift", directory, *lower) for lower in _lower(base)]
        yield self._entries(keys)
        yield self._entries(elsewhere)

    def _entries(self, keys: Iterable[tuple[object, ...]]) -> list[Mapping[int, Mapping[Digest | None, list[int]]]]:
        return [self._by_key[key] for key in keys if key in self._by_key]

    @staticmethod
    def _near(name: str, modified: int) -> list[tuple[object, ...]]:
        directory, base = split(name)
        return [("path", name), ("place", directory, unpacked(base)), ("time", modified)]

    @staticmethod
    def _in_second(modified: int) -> list[tuple[object, ...]]:
        return [("second", modified // 1000)] if modified % 1000 == 0 else []

    def lengths(self, name: str, modified: int) -> set[int]:
        """Return how much was read of the files that one with a name and a time continues most likely."""
        keys = [*self._near(name, modified), *self._in_second(modified)]
        known = {length for entries in self._entries(keys) for length in entries}
        return known | {entry.offset for entry in self.old.values()}


def _above(directory: str) -> Iterator[str]:
    """Yield the directories above a directory, from which a rotation may move a file there."""
    while directory:
        directory = dirname(directory)
        yield directory


def _lower(base: str) -> Iterator[tuple[str, int]]:
    """Yield the rest of a compressed file's name, and each number that rotations may have raised to the one it has."""
    shift = shifts(base) if is_packed(base) else None
    if shift is not None:
        yield from ((shift[0], number) for number in range(min(shift[1], _MOST_SHIFTS)))


def _keys_of(entry: TailedFile, forms: Container[str], *, is_packed: bool) -> Iterator[tuple[object, ...]]:
    directory, base = split(entry.path)
    yield "path", entry.path
    yield "place", directory, unpacked(base)
    yield "name", unpacked(base)  # guard: lost-file-name-and-time
    yield "time", entry.modified
    yield "second", entry.modified // 1000
    yield from (("place", directory, base.removesuffix(mark)) for mark in BACKUPS if base.endswith(mark))
    if is_packed:  # guard: lost-file-by-number
        return
    shift, numbered = None if entry.packed else shifts(base), unnumbered(base)
    if shift is not None:
        yield "shift", directory, *shift
    # otherwise each number may be a log of its own
    is_taken = unpacked(entry.path) in forms
    # guard: raised-number-beside-log
    if numbered is not None and is_taken and any(join(directory, origin) in forms for origin in origins(base)):
        yield "number", directory, numbered
