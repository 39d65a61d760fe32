"""This is where it is counted how much of its input a stage has not taken in yet."""

import json
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from oncelake.engine.survey import View
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.files_source import FilesSource
from oncelake.exactly_once.finding import State
from oncelake.exactly_once.kafka_source import KafkaSource
from oncelake.exactly_once.ledger import Ledger
from oncelake.exactly_once.table_position import TablePosition

Unit = Literal["rows", "records", "files"]

# How many commits are read at most to count what waits.
LOOK = 200


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


def backlog(view: View) -> Backlog:
    """Count what the stage's source holds after the position that its first table records."""
    note = next(iter(view.standings.values())).note
    at = note.end if note else None
    source = view.source
    if isinstance(source, DeltaSource):
        if view.finding.state is State.TARGET_AWAY:
            return Backlog(None, "rows")
        return _rows_after(source.ledger, at, changed=view.stage.served is not None)
    if isinstance(source, KafkaSource):
        return Backlog(_records_after(source, at), "records")
    assert isinstance(source, FilesSource)
    return Backlog(source.unread(at), "files")


def _rows_after(ledger: Ledger, at: str | None, *, changed: bool) -> Backlog:
    """Count the rows that were committed after a position; where changes are followed, changed ones too."""
    found = TablePosition.parse(at)
    if found is None:
        return Backlog(ledger.standing().rows, "rows", _first_change(ledger, 0))
    if found.in_snapshot:  # the position counts files, not rows
        return Backlog(None, "rows")
    count = _changed_since(ledger, found.version) if changed else _added_since(ledger, found.version)
    return Backlog(count, "rows", _first_change(ledger, found.version) if count != 0 else None)


def _added_since(ledger: Ledger, version: int) -> int | None:
    before = ledger.rows_before(version, look=LOOK)
    return None if before is None else ledger.standing().rows - before


def _changed_since(ledger: Ledger, version: int) -> int | None:
    commits = list(islice(ledger.since(version - 1), LOOK + 1))
    return None if len(commits) > LOOK else sum(commit.rows_changed for commit in commits if commit.changes_data)


def _first_change(ledger: Ledger, version: int) -> int | None:
    """Give when the first rows from a version on were committed, in milliseconds."""
    return next((each.timestamp for each in islice(ledger.since(version - 1), LOOK) if each.changes_data), None)


def _records_after(source: KafkaSource, at: str | None) -> int:
    now = source.describe()
    offsets = json.loads(at).get(source.topic, {}) if at else {}
    return sum(max(0, end - int(offsets.get(part, now.earliest[part]))) for part, end in now.latest.items())
