"""Overlap two starts of the program: one is suspended at a step, the other works, and the first continues.

So a process that was stopped by SIGSTOP meets its successor's work, at every step of the first and for every
lifetime of the second. The model has no lock that keeps them apart, as a local disk has: it covers
the cases where the lock was removed, or is not available.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.chain_model import Ending, faults, run
from tests.model.exploring import crashes_of
from tests.model.process import Process, Texts
from tests.model.source_model import produce


@dataclass(frozen=True)
class Overlap:
    """The result of two overlapping starts.

    Attributes:
        at: the step at which the first was suspended.
        life: how many steps the second took before it died, None if it ran to its end.
        texts: all that is left.
    """

    at: str
    life: int | None
    first: Ending
    second: Ending
    texts: Texts

    @property
    def silent(self) -> bool:
        """Return whether neither reported an error."""
        return {self.first.kind, self.second.kind} <= {"done", "died"}

    def __str__(self) -> str:
        life = "to its end" if self.life is None else f"for {self.life} steps"
        said = f"the first {self.first.kind} {self.first.said}, the second {self.second.kind} {self.second.said}"
        return f"held up before {self.at}, the other ran {life}: {said}; {faults(self.texts)}"


def overlaps(texts: Texts, kind: str, root: str = "ckpt", *, deaths: bool = True) -> Iterator[Overlap]:
    """Yield every way in which two starts from a state can overlap.

    Args:
        root: where the second has its checkpoints.
        deaths: whether the second dies, at each of its steps in turn, or always runs to its end.
    """
    crashes, _ = crashes_of(texts, kind)
    for held in range(len(crashes) - 1):
        life: int | None = None
        while True:
            found = _overlap(texts, kind, root, held, life)
            yield found
            life = 0 if life is None else life + 1
            if not deaths or (life > 0 and found.second.kind != "died"):
                break


def _overlap(texts: Texts, kind: str, root: str, held: int, life: int | None) -> Overlap:
    left = dict(texts)
    second = Process(left, "second", root, die_at=life)
    met: list[tuple[str, Ending]] = []

    def hold(number: int, what: str) -> None:
        if number == held and not met:
            met.append((what, Ending()))
            met[0] = (what, run(second, kind))

    ending = run(Process(left, "first", before=hold), kind)
    return Overlap(met[0][0], life, ending, met[0][1], left)


def begun(kind: str, lots: int) -> list[Texts]:
    """Return the states in which a start has work: the first lot alone, or one more lot after a run over the others."""
    texts: Texts = {}
    states = []
    for _ in range(lots):
        texts = dict(texts)
        produce(texts, kind)
        states.append(texts)
        crashes, _ = crashes_of(texts, kind)
        texts = crashes[-1][0]
    return states
