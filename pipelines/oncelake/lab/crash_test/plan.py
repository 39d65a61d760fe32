"""Plan from a seed when to kill the chain, and detect its durable steps by their files."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.lake import Lake
from oncelake.engine.graph import Stage

_SUFFIXES = ("", ".compact", ".json")


@dataclass(frozen=True)
class DurableStep:
    """A kind of durable step: the next numbered file in a directory.

    Attributes:
        name: the stage, and what is durable after the step.
        directory: Spark's `sources/0`, `offsets` or `commits` of a stage, or a table's `_delta_log`.
    """

    name: str
    directory: Path

    def newest(self) -> int:
        """Return the highest number with a complete file; -1 if there is none."""
        try:
            names = [Path(path.name) for path in self.directory.iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(name.stem) for name in names if name.stem.isdigit() and name.suffix in _SUFFIXES), default=-1)

    def made_after(self, number: int) -> bool:
        """Return True if the step after a number exists; checks only that file, so frequent calls are cheap."""
        following = number + 1
        names = (f"{following:020d}.json",) if self._is_delta else (str(following), f"{following}.compact")
        return any((self.directory / name).exists() for name in names)

    @property
    def _is_delta(self) -> bool:
        return self.directory.name == "_delta_log"


def durable_steps(lake: Lake, stages: tuple[Stage, ...], *, source_log: bool) -> tuple[DurableStep, ...]:
    """Return the kinds of durable steps, in the order in which a line passes them.

    Args:
        source_log: True if the source writes its own log for every batch, as the file source does.
    """
    return tuple(step for stage in stages for step in _of(lake, stage, source_log=source_log and not stage.reads))


def _of(lake: Lake, stage: Stage, *, source_log: bool) -> Iterator[DurableStep]:
    checkpoint = Path(lake.checkpoint(stage.name))
    if source_log:
        yield DurableStep(f"{stage.name}: sources/0 written", checkpoint / "sources" / "0")
    yield DurableStep(f"{stage.name}: offsets written", checkpoint / "offsets")
    tables = [target.table for target in stage.writes]
    for number, table in enumerate(tables, 1):
        pending = f"{tables[number]} not yet" if number < len(tables) else "batch still open"
        yield DurableStep(f"{stage.name}: {table} committed, {pending}", Path(lake.at(table)) / "_delta_log")
    yield DurableStep(f"{stage.name}: commits written", checkpoint / "commits")


# A random kill comes at most this many seconds after the process acquired the lake's lock.
HORIZON = 6.0


@dataclass(frozen=True)
class Kill:
    """One kill: right after a kind of durable step, or some time after the process acquired the lock.

    Attributes:
        step: the kind of step; None for a random moment.
        after: the random moment, in seconds after the process acquired the lock.
    """

    step: DurableStep | None = None
    after: float = 0.0

    @property
    def name(self) -> str:
        """Return the kind under which the kill is counted."""
        return self.step.name if self.step else "random moment"


def plan(steps: Sequence[DurableStep], kills: int, seed: int) -> list[Kill]:
    """Return the planned kills in random order: half of them right after durable steps, half at random moments.

    Each kind of durable step is used equally often, give or take one. The same seed returns the same plan.
    """
    chance = random.Random(seed)
    at_steps = (kills + 1) // 2
    first = chance.randrange(len(steps))
    planned = [Kill(step=steps[(first + number) % len(steps)]) for number in range(at_steps)]
    planned += [Kill(after=chance.uniform(0, HORIZON)) for _ in range(kills - at_steps)]
    chance.shuffle(planned)
    return planned
