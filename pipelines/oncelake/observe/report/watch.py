"""Repeated looks at a lake while the page is open, at a bounded cost.

Only the newest version of each table and the lock holder are checked to see if something is new. After a look, the
watch pauses for a multiple of the time that the look took, so a run at the same time keeps most of the machine. A
proof has its own pause. If no process holds the lock, there is no pause: the watch looks and proves at once.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from oncelake.common.errors import StateError
from oncelake.common.table_rows import TableRows
from oncelake.engine.chain import Chain
from oncelake.exactly_once.lease import writing
from oncelake.observe.alerts.alert_watch import alert_states
from oncelake.observe.report.collect import Collector, prove
from oncelake.observe.report.facts import Facts, ProofFacts
from oncelake.observe.report.period import Period
from oncelake.observe.report.remembered import Remembered

# The pause after a look and after a proof, as a multiple of the time it took.
LOOK_REST, PROOF_REST = 2, 5
# Seconds between two checks for something new.
ASK = 1.0


@dataclass(frozen=True)
class Heads:
    """The state that changes when something is new.

    Attributes:
        versions: each table's newest version, None if the table does not exist.
        writing: the lock holder, empty if there is none; None if the store has no lock.
        alerts: the names and states of the alerts; none if they cannot be read.
        minute: the current minute, if a period that ends now is reported on.
    """

    versions: Mapping[str, int | None]
    writing: str | None
    alerts: tuple[tuple[str, str], ...] = ()
    minute: int | None = None

    @property
    def tables(self) -> "Heads":
        """The part of the state that a proof depends on."""
        return replace(self, alerts=(), minute=None)


def heads(chain: Chain, *, minute: int | None = None) -> Heads:
    """Return what is newest; costs one listing per table, and a small file per alert."""
    versions = {str(table): version for table, version in chain.versions().items()}
    try:
        alerts = tuple((alert.alert, alert.state) for alert in alert_states(chain))
    except StateError:
        alerts = ()
    return Heads(versions, writing(chain.lake), alerts, minute)


@dataclass
class Watch:
    """A loop that looks at a lake and shows its facts.

    Attributes:
        heads: returns the newest versions and the lock holder.
        look: collects the facts, given the result of the last proof.
        prove: runs a proof; None to run no proof.
        show: receives the facts of each look.
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
        """Look again if something is new and the pause is over."""
        now = self.heads()
        prove = self.prove if now.tables != self._proven and self._may(now, self._prove_after) else None
        if prove is not None or (now != self._looked and self._may(now, self._look_after)):
            self.show(self._look_again(now, prove))

    def until(self, stopping: threading.Event) -> None:
        """Call `step` again and again until a stop is requested."""
        while not stopping.is_set():
            self.step()
            stopping.wait(ASK)

    def _may(self, now: Heads, after: float) -> bool:
        return now.writing == "" or self.clock() >= after

    def _look_again(self, now: Heads, prove: Callable[[], ProofFacts] | None) -> Facts:
        if prove is not None:
            began, self._proof = self.clock(), prove()
            self._proven, self._prove_after = now.tables, self.clock() + PROOF_REST * (self.clock() - began)
        began = self.clock()
        behind = self.prove is not None and now.tables != self._proven
        facts = self.look(replace(self._proof, behind=behind))
        self._looked, self._look_after = now, self.clock() + LOOK_REST * (self.clock() - began)
        return facts


def watch(
    chain: Chain,
    rows: Callable[[], TableRows],
    show: Callable[[Facts], None],
    *,
    proof: bool,
    period: Callable[[], Period | None],
) -> Watch:
    """Return a watch that shows the facts of a lake whenever they change.

    Args:
        chain: the chain.
        rows: makes what answers queries over the tables as they are at this moment.
        show: receives the facts.
        proof: run a proof whenever something is new.
        period: returns the period to report on at this moment; None for all that is in the lake.
    """
    remembered = Remembered()
    return Watch(
        heads=lambda: heads(chain, minute=int(time.time() // 60) if period() is not None else None),
        look=lambda result: Collector(chain, rows(), period(), remembered).facts(result),
        prove=(lambda: prove(chain, rows())) if proof else None,
        show=show,
    )
