"""This is where it is drawn, from a seed, at which moments the chain is killed; files show that it made a step."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.lake import Lake
from oncelake.engine.graph import Stage

_SUFFIXES = ("", ".compact", ".json")


@dataclass(frozen=True)
class DurableStep:
    """A kind of durable step: a numbered file more in a directory.

    Attributes:
        name: the stage, and what is durable then.
        directory: Spark's `sources/0`, `offsets` or `commits` of a stage, or a table's `_delta_log`.
    """

    name: str
    directory: Path

    def newest(self) -> int:
        """Give the highest number that is there whole, -1 when there is none."""
        try:
            names = [Path(path.name) for path in self.directory.iterdir()]
        except FileNotFoundError:
            return -1
        return max((int(each.stem) for each in names if each.stem.isdigit() and each.suffix in _SUFFIXES), default=-1)

    def made_after(self, number: int) -> bool:
        """Tell whether the step after a number was made; looks for that file alone, so it can be asked often."""
        following = number + 1
        names = (f"{following:020d}.json",) if self._is_delta else (str(following), f"{following}.compact")
        return any((self.directory / name).exists() for name in names)

    @property
    def _is_delta(self) -> bool:
        return self.directory.name == "_delta_log"


def durable_steps(lake: Lake, stages: tuple[Stage, ...], *, source_log: bool) -> tuple[DurableStep, ...]:
    """List the kinds of durable steps, in the order in which a line makes them.

    Args:
        source_log: whether the source writes a log of its own for every batch, as that of files does.
    """
    return tuple(step for stage in stages for step in _of(lake, stage, source_log=source_log and stage.reads is None))


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
