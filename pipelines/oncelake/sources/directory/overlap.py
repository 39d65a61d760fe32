"""Find files and directories that two sources of a lake both read: their lines would count twice.

What decides is where links and patterns lead now, not how a path is spelled. A file is the same one under two names if
its device and inode are: so also a hard link in another source is refused.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from oncelake.common.errors import SourceError
from oncelake.sources.directory.listing import directories, listing


class Claims:
    """Which source reads which file: the sources of one run share it, and each new file is claimed before it is read.

    Args:
        paths: the path of each source that reads files of this machine, by its key in the settings.
    """

    def __init__(self, paths: Mapping[str, str] | None = None) -> None:
        self.paths = paths or {}
        self._claimed: dict[tuple[int, int], tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Claim all files that are there, once for all sources.

        Raises:
            SourceError: two sources read the same directory or file.
        """
        if not self._begun and len(self.paths) > 1:
            message = self.overlap()
            if message is not None:
                raise SourceError(message)
            self._begun = True

    def overlap(self) -> str | None:  # guard: no-file-of-two-sources
        """Return which directory or file two sources both read now; None if there is none. Claim all files.

        A source that cannot be listed says so elsewhere.
        """
        read: dict[tuple[int, int], tuple[str, str]] = {}
        for source, path in self.paths.items():
            try:
                places = [
                    *directories(path),
                    *((file.path, file.identity) for file in listing(path) if not file.hidden),
                ]
            except OSError:
                continue
            for place, identity in places:
                other, first = read.setdefault(identity, (source, place)) if identity else (source, place)
                if other != source:
                    return _overlap_message(other, first, source, place)
        with self._lock:
            self._claimed = read
        return None

    def claim(self, source: str, path: str) -> None:
        """Claim a file that a source reads.

        Raises:
            SourceError: another source reads it too.
        """
        if len(self.paths) <= 1:
            return
        try:
            at = os.stat(os.fsencode(path))  # noqa: PTH116 - bytes
        except OSError:
            return
        identity = (at.st_dev, at.st_ino)
        with self._lock:
            other, first = self._claimed.setdefault(identity, (source, path))
            if other == source:
                return
            if not _is_at(first, identity):  # it was moved from one source to another
                self._claimed[identity] = (source, path)
                return
        raise SourceError(_overlap_message(other, first, source, path))


def _is_at(path: str, identity: tuple[int, int]) -> bool:
    try:
        at = os.stat(os.fsencode(path))  # noqa: PTH116 - bytes
    except OSError:
        return False
    return (at.st_dev, at.st_ino) == identity


def _overlap_message(one: str, first: str, other: str, second: str) -> str:
    """Return in words that two sources read the same file or directory, and by which names."""
    where = first if first == second else f"{first} and {second}, which are the same"
    kind = "directory" if Path(second).is_dir() else "file"
    return (
        f"{one} and {other} both read the {kind} {where}: its lines would count twice. Remove the link or one of the "
        "sources, or set paths that have nothing in common"
    )
