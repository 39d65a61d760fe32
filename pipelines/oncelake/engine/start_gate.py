"""The start gate: refuse a start that would lose or repeat rows, and say why, with the command that fixes the stage."""

from collections.abc import Sequence

from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table, bronze_stage
from oncelake.engine.chain import Chain, StageState, case
from oncelake.engine.graph import Stage
from oncelake.engine.markers import only_source, unfinished_rebuild
from oncelake.engine.sources import Failed, refused_change, try_sources
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.diagnosis import changed_by_others
from oncelake.exactly_once.log_damage import LogDamage
from oncelake.exactly_once.recovery import plan
from oncelake.exactly_once.state import CONSEQUENCE, State

READ_AGAIN = "Put the file back from a backup, or read again all lines that the source still has:"


def refuse_unless_startable(chain: Chain, states: Sequence[StageState] | None = None) -> None:
    """Raise StateError if a stage would lose or repeat rows, or a rebuild or replay is unfinished.

    Args:
        chain: the chain.
        states: the states of its stages, read while the lake's lock was held; with None, they are read now.

    Raises:
        StateError: names every stage that may not start, or the change of the sources that does not fit the lake.
    """
    refuse_unless_finished(chain)
    changed = refused_change(chain)
    if changed:
        raise StateError(changed)  # guard: settings-fit-lake
    states = chain.states() if states is None else states
    refused = [block_reason(state) for state in states if not state.diagnosis.may_start and not waits(state)]
    if refused:
        raise StateError("\n".join(refused))  # guard: every-stage-may-start


def startable(chain: Chain, failed: Failed) -> Chain:
    """Return the chain without the sources of several that cannot start, and record why.

    Raises:
        StageError: no source is left.
    """

    def check(stage: Stage) -> None:
        state = chain.stage_state(stage)
        if not state.diagnosis.may_start:
            raise StateError(block_reason(state))  # guard: refused-source-left-out

    return try_sources(chain, check, failed) if len(chain.settings.by_name) > 1 else chain


def refuse_unless_finished(chain: Chain) -> None:
    """Raise StateError if a rebuild or a replay of quarantine is unfinished.

    Raises:
        StateError: names the command that finishes it.
    """
    begun = unfinished(chain)
    if begun:
        raise StateError(begun)  # guard: no-start-during-change


def refuse_other_rebuild(chain: Chain) -> None:
    """Raise StateError if a rebuild is unfinished, with the command that finishes it."""
    if unfinished_rebuild(chain):
        raise StateError(finish_rebuild(chain))  # guard: other-rebuild-finished-first


def unfinished(chain: Chain) -> str | None:
    """Return what is unfinished, with the command that finishes it; None if nothing is."""
    if unfinished_rebuild(chain):
        return finish_rebuild(chain)
    if chain.silver_stage is not None and unfinished_replay(chain) is not None:
        return f"a replay of {QUARANTINE} is unfinished. Finish it: oncelake quarantine replay"
    return None


def waits(state: StageState) -> bool:
    """Return True if a stage can start and wait for its database, which checks its batches when it answers."""
    return state.diagnosis.state is State.TARGET_AWAY


def finish_rebuild(chain: Chain) -> str:
    """Return the message about the unfinished rebuild, with the command that finishes it."""
    stages, source = unfinished_rebuild(chain), only_source(chain)
    layer = stages[0].partition(".")[0]
    whole = sum(name.startswith(f"{layer}.") for name in stages) > 1
    command = f"oncelake rebuild {layer if whole else stages[0]}"
    if source in chain.settings.by_name and layer == SILVER.layer:
        command += f" --source {source}"
    return f"a rebuild of {', '.join(stages)} is unfinished. Finish it: {command}"


def unfinished_replay(chain: Chain) -> CommitMetadata | None:  # guard: half-done-replay-found
    """Return the replay whose rows are in silver and not yet deleted from quarantine; None if there is none."""
    silver, moved = (chain.commit_log(table).state() for table in (SILVER, QUARANTINE))
    if silver.metadata is None or silver.metadata.event is not CommitKind.REPLAY:
        return None
    known = moved.newest.metadata.replay if moved.newest else None
    return None if known == silver.metadata.replay else silver.metadata


def block_reason(state: StageState) -> str:
    """Return one line: why a stage may not start, what would happen if it did, and the command that fixes it."""
    diagnosis = state.diagnosis
    return (
        f"{state.stage.name}: {diagnosis.state.value}: {diagnosis.seen}. If it started now, "
        f"{CONSEQUENCE[diagnosis.state]}. {way_out(state)}"
    )


def way_out(state: StageState) -> str:
    """Return what to do about a stage that may not start, with the command that fixes it."""
    name, current = state.stage.name, state.diagnosis.state
    if current is State.TARGET_AWAY:
        return "Start it, or name another one in serving.url or serving.sink"
    if current is State.SOURCE_TRIMMED and not state.stage.reads:
        return accept(name)
    if current is State.TABLE_CHANGED or state.damaged is not None:
        return log_way_out(*state.damaged) if state.damaged is not None else _undo(state)
    if current in (State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        of_source = "Set the source back to the one it read before, or start over with this one"
        of_tables = f"Replay it from {', '.join(map(str, state.stage.reads))}"
        if state.diagnosis.undo is not None:
            of_tables = f"Undo it in Spark: {state.diagnosis.undo}. After that, or to keep the change, replay"
        return f"{of_tables if state.stage.reads else of_source}: oncelake rebuild {name}"
    try:
        plan(case(state))
    except StateError as error:
        return str(error).removeprefix(f"{name}: ")
    return f"Fix: oncelake recover {name}"


def accept(stage: str) -> str:
    """Return how a stage continues after a loss of its source."""
    return f"To continue without these lines and record the loss: oncelake recover {stage} --accept-loss"


def log_way_out(table: Table, damage: LogDamage) -> str:
    """Return what to do about a table whose newest version cannot be read."""
    name = stage_of(table)
    if damage.back_to is not None and table.layer != SILVER.layer:
        return (
            f"Put the file back from a backup, or go back to version {damage.back_to} and process what came after it "
            f"again: oncelake recover {name}"
        )
    if table.layer == BRONZE.layer:
        return f"{READ_AGAIN} oncelake rebuild {name} --accept-loss"
    return f"Fix: oncelake rebuild {name}"


def stage_of(table: Table) -> str:
    """Return the name of the stage that writes a table."""
    if table.layer == BRONZE.layer:
        return bronze_stage(table.name)
    return table.layer if table.layer == SILVER.layer else str(table)


def _undo(state: StageState) -> str:
    states = state.table_states.items()
    table, last = next(
        (table, written.last) for table, written in states if changed_by_others(str(table), written) and written.last
    )
    log = state.commit_logs[table]
    undo = log.undo(last.version + 1) if isinstance(log, DeltaLog) else None
    built = f"ake its rows again: oncelake rebuild {state.stage.name}"
    if undo is None:
        return f"M{built}"
    return f"Undo it in Spark: {undo}{f', or m{built}' if state.stage.reads else ''}"
