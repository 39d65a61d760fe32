"""This is where it is said why a stage may not start, what would have happened, and what can be done."""

import json
from collections.abc import Sequence

from oncelake.common.errors import StateError
from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.engine.chain import Chain, StageState, case
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.files import files_at
from oncelake.exactly_once.recovery import plan
from oncelake.exactly_once.state import CONSEQUENCE, State

# Names, below the lake's root, the stages of a rebuild that was begun and not finished.
MARKER = "_rebuild.json"


def refuse_unless_startable(chain: Chain, states: Sequence[StageState] | None = None) -> None:
    """Let a run begin only when no stage would lose or repeat rows.

    Args:
        chain: the chain.
        states: its stages as they were looked at under the lake's lock; None looks at them.

    Raises:
        StateError: names every stage that may not start.
    """
    refuse_unless_finished(chain)
    states = chain.states() if states is None else states
    refused = [block_reason(state) for state in states if not state.diagnosis.may_start and not waits(state)]
    if refused:
        raise StateError("\n".join(refused))


def refuse_unless_finished(chain: Chain) -> None:
    """Let nothing begin on a lake that is in the middle of a change.

    Raises:
        StateError: a rebuild or a replay of quarantine was begun and not finished; names what finishes it.
    """
    begun = unfinished(chain)
    if begun:
        raise StateError(begun)


def unfinished(chain: Chain) -> str | None:
    """Say what was begun and not finished, and what finishes it; None when there is nothing."""
    rebuilt = unfinished_rebuild(chain)
    if rebuilt:
        return finish_rebuild(rebuilt)
    if any(SILVER in stage.tables for stage in chain.stages) and unfinished_replay(chain) is not None:
        return f"a replay of {QUARANTINE} was begun and not finished. Finish it: oncelake quarantine replay"
    return None


def waits(state: StageState) -> bool:
    """Tell whether a stage can be started and waits; its batches are checked when the database answers."""
    return state.diagnosis.state is State.TARGET_AWAY


def unfinished_rebuild(chain: Chain) -> list[str]:
    """Give the stages of a rebuild that was begun and not finished, none when there is none."""
    text = files_at(chain.lake.root, chain.spark).read(f"{chain.lake.root}/{MARKER}")
    return list(json.loads(text)["stages"]) if text else []


def finish_rebuild(stages: list[str]) -> str:
    """Say what to do about a rebuild that was begun and not finished."""
    return f"a rebuild of {', '.join(stages)} was begun and not finished. Finish it: oncelake rebuild {stages[0]}"


def unfinished_replay(chain: Chain) -> CommitMetadata | None:
    """Return the replay whose rows are in silver and not yet gone from quarantine; None when there is none."""
    silver, moved = (chain.commit_log(table).state() for table in (SILVER, QUARANTINE))
    if silver.metadata is None or silver.metadata.event is not CommitKind.REPLAY:
        return None
    known = moved.newest.metadata.replay if moved.newest else None
    return None if known == silver.metadata.replay else silver.metadata


def block_reason(state: StageState) -> str:
    """Say in one line why a stage does not start, what would have happened, and the command that mends it."""
    diagnosis = state.diagnosis
    return (
        f"{state.stage.name}: {diagnosis.state.value}: {diagnosis.seen}. Started like this, "
        f"{CONSEQUENCE[diagnosis.state]}. {way_out(state)}"
    )


def way_out(state: StageState) -> str:
    """Name the command that mends a stage that may not start."""
    name, found = state.stage.name, state.diagnosis.state
    if found is State.TARGET_AWAY:
        return "Start the database, or name another one in serving.url"
    if found is State.SOURCE_TRIMMED and state.stage.reads is None:
        return f"Go on without it, the loss written down in the table: oncelake recover {name} --accept-loss"
    if found is State.SOURCE_REPLACED and state.stage.reads is None:
        return f"Point it at the source it was reading; or start over with this one: oncelake rebuild {name}"
    if found in (State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        return f"Replay it from {state.stage.reads}: oncelake rebuild {name}"
    try:
        plan(case(state))
    except StateError as error:
        return str(error).removeprefix(f"{name}: ")
    return f"Mend it: oncelake recover {name}"
