"""This is where it is drawn, from a seed, at which moments the chain will be killed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from oncelake.lab.crash_test.steps import DurableStep

# A random kill comes within so many seconds after the process took over the lake.
HORIZON = 6.0


@dataclass(frozen=True)
class Kill:
    """One kill: right after a kind of durable step, or a time after the process took over.

    Attributes:
        step: the kind of step, None for a random moment.
        after: the random moment, in seconds.
    """

    step: DurableStep | None = None
    after: float = 0.0

    @property
    def name(self) -> str:
        """What the kill is counted as."""
        return self.step.name if self.step else "random moment"


def plan(steps: Sequence[DurableStep], kills: int, seed: int) -> list[Kill]:
    """Plan kills: half after durable steps, each kind in turn, half at random; the same for a seed."""
    chance = random.Random(seed)
    at_steps = (kills + 1) // 2
    first = chance.randrange(len(steps))
    planned = [Kill(step=steps[(first + number) % len(steps)]) for number in range(at_steps)]
    planned += [Kill(after=chance.uniform(0, HORIZON)) for _ in range(kills - at_steps)]
    chance.shuffle(planned)
    return planned
