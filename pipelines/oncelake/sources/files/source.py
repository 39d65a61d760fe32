"""A directory of log files as a source, read by Spark's file source or by Auto Loader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oncelake.common.errors import REFUSED, OncelakeError, SourceError, StateError
from oncelake.common.lake import is_local, place, place_of
from oncelake.common.wording import listed, shown_path
from oncelake.exactly_once.checkpoint import Checkpoint, position
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.source import Backlog, IngestedFiles, RecordedSizes, Source, replaced
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.directory.census import Census, CensusInputs, Fault, PlannedFile, fault_message, take
from oncelake.sources.directory.content import COMPLETE, Content, Reader, content_of, named
from oncelake.sources.directory.listing import Problem, is_gone, listing, loop_above, may_read, text_bytes
from oncelake.sources.files.changes import REPORTED_BY_STATE, changes
from oncelake.sources.files.position import FilesPosition, listing_number
from oncelake.sources.files.spark_list import FileSourceLog, list_texts

# The answer to a question of Java that fails begins with this.
FAILED = "!"


@dataclass(frozen=True)
class FilesSource(Source):
    """A directory of log files. A position is a number in Spark's file list (see `FileSourceLog`)."""

    path: str
    files: Files
    checkpoint: str
    reader: Callable[[str], Reader] = lambda _: COMPLETE
    stage: str = "bronze"

    def identity(self) -> Mapping[str, str]:
        """Return the directory."""
        return {"kind": "files", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Return which part of Spark's file list is missing or incomplete; None if nothing is."""
        at = FilesPosition.parse(position(checkpoint.offsets[1] or ""))
        return None if at is None else self._source_log.damage(at.entry)

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Return Spark's file list, rebuilt from the files that bronze holds lines of."""
        return list_texts(listing_number(at), ingested())

    def warnings(self) -> list[str]:  # guard: file-changed-after-reading
        """Return warnings about files that Spark cannot read, or that changed later; Spark reads a file only once."""
        census = self.glance()
        if census is None:
            return []
        changed = listed((shown_path(file.path) for file in census.touched), most=1)
        lines = [f"{changed} changed after being read; the changes are not in bronze"] if changed else []
        return lines + [
            fault_message(fault, self.stage) for fault in census.faults if fault.fault not in REPORTED_BY_STATE
        ]

    def details(self, sizes: RecordedSizes) -> list[str] | None:
        """Return the warnings with the old sizes of changed files; None if the files are not on this machine."""
        census = self.glance()
        if census is None:
            return None
        changed = [file.path for file in census.touched]
        return changes(census, sizes(changed) if changed else {}, self.stage)

    def exhausted(self, at: str) -> bool:
        """Return True if no file waits, and none is of a kind that a query of Spark would report."""
        census = self.glance(at)
        return census is not None and bool(census.read or census.touched) and not census.waiting and not census.faults

    def waiting_bytes(self, at: str | None) -> int | None:
        """Return about how many bytes of text the files that wait hold."""
        census = self.glance(at or FilesPosition.beginning)
        if census is None:
            return None
        return sum(text_bytes(file.path, file.size) for file in census.waiting)

    def glance(self, at: str | None = None) -> Census | None:
        """Classify the files on this machine without reading bronze; Spark's file list replaces what bronze records.

        Args:
            at: the position up to which bronze holds the files' lines; None for all that Spark has listed.

        Returns:
            None if the files are on another store or cannot be listed, or if the position is of another kind of source.
        """
        if not is_local(self.path) or (at and FilesPosition.parse(at) is None):
            return None
        try:
            files = list(listing(self.path))
        except OSError:
            return None
        entries = self.planned()
        position = listing_number(at) if at else max((entry.number for entry in entries.values()), default=-1)
        inputs = CensusInputs(
            entries, position, position, None, may_start=True, may_read=may_read, content=self.content
        )
        return take(files, inputs)

    def content(self, path: str) -> Content | None:
        """Return what a file holds, on another store as far as its name says; None if that is not known."""
        return content_of(path, self.reader(path)) if is_local(path) else named(path, self.reader(path))

    def planned(self) -> dict[str, PlannedFile]:
        """Return the files that Spark has planned into batches, by path, as its log in the checkpoint lists them."""
        return {place_of(uri): PlannedFile(modified, number) for uri, modified, number in self._source_log.entries()}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis if the source was replaced, or a file that a planned batch still needs is missing."""
        if recorded and _spelled(recorded) != dict(self.identity()):  # guard: directory-is-the-same
            return Diagnosis(State.SOURCE_REPLACED, replaced(recorded, self.identity()))
        gone = listed(self._gone(start, end), most=1)
        if gone:
            # guard: planned-files-exist
            return Diagnosis(State.SOURCE_TRIMMED, f"the planned batch needs {gone}, which no longer exists")
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Skip the missing files of a planned batch; Spark lists and plans its other files again."""
        lost = self._gone(start, end)
        return (end, lost) if end and lost else None

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the files that wait to be read; unknown if only Spark can list them."""
        census = self.glance(at or FilesPosition.beginning)
        if census is None:
            return Backlog(None, "files")
        planned = sum(1 for fault in census.faults if fault.fault is Fault.PLAN_CHANGED)
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
    """A directory of log files that Databricks' Auto Loader reads.

    A position is Auto Loader's own; its `seqNum` counts the files. Auto Loader keeps its file list in a RocksDB in the
    checkpoint. oncelake cannot read or write it, so a lost one cannot be rebuilt.
    """

    def identity(self) -> Mapping[str, str]:
        """Return the directory; the kind differs, as Spark's own file source has other positions."""
        return {"kind": "auto_loader", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:  # guard: auto-loader-list-exists
        """Return a message if Auto Loader's file list is missing."""
        if checkpoint.offsets[1] is None or self.files.names(f"{self.checkpoint}/sources/0"):
            return None
        return "sources/0, Auto Loader's list of the files it has read, is missing"

    def log(self, at: str, first: str | None, ingested: IngestedFiles) -> Mapping[str, str]:
        """Raise StateError: oncelake cannot write Auto Loader's file list.

        Raises:
            StateError: always; the message says what to do.
        """
        raise StateError(  # guard: auto-loader-list-not-invented
            f"{self.stage}: only the checkpoint held Auto Loader's list of the files it has read, and oncelake "
            "cannot write that list. Fix: restore a copy of the checkpoint, or read all existing files again: "
            f"oncelake rebuild {self.stage}"
        )

    def content(self, path: str) -> Content | None:
        """Return None: Auto Loader reads every file that it finds, whatever it holds."""
        return None

    def glance(self, at: str | None = None) -> Census | None:
        """Return None: oncelake cannot read Auto Loader's file list."""
        return None

    def _gone(self, start: str | None, end: str | None) -> list[str]:
        return []


def _spelled(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return a recorded source with its path in today's form; earlier versions kept `..` in it."""
    return {**recorded, "path": place(recorded["path"])} if "path" in recorded else dict(recorded)


def refuse_loops(links: Sequence[str]) -> None:
    """Reject links to directories above them.

    Args:
        links: their paths.

    Raises:
        SourceError: there is one.
    """
    if links:
        shown = [shown_path(link) for link in links]
        raise SourceError(
            f"{listed(shown, most=1)}: {Problem.LOOP}; remove the link, or run: oncelake census exclude {shown[0]}"
        )


class FileFilter:
    """Answers ReadableFiles.java whether Spark may list a file.

    Args:
        content: returns what a file holds; None if that is not known.
        claim: claims a file for the source; raises SourceError if another source reads it.
        root: the directory of the source.
    """

    def __init__(self, content: Callable[[str], Content | None], claim: Callable[[str], None], root: str = "/") -> None:
        self._content = content
        self._claim = claim
        self._root = root

    def apply(self, path: str) -> str:
        """Return `1` if a file is read, an empty text if it is set aside; called by Java."""
        place = path.removeprefix("file:")
        try:
            # guard: link-loop-not-listed
            if _has_a_name_twice(place) and (link := loop_above(place, self._root)) is not None:
                refuse_loops([link])
            content = self._content(place)
            if content is not None and content.aside is not None:
                return ""  # guard: binary-file-set-aside
            self._claim(place)  # guard: listed-file-of-one-source
        except OncelakeError as error:
            return f"{FAILED}{REFUSED}{error}"
        except Exception as error:  # a traceback in Java's message would hide it
            return f"{FAILED}{type(error).__name__}: {error}"
        return "1"

    class Java:
        """The Java interface of this object, for py4j."""

        implements = ("java.util.function.Function",)


def _has_a_name_twice(path: str) -> bool:
    """Return True if a path on this machine may lead through a loop: Spark lists the files at its deepest end first."""
    names = path.split("/")
    return is_local(path) and len({*names}) < len(names)
