"""Lineage of one line: a step per table, as data and as text for the terminal.

Control characters of a log line are escaped, so they cannot act on the terminal.
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
    """State of the line at one table.

    Two states are errors. `missing`: the stage has read the line, but the table has too few rows for it. `doubled`: the
    table has too many rows for it.
    """

    THERE = "there"
    COUNTED = "counted"
    REFUSED = "refused"
    DROPPED = "dropped"
    LEFT_OUT = "left out"
    NOT_YET = "not yet"
    UNKNOWN = "unknown"
    MISSING = "missing"
    DOUBLED = "doubled"


@dataclass(frozen=True)
class TraceStep:
    """State of the line at one table, with its row and commit.

    Attributes:
        table: the table's name, such as `gold.error_log`.
        at: the state.
        why: why the table has no row for the line, or a wrong number of rows.
        row: the current row of the table.
        commits: the commit that wrote the line; several if it can be any of them, none if the Delta log no longer
            has it.
        rows: of a line of several events, the row of each, and in gold those that count them; empty for other lines.
    """

    table: str
    at: At
    why: str = ""
    row: Mapping[str, Any] | None = None
    commits: tuple[ChainCommit, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the step as a dict for JSON; with `rows` only for a line of several events."""
        commits = [_commit(commit) for commit in self.commits]
        fields = {"table": self.table, "at": self.at.value, "why": self.why, "row": self.row, "commits": commits}
        return {**fields, "rows": list(self.rows)} if self.rows else fields


@dataclass(frozen=True)
class Lineage:
    """The lineage of a line through all tables.

    Attributes:
        asked: the position or file and line that the user asked for.
        line: the line's text, with bytes that are not UTF-8 escaped; None for a record without a value.
        equal: how many equal lines of the file share this lineage.
        steps: one step per table, in the order in which the line passes them.
    """

    asked: str
    line: str | None
    equal: int
    steps: tuple[TraceStep, ...]

    @property
    def holds(self) -> bool:
        """Return True if no step is `missing` or `doubled`."""
        return all(step.at not in (At.MISSING, At.DOUBLED) for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the lineage as a dict for JSON."""
        steps = [step.to_dict() for step in self.steps]
        return {"asked": self.asked, "line": self.line, "equal_lines": self.equal, "holds": self.holds, "steps": steps}


def _written(commit: ChainCommit) -> datetime:
    return datetime.fromtimestamp(commit.timestamp / 1000, UTC)


def _commit(commit: ChainCommit) -> dict[str, Any]:
    metadata = commit.metadata
    facts = {"version": commit.version, "event": metadata.event.value, "batch_id": metadata.batch_id}
    return facts | {"query_id": metadata.query_id, "time": _written(commit).isoformat(timespec="milliseconds")}


def lines(way: Lineage) -> Iterator[str]:
    """Yield a lineage as text lines, one block per table."""
    for step in way.steps:
        yield step.table
        for name, value in _facts(way, step):
            yield f"  {name:<12} {value}"


def _facts(way: Lineage, step: TraceStep) -> Iterator[tuple[str, str]]:
    for row in step.rows or (step.row or {},):
        yield from _of_row(way, step, row)
    if step.why:
        yield step.at.value, printable(f"{_MARK.get(step.at, '')}{step.why}", 2_000)
    for commit in step.commits[:1]:
        yield "commit", _commit_words(commit)
    if len(step.commits) > 1:
        yield "", f"or one of the {len(step.commits) - 1} after it: they read the same version"
    if not step.commits and step.row:
        yield "commit", "no longer in the Delta log"


def _of_row(way: Lineage, step: TraceStep, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if step.table.startswith(f"{BRONZE.layer}."):
        yield from _bronze(row, way)
    elif step.at is At.REFUSED:
        for reason in row["reasons"]:
            yield "refused by", f"rule {reason['rule']}: {reason['column']} = {_value(reason['value'])}"
    elif "twin" in row:
        yield "repeats", _twin(row["twin"])
        yield "log_time", _value(row["log_time"])
    else:
        for name, value in row.items():
            if value is not None:
                yield name, _value(value)


def _twin(twin: Mapping[str, Any]) -> str:
    place = twin.get("file")
    if place is None:
        place = f"{twin['topic']}/{twin['partition']}/{twin['offset']}"
    source = f" of source {twin['source']}" if twin.get("source") else ""
    return f"the line of {_time(twin['log_time'])} in {printable(place, 2_000)}{source}"


def _bronze(row: Mapping[str, Any], way: Lineage) -> Iterator[tuple[str, str]]:
    yield "value", "null" if way.line is None else printable(way.line)
    if row.get("file_id") is not None:
        yield "from", f"{printable(row['file'], 2_000)} (byte {row['file_offset']:,} of file {row['file_id']})"
    elif row["topic"] is None:
        size = count_of(row["file_size"], "byte")
        yield "from", f"{printable(row['file'], 2_000)} ({size}, of {_time(row['file_modified'])})"
    else:
        yield "from", f"{row['topic']}/{row['partition']}/{row['offset']} (record of {_time(row['timestamp'])})"
    yield "ingested", _time(row["ingested_at"])
    if way.equal > 1 and row["topic"] is None:
        yield "equal lines", f"{way.equal:,} in this file share this lineage"


def _value(value: object) -> str:
    if isinstance(value, str):
        return printable(_time(value))
    return printable(json.dumps(value, ensure_ascii=False))


def _time(text: str | None) -> str:
    """Return a UTC time without a zero fraction; return any other text unchanged."""
    return (text or "").replace(".000000Z", "Z")


def _commit_words(commit: ChainCommit) -> str:
    version, written = f"version {commit.version}", f"written {_written(commit):{_SECONDS}}"
    if commit.metadata.event is CommitKind.REPLAY:
        return f"{version}: replay of quarantine, {written}"
    batch = f"batch {commit.metadata.batch_id} of query {commit.metadata.query_id}"
    return f"{version}: {batch}, planned {commit.metadata.planned:{_SECONDS}}, {written}"
