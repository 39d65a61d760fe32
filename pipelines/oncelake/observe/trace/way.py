"""This is where the way of a line is: one step for each table, and what each step says."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from oncelake.exactly_once.delta_log import ChainCommit


class At(StrEnum):
    """What became of the line at a table.

    Two must not be: `missing`, where the table's stage has read the line and the table lacks a row for it, and
    `doubled`, where it has one too many.
    """

    THERE = "there"
    COUNTED = "counted"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    NOT_YET = "not yet"
    UNKNOWN = "unknown"
    MISSING = "missing"
    DOUBLED = "doubled"


@dataclass(frozen=True)
class TraceStep:
    """What became of the line at one table.

    Attributes:
        table: the table's name, as `gold.error_log`.
        why: in words, why the table has no row for it.
        row: the table's row, as it is now.
        commits: the commit that took the line in; several when it can be any of them, none when the log
            no longer has it.
    """

    table: str
    at: At
    why: str = ""
    row: Mapping[str, Any] | None = None
    commits: tuple[ChainCommit, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the step for JSON."""
        commits = [_commit(each) for each in self.commits]
        return {"table": self.table, "at": self.at.value, "why": self.why, "row": self.row, "commits": commits}


@dataclass(frozen=True)
class Way:
    """The whole way of a line.

    Attributes:
        asked: what was asked for.
        line: the line's text, with bytes that are no UTF-8 escaped; None for a record without a value.
        equal: how many equal lines of the file share the way.
    """

    asked: str
    line: str | None
    equal: int
    steps: tuple[TraceStep, ...]

    @property
    def holds(self) -> bool:
        """Whether every table that must have the line has it, once."""
        return all(step.at not in (At.MISSING, At.DOUBLED) for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Give the way for JSON."""
        steps = [step.to_dict() for step in self.steps]
        return {"asked": self.asked, "line": self.line, "equal_lines": self.equal, "holds": self.holds, "steps": steps}


def written_at(commit: ChainCommit) -> datetime:
    """Give the time at which a commit was made."""
    return datetime.fromtimestamp(commit.timestamp / 1000, UTC)


def _commit(commit: ChainCommit) -> dict[str, Any]:
    metadata, at = commit.metadata, written_at(commit).isoformat(timespec="milliseconds")
    event = metadata.event.value
    return {
        "version": commit.version,
        "event": event,
        "batch_id": metadata.batch_id,
        "query_id": metadata.query_id,
        "time": at,
    }
