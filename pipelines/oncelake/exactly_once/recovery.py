"""Plan how to rebuild a stage's checkpoint from its tables.

The tables are the truth: the metadata of the last commit holds the query, the batch and the position, as Spark spells
them in the checkpoint. So the checkpoint that Spark had after that batch can be written again. This module changes
nothing. It refuses a stage that cannot be fixed exactly, and the error says what to do instead.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import Checkpoint, offsets_text
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, CommitLog, TableState
from oncelake.exactly_once.diagnosis import next_read, torn
from oncelake.exactly_once.positions import same_position
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.state import Diagnosis, State

# What stands before the position in `offsets/0` if Spark has planned no batch yet.
_HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
# The text of `commits/N`.
_DONE = 'v1\n{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True)
class Recovery:
    """The steps of a recovery, in this order: restore tables, commit without rows, write the checkpoint.

    Attributes:
        restore: tables to restore first, each with the older or newer version.
        commits: commits without rows that record the query ID and the position from which the stage continues.
        texts: the new checkpoint, by path in its directory; empty if the stage starts from the beginning.
        at: the position of the new checkpoint; None if the stage starts from the beginning.
        first: the position before the first batch; None if no commit records it any more.
        steps: all of this as text, one step per line.
    """

    restore: Mapping[str, int] = field(default_factory=dict)
    commits: tuple[CommitMetadata, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    at: str | None = None
    first: str | None = None
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A stage that may not start: its state, its checkpoint, its tables and its source.

    Attributes:
        stage: the stage's name.
        commit_logs: the logs of its tables, by table name; first the table that every batch writes to.
        run: the run that fixes the stage; the commits record it.
    """

    stage: str
    diagnosis: Diagnosis
    checkpoint: Checkpoint
    commit_logs: Mapping[str, CommitLog]
    source: Source
    run: str

    @property
    def first(self) -> tuple[str, CommitLog]:
        """The table that every batch writes to."""
        return next(iter(self.commit_logs.items()))


def _new_query_id() -> str:
    return str(uuid.uuid4())


