"""Count how much of its input a stage has not taken in yet."""

from oncelake.engine.chain import StageState
from oncelake.exactly_once.source import Backlog, Unit
from oncelake.exactly_once.state import State

__all__ = ["Backlog", "Unit", "backlog"]


def backlog(state: StageState) -> Backlog:
    """Count what the stage's source holds after the position that its first table records."""
    if state.diagnosis.state is State.TARGET_AWAY:
        return Backlog(None, "rows")
    metadata = next(iter(state.table_states.values())).metadata
    return state.source.backlog(metadata.end if metadata else None, changes=state.stage.served is not None)
