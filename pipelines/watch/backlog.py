"""This is where it is counted how much of its input a stage has not taken in yet."""

import json
from dataclasses import dataclass
from typing import Literal

from pipelines.exactly_once.delta_source import DeltaSource
from pipelines.exactly_once.files_source import FilesSource
from pipelines.exactly_once.kafka_source import KafkaSource
from pipelines.exactly_once.ledger import Ledger
from pipelines.survey import View

# How many maintenance commits to look past for one of the chain, which carries the count.
LOOK_BACK = 50


@dataclass(frozen=True)
class Backlog:
    """What waits: rows of a table, records of a topic, or files of a directory; None where it is unknown."""

    count: int | None
    unit: Literal["rows", "records", "files"]


def backlog(view: View) -> Backlog:
    """Count what the stage's source holds after the position that its first table records."""
    note = next(iter(view.standings.values())).note
    at = note.end if note else None
    source = view.source
    if isinstance(source, DeltaSource):
        return Backlog(_rows_after(source.ledger, at), "rows")
    if isinstance(source, KafkaSource):
        return Backlog(_records_after(source, at), "records")
    assert isinstance(source, FilesSource)
    return Backlog(source.unread(at), "files")


def _rows_after(ledger: Ledger, at: str | None) -> int | None:
    total = ledger.standing().rows
    if at is None:
        return total
    offset = json.loads(at)
    if offset.get("isStartingVersion"):  # within a snapshot: the position counts files, not rows
        return None
    newest = int(offset["reservoirVersion"]) - 1
    for version in range(newest, max(newest - LOOK_BACK, -1), -1):
        commit = ledger.commit(version)
        if commit is None:
            return None
        if commit.note is not None:
            return total - commit.note.rows - commit.rows_added
    return total if newest < LOOK_BACK else None


def _records_after(source: KafkaSource, at: str | None) -> int:
    now = source.describe()
    offsets = json.loads(at).get(source.topic, {}) if at else {}
    return sum(max(0, end - int(offsets.get(part, now.earliest[part]))) for part, end in now.latest.items())
