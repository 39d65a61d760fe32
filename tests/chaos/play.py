"""Play many sequences one after the other, and sum up their results."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tests.chaos.game import Result, play
from tests.chaos.shrink import shrunk
from tests.chaos.steps import Step
from tests.chaos.world import World


@dataclass
class Played:
    """The results of many sequences.

    Attributes:
        sequences: their number.
        counts: how often each operation was applied, and how the commands ended.
        broken: by seed, the sequences that break the invariant, shortened.
    """

    sequences: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: dict[int, Result] = field(default_factory=dict)


@dataclass
class Table:
    """Plays sequences, each in a directory of its own, on a source of its own that `make` makes for it."""

    spark: SparkSession
    directory: Path
    make: Callable[[Path], World]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def play(self, steps: Sequence[Step], *, compares: bool = True) -> Result:
        """Play one sequence; its proofs are compared with those of Spark, or not."""
        directory = self.directory / f"sequence-{next(self._numbers)}"
        directory.mkdir(parents=True)
        world = self.make(directory)
        try:
            return play(steps, world, directory, self.spark, compares=compares)
        finally:
            world.remove()

    def play_all(
        self,
        seeds: Iterable[int],
        draw: Callable[[int], Sequence[Step]],
        said: Callable[[int, Result], None] = lambda *_: None,
        shrink: float = 60.0,
        *,
        compares: bool = True,
    ) -> Played:
        """Play a sequence for each seed; shorten one that breaks the invariant, for at most `shrink` seconds."""
        played = Played()
        for seed in seeds:
            result = self.play(draw(seed), compares=compares)
            played.sequences += 1
            played.counts += result.counts
            if result.broken:
                result = shrunk(result, self.play, shrink)
                played.broken[seed] = result
            said(seed, result)
        return played
