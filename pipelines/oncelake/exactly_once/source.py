"""The interface of a source: its identity, backlog and retention, and the log that it keeps in the checkpoint."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from oncelake.common.wording import count_of, listed, shown_name
from oncelake.exactly_once.checkpoint import Checkpoint
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.state import Diagnosis

# Returns the names of a table's columns; none without a table.
# Returns the metadata of the last commit of a stage's first table; None without one.
LastCommit = Callable[[], "CommitMetadata | None"]
Unit = Literal["rows", "records", "files", "bytes"]


@dataclass(frozen=True)
class Backlog:
    """The input that is not read yet: rows of a table, records of a topic, files of a directory, or bytes of
    growing files.

    Attributes:
        count: how many; None if unknown.
        since_ms: when the oldest row of a table's backlog was committed; None if nothing waits or it is unknown.
        behind: how many of them wait for the end of an open transaction; the next run cannot read these.
    """

    count: int | None
    unit: Unit
    since_ms: int | None = None
    behind: int = 0


class Source(ABC):
    """The input of a stage, reduced to what the stage's state and checkpoint need."""

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Return the source's kind and ID; a recreated source has another ID."""

    @abstractmethod
    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return why the stage cannot continue from its position in the source; None if it can.

        Args:
            start: the position where the next read starts.
            end: the end of the batch that is planned but not yet in the table; None if there is no such batch.
            recorded: the identity of the source that the table's last batch was read from.
        """

    @abstractmethod
    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the input that the source holds after a position.

        Args:
            at: the position; None before the first batch.
            changes: if True, count updated rows in addition to added rows.
        """

    def first_position(self) -> str | None:
        """Return the position before the first batch; None if the checkpoint records none."""
        return None

    def exhausted(self, at: str) -> bool:
        """Return True if the source certainly holds nothing after a position; False if only the query can find out."""
        return False

    def without_end(self) -> list[str]:
        """Return the files whose last line has no end yet, so that the source waits for it."""
        return []

    def waiting_bytes(self, at: str | None) -> int | None:
        """Return about how many bytes of text the source holds after a position; None if only the query can find out.

        Args:
            at: the position; None before the first batch.
        """
        return None

    def replays_alone(self, at: str) -> bool:
        """Return True if an `availableNow` query cannot replay a batch that was planned up to a position."""
        return False

    def warnings(self) -> list[str]:
        """Return warnings: problems that do not stop the stage."""
        return []

    def details(self, sizes: "RecordedSizes") -> list[str] | None:
        """Return the warnings with what bronze recorded of files that changed; None if `warnings` says all.

        Args:
            sizes: returns the sizes in bytes that bronze recorded for some files, by path.
        """
        return None

    def ends(self) -> Mapping[str, int]:
        """Return the end of each part of the source by its name, such as `topic/partition`; empty without parts."""
        return {}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Return what is wrong with the log that the source keeps in the checkpoint; None if nothing is."""
        return None

    def trouble_again(self, before: str | None, start: str | None) -> Diagnosis | None:
        """Return why Spark cannot read the last batch again, as it does at each start; None if it can.

        Args:
            before: the position before the last batch.
            start: the position where the next read starts.
        """
        return None

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows between two positions; None if the source does not record it."""
        return None

    def after(self, last: LastCommit) -> "Source":
        """Return the source with access to the last commit of the stage's first table."""
        return self

    def moved(self, start: str | None) -> str | None:
        """Return where a stage continues if the settings choose other parts of the source; None if nothing changes.

        Args:
            start: where the next read would start.
        """
        return None

    def identity_at(self, at: str | None, known: Mapping[str, str]) -> Mapping[str, str]:
        """Return the identity to record with a batch.

        Args:
            at: the end of the batch.
            known: the identity when the run started.

        Raises:
            SourceError: the batch has a part of the source that the stage must not read.
        """
        return known

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Return the first position after the permanently lost input, and a list of that input; None if none is lost.

        Args:
            start: where the next read starts.
            end: the end of the batch that is planned but not yet in the table; None if there is no such batch.
        """
        return None

    def log(self, at: str, first: str | None, ingested: "IngestedFiles") -> Mapping[str, str]:
        """Return the texts of the log that the source keeps in the checkpoint, by path in the checkpoint.

        Args:
            at: the stage's position.
            first: the position before the first batch; None if unknown.
            ingested: returns the files that the stage's table holds lines of.
        """
        return {}


def named(recorded: Mapping[str, str]) -> str:
    """Return a source's name from the identity that a commit recorded; the earliest commits recorded no kind."""
    is_topic = recorded.get("kind", "kafka") == "kafka"
    topics = recorded.get("topic") or ", ".join(json.loads(recorded.get("topics", "{}")))
    return recorded.get("path") or (f"topic {topics or None}" if is_topic else " ".join(recorded.values()))


def replaced(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words that lines were read from another source than the one that is configured now."""
    was, is_now = named(recorded), named(now)
    if was == is_now:
        was, is_now = (f"{was} (kind {identity.get('kind')})" for identity in (recorded, now))
    return f"lines were read from {was}, the source is now {is_now}"


def without_end_words(files: Sequence[str]) -> str:
    """Return in words that the last lines of some files wait for their ends."""
    end = count_of(len(files), "file ends", "files end")
    return f"{end} within a line, which waits for its end: {listed(map(shown_name, files))}"


# Returns the sizes in bytes that bronze recorded for some files, by path.
RecordedSizes = Callable[[Collection[str]], Mapping[str, int]]
# Returns (URI, modification time in milliseconds) of files.
IngestedFiles = Callable[[], Iterable[tuple[str, int]]]
