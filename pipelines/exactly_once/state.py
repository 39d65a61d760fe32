"""This is where it is decided whether a stage may start: from its checkpoint, its tables and its source.

A stage that starts from the wrong state loses rows or counts them twice, and nothing says so. The table
is the truth here: what it records is compared with the checkpoint, and the position that the stage would
go on from with what the source still holds. Nothing is changed. The states are those of DESIGN's table
"The states that `doctor` names"; see docs/guarantee.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pipelines.exactly_once.checkpoint import Checkpoint, position, same_position
from pipelines.exactly_once.commit import Event, Note
from pipelines.exactly_once.ledger import Standing


class State(StrEnum):
    """The names of the states; the first two may start."""

    FRESH = "fresh"
    ALIGNED = "aligned"
    CHECKPOINT_LOST = "checkpoint lost"
    CHECKPOINT_BEHIND = "checkpoint behind"
    CHECKPOINT_AHEAD = "checkpoint ahead"
    FOREIGN = "foreign"
    SOURCE_REPLACED = "source replaced"
    SOURCE_TRIMMED = "source trimmed"


# What would have happened without the check.
CONSEQUENCE: Mapping[State, str] = {
    State.CHECKPOINT_LOST: "every line would be read again and counted twice",
    State.CHECKPOINT_BEHIND: "new batches would be taken for old ones and skipped",
    State.CHECKPOINT_AHEAD: "the rows that the table lacks would never come back",
    State.FOREIGN: "two queries' batches would be mixed, and lines counted twice",
    State.SOURCE_REPLACED: "positions of one source would be applied to another",
    State.SOURCE_TRIMMED: "the lines in that range would be missing and nothing would say so",
}


@dataclass(frozen=True)
class Finding:
    """A stage's state, and what was seen.

    Attributes:
        state: the state's name.
        seen: what was seen, in one clause.
        batch_id: the last batch in the stage's first table, None when there is none.
    """

    state: State
    seen: str
    batch_id: int | None = None

    @property
    def may_start(self) -> bool:
        """Whether the stage would lose and repeat nothing."""
        return self.state in (State.FRESH, State.ALIGNED)


class Source(ABC):
    """What a stage reads, as far as its state and its checkpoint need it."""

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Give the source's kind and id; a source made anew has another."""

    @abstractmethod
    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:
        """Say what keeps the source from going on.

        Args:
            start: the position that the next read starts from.
            end: where a batch ends that was planned and is not in the table, None without such a batch.
            recorded: the identity that the table's last batch was read from.
        """

    def first_position(self) -> str | None:
        """Give the position before the first batch, where the checkpoint records one."""
        return None

    def exhausted(self, at: str) -> bool:
        """Tell whether there is surely nothing after a position; False where only the query can tell."""
        del at
        return False

    def warnings(self) -> list[str]:
        """Say what keeps nothing from going on and is still worth a look."""
        return []

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say what is wrong with the log that the source itself keeps in the checkpoint."""
        del checkpoint
        return None

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows from one position to another; None where it is not written down."""
        del start, end
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Give the first position after what is gone for good, and what that is; None when it can be had back.

        Args:
            start: where the next read starts.
            end: where a planned batch ends, None without one.
        """
        del start, end
        return None

    def log(self, at: str, first: str | None, seen: "Seen") -> Mapping[str, str]:
        """Give the texts of that log, by path in the checkpoint, for a stage that stands at a position.

        Args:
            at: the position.
            first: the position before the first batch, None where it is not known.
            seen: gives the files that the stage's table holds lines of.
        """
        del at, first, seen
        return {}


# Gives (URI, modification time in milliseconds) of files.
Seen = Callable[[], Iterable[tuple[str, int]]]


def diagnose(checkpoint: Checkpoint, standings: Mapping[str, Standing], source: Source) -> Finding:
    """Name the state of a stage.

    Args:
        checkpoint: what the stage's checkpoint directory says.
        standings: where each table of the stage stands, the one that every batch writes to first.
        source: what the stage reads.
    """
    first, *others = standings.items()
    mixed = torn(first[1])
    if mixed is not None:
        return Finding(State.FOREIGN, mixed, first[1].note.batch_id if first[1].note else None)
    checkpoint = replace(checkpoint, damage=checkpoint.damage or source.damage(checkpoint))
    finding = _compare(checkpoint, first[1])
    if finding.may_start:
        finding = _others(first[1], dict(others)) or _half(checkpoint, first[1], dict(others), source) or finding
    if finding.state is not State.ALIGNED:
        return finding
    start, end = next_read(checkpoint, first[1].note.batch_id if first[1].note else -1)
    recorded = first[1].note.source if first[1].note else {}
    return source.trouble(start, end, recorded) or finding


def torn(standing: Standing) -> str | None:
    """Say when a table's last two batches do not follow each other: two instances wrote it at the same time."""
    last, before = standing.last, standing.previous
    if last is None or last.note is None or before is None or before.note is None:
        return None
    one, other = before.note, last.note
    carried = other.event is Event.RECOVERY and other.batch_id == one.batch_id and same_position(other.end, one.end)
    follows = other.batch_id == one.batch_id + 1 and same_position(other.before, one.end)
    if carried or (follows and other.query_id == one.query_id):
        return None
    return (
        f"version {last.version} is batch {other.batch_id} of query {other.query_id}, and does not go on from "
        f"version {before.version}, batch {one.batch_id} of query {one.query_id}"
    )


