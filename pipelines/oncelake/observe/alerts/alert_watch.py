"""Watch the alerts during a run: each alert has its own thread, so no receiver and no error delays the run."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import NumericType

from oncelake.common.background import Background, Pause
from oncelake.common.errors import ConfigError, LockedError, OncelakeError, reason
from oncelake.common.lake import Lake
from oncelake.common.wording import did_you_mean, shown
from oncelake.engine.chain import Chain, named
from oncelake.exactly_once.batch import CommittedBatch, Event, EventSink, Notice
from oncelake.exactly_once.files import files_at, files_by
from oncelake.exactly_once.lease import sole_writer
from oncelake.observe.alerts.alert import Alert
from oncelake.observe.alerts.look import LakeLook, write_proof
from oncelake.observe.alerts.send import Sender
from oncelake.observe.alerts.state import AlertState, AlertStatus, directory, read_states, status_of
from oncelake.observe.log_cache import cached
from oncelake.observe.measure import ignore
from oncelake.proof.result import ProofResult

# Seconds between two rounds while batches of its table come, and while none come.
OFTEN, SELDOM = 5.0, 15.0
# The longest pause after failed rounds, in seconds.
LATER = 300.0
# The seconds that the last round of a run may still begin messages, and that the run waits for its end.
LAST, GRACE = 10.0, 60.0
# The name that messages about alerts have instead of a stage's.
ALERTS = "alerts"


def alert_of(chain: Chain, spark: Callable[[], SparkSession], name: str, ended: threading.Event | None = None) -> Alert:
    """Return a declared alert.

    Args:
        chain: the chain.
        spark: returns the session; called only if rows of a gold table must be read.
        name: the alert's name.
        ended: an event that ends repeated attempts when it is set.
    """
    settings, lake = chain.settings.alerts[name], chain.lake
    files = files_at(lake.root, chain.spark)
    return Alert(
        name,
        settings,
        lake.catalog or lake.root,
        lake.root,
        files,
        LakeLook(cached(chain), settings.condition, spark, files),
        Sender(name, settings.to, ended or threading.Event()),
        partial(alone, lake, name),
    )


def alone(lake: Lake, name: str) -> AbstractContextManager[object]:
    """Keep other processes from an alert while this is entered; raise LockedError if one is working on it."""
    own = directory(lake.root, name)
    return sole_writer(None, Lake(own, own), timedelta(0))


@contextmanager
def alerting(chain: Chain, spark: SparkSession, say: EventSink) -> Iterator[EventSink]:
    """Watch the declared alerts during a run, and yield the sink for its events; without one, nothing happens.

    Raises:
        ConfigError: a secret cannot be read here, or a measure is no number.
    """
    declared = chain.settings.alerts
    for name, alert in declared.items():
        alert.to.check()
        if alert.condition.subject == "gold":
            _refuse_text(chain, spark, name)
    if not declared:
        yield ignore
        return
    ended = threading.Event()
    watches = [
        AlertWatch(
            alert_of(chain, lambda: spark, name, ended).round,
            lambda text, name=name: say(Notice(ALERTS, f"{name}: {text}", "warning")),  # type: ignore[misc]
            _moves(chain, name),
        )
        for name in declared
    ]
    threads = [watch.thread(f"alert {name}") for name, watch in zip(declared, watches, strict=True)]
    for thread in threads:
        thread.start()

    def take(event: Event) -> None:
        for watch, thread in zip(watches, threads, strict=True):
            if watch.is_moved_by(event):
                thread.wake()

    try:
        yield take
    finally:
        ended.set()  # ends repeated attempts to send
        until = time.monotonic() + GRACE
        for thread in threads:
            thread.end()
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0))


def round_of(
    chain: Chain, spark: Callable[[], SparkSession], say: Callable[[str], None], *names: str
) -> dict[str, AlertState]:
    """Make one round of alerts and return the states afterwards; an error is reported to `say`, not raised.

    Args:
        chain: the chain.
        spark: returns the session; called only if rows of a gold table must be read.
        say: called with one line of text for each alert whose messages cannot be sent.
        names: the alerts.
    """
    states = {}
    for name in names:
        alert = alert_of(chain, spark, name)

        def one(seconds: float | None, alert: Alert = alert, name: str = name) -> AlertState:
            states[name] = state = alert.round(seconds)
            return state

        def say_failure(text: str, name: str = name) -> None:
            say(f"alert {name}: {text}")

        AlertWatch(one, say_failure).once()
    return states


def alert_statuses(
    chain: Chain, spark: Callable[[], SparkSession], warn: Callable[[str], None], *, send: bool
) -> list[AlertStatus]:
    """Return the states of the declared alerts; with `send`, look once at each before, and send what is due.

    Raises:
        StateError: the state of an alert cannot be read.
    """
    if send:
        round_of(chain, spark, warn, *chain.settings.alerts)
    return alert_states(chain)


def alert_states(chain: Chain) -> list[AlertStatus]:
    """Return the states of the declared alerts, as the last look at each left them.

    Raises:
        StateError: the state of an alert cannot be read.
    """
    declared = chain.settings.alerts
    states = read_states(files_at(chain.lake.root, chain.spark), chain.lake.root, declared)
    return [status_of(name, alert.when, alert.to.kind, states[name]) for name, alert in declared.items()]


def refuse_unknown(alerts: Collection[str], name: str) -> None:
    """Raise ConfigError if a name is not among those of the declared alerts."""
    if name not in alerts:
        declared = ", ".join(alerts) or "none"
        raise ConfigError(f"there is no alert {shown(name)}; declared: {declared}{did_you_mean(name, alerts)}")


def _moves(chain: Chain, name: str) -> str:
    """Return the stage whose batches start an alert's next round early; empty if there is none."""
    condition = chain.settings.alerts[name].condition
    if condition.subject == "refused":
        return "silver"
    return f"gold.{condition.table}" if condition.subject == "gold" else ""


