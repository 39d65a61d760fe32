"""Remember which sequences were played in earlier runs, so that the next run goes on after them."""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tests.chaos.play import Played


@dataclass
class Record:
    """The sequences of one kind that were played, in one run or in several. Their seeds follow each other, from 0 on.

    Attributes:
        sequences: their number; the seed of the next one.
        seconds: how long they took.
        first: the day of the first one.
        last: the day of the last one.
        counts: how often each operation was applied, and how the commands ended.
        broken: by seed, the sequences that break the invariant, shortened and with what the commands printed.
    """

    sequences: int = 0
    seconds: float = 0.0
    first: str = ""
    last: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Return the record that JSON describes."""
        broken = {int(seed): text for seed, text in value["broken"].items()}
        return cls(**{**value, "counts": Counter(value["counts"]), "broken": broken})

    def add(self, played: Played, seconds: float) -> None:
        """Add sequences that were just played."""
        self.sequences += played.sequences
        self.seconds += seconds
        self.last = f"{datetime.now(UTC):%Y-%m-%d}"
        self.first = self.first or self.last
        self.counts += played.counts
        self.broken |= {seed: str(result) for seed, result in played.broken.items()}


class Memory:
    """The records of all kinds, in a file that is written after each sequence.

    Args:
        path: the file.

    Raises:
        ValueError: the file is there and holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: dict[str, Record] = {}
        if path.exists():
            try:
                held = json.loads(path.read_text(encoding="utf-8"))
                self.records = {kind: Record.of(value) for kind, value in held.items()}
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path} holds no record of sequences; remove it, or start again with --fresh: {error}"
                ) from None

    def of(self, kind: str) -> Record:
        """Return the record of a kind."""
        return self.records.setdefault(kind, Record())

    def save(self) -> None:
        """Write the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        text = json.dumps({kind: vars(record) for kind, record in self.records.items()}, indent=1)
        partial.write_text(text, encoding="utf-8")
        partial.rename(self._path)

    def play_on(
        self, numbers: Mapping[str, int], play: Callable[[str, int], Played], seconds: float = float("inf")
    ) -> Collection[str]:
        """Play until each kind has its number of sequences, or the time is over; return the kinds that lack some.

        The kind of which the smallest part is played is next, so that a short run plays some of each.

        Args:
            numbers: how many sequences of each kind there are to be, with those of earlier runs.
            play: plays the sequence of a kind and a seed.
            seconds: after how many seconds no further sequence begins.
        """
        until = time.monotonic() + seconds
        while (lacking := {kind for kind in numbers if self.of(kind).sequences < numbers[kind]}) and (
            time.monotonic() < until
        ):
            kind = min(sorted(lacking), key=lambda name: self.of(name).sequences / numbers[name])
            began = time.monotonic()
            played = play(kind, self.of(kind).sequences)
            self.of(kind).add(played, time.monotonic() - began)
            self.save()
        return lacking
