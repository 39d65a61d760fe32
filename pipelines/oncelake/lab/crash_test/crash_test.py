"""The loop of a crash test that kills the chain, and its result."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oncelake.common.errors import OncelakeError
from oncelake.common.wording import count_of, duration
from oncelake.lab.crash_test.feed import Feed
from oncelake.lab.crash_test.plan import Kill
from oncelake.lab.crash_test.victim import POLL, Victim, Victims

# How many processes are already started and wait for the lake's lock, while one works.
STANDBYS = 1
# Settings for all processes except the last: small batches, no pause, and a long wait for the lake's lock.
PATIENT = "run.lock_wait=10 minutes"
SMALL = ("run.max_bytes_per_batch=10000", "run.trigger=0 seconds", PATIENT)


@dataclass
class Killing:
    """The result of the kills so far.

    Attributes:
        kinds: the number of kills, by kind of moment.
        missed: kills whose durable step did not happen in time; they are counted as `no step came`.
        seconds: how long the kills took, including all starts in between.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    seconds: float = 0.0


@dataclass
class CrashTest:
    """One crash test of a lake that no other process writes.

    Attributes:
        plan: the kills, in order.
        say: called with one line per kill.
        small: the settings of the processes that are killed.
        limit: how many seconds of work to wait for a durable step.
    """

    victims: Victims
    feed: Feed
    plan: Sequence[Kill]
    say: Callable[[str], None]
    small: Sequence[str]
    limit: float
    standbys: int = STANDBYS
    done: Killing = field(default_factory=Killing)
    begun: int = 0
    last: Victim | None = None

    def run(self) -> Killing:
        """Kill as planned, then let one run process all remaining input.

        Raises:
            OncelakeError: a process exited that was not killed, or the last run failed.
        """
        begin = time.monotonic()
        self._start_standbys()
        for number, kill in enumerate(self.plan, start=1):
            self._kill(number, kill)
        self.done.seconds = time.monotonic() - begin
        self.say(f"{count_of(len(self.plan), 'kill')} in {duration(self.done.seconds)}; now one run without a kill")
        if self.last is None or self.victims.finish(self.last) != 0:
            raise OncelakeError(f"the run after the last kill failed: {self.last and self.last.said()}")
        return self.done

    def _kill(self, number: int, kill: Kill) -> None:
        begin = time.monotonic()
        self.feed.more()
        victim = self.victims.holder()
        acquired = time.monotonic()
        before = kill.step.newest() if kill.step else 0
        self._start_standbys()
        if number == len(self.plan):
            self.last = self.victims.start("run", "--once", sets=[PATIENT])
        happened = self._wait(kill, before, acquired)
        self.victims.kill(victim)
        self.done.kinds[kill.name if happened else "no step came"] += 1
        self.done.missed += not happened
        worked, waited = time.monotonic() - acquired, acquired - begin
        missed = "" if happened else f" (did not happen within {duration(int(self.limit))})"
        self.say(
            f"kill {number} of {len(self.plan)}: process {victim.process.pid} after {duration(worked)} of work "
            f"({duration(waited)} until it had the lock), {kill.name}{missed}"
        )

    def _wait(self, kill: Kill, before: int, acquired: float) -> bool:
        """Wait for the moment of a kill; return True if it came as planned."""
        until = acquired + (self.limit if kill.step else kill.after)
        while time.monotonic() < until:
            if kill.step and kill.step.made_after(before):
                return True
            self.victims.check()
            time.sleep(POLL)
        return kill.step is None

    def _start_standbys(self) -> None:
        """Keep standby processes waiting for the lock, but start no more processes than there are kills."""
        while len(self.victims.alive) <= self.standbys and self.begun < len(self.plan):
            self.victims.start("run", sets=self.small)
            self.begun += 1
