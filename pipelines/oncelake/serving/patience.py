"""Wait for a sink that is unavailable: call again after longer and longer pauses, and say so."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, stop_when_event_set
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_any, stop_base
from tenacity.wait import wait_random_exponential

from oncelake.common.errors import StopRequested, TargetAwayError, TargetError
from oncelake.common.wording import duration

T = TypeVar("T")

# The longest pause between two attempts, in seconds.
LONGEST_PAUSE = 15.0
# After this many losses of the connection in a row at the same statement, more retries would not help.
LOSSES = 10


@dataclass(frozen=True)
class Patience:
    """How long to wait for an unavailable sink.

    Attributes:
        seconds: the longest wait; None waits forever.
        stopping: an event that ends the wait when it is set.
        say: called with one line of text for each report about the wait.
    """

    seconds: float | None = 0.0
    stopping: threading.Event = field(default_factory=threading.Event)
    say: Callable[[str], None] = lambda _: None

    def keep_trying(self, work: Callable[[], T]) -> T:
        """Call work; after a TargetAwayError call it again, from its start.

        Raises:
            TargetAwayError: the sink is unavailable for too long; it is unknown whether the last attempt was stored.
            TargetError: the connection is lost at the same statement again and again.
            StopRequested: a stop was requested during the wait.
        """
        losses = _Losses()
        try:
            return self._retrying(losses)(work)
        except TargetAwayError as error:
            if self.stopping.is_set():
                raise StopRequested(f"stopped while waiting for {error.place}") from error
            if losses.count >= LOSSES:
                what = f"{error.said}, {losses.count} times in a row at the same statement"
                raise TargetError(f"{error.place}: {what}. {error.advice}") from None
            error.waited = duration(round(self.seconds)) if self.seconds else ""
            raise

    def _retrying(self, losses: "_Losses") -> Retrying:
        stops: list[stop_base] = [stop_when_event_set(self.stopping)]
        if self.seconds is not None:
            stops.append(stop_after_delay(self.seconds))
        return Retrying(
            retry=retry_if_exception(losses.pass_by),
            stop=stop_any(*stops),
            wait=wait_random_exponential(multiplier=0.2, max=LONGEST_PAUSE),
            sleep=sleep_using_event(self.stopping),
            before_sleep=self._telling(),
            reraise=True,
        )

    def _telling(self) -> Callable[[RetryCallState], None]:
        """Return a function that reports the wait: at the first failure, then at longer and longer intervals."""
        began, reported = time.monotonic(), -1.0

        def report(state: RetryCallState) -> None:
            nonlocal reported
            error = state.outcome.exception() if state.outcome else None
            waited = time.monotonic() - began
            if not isinstance(error, TargetAwayError) or (reported >= 0 and waited < 2 * reported + 1):
                return
            reported = waited
            what = "the transaction is retried" if error.clash else "the batch waits for it"
            self.say(f"{error.place}: {error.said}; {what}, {duration(round(waited))} so far")

        return report


NONE = Patience()


@dataclass
class _Losses:
    """A count of losses of the connection in a row at the same statement."""

    statement: str | None = None
    count: int = 0

    def pass_by(self, error: BaseException) -> bool:
        """Return True if the work may be tried again after an error."""
        if isinstance(error, TargetAwayError) and error.lost_at is not None:
            self.count = self.count + 1 if error.lost_at == self.statement else 1
            self.statement = error.lost_at
        return isinstance(error, TargetAwayError) and self.count < LOSSES  # guard: repeated-loss-ends-retries
