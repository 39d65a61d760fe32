"""The states of a stage, and what would go wrong if a stage started in one that forbids it.

docs/guarantee.md lists the same states.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The names of the states; a stage may start in the first two, and waits in the last."""

    FRESH = "fresh"
    ALIGNED = "aligned"
    CHECKPOINT_LOST = "checkpoint lost"
    CHECKPOINT_BEHIND = "checkpoint behind"
    CHECKPOINT_AHEAD = "checkpoint ahead"
    FOREIGN = "foreign"
    TABLE_CHANGED = "table changed"
    LOG_DAMAGED = "log damaged"
    SOURCE_REPLACED = "source replaced"
    SOURCE_TRIMMED = "source trimmed"
    TARGET_AWAY = "target away"

    @property
    def page(self) -> str:
        """The file name of the page in docs/operations that explains the state and what to do."""
        return f"{self.value.replace(' ', '-')}.md"


# What would go wrong if the stage started without the check.
CONSEQUENCE: Mapping[State, str] = {
    State.CHECKPOINT_LOST: "every line would be read again and counted twice",
    State.CHECKPOINT_BEHIND: "new batches would be mistaken for old ones and skipped",
    State.CHECKPOINT_AHEAD: "the rows that the table lacks would never be written",
    State.FOREIGN: "two queries' batches would be mixed, and lines counted twice",
    State.TABLE_CHANGED: "rows that are no lines would count, or lines that were counted would be missing",
    State.LOG_DAMAGED: "readers would see another version of the table, or none",
    State.SOURCE_REPLACED: "positions of one source would be applied to another",
    State.SOURCE_TRIMMED: "the lines in that range would be missing without any error",
    State.TARGET_AWAY: "the stage would wait until the database answers, with nothing lost",
}


@dataclass(frozen=True)
class Diagnosis:
    """A stage's state, and the evidence for it.

    Attributes:
        state: the state's name.
        seen: the evidence, in one clause.
        batch_id: the last batch in the stage's first table; None without one.
        undo: the statement that undoes what is seen; None if none can.
    """

    state: State
    seen: str
    batch_id: int | None = None
    undo: str | None = None

    @property
    def may_start(self) -> bool:
        """Return True if the stage can start without losing or repeating lines."""
        return self.state in (State.FRESH, State.ALIGNED)
