"""The names that a split gives: `census reread` puts what was added to a file into a file of its own.

Of `a.log`, whose first 8 bytes bronze has read, the bytes 8 to 14 become `a.added-8-14.log`, and the whole file is kept
as `.a.log.whole-8`, which is left out by its name. A process that had the file open goes on writing to the whole. When
the file is split again, both names get a number: `a.added-2-8-20.log`, `.a.log.whole-2-8`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WHOLE = re.compile(r"\.(.+)\.whole-(?:(\d+)-)?(\d+)", re.DOTALL)
_ADDED = re.compile(r"added-(?:(\d+)-)?(\d+)-(\d+)")


@dataclass(frozen=True)
class Split:
    """One split of a file.

    Attributes:
        name: the file's name.
        number: which split of this file it is, from 1.
        was: how many of the file's bytes bronze had read.
    """

    name: str
    number: int
    was: int

    @property
    def whole(self) -> str:
        """The name that the whole file is kept under."""
        return f".{self.name}.whole-{self._mark}{self.was}"

    def added(self, start: int, end: int) -> str:
        """Return the name of the file that gets the bytes from `start` to before `end`."""
        return marked(self.name, f"added-{self._mark}{start}-{end}")

    def end(self, names: Iterable[str]) -> int:
        """Return up to which byte the files of these names hold what was added."""
        spans = {}
        for name in names:
            found = _added_of(name, self.name)
            if found and int(found[1] or 1) == self.number:
                spans[int(found[2])] = int(found[3])
        at = self.was
        while at in spans:
            at = spans[at]
        return at

    @property
    def _mark(self) -> str:
        return f"{self.number}-" if self.number > 1 else ""


def split_of(name: str) -> Split | None:
    """Return the split that a whole file is kept of under this name; None when it is none's."""
    found = _WHOLE.fullmatch(name)
    return Split(found[1], int(found[2] or 1), int(found[3])) if found else None


def next_split(name: str, was: int, names: Iterable[str]) -> Split:
    """Return a split of a file whose names nothing in its directory has.

    Args:
        name: the file's name.
        was: how many of its bytes bronze has read.
        names: what is in its directory.
    """
    taken = [0]
    for each in names:
        split, added = split_of(each), _added_of(each, name)
        taken += [split.number] if split and split.name == name else []
        taken += [int(added[1] or 1)] if added else []
    return Split(name, max(taken) + 1, was)


def marked(name: str, mark: str) -> str:
    """Put a mark before a name's endings, so that a compressed file keeps them."""
    stem, dot, endings = name.partition(".")
    return f"{stem}.{mark}{dot}{endings}"


def _added_of(name: str, origin: str) -> re.Match[str] | None:
    stem, dot, endings = origin.partition(".")
    start, end = f"{stem}.", f"{dot}{endings}"
    if not (name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end)):
        return None
    return _ADDED.fullmatch(name[len(start) : len(name) - len(end)])
