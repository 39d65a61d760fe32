"""A directory of growing files as a source, and the planner that Spark asks what to read next."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from oncelake.bronze.settings import Rotation
from oncelake.common.errors import REFUSED, OncelakeError, SourceError
from oncelake.common.wording import listed, shown_path
from oncelake.exactly_once.source import Backlog, LastCommit, Source, replaced
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.directory.census import Census, Fault, FaultKey, Faulty
from oncelake.sources.directory.listing import ListedFile
from oncelake.sources.tail.content import NOT_COMPLETE
from oncelake.sources.tail.plan import TailFiles, half_read, range_words
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.survey import CUT_AND_MASKED, HAD_NO_END, Ingested, Survey, not_at_hand

# The answer to a request that fails begins with this; TailSource.java has the same mark.
_FAILED = "!"


@dataclass(frozen=True)
class TailSource(Source):
    """A directory of growing files. A position holds how many bytes of each file were read."""

    path: str
    rotation: Rotation | None = None
    last: LastCommit = lambda: None
    ingested: Ingested = not_at_hand

    @cached_property
    def files(self) -> TailFiles:
        """Return the files of the directory."""
        return TailFiles(self.path, rotation=self.rotation, ingested=self.ingested)

    def after(self, last: LastCommit) -> "TailSource":
        """Return the source with access to bronze's last commit."""
        return replace(self, last=last)

    def identity(self) -> Mapping[str, str]:
        """Return the directory."""
        return {"kind": "tail", "path": self.path}

    def survey(self, at: str | None) -> Survey:
        """Compare the files that are there with a position.

        Raises:
            SourceError: the directory cannot be listed.
        """
        return self.files.survey(_parsed(at))

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis if the source was replaced, or bytes that a planned batch still needs are gone."""
        if recorded and dict(recorded) != dict(self.identity()):
            return Diagnosis(State.SOURCE_REPLACED, replaced(recorded, self.identity()))
        try:
            lost = self.files.lost(_parsed(start), _parsed(end)) if end else []
        except SourceError as error:
            return Diagnosis(State.SOURCE_TRIMMED, str(error))
        gone = listed(map(range_words, lost), most=1)
        return Diagnosis(State.SOURCE_TRIMMED, f"the planned batch needs {gone}, which are gone") if lost else None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Skip the bytes of a planned batch that are gone; what the files hold by now is planned again.

        The position stays where the batch began: a part of these bytes may be in the file, if it was cut, or in a copy.
        """
        if end is None:
            return None
        before, after = _parsed(start), _parsed(end)
        lost = self.files.lost(before, after)
        if not lost:
            return None
        at = replace(before, following=after.following)
        return at.to_json(), [range_words(part) for part in lost]

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the bytes that wait to be read; unknown without the directory."""
        try:
            return Backlog(sum(self.waiting(at).values()), "bytes")
        except SourceError:
            return Backlog(None, "bytes")

    def waiting(self, at: str | None) -> dict[str, int]:
        """Return how many bytes of each file's content wait to be read, by path.

        Raises:
            SourceError: the directory cannot be listed.
        """
        return self.files.waiting(_parsed(at))

    def without_end(self) -> list[str]:
        """Return the files whose last line has no end yet; none without the directory."""
        metadata = self.last()
        at = metadata.end if metadata is not None else None
        try:
            return [file.path for file in half_read(self.survey(at), _parsed(at))]
        except SourceError:
            return []

    def census(
        self, at: str | None, accepted: frozenset[FaultKey] = frozenset(), survey: Survey | None = None
    ) -> Census:
        """Classify the files by a position.

        Args:
            at: the position.
            accepted: the faults (see `Faulty.key`) that were accepted.
            survey: the files compared with the position; None to compare them now.

        Raises:
            SourceError: the directory cannot be listed.
        """
        survey, position = survey or self.survey(at), _parsed(at)
        waiting, stopped = self.files.waiting(position, survey), survey.stopped
        read = [file for file in (*survey.known.values(), *survey.new) if file.identity not in stopped]
        census = Census(
            read=[file.path for file in read if file.path not in waiting],
            copies=[file.path for file in (*survey.spent.values(), *(copy for copy, _ in survey.copies))],
            waiting=[file for file in (*survey.known.values(), *survey.new) if file.path in waiting],
            hidden=[file for file in survey.others if file.hidden],
            empty=[file for file in survey.others if not file.hidden and file.problem is None],
            gone=sorted(self.files.place_of(position.files[number]) for number in survey.away),
        )
        for file, reason in survey.faults(self.files.now()):
            fault = Faulty(file.path, _fault_of(survey, file, reason), file.size, file.modified, why=reason)
            (census.accepted if fault.key in accepted else census.faults).append(fault)
        return census

    def waiting_bytes(self, at: str | None) -> int | None:
        """Return how many bytes of text wait."""
        return self.backlog(at).count

    def exhausted(self, at: str) -> bool:
        """Return True if nothing that waits is a whole line, and there is nothing to warn of."""
        try:
            position = _parsed(at)
            survey = self.files.survey(position)
            is_open = [*survey.faults(self.files.now()), *(start for start in survey.starts.values() if start < 0)]
            return not is_open and self.files.plan(position, 1) == position
        except SourceError:
            return False

    def warnings(self) -> list[str]:
        """Return warnings about what is not read."""
        metadata = self.last()
        try:
            survey = self.survey(metadata.end if metadata is not None else None)
        except SourceError as error:
            return [str(error)]
        faults = [(file, reason, _fault_of(survey, file, reason)) for file, reason in survey.faults(self.files.now())]
        return [
            f"{shown_path(file.path)}: {reason}; it is not read{' on' if fault is Fault.NOT_READ_ON else ''}"
            for file, reason, fault in faults
        ]


def _fault_of(survey: Survey, file: ListedFile, reason: str) -> Fault:
    if file.problem is not None:
        return Fault[file.problem.name]
    if any(file is other for other, _ in survey.unreadable):
        return Fault.RIGHTS
    if any(file is other for other, _ in survey.undecided):
        return Fault.UNDECIDED
    if reason in (HAD_NO_END, CUT_AND_MASKED) or any(file is other for other in survey.archived.values()):
        return Fault.NOT_READ_ON
    return Fault.NOT_WHOLE if reason == NOT_COMPLETE else Fault.NO_TEXT


def _parsed(at: str | None) -> TailPosition:
    return TailPosition.parse(at) or TailPosition()


class Planner:
    """Answers the requests of TailSource.java, which lists them.

    Args:
        files: the files of the directory.
        most: how many bytes a batch reads at most.
        cores: how many tasks run at the same time.
        claim: claims a file before a batch reads its first byte; raises SourceError if another source reads it.
    """

    def __init__(
        self,
        files: TailFiles,
        most: int,
        cores: int = os.cpu_count() or 1,
        claim: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._claim = claim
        self._files = files
        self._most = most
        self._cores = cores
        self._until: dict[tuple[int, int], int] | None = None
        self._end = TailPosition()

    def apply(self, request: str) -> str:
        """Answer a request; called by Java."""
        try:
            return self._answer(*request.split("\t", 1))
        except OncelakeError as error:
            return f"{_FAILED}{REFUSED}{error}"
        except Exception as error:  # a traceback in Java's message would hide it
            return f"{_FAILED}{type(error).__name__}: {error}"

    def _answer(self, verb: str, arguments: str = "") -> str:
        if verb == "initial":
            return TailPosition().to_json()
        if verb == "stop":
            self._until = self._files.sizes()
            return ""
        if verb == "latest":
            return self._latest(arguments)
        if verb == "slices":
            start, self._end = map(_parsed, arguments.split("\t"))
            return "\n".join(self._files.slices(start, self._end, self._cores))
        return self._files.find(arguments, self._end)

    def _latest(self, start: str) -> str:
        at = _parsed(start)
        end = self._files.plan(at, self._most, self._until)
        if end == at and self._until is not None and (waits := self._files.quiet_in(at, self._until)):
            time.sleep(waits)  # the query ends, and then the last records are whole
            end = self._files.plan(at, self._most, self._until)
        if end == at:
            return start if at.read else ""  # guard: empty-directory-no-batch
        for number in sorted(end.files.keys() - at.files.keys()):
            self._claim(self._files.place_of(end.files[number]))  # guard: growing-file-of-one-source
        return end.to_json()

    class Java:
        """The Java interface of this object, for py4j."""

        implements = ("java.util.function.Function",)
