"""Diagnose a stage: decide from its checkpoint, its tables and its source whether it may start.

A stage that starts from the wrong state silently loses rows or counts them twice. The table is the truth: its commits
are compared with the checkpoint, and the stage's next position with what the source still holds. This module changes
nothing.
"""

from collections.abc import Mapping
from dataclasses import replace

from oncelake.common.wording import count_of
from oncelake.exactly_once.checkpoint import Checkpoint, position
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import Commit, TableState
from oncelake.exactly_once.positions import same_position
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.state import Diagnosis, State

_COUNTED = "gold."


def diagnose(checkpoint: Checkpoint, states: Mapping[str, TableState], source: Source) -> Diagnosis:
    """Return the state of a stage.

    Args:
        checkpoint: the content of the stage's checkpoint directory.
        states: the state of each table of the stage; first the table that every batch writes to.
        source: the stage's source.
    """
    (_, first), *beside = states.items()
    mixed = torn(first)
    if mixed is not None:
        return Diagnosis(State.FOREIGN, mixed, first.batch_id)
    strange = strange_table(states) if first.last is None else None
    if strange is not None:
        return Diagnosis(State.FOREIGN, strange)  # guard: no-rows-without-batch
    checkpoint = replace(checkpoint, damage=checkpoint.damage or source.damage(checkpoint))  # guard: source-log-whole
    diagnosis, others = _compare(checkpoint, first), dict(beside)
    if diagnosis.may_start:
        diagnosis = (
            # guard: altered-table-refused
            _changed(states) or differing(first, others) or _half(checkpoint, first, others, source) or diagnosis
        )
    first_position = source.first_position() if diagnosis.state is State.FRESH else None
    if first_position is not None:  # guard: offsets-since-first-start-kept
        return source.trouble(first_position, None, {}) or diagnosis
    if diagnosis.state is not State.ALIGNED:
        return diagnosis
    start, end = next_read(checkpoint, first.batch_id)
    recorded = first.metadata.source if first.metadata else {}
    before = position(checkpoint.offsets[0] or "") if end is None else None
    # guard: source-is-the-same
    return source.trouble(start, end, recorded) or source.trouble_again(before, start) or diagnosis


def planned_elsewhere(checkpoint: Checkpoint, state: TableState) -> Diagnosis | None:
    """Return a diagnosis if the table holds the batch that the checkpoint has planned and not done.

    If each host has checkpoints of its own, another host may have written that batch: in a directory, both have the
    same position, which counts in the host's own list of files, and these lists can differ.

    Args:
        checkpoint: the content of this host's checkpoint.
        state: the state of the table that every batch writes to.
    """
    batch = state.batch_id
    if batch is None or checkpoint.open_batch != batch:
        return None
    evidence = f"the table holds batch {batch}, which this host has planned: another one may have written it"
    return Diagnosis(State.CHECKPOINT_BEHIND, evidence, batch)


def _changed(states: Mapping[str, TableState]) -> Diagnosis | None:
    """Return a diagnosis if another writer added rows to a table, or changed those of gold, since the last batch.

    Rows that were removed from another table are a matter of the stages that read it, see `DeltaSource.trouble`.
    """
    for name, state in states.items():
        commit = changed_by_others(name, state)
        if commit is not None:
            return Diagnosis(State.TABLE_CHANGED, f"{name} was changed by {commit.statement}", state.batch_id)
    return None


def changed_by_others(name: str, state: TableState) -> Commit | None:
    """Return the commit of another writer that stops the stage of a table; None if there is none."""
    commit = state.changed
    stops = commit is not None and state.last is not None and (not commit.rewrites or name.startswith(_COUNTED))
    return commit if stops else None


def strange_table(states: Mapping[str, TableState]) -> str | None:
    """Return the first table with rows that no batch wrote, and the evidence; the first batch would add to them."""
    return next((f"{name}: {state.strange}" for name, state in states.items() if state.strange), None)


