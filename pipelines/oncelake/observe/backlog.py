"""Count how much of its input a stage has not taken in yet."""

from oncelake.common.wording import count_of
from oncelake.engine.chain import StageState
from oncelake.exactly_once.source import Backlog, Unit
from oncelake.exactly_once.state import State

__all__ = ["Backlog", "Unit", "backlog", "backlog_words"]


def backlog(state: StageState) -> Backlog:
    """Count what the stage's source holds after the position that its first table records."""
    if state.diagnosis.state is State.TARGET_AWAY:
        return Backlog(None, "rows")
    metadata = next(iter(state.table_states.values())).metadata
    return state.source.backlog(metadata.end if metadata else None, changes=state.stage.served is not None)


def backlog_words(count: int | None, unit: str) -> str:
    """Return what waits with its unit: `1 file`, `20,000 rows`; ? where it is not known."""
    return "?" if count is None else count_of(count, unit.removesuffix("s"))