def plan(case: Case, new_query_id: Callable[[], str] = _new_query_id) -> Recovery:
    """Plan how a stage continues from its tables.

    Raises:
        StateError: the stage cannot be fixed exactly; the message says why, and what to do.
    """
    if case.diagnosis.state in (State.TABLE_CHANGED, State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        # guard: recovery-needs-same-source
        raise StateError(f"{case.stage}: {case.diagnosis.seen}. No checkpoint can fix that. {rebuild_hint(case.stage)}")
    state = case.first[1].state()
    mixed = torn(state)
    if mixed is not None:
        raise StateError(f"{case.stage}: {mixed}. {rebuild_hint(case.stage)}")  # guard: torn-table-not-recovered
    if state.last is None:
        return _begin_anew(case)
    return _Plan(case, state, state.last.metadata).make(new_query_id)


def _begin_anew(case: Case) -> Recovery:
    states = [commit_log.state() for commit_log in case.commit_logs.values()]
    if any(state.strange for state in states):
        # guard: recovery-without-batch-rows
        raise StateError(f"{case.stage}: {case.diagnosis.seen}. {rebuild_hint(case.stage)}")
    if case.diagnosis.state is State.CHECKPOINT_AHEAD or any(state.newest for state in states):
        gone = "".join(f" ({state.undone})" for state in states if state.undone)
        # guard: recovery-guesses-no-position
        raise StateError(f"{case.stage}: {case.first[0]} holds no batch of the chain{gone}. {rebuild_hint(case.stage)}")
    return Recovery(steps=("start from the beginning: no table of the stage holds a batch, so nothing is read twice",))


def plan_loss(case: Case, new_query_id: Callable[[], str] = _new_query_id) -> Recovery:
    """Plan how a stage continues after a lost part of its source; a commit to its table records the loss.

    If a RESTORE has removed later batches, Delta would skip a commit with their numbers. So a new query records it.

    Raises:
        StateError: nothing is permanently lost, so there is a better fix; the message names it.
    """
    (table, commit_log), checkpoint = case.first, case.checkpoint
    state = commit_log.state()
    metadata = state.metadata
    start, end = next_read(checkpoint, state.batch_id)
    start = start or case.source.first_position()
    skipped = case.source.skip_gone(start, end)
    if skipped is None or checkpoint.query_id is None:
        # guard: loss-only-if-lost
        raise StateError(f"{case.stage}: no input is permanently lost. {rebuild_hint(case.stage)}")
    at, lost = skipped
    batch = metadata.batch_id + 1 if metadata else 0
    header = metadata.after if metadata else checkpoint.offsets[1] or _HEADER
    again: tuple[CommitMetadata, ...] = ()
    if metadata is not None and state.newest != state.last:  # guard: loss-after-restore-recorded
        again = _Plan(case, state, metadata).commits(new_query_id(), {})
    missed = CommitMetadata(
        stage=case.stage,
        table=table,
        query_id=again[0].query_id if again else checkpoint.query_id,
        batch_id=batch,
        before=start,
        after=offsets_text(header, at),
        **state.totals,
        rules=metadata.rules if metadata else "",
        run=case.run,
        source=dict(case.source.identity()),
        event=CommitKind.LOSS,
        lost=tuple(lost),
    )
    steps = (
        *([_continues(again)] if again else []),
        f"commit to {table}, without rows: {', '.join(lost)} {'is' if len(lost) == 1 else 'are'} lost",
        f"write the checkpoint with batch {batch} done, at {at}",
    )
    return Recovery(commits=(*again, missed), texts=checkpoint_texts(missed), at=at, first=start, steps=steps)


def plan_move(case: Case) -> Recovery | None:
    """Plan how a stage continues after the settings chose other topics; None if it continues where it is.

    A commit without rows records where the stage stopped to read a topic, and where it begins to read another one. A
    batch that was planned and is not in the table is planned again.
    """
    (table, commit_log), checkpoint = case.first, case.checkpoint
    state = commit_log.state()
    metadata, planned = state.metadata, checkpoint.offsets[1]
    start, _ = next_read(checkpoint, state.batch_id)
    start = start or case.source.first_position()
    at = case.source.moved(start)
    if at is None or planned is None or checkpoint.query_id is None:
        return None
    batch = metadata.batch_id + 1 if metadata else 0
    change = CommitMetadata(
        stage=case.stage,
        table=table,
        query_id=checkpoint.query_id,
        batch_id=batch,
        before=start,
        after=offsets_text(metadata.after if metadata else planned, at),
        **state.totals,
        rules=metadata.rules if metadata else "",
        run=case.run,
        source=dict(case.source.identity()),
        event=CommitKind.TOPICS,
    )
    return Recovery(commits=(change,), texts=done_texts(change), at=at, first=start)


def is_half_moved(checkpoint: Checkpoint, metadata: CommitMetadata | None) -> bool:  # guard: topic-change-finished
    """Return True if the last commit changed the topics, and the process died before the checkpoint had it."""
    if metadata is None or metadata.event is not CommitKind.TOPICS or checkpoint.damage:
        return False
    before = metadata.batch_id - 1
    committed = -1 if checkpoint.committed is None else checkpoint.committed
    same = checkpoint.query_id == metadata.query_id and checkpoint.planned in (before, metadata.batch_id)
    return same and committed == before


def done_texts(metadata: CommitMetadata) -> dict[str, str]:
    """Return the two files that Spark writes for a batch, in their order."""
    return {f"offsets/{metadata.batch_id}": metadata.after, f"commits/{metadata.batch_id}": _DONE}


def rebuild_hint(stage: str) -> str:
    """Return the command that fixes a stage that no checkpoint can fix."""
    return f"Fix: oncelake rebuild {stage}, which replays the stage from the start of its input"


@dataclass(frozen=True)
class SecondTable:
    """A table that only some batches write to, and the version of it that matches the first table.

    Attributes:
        target: the version to restore; None if the table already matches.
        batch_id: the last batch that the table then holds.
        rows: the chain's rows that the table then holds.
        is_ahead: whether its log holds a batch that the first table no longer has.
    """

    target: int | None
    batch_id: int | None
    rows: int
    is_ahead: bool

    @classmethod
    def of(cls, stage: str, first: CommitMetadata, name: str, commit_log: CommitLog) -> "SecondTable":
        """Return the state of a second table that matches the first table's last commit.

        Raises:
            StateError: no version of the table holds a batch that it must hold.
        """
        state = commit_log.state()
        ahead = any(_is_ahead(commit, first) for commit, _ in commit_log.newest_first())
        matching = _matching_commit(first, name, commit_log)
        if matching is None and first.beside.get(name) is not None:
            raise StateError(  # guard: second-table-has-batch
                f"{stage}: {name} lacks batch {first.beside[name]}, and no version in its log holds that batch. "
                f"{rebuild_hint(stage)}"
            )
        if matching is None:
            return cls(_before_first(commit_log) if state.last else None, None, 0, ahead)
        target = None if state.last == matching else matching.version
        return cls(target, matching.metadata.batch_id, matching.rows_in_all, ahead)


def _is_ahead(commit: Commit, first: CommitMetadata) -> bool:  # guard: later-batch-behind-recovery
    """Return True for a commit of a later batch of the first table's query; Delta would skip a replay of that batch.

    A later commit can hide such a commit: that of a recovery that died before it committed to the first table.
    """
    metadata = commit.metadata
    return metadata is not None and metadata.query_id == first.query_id and metadata.batch_id > first.batch_id


def _matching_commit(first: CommitMetadata, name: str, commit_log: CommitLog) -> ChainCommit | None:
    """Return the newest commit of a second table that matches the first table's last commit; None without one."""
    for commit, _ in commit_log.newest_first():
        if not isinstance(commit, ChainCommit) or commit.metadata.batch_id > first.batch_id:
            continue
        metadata = commit.metadata
        if metadata.batch_id == first.batch_id:
            # guard: replay-in-both-tables
            if same_position(metadata.end, first.end) and metadata.replay == first.replay:
                return commit
        elif metadata.batch_id == first.beside.get(name):
            return commit
    return None


def _before_first(commit_log: CommitLog) -> int | None:
    """Return the version before the chain's first commit; None if there is none."""
    versions = [commit.version for commit, _ in commit_log.newest_first() if commit.metadata is not None]
    return min(versions) - 1 if versions and min(versions) > 0 else None


@dataclass(frozen=True)
class _Plan:
    case: Case
    state: TableState
    metadata: CommitMetadata

    def make(self, new_query_id: Callable[[], str]) -> Recovery:
        self._check_source(self.metadata.end, None)
        others = {
            name: SecondTable.of(self.case.stage, self.metadata, name, commit_log)
            for name, commit_log in list(self.case.commit_logs.items())[1:]
        }
        restore = {name: other.target for name, other in others.items() if other.target is not None}
        forgotten = self.state.newest != self.state.last or any(other.is_ahead for other in others.values())
        query_id = new_query_id() if forgotten else self.metadata.query_id  # guard: new-query-after-restore
        commits = self.commits(query_id, others) if forgotten else ()
        replay = not forgotten and any(other.batch_id != self.metadata.batch_id for other in others.values())
        if replay:
            self._check_source(self.metadata.before, self.metadata.end)
        texts = checkpoint_texts(replace(self.metadata, query_id=query_id), replay=replay)
        steps = [f"restore {name} to version {version}" for name, version in restore.items()]
        if commits:
            steps.append(_continues(commits))
        whose = "the same query" if query_id == self.metadata.query_id else "a new query"
        what = f"batch {self.metadata.batch_id} {'open, to be replayed' if replay else 'done'}"
        steps.append(f"write the checkpoint of {whose} {query_id} with {what}, at {self.metadata.end}")
        first = self.metadata.before if self.metadata.batch_id == 0 else self.case.first[1].first_position()
        return Recovery(restore, commits, texts, self.metadata.end, first, tuple(steps))

    def _check_source(self, start: str | None, end: str | None) -> None:
        """Raise StateError if the source lacks what the checkpoint would point at.

        If only input after that is trimmed, the start gate reports it.
        """
        trouble = self.case.source.trouble(start, end, self.metadata.source)
        if trouble is not None and (end is not None or trouble.state is State.SOURCE_REPLACED):
            # guard: recovered-checkpoint-fits-source
            raise StateError(f"{self.case.stage}: {trouble.seen}. {rebuild_hint(self.case.stage)}")

    def commits(self, query_id: str, others: Mapping[str, SecondTable]) -> tuple[CommitMetadata, ...]:
        """Return the commits of the new query; the first table's comes last, as it decides the stage's state."""
        batch = self.metadata.batch_id
        carried = replace(self.metadata, query_id=query_id, run=self.case.run, event=CommitKind.RECOVERY, lost=())
        beside = tuple(
            replace(carried, table=name, rows=other.rows, lines={}, beside={}) for name, other in others.items()
        )
        first = replace(carried, **self.state.totals, beside=dict.fromkeys(others, batch))
        return (*beside, first)


def _continues(commits: Sequence[CommitMetadata]) -> str:
    names = " and ".join(metadata.table for metadata in commits)
    return f"commit to {names}, without rows: a new query continues from batch {commits[-1].batch_id}"


def checkpoint_texts(metadata: CommitMetadata, *, replay: bool = False) -> dict[str, str]:
    """Return the files of a checkpoint after the commit's batch, or with that batch planned and not done."""
    batch = metadata.batch_id
    texts = {"metadata": f'{{"id":"{metadata.query_id}"}}', f"offsets/{batch}": metadata.after}
    if batch > 0:
        assert metadata.before is not None, "only a first batch has no position before it"
        texts[f"offsets/{batch - 1}"] = offsets_text(metadata.after, metadata.before)
    done = batch - 1 if replay else batch
    if done >= 0:
        texts[f"commits/{done}"] = _DONE
    return texts
