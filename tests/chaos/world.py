"""The interface of what a sequence changes: a source, and the names of its parts in bronze and the census."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.chaos.bronze import BronzeFiles, accepted_losses, below, rows_of
from tests.chaos.directory import Listing, look
from tests.chaos.operations import Place
from tests.chaos.steps import Step
from tests.support.house import House

# In a made file, about every third line is the first one of a record.
_RECORDS = r"""
pattern: '^(?<time>\S+) (?<level>\S+) (?<message>.*)$'
time: iso8601
record: {starts: '^L\d+\.[036]', max_lines: 4}
"""
_STARTS = re.compile(rb"L\d+\.[036]")


class World(Protocol):
    """A source. Its parts are files, records of a topic, or lines of growing files; each has a name.

    Attributes:
        stage: the stage in whose batches the steps of a run happen.
        layers: the layers of the chain that are run.
    """

    stage: str = "bronze"
    layers: tuple[str, ...] = ("bronze",)

    @property
    def sets(self) -> list[str]:
        """Return the settings for it."""

    def house(self, directory: Path) -> House:
        """Return a lake that reads it."""
        return House(directory, sets=self.sets)

    def apply(self, step: Step) -> bool:
        """Apply a step; return whether there was anything to apply it to."""

    def look(self) -> Listing:
        """Return the source as it is now."""

    def refused(self) -> Collection[int]:
        """Return the inodes of the files that the product may not open."""
        return ()

    def held(self, table: Path) -> Mapping[bytes, BronzeFiles]:
        """Return what bronze holds of each part."""

    def accepted(self, table: Path) -> list[bytes]:
        """Return the parts that are lost by consent, in the order of the commits."""

    def lost(self, bronze: Mapping[bytes, BronzeFiles]) -> Iterable[bytes]:
        """Return the parts that were removed before bronze could read them, and that a proof must name."""

    def owed(self, seen: Sequence[Listing]) -> Iterable[bytes]:
        """Return the parts that a run must read if it ends well.

        Args:
            seen: the source when the run started, and after each change during the run.
        """
        return seen[0].files

    def planned(self, checkpoint: Path) -> None:
        """Record what the batch that has just been planned is to read."""
        del checkpoint

    def forgotten(self) -> None:
        """Record that the last plan, or the whole checkpoint, is gone."""
        return

    def wrong(self, table: Path, *, whole: bool) -> Iterable[str]:
        """Return what is wrong with the rows of the tables.

        Args:
            table: the directory of bronze's table.
            whole: whether the last run ended well, so that each layer has read what the one before it holds.
        """
        del table, whole
        return ()

    def wrong_if_proven(self, table: Path) -> Iterable[str]:
        """Return what is wrong with the tables after bronze, if a proof holds.

        Args:
            table: the directory of bronze's table.
        """
        del table
        return ()

    def emptied(self, *, accepted: bool) -> None:
        """Record that bronze was emptied and begins with the current source, and whether that loss was accepted."""
        del accepted

    def may_run(self, table: Path) -> bool:
        """Return whether the settings fit the tables, so that a run may start."""
        del table
        return True

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names a part, or says that it names only some."""

    def remove(self) -> None:
        """Remove what is not in the directory of the sequence."""
        return


@dataclass
class Directory(World):
    """A directory of files.

    Attributes:
        records: whether the log format puts several lines together.
    """

    place: Place
    records: bool = False

    @property
    def sets(self) -> list[str]:
        """Return settings for small batches, so that a file can be planned long before it is read.

        A file's lines are known by its name, so a renamed file has to be read again.
        """
        small = ["source.max_bytes_per_batch=120", "source.renamed=read"]
        return [*small, f"source.format={record_format(self.place, _RECORDS)}"] if self.records else small

    def apply(self, step: Step) -> bool:
        """Apply an operation to the directory."""
        return self.place.apply(step)

    def look(self) -> Listing:
        """Read the directory."""
        return look(self.place.root)

    def held(self, table: Path) -> Mapping[bytes, BronzeFiles]:
        """Return what bronze holds of each file."""
        found: dict[bytes, BronzeFiles] = {}
        for row in rows_of(table, ["value", "file", "file_size", "file_modified"]):
            held = found.setdefault(below(row["file"], self.place.root), BronzeFiles())
            held.lines.update(row["value"].split(b"\n"))
            held.stamps.add((row["file_size"], round(row["file_modified"].timestamp() * 1000)))
        return found

    def accepted(self, table: Path) -> list[bytes]:
        """Return the files that are lost by consent."""
        return [below(loss, self.place.root) for loss in accepted_losses(table)]

    def lost(self, bronze: Mapping[bytes, BronzeFiles]) -> Iterable[bytes]:
        """Return none: nobody knows of a file that came and went between two runs."""
        del bronze
        return ()

    def names(self, said: str, part: bytes) -> bool:
        """Look for the longest part of a file's name that is the same in every notation."""
        word = max(re.findall(rb"[\w.]+", part.rsplit(b"/", 1)[-1]), key=len, default=b"")
        return word.decode("ascii", "ignore") in said or re.search(r"and [\d,]+ more", said) is not None

    def wrong(self, table: Path, *, whole: bool) -> Iterable[str]:
        """Yield the rows that hold the first line of a second record."""
        del whole
        for row in rows_of(table, ["value"]) if self.records else ():
            if any(map(_STARTS.match, row["value"].split(b"\n")[1:])):
                yield f"two records are in one row: {row['value']!r}"


def record_format(place: Place, text: str) -> str:
    """Write a log format beside a source, and return its path."""
    path = Path(os.fsdecode(place.aside)).with_name("format.yaml")
    path.write_text(text, encoding="utf-8")
    return str(path)