def _half(checkpoint: Checkpoint, first: Standing, others: Mapping[str, Standing], source: Source) -> Finding | None:
    """Find a second table that lacks the rows of a batch that is done: the two together hold every row read."""
    note, batch = first.note, checkpoint.committed
    if first.last is None or note is None or note.batch_id != batch or note.event is not Event.BATCH:
        return None
    for name, standing in others.items():
        if standing.note is not None and standing.note.batch_id == batch:
            continue
        lines = source.rows_between(note.before, note.end)
        if lines is not None and lines > first.last.rows_added:
            seen = f"{name} lacks {lines - first.last.rows_added:,} rows of batch {batch}, which is done"
            return Finding(State.CHECKPOINT_AHEAD, seen + _because(standing), batch)
    return None


def next_read(checkpoint: Checkpoint, batch_id: int) -> tuple[str | None, str | None]:
    """Give where the next read starts, and where a batch ends that is planned and not yet in the table.

    Args:
        checkpoint: what the checkpoint directory says.
        batch_id: the last batch in the table, -1 when there is none.
    """
    before, last = (position(text) if text else None for text in checkpoint.offsets)
    return (last, None) if checkpoint.planned == batch_id else (before, last)


def _compare(checkpoint: Checkpoint, standing: Standing) -> Finding:
    note = standing.note
    if note is None:
        return _without_batches(checkpoint, standing)
    batch = note.batch_id
    if checkpoint.query_id is None or checkpoint.planned is None or checkpoint.damage:
        seen = checkpoint.damage or "there is no checkpoint"
        return Finding(State.CHECKPOINT_LOST, f"the table holds batch {batch}; {seen}", batch)
    if checkpoint.query_id != note.query_id:
        seen = f"the table's batch {batch} is of query {note.query_id}, the checkpoint is of {checkpoint.query_id}"
        return Finding(State.FOREIGN, seen, batch)
    return _same_query(checkpoint, standing, note)


def _without_batches(checkpoint: Checkpoint, standing: Standing) -> Finding:
    if checkpoint.committed is not None or (checkpoint.planned or 0) > 0:
        seen = f"the table holds no batch, the checkpoint is at {checkpoint.planned}"
        return Finding(State.CHECKPOINT_AHEAD, seen + _because(standing))
    if standing.newest is not None:
        return Finding(State.CHECKPOINT_AHEAD, "the table's rows were taken away" + _because(standing))
    if checkpoint.damage:
        return Finding(State.CHECKPOINT_LOST, checkpoint.damage)
    if checkpoint.planned is not None:
        return Finding(State.ALIGNED, "batch 0 is planned and not yet in the table")
    return Finding(State.FRESH, "nothing has been taken in yet")


def _same_query(checkpoint: Checkpoint, standing: Standing, note: Note) -> Finding:
    batch, planned = note.batch_id, checkpoint.planned
    assert planned is not None
    if standing.newest and standing.newest.note and standing.newest.note.batch_id > batch:
        seen = f"the table is back at batch {batch}, and remembers batch {standing.newest.note.batch_id}"
        return Finding(State.CHECKPOINT_AHEAD, seen + _because(standing), batch)
    if planned < batch:
        return Finding(State.CHECKPOINT_BEHIND, f"the table is at batch {batch}, the checkpoint at {planned}", batch)
    if planned > batch + 1 or (planned == batch + 1 and checkpoint.committed == planned):
        seen = f"the table is at batch {batch}, the checkpoint at {planned}" + _because(standing)
        return Finding(State.CHECKPOINT_AHEAD, seen, batch)
    at = checkpoint.offsets[planned == batch]
    if not same_position(position(at or ""), note.end):
        seen = f"batch {batch} covers another range in the table than in the checkpoint"
        return Finding(State.CHECKPOINT_BEHIND, seen, batch)
    seen = f"at batch {batch}" if planned == batch else f"at batch {batch}, batch {planned} is planned"
    return Finding(State.ALIGNED, seen, batch)


def _others(first: Standing, others: Mapping[str, Standing]) -> Finding | None:
    """Check the tables that only some batches write to against what the first table says of them."""
    note = first.note
    for name, standing in others.items():
        batch = standing.note.batch_id if standing.note else None
        expected = note.beside.get(name) if note else None
        allowed = {expected, note.batch_id} if note else {None}
        if batch not in allowed or (standing.newest != standing.last):
            seen = f"{name} is at batch {_or_none(batch)}, and batch {_or_none(expected)} was the last to write to it"
            return Finding(State.CHECKPOINT_AHEAD, seen + _because(standing), note.batch_id if note else None)
    return None


def _because(standing: Standing) -> str:
    return f" ({standing.undone})" if standing.undone else ""


def _or_none(batch: int | None) -> str:
    return "none" if batch is None else str(batch)
