"""The interface of what a sequence changes: a source, and the names of its parts in bronze and the census."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.chaos.bronze import Held, accepted_losses, below, rows_of
from tests.chaos.directory import Listing, look
from tests.chaos.operations import Place
from tests.chaos.steps import Step


class World(Protocol):
    """A source. Its parts are files, or records of a topic; each has a name."""

    @property
    def sets(self) -> list[str]:
        """Return the settings for it."""

    def apply(self, step: Step) -> bool:
        """Apply a step; return whether there was anything to apply it to."""

    def look(self) -> Listing:
        """Return the source as it is now."""

    def held(self, table: Path) -> Mapping[bytes, Held]:
        """Return what bronze holds of each part."""

    def accepted(self, table: Path) -> list[bytes]:
        """Return the parts that are lost by consent, in the order of the commits."""

    def lost(self, bronze: Mapping[bytes, Held]) -> Iterable[bytes]:
        """Return the parts that were removed before bronze could read them, and that a proof must name."""

    def emptied(self, *, accepted: bool) -> None:
        """Record that bronze was emptied and begins with the current source, and whether that loss was accepted."""
        del accepted

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names a part, or says that it names only some."""


@dataclass
class Directory(World):
    """A directory of files."""

    place: Place

    @property
    def sets(self) -> list[str]:
        """Return settings for small batches, so that a file can be planned long before it is read."""
        return ["source.max_bytes_per_batch=120"]

    def apply(self, step: Step) -> bool:
        """Apply an operation to the directory."""
        return self.place.apply(step)

    def look(self) -> Listing:
        """Read the directory."""
        return look(self.place.root)

    def held(self, table: Path) -> Mapping[bytes, Held]:
        """Return what bronze holds of each file."""
        found: dict[bytes, Held] = {}
        for row in rows_of(table, ["value", "file", "file_size", "file_modified"]):
            held = found.setdefault(below(row["file"], self.place.root), Held())
            held.lines[row["value"]] += 1
            held.stamps.add((row["file_size"], round(row["file_modified"].timestamp() * 1000)))
        return found

    def accepted(self, table: Path) -> list[bytes]:
        """Return the files that are lost by consent."""
        return [below(each, self.place.root) for each in accepted_losses(table)]

    def lost(self, bronze: Mapping[bytes, Held]) -> Iterable[bytes]:
        """Return none: nobody knows of a file that came and went between two runs."""
        del bronze
        return ()

    def names(self, said: str, part: bytes) -> bool:
        """Look for the longest part of a file's name that is the same in every notation."""
        word = max(re.findall(rb"[\w.]+", part.rsplit(b"/", 1)[-1]), key=len, default=b"")
        return word.decode("ascii", "ignore") in said or re.search(r"and [\d,]+ more", said) is not None
