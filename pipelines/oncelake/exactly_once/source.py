"""This is where it is said what every source answers: what it is, what it still holds, what it logs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from oncelake.exactly_once.census import Census
from oncelake.exactly_once.checkpoint import Checkpoint
from oncelake.exactly_once.state import Diagnosis

Unit = Literal["rows", "records", "files"]


@dataclass(frozen=True)
class Backlog:
    """What waits: rows of a table, records of a topic, or files of a directory; None where it is unknown.

    Attributes:
        count: how much.
        since_ms: when the oldest of it was committed, for rows of a table; None when nothing waits or it is unknown.
    """

    count: int | None
    unit: Unit
    since_ms: int | None = None


class Source(ABC):
    """What a stage reads, as far as its state and its checkpoint need it."""

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Give the source's kind and id; a source made anew has another."""

    @abstractmethod
    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Say what keeps the source from going on.

        Args:
            start: the position that the next read starts from.
            end: where a batch ends that was planned and is not in the table, None without such a batch.
            recorded: the identity that the table's last batch was read from.
        """

    @abstractmethod
    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count what the source holds after a position.

        Args:
            at: the position, None before the first batch.
            changes: whether changed rows count as well as added ones.
        """

    def first_position(self) -> str | None:
        """Give the position before the first batch, where the checkpoint records one."""
        return None

    def exhausted(self, at: str) -> bool:
        """Tell whether there is surely nothing after a position; False where only the query can tell."""
        return False

    def replays_alone(self, at: str) -> bool:
        """Return whether a batch that was planned up to a position cannot be replayed by a query for all input."""
        return False

    def warnings(self) -> list[str]:
        """Say what keeps nothing from going on and is still worth a look."""
        return []

    def glance(self) -> Census | None:
        """Account for the files of a source on this machine; None for a source of another kind or place."""
        return None

    def ends(self) -> Mapping[str, int]:
        """Return where each numbered part of the source ends; none for a source without such parts."""
        return {}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say what is wrong with the log that the source itself keeps in the checkpoint."""
        return None

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows from one position to another; None where it is not written down."""
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Give the first position after what is gone for good, and what that is; None when it can be had back.

        Args:
            start: where the next read starts.
            end: where a planned batch ends, None without one.
        """
        return None

    def log(self, at: str, first: str | None, ingested: "IngestedFiles") -> Mapping[str, str]:
        """Give the texts of that log, by path in the checkpoint, for a stage that stands at a position.

        Args:
            at: the position.
            first: the position before the first batch, None where it is not known.
            ingested: gives the files that the stage's table holds lines of.
        """
        return {}


def named(recorded: Mapping[str, str]) -> str:
    """Name a source by the identity that a commit recorded of it; the first ones recorded no kind."""
    is_topic = recorded.get("kind", "kafka") == "kafka"
    return recorded.get("path") or (f"topic {recorded.get('topic')}" if is_topic else " ".join(recorded.values()))


# Gives (URI, modification time in milliseconds) of files.
IngestedFiles = Callable[[], Iterable[tuple[str, int]]]
