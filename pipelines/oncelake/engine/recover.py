"""Recovery of a stage: restore tables, commit a new query ID or a loss, and rewrite the checkpoint."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.errors import SourceError, StateError
from oncelake.common.lake import SILVER, restoring
from oncelake.common.wording import listed
from oncelake.engine.chain import Chain, StageState, case
from oncelake.engine.graph import Stage
from oncelake.engine.make_table import forget_tables, make_table
from oncelake.engine.markers import MARKER, mark, unfinished_rebuild
from oncelake.engine.rebuild import stages_from
from oncelake.engine.runner import RUN_ID
from oncelake.engine.start_gate import READ_AGAIN, accept, block_reason, refuse_unless_finished
from oncelake.exactly_once.checkpoint import position, read_checkpoint
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.diagnosis import next_read
from oncelake.exactly_once.files import files_at
from oncelake.exactly_once.log_damage import set_aside
from oncelake.exactly_once.positions import in_table, same_position
from oncelake.exactly_once.recovery import Case, Recovery, done_texts, is_half_moved, plan, plan_loss, plan_move
from oncelake.exactly_once.state import State
from oncelake.exactly_once.writers.spark import commit_note


@dataclass(frozen=True)
class RecoveryResult:
    """The result of a recovery of one stage.

    Attributes:
        stage: the stage's name.
        state: the stage's state before the recovery.
        steps: the steps that were done, or planned in a dry run; empty if the stage may start as it is.
        kept: the path of the old checkpoint; None if the stage had none or nothing was done.
        refused: why the stage was not fixed; None if it was fixed or may start as it is.
    """

    stage: str
    state: str
    steps: tuple[str, ...] = ()
    kept: str | None = None
    refused: str | None = None


def recover(chain: Chain, spark: SparkSession, stage: Stage, *, accept_loss: bool, dry_run: bool) -> RecoveryResult:
    """Fix a stage that may not start; in a dry run, only plan the steps.

    Each step can be repeated: after a failure in the middle, the next recovery plans again from the current state.
    """
    state = chain.stage_state(stage)
    name = state.diagnosis.state.value
    gone = _gone(state)  # guard: bronze-keeps-unavailable-lines
    if gone is not None and (state.damaged or not accept_loss):
        way = f"{READ_AGAIN} oncelake rebuild {stage.name} --accept-loss" if state.damaged else accept(stage.name)
        return RecoveryResult(stage.name, name, refused=f"{stage.name}: {gone.diagnosis.seen}. {way}")
    ahead = () if state.diagnosis.may_start else _readers_ahead(chain, stage)
    if ahead and not dry_run:
        _mark(chain, spark, ahead)
    steps = _set_logs_aside(chain, stage, spark, dry_run=dry_run)
    if ahead:
        gone_on = f"{listed(ahead)} must be rebuilt: their tables have lines of versions that are gone"
        steps = (*steps, gone_on)
    if steps and not dry_run:
        state = chain.stage_state(stage)
    if state.diagnosis.may_start or (steps and state.damaged):
        return RecoveryResult(stage.name, name, steps)
    try:
        recovery = plan_loss(gone) if gone is not None else _plan(chain, state, accept_loss=accept_loss)
        old_checkpoint = None if dry_run else _repair(chain, spark, state, recovery)
    except StateError as error:
        return RecoveryResult(stage.name, name, steps, refused=str(error))
    return RecoveryResult(stage.name, name, (*steps, *recovery.steps), old_checkpoint)


def _readers_ahead(chain: Chain, stage: Stage) -> Sequence[str]:  # guard: reader-not-ahead-of-table
    """Return the stages that have read versions that a table no longer has, and all stages after them.

    The table's next commits get the numbers of these versions, and a stage would take them for what it has read.
    """
    names: list[str] = []
    for target in stage.writes:
        log, damage = chain.commit_log(target.table), chain.damage(target.table)
        newest = damage.back_to if damage.lost else log.newest()
        for reader in (candidate for candidate in chain.stages if target.table in candidate.reads):
            checkpoint = read_checkpoint(chain.checkpoint_files, chain.lake.checkpoint(reader.name))
            texts = (position(text) for text in checkpoint.offsets if text)
            read = [at.version for text in texts if (at := in_table(text, log.table_id())) is not None]
            if newest is not None and max(read, default=0) > newest + 1:
                names += [follower.name for follower in stages_from(chain.stages, reader.name)]
    return [candidate.name for candidate in chain.stages if candidate.name in names]


def _mark(chain: Chain, spark: SparkSession, names: Sequence[str]) -> None:
    """Mark stages as those of an unfinished rebuild, so that nothing else runs before it."""
    begun = {*unfinished_rebuild(chain), *names}
    marked = (stage.name for stage in chain.stages if stage.name in begun)
    mark(files_at(chain.lake.root, spark), f"{chain.lake.root}/{MARKER}", marked, checked=False)


def _set_logs_aside(
    chain: Chain, stage: Stage, spark: SparkSession | None = None, *, dry_run: bool = False
) -> tuple[str, ...]:
    """Set aside unreadable files in the Delta logs of a stage's tables, and the files after them; return the steps.

    The caller holds the lake's lock.
    """
    steps = []
    for table in (target.table for target in stage.writes):
        damage = chain.damage(table)
        # silver's tables go back together, by a commit that gold would take for one that it has read: rebuild it
        names = damage.spare or (damage.beyond if table.layer != SILVER.layer else ())
        if not names:
            continue
        lost = f"in the log of {table}, {damage.lost}; go back to version {damage.back_to}"
        steps.append(f"{damage.warning_of(table) if damage.spare else lost}: set aside {listed(names)}")
        if not dry_run:
            set_aside(chain.lake.at(table), names)  # guard: unneeded-checkpoint-set-aside
    if steps and spark is not None and not dry_run:
        forget_tables(spark)
    return tuple(steps)


def set_spare_aside(chain: Chain, spark: SparkSession | None = None) -> list[str]:
    """Set aside unreadable files that no reader needs in the lake's Delta logs; return a warning for each.

    The caller holds the lake's lock.
    """
    spared = [stage for stage in chain.stages if not any(chain.damage(target.table).lost for target in stage.writes)]
    return [
        f"{step}. If nobody removed or changed it, check the disk"
        for stage in spared
        for step in _set_logs_aside(chain, stage, spark)
    ]


def _gone(state: StageState) -> Case | None:
    """Return the case of a table that goes back to an earlier version whose next lines the source lost; else None."""
    checkpoint, damage = state.checkpoint, state.damaged[1] if state.damaged else None
    metadata = state.first.metadata
    log = state.commit_logs[state.stage.tables[0]]
    if damage is not None and damage.back_to is not None and isinstance(log, DeltaLog):
        commits = (log.commit(version) for version in range(damage.back_to, -1, -1))
        metadata = next((commit.metadata for commit in commits if commit is not None and commit.metadata), None)
    if state.stage.reads or metadata is None:
        return None
    batch, before = metadata.batch_id, state.first.previous
    goes_back = state.diagnosis.state in (State.LOG_DAMAGED, State.CHECKPOINT_AHEAD)
    same_query = checkpoint.query_id == metadata.query_id
    if metadata.event is CommitKind.RECOVERY and before is not None and not same_query:  # a recovery died after that
        # guard: loss-recorded-after-death
        goes_back = before.metadata.batch_id == batch and same_position(metadata.end, before.metadata.end)
        same_query = checkpoint.query_id == before.metadata.query_id
    if not (goes_back and same_query) or checkpoint.damage or (checkpoint.planned or 0) <= batch:
        return None
    offsets = (metadata.after, checkpoint.offsets[1])
    checkpoint = replace(checkpoint, query_id=metadata.query_id, planned=batch + 1, offsets=offsets)
    trouble = state.source.trouble(*next_read(checkpoint, batch), metadata.source)
    if trouble is None or trouble.state is not State.SOURCE_TRIMMED:
        return None
    return replace(case(state, RUN_ID), diagnosis=trouble, checkpoint=checkpoint)


def _plan(chain: Chain, state: StageState, *, accept_loss: bool) -> Recovery:
    if SILVER in state.commit_logs:
        refuse_unless_finished(chain)
    trimmed = state.diagnosis.state is State.SOURCE_TRIMMED and not state.stage.reads
    if state.damaged is not None or (trimmed and not accept_loss):
        raise StateError(block_reason(state))  # guard: loss-accepted-by-user
    if trimmed:
        return plan_loss(case(state, RUN_ID))
    return plan(case(state, RUN_ID))


def _repair(chain: Chain, spark: SparkSession, state: StageState, recovery: Recovery) -> str | None:
    """Carry out the plan and return the path of the old checkpoint; None if the stage had none.

    Raises:
        StateError: the stage still may not start.
    """
    log = state.source.log(recovery.at, recovery.first, lambda: files_read(spark, chain, state)) if recovery.at else {}
    paths = {str(table): chain.lake.at(table) for table in state.commit_logs}
    for table, version in recovery.restore.items():
        spark.sql(restoring(paths[table], version)).collect()
    _commit(chain, spark, state.stage, recovery.commits)
    old_checkpoint = replace_checkpoint(chain, state.stage, {**recovery.texts, **log})
    after = chain.stage_state(state.stage)
    if not after.diagnosis.may_start:
        # guard: recovered-stage-may-start
        raise StateError(f"the checkpoint was rewritten, but the stage still may not start. {block_reason(after)}")
    return old_checkpoint


def _commit(chain: Chain, spark: SparkSession, stage: Stage, commits: Iterable[CommitMetadata]) -> None:
    for metadata in commits:
        target = next(written for written in stage.writes if str(written.table) == metadata.table)
        path = chain.lake.at(target.table)
        make_table(spark, target, path, chain.commit_log(target.table))
        commit_note(spark, path, metadata)


def replace_checkpoint(chain: Chain, stage: Stage, texts: Mapping[str, str]) -> str | None:
    """Put a new checkpoint in the place of a stage's old one, and return the path of the old one, None if none was.

    The new one is written under a temporary name, the old one is renamed, then the new one is moved to its place.
    """
    files, stamp, path = (
        chain.checkpoint_files,
        f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}",
        chain.lake.checkpoint(stage.name),
    )
    new, aside = f"{path}.new-{stamp}", f"{path}.aside-{stamp}"
    for name, text in texts.items():
        files.write(f"{new}/{name}", text)
    was_there = bool(files.names(path))
    files.move(path, aside)
    files.move(new, path)
    return aside if was_there else None


def follow_settings(chain: Chain, spark: SparkSession) -> None:
    """Move the position of each bronze stage whose settings now choose other topics; the caller holds the lake's lock.

    First the table gets a commit without rows, then the checkpoint the two files of that batch. If the process dies in
    between, the next call finishes it.
    """
    for stage in chain.stages:
        if not stage.reads:
            try:
                _follow_settings(chain, spark, stage)
            except SourceError:
                continue  # the start gate names it


def _follow_settings(chain: Chain, spark: SparkSession, stage: Stage) -> None:
    metadata = chain.commit_log(stage.tables[0]).state().metadata
    checkpoint = read_checkpoint(chain.checkpoint_files, chain.lake.checkpoint(stage.name))
    if is_half_moved(checkpoint, metadata):
        assert metadata is not None
        _write(chain, stage, done_texts(metadata))
        return
    start, _ = next_read(checkpoint, metadata.batch_id if metadata else None)
    source = chain.source(stage)
    if source.moved(start or source.first_position()) is None:
        return
    state = chain.stage_state(stage)
    change = plan_move(case(state, RUN_ID)) if state.diagnosis.may_start else None
    if change is not None:
        _commit(chain, spark, stage, change.commits)
        _write(chain, stage, change.texts)


def _write(chain: Chain, stage: Stage, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        chain.checkpoint_files.write(f"{chain.lake.checkpoint(stage.name)}/{name}", text)


def files_read(spark: SparkSession, chain: Chain, state: StageState) -> list[tuple[str, int]]:
    """Return the files whose lines bronze holds, with their modification times in milliseconds since 1970."""
    bronze = tables.read(spark, chain.lake.at(state.stage.writes[0].table))
    rows = bronze.select("file", F.unix_millis("file_modified"))
    return [(row[0], row[1]) for row in rows.distinct().collect()]
