"""Count how much of its input a stage has not taken in yet."""

from oncelake.common.wording import count_of
from oncelake.engine.chain import View
from oncelake.exactly_once.finding import State
from oncelake.exactly_once.source import Backlog, Unit

__all__ = ["Backlog", "Unit", "backlog", "backlog_words"]


def backlog(view: View) -> Backlog:
    """Count what the stage's source holds after the position that its first table records."""
    if view.finding.state is State.TARGET_AWAY:
        return Backlog(None, "rows")
    metadata = next(iter(view.standings.values())).metadata
    return view.source.backlog(metadata.end if metadata else None, changes=view.stage.served is not None)


def backlog_words(count: int | None, unit: str) -> str:
    """Return what waits with its unit: `1 file`, `20,000 rows`; ? where it is not known."""
    return "?" if count is None else count_of(count, unit.removesuffix("s"))
