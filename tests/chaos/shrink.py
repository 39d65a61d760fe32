"""Shorten a sequence that breaks the invariant."""

import time
from collections.abc import Callable, Sequence

from tests.chaos.game import Result
from tests.chaos.steps import Step


def shrunk(result: Result, play: Callable[[Sequence[Step]], Result], seconds: float) -> Result:
    """Leave out one step after the other, the last first, as long as the sequence still breaks the invariant.

    How logs are rotated is not left out: what the other steps mean depends on it.
    """
    until, best = time.monotonic() + seconds, result
    at = len(best.steps) - 1
    while at >= 0 and time.monotonic() < until:
        if best.steps[at].verb != "rotation":
            shorter = play([*best.steps[:at], *best.steps[at + 1 :]])
            best = shorter if shorter.broken else best
        at = min(at, len(best.steps)) - 1
    return best
