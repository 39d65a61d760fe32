"""This is where a directory of log files says what it is and what it still holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oncelake.common.errors import StateError
from oncelake.common.lake import is_local, place
from oncelake.common.wording import listed
from oncelake.exactly_once.census import Census, CensusInputs, Fault, PlannedFile, said, shown, take
from oncelake.exactly_once.checkpoint import Checkpoint, position
from oncelake.exactly_once.file_source_log import FileSourceLog, list_texts
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.listing import listing, may_read
from oncelake.exactly_once.positions import FilesPosition, listing_number
from oncelake.exactly_once.source import Backlog, IngestedFiles, Source, named
from oncelake.exactly_once.state import Diagnosis, State


@dataclass(frozen=True)
class FilesSource(Source):
    """A directory of log files. A position is the number of the batch in Spark's log of files seen."""

    path: str
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Give the directory."""
        return {"kind": "files", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say when Spark's list of the files seen is not whole."""
        at = position(checkpoint.offsets[1] or "")
        return None if at is None else self._source_log.damage(listing_number(at))

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Give Spark's list of the files seen."""
        return list_texts(listing_number(at), ingested())

    def warnings(self) -> list[str]:
        """Name files that changed after Spark listed them, or that it cannot read; it reads a file once."""
        census = self.glance()
        if census is None:
            return []
        changed = listed((shown(each.path) for each in census.touched), most=1)
        lines = [f"{changed} changed after being read; what was changed is not in bronze"] if changed else []
        return lines + [said(each) for each in census.faults if each.fault not in TOLD_BY_STATE]

    def glance(self, at: str | None = None) -> Census | None:
        """Account for the files of this machine without bronze: Spark's own list stands in for what bronze records.

        Args:
            at: the position up to which bronze holds the files' lines, None for all that Spark has listed.

        Returns:
            None where the files are on another store, or cannot be listed.
        """
        if not is_local(self.path):
            return None
        try:
            found = list(listing(self.path))
        except OSError:
            return None
        entries = self.planned()
        position = listing_number(at) if at else max((each.number for each in entries.values()), default=-1)
        return take(found, CensusInputs(entries, position, position, None, may_start=True, may_read=may_read))

    def planned(self) -> dict[str, PlannedFile]:
        """Return Spark's list of the files that it has seen, by path."""
        return {place_of(uri): PlannedFile(modified, number) for uri, modified, number in self._source_log.entries()}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Say when it is another source than before, or a file is gone that a planned batch still needs."""
        if recorded and _spelled(recorded) != dict(self.identity()):
            was = f"lines were taken from {named(recorded)}"
            return Diagnosis(State.SOURCE_REPLACED, f"{was}, the source is now {self.path}")
        gone = listed(self._gone(start, end), most=1)
        if gone:
            return Diagnosis(State.SOURCE_TRIMMED, f"the planned batch needs {gone}, which is no longer there")
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Give up the files of a planned batch that are gone; the others of it are listed and planned again."""
        lost = self._gone(start, end)
        return (end, lost) if end and lost else None

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the files that wait to be read; unknown where only Spark can list them."""
        census = self.glance(at or FilesPosition.beginning)
        if census is None:
            return Backlog(None, "files")
        planned = sum(1 for each in census.faults if each.fault is Fault.PLAN_CHANGED)
        return Backlog(len(census.waiting) + planned, "files")

    def _gone(self, start: str | None, end: str | None) -> list[str]:
        if end is None:
            return []
        planned = self._source_log.between(listing_number(start) + 1 if start else 0, listing_number(end))
        return [path for path in planned if is_gone(path)]

    @property
    def _source_log(self) -> FileSourceLog:
        return FileSourceLog(self.files, self.checkpoint)


class AutoLoaderSource(FilesSource):
    """A directory of log files that Databricks' Auto Loader follows.

    A position is Auto Loader's own, whose `seqNum` counts the files. Which these are is in a RocksDB in the checkpoint,
    which cannot be read or written here: a lost one cannot be rebuilt.
    """

    def identity(self) -> Mapping[str, str]:
        """Give the directory; its positions are not those of Spark's own file source."""
        return {"kind": "auto_loader", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say when Auto Loader's list of files is not there."""
        if checkpoint.offsets[1] is None or self.files.names(f"{self.checkpoint}/sources/0"):
            return None
        return "sources/0, where Auto Loader keeps which files it has read, is missing"

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Refuse: the list cannot be written.

        Raises:
            StateError: always; says what can be done.
        """
        raise StateError(
            "bronze: the checkpoint was where Auto Loader kept which files it has read, and that cannot be written "
            "again. Put a copy of the checkpoint back, or take in all files anew that are still there: "
            "oncelake rebuild bronze"
        )

    def glance(self, at: str | None = None) -> Census | None:
        """Return None: Auto Loader's list cannot be read."""
        return None

    def _gone(self, start: str | None, end: str | None) -> list[str]:
        return []


# Faults of which a stage's own state speaks, or that the next run resolves.
TOLD_BY_STATE = (Fault.GONE, Fault.PLAN_CHANGED)


def is_gone(uri: str) -> bool:
    """Tell whether a file on this machine is gone; other stores are asked by Spark when it reads."""
    return urlsplit(uri).scheme == "file" and not Path(local_path(uri)).exists()


def _spelled(recorded: Mapping[str, str]) -> dict[str, str]:
    """Spell a recorded source's path as today; `..` was once kept in it."""
    return {**recorded, "path": place(recorded["path"])} if "path" in recorded else dict(recorded)


def place_of(uri: str) -> str:
    """Return what a file's URI means: an absolute path when it is local, else the URL without % escapes."""
    return local_path(uri) if is_local(uri) else unquote(uri)


def local_path(uri: str) -> str:
    """Return the path on this machine that a URI names."""
    return unquote(urlsplit(uri).path)
