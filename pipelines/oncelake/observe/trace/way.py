"""This is where the way of a line is: one step for each table, what each says, and all of it in lines for people.

Nothing of a log line can act on the screen.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from oncelake.common.lake import BRONZE
from oncelake.common.wording import count_of, printable
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit

_SECONDS = "%Y-%m-%dT%H:%M:%SZ"
_MARK = {"missing": "MISSING: ", "doubled": "DOUBLED: "}


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


def _written(commit: ChainCommit) -> datetime:
    return datetime.fromtimestamp(commit.timestamp / 1000, UTC)


def _commit(commit: ChainCommit) -> dict[str, Any]:
    metadata = commit.metadata
    told = {"version": commit.version, "event": metadata.event.value, "batch_id": metadata.batch_id}
    return told | {"query_id": metadata.query_id, "time": _written(commit).isoformat(timespec="milliseconds")}


def lines(way: Way) -> Iterator[str]:
    """Give the lines that tell a way, one block for each table."""
    for step in way.steps:
        yield step.table
        for name, value in _facts(way, step):
            yield f"  {name:<12} {value}"


def _facts(way: Way, step: TraceStep) -> Iterator[tuple[str, str]]:
    row = step.row or {}
    if step.table == str(BRONZE):
        yield from _bronze(row, way)
    elif step.at is At.REFUSED:
        for reason in row["reasons"]:
            yield "refused by", f"rule {reason['rule']}: {reason['column']} = {_value(reason['value'])}"
    else:
        for name, value in row.items():
            if value is not None:
                yield name, _value(value)
    if step.why:
        yield step.at.value, printable(f"{_MARK.get(step.at, '')}{step.why}", 2_000)
    for commit in step.commits[:1]:
        yield "commit", _commit_said(commit)
    if len(step.commits) > 1:
        yield "", f"or one of the {len(step.commits) - 1} after it: they took in the same version"
    if not step.commits and step.row:
        yield "commit", "no longer in the table's log"


def _bronze(row: Mapping[str, Any], way: Way) -> Iterator[tuple[str, str]]:
    yield "value", "null" if way.line is None else printable(way.line)
    if row["topic"] is None:
        size = count_of(row["file_size"], "byte")
        yield "from", f"{printable(row['file'], 2_000)} ({size}, of {_time(row['file_modified'])})"
    else:
        yield "from", f"{row['topic']}/{row['partition']}/{row['offset']} (record of {_time(row['timestamp'])})"
    yield "taken in", _time(row["ingested_at"])
    if way.equal > 1 and row["topic"] is None:
        yield "equal lines", f"{way.equal:,} in this file, which share this way"


def _value(value: object) -> str:
    if isinstance(value, str):
        return printable(_time(value))
    return printable(json.dumps(value, ensure_ascii=False))


def _time(text: str | None) -> str:
    """Leave out of a time in UTC the fraction that says nothing; give any other text as it is."""
    return (text or "").replace(".000000Z", "Z")


def _commit_said(commit: ChainCommit) -> str:
    version, written = f"version {commit.version}", f"written {_written(commit):{_SECONDS}}"
    if commit.metadata.event is CommitKind.REPLAY:
        return f"{version}: replay of quarantine, {written}"
    batch = f"batch {commit.metadata.batch_id} of query {commit.metadata.query_id}"
    return f"{version}: {batch}, planned {commit.metadata.planned:{_SECONDS}}, {written}"