def torn(state: TableState) -> str | None:  # guard: last-batches-follow
    """Return a message if a table's last two batches are not consecutive: two instances wrote at the same time."""
    last, before = state.last, state.previous
    if last is None or before is None:
        return None
    one, other = before.metadata, last.metadata
    carried = other.carries and other.batch_id == one.batch_id and same_position(other.end, one.end)
    follows = other.batch_id == one.batch_id + 1 and same_position(other.before, one.end)
    if carried or (follows and other.query_id == one.query_id):
        return None
    return (
        f"version {last.version} is batch {other.batch_id} of query {other.query_id}, and does not follow "
        f"version {before.version}, batch {one.batch_id} of query {one.query_id}"
    )


def _half(
    checkpoint: Checkpoint, first: TableState, others: Mapping[str, TableState], source: Source
) -> Diagnosis | None:
    """Return a diagnosis if a second table lacks rows of a finished batch; both together must hold every row read."""
    last, batch = first.last, checkpoint.committed
    if last is None or last.metadata.batch_id != batch or last.metadata.event is not CommitKind.BATCH:
        return None
    lacking = {name: state for name, state in others.items() if state.batch_id != batch}
    lines = source.rows_between(last.metadata.before, last.metadata.end) if lacking else None
    beside = (state.last for state in others.values() if state.last and state.batch_id == batch)
    added = (commit.rows_added for commit in beside if commit.metadata.event is CommitKind.BATCH)
    written = last.lines_added + sum(added)
    if lines is not None and lines > written:
        seen = f"{' or '.join(lacking)} lacks {count_of(lines - written, 'row')} of batch {batch}, which is done"
        # guard: second-table-has-last-rows
        return Diagnosis(State.CHECKPOINT_AHEAD, seen + "".join(map(_because, lacking.values())), batch)
    return None


def next_read(checkpoint: Checkpoint, batch_id: int | None) -> tuple[str | None, str | None]:
    """Return where the next read starts, and the end of the batch that is planned but not yet in the table.

    Args:
        checkpoint: the content of the checkpoint directory.
        batch_id: the last batch in the table; None without one.
    """
    before, last = (position(text) if text else None for text in checkpoint.offsets)
    return (last, None) if checkpoint.planned == batch_id else (before, last)


def _compare(checkpoint: Checkpoint, state: TableState) -> Diagnosis:
    metadata = state.metadata
    if metadata is None:
        return _without_batches(checkpoint, state)
    batch = metadata.batch_id
    if checkpoint.query_id is None or checkpoint.planned is None or checkpoint.damage:
        seen = checkpoint.damage or "there is no checkpoint"
        # guard: table-has-its-checkpoint
        return Diagnosis(State.CHECKPOINT_LOST, f"the table holds batch {batch}; {seen}", batch)
    if checkpoint.query_id != metadata.query_id:
        seen = (
            f"query {metadata.query_id} wrote the table's batch {batch}, "
            f"but the checkpoint belongs to query {checkpoint.query_id}"
        )
        return Diagnosis(State.FOREIGN, seen, batch)  # guard: batches-of-checkpoint-query
    return _same_query(checkpoint, state, metadata)


def _without_batches(checkpoint: Checkpoint, state: TableState) -> Diagnosis:
    if checkpoint.committed is not None or (checkpoint.planned or 0) > 0:  # guard: emptied-table-without-checkpoint
        seen = f"the table holds no batch, the checkpoint is at {checkpoint.planned}"
        return Diagnosis(State.CHECKPOINT_AHEAD, seen + _because(state))
    if state.newest is not None:
        # guard: table-before-first-batch
        return Diagnosis(State.CHECKPOINT_AHEAD, "the table's rows were removed" + _because(state))
    if checkpoint.damage:
        return Diagnosis(State.CHECKPOINT_LOST, checkpoint.damage)  # guard: first-plan-readable
    if checkpoint.planned is not None:
        return Diagnosis(State.ALIGNED, "batch 0 is planned and not yet in the table")
    return Diagnosis(State.FRESH, "nothing has been read yet")