def _refuse_text(chain: Chain, spark: SparkSession, name: str) -> None:
    condition = chain.settings.alerts[name].condition
    (target,) = named(chain.stages, f"gold.{condition.table}").writes
    kind = target.schema(spark)[condition.column].dataType
    if not isinstance(kind, NumericType):
        raise ConfigError(
            f"alerts.{name}.when: {condition.table}.{condition.column} is of type {kind.simpleString()}; "
            "compare a measure that is a number"
        )


@dataclass
class AlertWatch:
    """The rounds of one alert.

    Attributes:
        round: looks once and sends what is due, for at most some seconds.
        say: called with one line of text if messages cannot be sent, and when they can again.
        moves: the stage whose batches start the next round early; empty for none.
        often, seldom: the seconds between two rounds, with and without batches.
        fails: how many rounds in a row failed.
    """

    round: Callable[[float | None], AlertState]
    say: Callable[[str], None]
    moves: str = ""
    often: float = OFTEN
    seldom: float = SELDOM
    fails: int = 0

    def is_moved_by(self, event: Event) -> bool:
        """Return True if an event is a batch that starts the next round early."""
        return isinstance(event, CommittedBatch) and event.stage == self.moves

    def thread(self, name: str) -> Background:
        """Return the thread that looks at the alert, not started yet."""
        return Background(name, self._round, last=lambda: self.once(LAST))

    def once(self, seconds: float | None = None) -> None:
        """Make one round; report the first error of a series of failures to `say`, and raise none."""
        message = ""
        try:
            state = self.round(seconds)
            if state.failed:
                message = f"{state.failed}; unsent: {state.unsent}. Nothing is lost: it is tried again"
        except LockedError:  # another process is sending the same
            return
        except Exception as error:  # no error of an alert may stop the run
            message = str(error) if isinstance(error, OncelakeError) else f"{type(error).__name__}: {reason(error)}"
        if message and not self.fails:
            self.say(message)
        elif not message and self.fails:
            self.say("works again")
        self.fails = self.fails + 1 if message else 0

    def _round(self) -> Pause:
        self.once()
        later = min(self.seldom * 2 ** min(self.fails, 10), LATER)
        return (later, later) if self.fails else (self.often, self.seldom)


def tell_proof(
    chain: Chain, spark: Callable[[], SparkSession], result: ProofResult, warn: Callable[[str], None]
) -> None:
    """Record the result of a proof for the alerts of failed proofs, and send what is due; nothing without one.

    Args:
        chain: the chain.
        spark: returns the session; called only if rows of a gold table, or a remote store, must be read.
        result: the proof.
        warn: called with the reason if the alerts cannot learn of it; the proof's own result does not depend on that.
    """
    names = [name for name, alert in chain.settings.alerts.items() if alert.condition.subject == "proof"]
    if not names:
        return
    try:
        write_proof(files_by(chain.lake.root, spark), chain.lake.root, holds=result.holds, text=result.words)
    except Exception as error:
        warn(f"the alerts do not learn of this proof: {reason(error)}")
        return
    round_of(chain, spark, warn, *names)
