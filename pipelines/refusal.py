"""This is where it is said why a stage may not start, what would have happened, and what can be done."""

from collections.abc import Iterable

from pipelines.errors import StateError
from pipelines.exactly_once.state import CONSEQUENCE, State
from pipelines.survey import View


def refuse_unless_startable(views: Iterable[View]) -> None:
    """Let a run begin only when no stage would lose or repeat rows.

    Raises:
        StateError: names every stage that may not start.
    """
    refused = [refusal(view) for view in views if not view.finding.may_start]
    if refused:
        raise StateError("\n".join(refused))


def refusal(view: View) -> str:
    """Say in one line why a stage does not start, and the way out."""
    finding = view.finding
    return (
        f"{view.stage.name}: {finding.state.value}: {finding.seen}. Started like this, "
        f"{CONSEQUENCE[finding.state]}. {way_out(view)}"
    )


def way_out(view: View) -> str:
    """Say what can be done about a stage that may not start."""
    if view.finding.state in (State.SOURCE_REPLACED, State.SOURCE_TRIMMED):
        first = "Point it at the source it was reading"
    else:
        first = f"Put {view.path} and the stage's tables back as they were together"
    return (
        f"{first}; or remove {view.path}, the stage's tables ({', '.join(map(str, view.ledgers))}) and the same of "
        "the stages after it, and the next run replays them from the start of what they read"
    )