def _same_query(checkpoint: Checkpoint, state: TableState, metadata: CommitMetadata) -> Diagnosis:
    batch, planned = metadata.batch_id, checkpoint.planned
    assert planned is not None
    if state.newest and state.newest.metadata.batch_id > batch:  # guard: restored-table-keeps-transactions
        seen = f"the table is back at batch {batch}, but its log also has batch {state.newest.metadata.batch_id}"
        return Diagnosis(State.CHECKPOINT_AHEAD, seen + _because(state), batch)
    if planned < batch:
        return Diagnosis(State.CHECKPOINT_BEHIND, f"the table is at batch {batch}, the checkpoint at {planned}", batch)
    # guard: table-holds-done-batches
    if planned > batch + 1 or (planned == batch + 1 and checkpoint.committed == planned):
        seen = f"the table is at batch {batch}, the checkpoint at {planned}" + _because(state)
        return Diagnosis(State.CHECKPOINT_AHEAD, seen, batch)
    if state.newest != state.last and state.newest and state.newest.metadata.replay:  # guard: table-before-replay
        seen = "the table is back at its state before a replay of quarantine, and quarantine lacks the moved lines"
        return Diagnosis(State.CHECKPOINT_AHEAD, seen + _because(state), batch)
    other = _other_range(checkpoint, metadata)
    if other is not None:
        return Diagnosis(State.CHECKPOINT_BEHIND, other, batch)
    seen = f"at batch {batch}" if planned == batch else f"at batch {batch}, batch {planned} is planned"
    return Diagnosis(State.ALIGNED, seen, batch)


def _other_range(checkpoint: Checkpoint, metadata: CommitMetadata) -> str | None:
    """Return a message if the checkpoint has another batch with the ID of the table's last one."""
    batch, planned = metadata.batch_id, checkpoint.planned
    before, at = (position(text or "") for text in checkpoint.offsets)
    start, end = (before, at) if planned == batch else (None, before)
    if not same_position(end, metadata.end):  # guard: same-range-in-checkpoint
        in_checkpoint = f"{start} to {end}" if start else f"up to {end}"
        return (
            f"batch {batch} covers another range in the table than in the checkpoint: "
            f"{metadata.before} to {metadata.end}, "
            f"not {in_checkpoint}"
        )
    # guard: accepted-loss-in-checkpoint
    if metadata.event in (CommitKind.LOSS, CommitKind.TOPICS) and planned == batch and checkpoint.committed != batch:
        what = "accepts a loss" if metadata.event is CommitKind.LOSS else "changes the topics"
        return f"batch {batch} {what}, but the checkpoint still has the batch as it was planned before"
    return None


def differing(first: TableState, others: Mapping[str, TableState]) -> Diagnosis | None:
    """Return a diagnosis if a second table does not match the metadata of the first table's last commit."""
    metadata = first.metadata
    for name, state in others.items():
        batch = state.batch_id
        expected = metadata.beside.get(name) if metadata else None
        allowed = {expected, metadata.batch_id} if metadata else {None}
        if batch not in allowed or (state.newest != state.last):
            seen = f"{name} is at batch {_or_none(batch)}, the last batch recorded for it is {_or_none(expected)}"
            # guard: second-table-belongs
            return Diagnosis(State.CHECKPOINT_AHEAD, seen + _because(state), first.batch_id)
        if batch is not None and batch == first.batch_id and not same_position(state.end, first.end):
            seen = f"batch {batch} of {name} ends at {state.end} instead of {first.end}"
            return Diagnosis(State.CHECKPOINT_AHEAD, seen, batch)  # guard: second-table-same-range
    return None


def _because(state: TableState) -> str:
    return f" ({state.undone})" if state.undone else ""


def _or_none(batch: int | None) -> str:
    return "none" if batch is None else str(batch)
