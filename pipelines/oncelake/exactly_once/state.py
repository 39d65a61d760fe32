"""Name the states of a stage, and what would happen if one that may not start did.

They are those of docs/guarantee.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The names of the states; the first two may start, and the last one waits."""

    FRESH = "fresh"
    ALIGNED = "aligned"
    CHECKPOINT_LOST = "checkpoint lost"
    CHECKPOINT_BEHIND = "checkpoint behind"
    CHECKPOINT_AHEAD = "checkpoint ahead"
    FOREIGN = "foreign"
    SOURCE_REPLACED = "source replaced"
    SOURCE_TRIMMED = "source trimmed"
    TARGET_AWAY = "target away"

    @property
    def page(self) -> str:
        """The name of the page, in docs/operations, that says what happened and what to do."""
        return f"{self.value.replace(' ', '-')}.md"


# What would have happened without the check.
CONSEQUENCE: Mapping[State, str] = {
    State.CHECKPOINT_LOST: "every line would be read again and counted twice",
    State.CHECKPOINT_BEHIND: "new batches would be taken for old ones and skipped",
    State.CHECKPOINT_AHEAD: "the rows that the table lacks would never come back",
    State.FOREIGN: "two queries' batches would be mixed, and lines counted twice",
    State.SOURCE_REPLACED: "positions of one source would be applied to another",
    State.SOURCE_TRIMMED: "the lines in that range would be missing and nothing would say so",
    State.TARGET_AWAY: "it would wait until the database answers, with nothing lost",
}


@dataclass(frozen=True)
class Diagnosis:
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
