"""This is where it is planned how a stage's checkpoint is made again from its tables.

The tables are the truth: the last commit names the query, the batch and the position in the checkpoint's
own words, so the checkpoint that Spark had after that batch can be written again. Nothing is changed
here. A stage that cannot be mended exactly is refused, and the reason names what can be done instead.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import Checkpoint
from oncelake.exactly_once.commit import CommitKind, Note
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.finding import Finding, State
from oncelake.exactly_once.ledger import Book, Standing
from oncelake.exactly_once.second_table import SecondTable, rebuild_hint
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.state import next_read, torn


@dataclass(frozen=True)
class Recovery:
    """What is to be done, in this order: set tables back, commit notes, write the checkpoint.

    Attributes:
        restore: tables that are set back (or forward) to one of their versions first.
        notes: commits without rows that say under which query id, and from where, the stage goes on.
        texts: the new checkpoint by path in its directory; empty when the stage begins anew.
        at: the position that the checkpoint stands at, None when the stage begins anew.
        first: the position before the first batch, where a commit still tells it.
        steps: all of this in words, one step a line.
    """

    restore: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    at: str | None = None
    first: str | None = None
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A stage that may not start: what it left behind, and what it reads.

    Attributes:
        stage: the stage's name.
        ledgers: its tables by name, the one that every batch writes to first.
        run: the run that mends it; the notes name it.
    """

    stage: str
    finding: Finding
    checkpoint: Checkpoint
    ledgers: Mapping[str, Book]
    source: Source
    run: str

    @property
    def first(self) -> tuple[str, Book]:
        """The table that every batch writes to."""
        return next(iter(self.ledgers.items()))


