"""This is where a line's way is put into lines for people; nothing of a log line can act on the screen."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.observe.trace.taken import planned_at
from oncelake.observe.trace.way import At, TraceStep, Way, written_at

_LONGEST = 200
_MARK = {At.MISSING: "MISSING: ", At.DOUBLED: "DOUBLED: "}


def lines(way: Way) -> Iterator[str]:
    """Give the lines that tell a way, one block for each table."""
    for step in way.steps:
        yield step.table
        for name, value in _facts(way, step):
            yield f"  {name:<12} {value}"


def printable(text: str, longest: int = _LONGEST) -> str:
    """Show a text on one line: control and format characters escaped, shortened where it is long."""
    short = text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in short)


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
        yield "commit", _commit(commit)
    if len(step.commits) > 1:
        yield "", f"or one of the {len(step.commits) - 1} after it: they took in the same version"
    if not step.commits and step.row:
        yield "commit", "no longer in the table's log"


def _bronze(row: Mapping[str, Any], way: Way) -> Iterator[tuple[str, str]]:
    yield "value", "null" if way.line is None else printable(way.line)
    if row["topic"] is None:
        yield "from", f"{printable(row['file'], 2_000)} ({row['file_size']:,} bytes, of {_time(row['file_modified'])})"
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


def _commit(commit: ChainCommit) -> str:
    times = f"planned {_short(planned_at(commit).isoformat())}, written {_short(written_at(commit).isoformat())}"
    if commit.metadata.event is CommitKind.REPLAY:
        return f"version {commit.version}: replay of quarantine, written {_short(written_at(commit).isoformat())}"
    return f"version {commit.version}: batch {commit.metadata.batch_id} of query {commit.metadata.query_id}, {times}"


def _short(text: str) -> str:
    return text[:19] + "Z"
