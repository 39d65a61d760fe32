"""This is where a lake is looked at again and again while the page is open, at a cost that is bounded.

Whether anything is new is told by the tables' newest versions alone. A look takes as long as it takes; after it the
lake is left alone for a few times as long, so that a run beside it keeps the machine. A proof has a pause of its own.
Where no run is beside it nothing is to be kept for one: what a run has left is looked at and proven at once.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from oncelake.engine.chain import Chain
from oncelake.exactly_once.lease import writing
from oncelake.observe.report.facts import Facts, ProofFacts

# After a look the lake is left alone for so many times as long as it took, after a proof for so many times.
LOOK_REST, PROOF_REST = 2, 5
# How often it is asked whether anything is new, in seconds.
ASK = 1.0


@dataclass(frozen=True)
class Heads:
    """What tells that something is new.

    Attributes:
        versions: each table's newest version, None where there is no table.
        writing: who writes the lake, nothing when nobody does; None where that cannot be told.
    """

    versions: Mapping[str, int | None]
    writing: str | None


def heads(chain: Chain) -> Heads:
    """Look at what tells that something is new; costs one listing a table."""
    return Heads({str(table): version for table, version in chain.versions().items()}, writing(chain.lake))


@dataclass
class Watch:
    """A lake that is looked at as long as it is watched.

    Attributes:
        heads: tells what is new.
        look: collects the facts, given what the last proof came to.
        prove: makes a proof; None where none is wanted.
        show: takes each look's facts.
    """

    heads: Callable[[], Heads]
    look: Callable[[ProofFacts], Facts]
    prove: Callable[[], ProofFacts] | None
    show: Callable[[Facts], None]
    clock: Callable[[], float] = time.monotonic
    _looked: Heads | None = None
    _proven: Heads | None = None
    _look_after: float = 0
    _prove_after: float = 0
    _proof: ProofFacts = field(default_factory=lambda: ProofFacts("left out"))

    def step(self) -> None:
        """Look again where something is new and it is time to."""
        now = self.heads()
        prove = self.prove if now != self._proven and self._may(now, self._prove_after) else None
        if prove is not None or (now != self._looked and self._may(now, self._look_after)):
            self.show(self._look_again(now, prove))

    def until(self, stopping: threading.Event) -> None:
        """Go on until a stop is asked for."""
        while not stopping.is_set():
            self.step()
            stopping.wait(ASK)

    def _may(self, now: Heads, after: float) -> bool:
        return now.writing == "" or self.clock() >= after

    def _look_again(self, now: Heads, prove: Callable[[], ProofFacts] | None) -> Facts:
        if prove is not None:
            began, self._proof = self.clock(), prove()
            self._proven, self._prove_after = now, self.clock() + PROOF_REST * (self.clock() - began)
        began = self.clock()
        behind = self.prove is not None and now != self._proven
        facts = self.look(replace(self._proof, behind=behind))
        self._looked, self._look_after = now, self.clock() + LOOK_REST * (self.clock() - began)
        return facts