def plan(case: Case, new_query_id: Callable[[], str] = lambda: str(uuid.uuid4())) -> Recovery:
    """Plan how a stage goes on from what its tables say.

    Raises:
        StateError: it cannot be mended exactly; says why, and what can be done.
    """
    if case.finding.state in (State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        raise StateError(
            f"{case.stage}: {case.finding.seen}. No checkpoint brings that back. {rebuild_hint(case.stage)}"
        )
    standing = case.first[1].standing()
    mixed = torn(standing)
    if mixed is not None:
        raise StateError(f"{case.stage}: {mixed}. {rebuild_hint(case.stage)}")
    if standing.last is None or standing.last.note is None:
        return _begin_anew(case)
    return _Plan(case, standing, standing.last.note).make(new_query_id)


def _begin_anew(case: Case) -> Recovery:
    standings = [ledger.standing() for ledger in case.ledgers.values()]
    if any(standing.strange for standing in standings):
        raise StateError(f"{case.stage}: {case.finding.seen}. {rebuild_hint(case.stage)}")
    if case.finding.state is State.CHECKPOINT_AHEAD or any(standing.newest for standing in standings):
        gone = "".join(f" ({standing.undone})" for standing in standings if standing.undone)
        raise StateError(f"{case.stage}: {case.first[0]} holds no batch of the chain{gone}. {rebuild_hint(case.stage)}")
    return Recovery(steps=("begin anew: no table of the stage holds a batch yet, so nothing is read twice",))


def plan_loss(case: Case) -> Recovery:
    """Plan how a stage goes on after the part of its source that is gone; the loss is committed to its table.

    Raises:
        StateError: nothing is lost for good, so there is a better way; says which.
    """
    (table, ledger), checkpoint = case.first, case.checkpoint
    standing = ledger.standing()
    note = standing.note
    start, end = next_read(checkpoint, note.batch_id if note else -1)
    skipped = case.source.skip_gone(start, end)
    if skipped is None or checkpoint.query_id is None:
        raise StateError(f"{case.stage}: nothing is lost here for good. {rebuild_hint(case.stage)}")
    at, lost = skipped
    batch = note.batch_id + 1 if note else 0
    header = lines_of(note.after if note else checkpoint.offsets[1] or "")[:2]
    missed = Note(
        stage=case.stage,
        table=table,
        query_id=checkpoint.query_id,
        batch_id=batch,
        before=start,
        after="\n".join([*header, at]),
        rows=standing.rows,
        rules=note.rules if note else "",
        run=case.run,
        source=dict(case.source.identity()),
        event=CommitKind.LOSS,
        lost=tuple(lost),
    )
    steps = (
        f"commit to {table}, without rows, that {', '.join(lost)} {'is' if len(lost) == 1 else 'are'} lost",
        f"write the checkpoint with batch {batch} done, at {at}",
    )
    return Recovery(notes=(missed,), texts=_checkpoint(missed, replay=False), at=at, first=start, steps=steps)


@dataclass(frozen=True)
class _Plan:
    case: Case
    standing: Standing
    note: Note

    def make(self, new_query_id: Callable[[], str]) -> Recovery:
        self._check_source(self.note.end, None)
        others = {
            name: SecondTable.of(self.case.stage, self.note, name, ledger)
            for name, ledger in list(self.case.ledgers.items())[1:]
        }
        restore = {name: other.target for name, other in others.items() if other.target is not None}
        forgotten = self.standing.newest != self.standing.last or any(other.is_ahead for other in others.values())
        query_id = new_query_id() if forgotten else self.note.query_id
        notes = self._notes(query_id, others) if forgotten else ()
        replay = not forgotten and any(other.batch_id != self.note.batch_id for other in others.values())
        if replay:
            self._check_source(self.note.before, self.note.end)
        texts = _checkpoint(replace(self.note, query_id=query_id), replay=replay)
        steps = (*_restore_steps(restore), *_note_steps(notes), self._checkpoint_step(query_id, replay=replay))
        return Recovery(restore, notes, texts, self.note.end, self._first_position(), steps)

    def _check_source(self, start: str | None, end: str | None) -> None:
        """Refuse when what a checkpoint would point at is not there; what is trimmed after it is told at the start."""
        trouble = self.case.source.trouble(start, end, self.note.source)
        if trouble is not None and (end is not None or trouble.state is State.SOURCE_REPLACED):
            raise StateError(f"{self.case.stage}: {trouble.seen}. {rebuild_hint(self.case.stage)}")

    def _notes(self, query_id: str, others: Mapping[str, SecondTable]) -> tuple[Note, ...]:
        """Give the notes of the new query; the first table's comes last, as it is what the stage stands by."""
        batch = self.note.batch_id
        carried = replace(self.note, query_id=query_id, run=self.case.run, event=CommitKind.RECOVERY, lost=())
        beside = tuple(replace(carried, table=name, rows=other.rows, beside={}) for name, other in others.items())
        first = replace(carried, rows=self.standing.rows, beside=dict.fromkeys(others, batch))
        return (*beside, first)

    def _checkpoint_step(self, query_id: str, *, replay: bool) -> str:
        whose = "the same query" if query_id == self.note.query_id else "a new query"
        what = f"batch {self.note.batch_id} open, to be replayed" if replay else f"batch {self.note.batch_id} done"
        return f"write the checkpoint of {whose} {query_id} with {what}, at {self.note.end}"

    def _first_position(self) -> str | None:
        """Give the position before batch 0, as far as it is still written."""
        return self.note.before if self.note.batch_id == 0 else self.case.first[1].first_position()


def _checkpoint(note: Note, *, replay: bool) -> dict[str, str]:
    """Give the files that Spark goes on from: after the note's batch, or with it planned and not done."""
    batch = note.batch_id
    texts = {"metadata": f'{{"id":"{note.query_id}"}}', f"offsets/{batch}": note.after}
    if batch > 0:
        assert note.before is not None, "only a first batch has nothing before it"
        texts[f"offsets/{batch - 1}"] = "\n".join([*lines_of(note.after)[:2], note.before])
    done = batch - 1 if replay else batch
    if done >= 0:
        texts[f"commits/{done}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    return texts


def _restore_steps(restore: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"set {name} to its version {version}" for name, version in restore.items())


def _note_steps(notes: tuple[Note, ...]) -> tuple[str, ...]:
    if not notes:
        return ()
    names = " and ".join(note.table for note in notes)
    return (f"commit to {names}, without rows, that a new query goes on from batch {notes[-1].batch_id}",)
