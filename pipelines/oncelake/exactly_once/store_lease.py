"""The lease on a lake on S3: one driver holds it, renews it while it works, and frees it when it ends.

The lease is a row of numbered objects; only the highest number counts. Each object is put only if its name is free, so
if several drivers put the same number, one wins. A holder puts the next number every few seconds. Who waits takes the
lease over when no number has come for a whole term, by its own clock: the clocks of two hosts are never compared.

The holder believes in its lease for a term after it sent the last number, which is before anyone could see that. A
process that was paused for longer asks the store before it goes on. A pause between that question and a commit is not
noticed: what keeps two drivers from doubling a line is the commit, see `S3LogStore.java`. The lease saves work, and
keeps a recovery to one driver.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, Self

from oncelake.common.errors import LockedError
from oncelake.common.spark.jvm import jvm
from oncelake.exactly_once.files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Seconds: how long a number counts, and how often the holder puts the next one.
TERM, RENEW = 15.0, 5.0
# A live holder has put a number within this time, and is asked for again if it has not.
_LATE = RENEW + 2
_POLL = 1.0
# Linux' monotonic clock stands while the machine sleeps, this one does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return seconds that pass also while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class LeaseStore(Protocol):
    """The numbered objects of a lease."""

    def newest(self) -> int:
        """Return the highest number; 0 without one."""

    def read(self, number: int) -> str | None:
        """Return the text of a number; None if there is none."""

    def put(self, number: int, text: str) -> bool:
        """Put a number if it is free; return False if it is not. Text that is there already is this one's own."""

    def remove_before(self, number: int) -> None:
        """Remove the lower numbers."""


@dataclass(frozen=True)
class S3LeaseStore(LeaseStore):
    """The numbered objects in a directory on S3.

    Attributes:
        spark: the session.
        directory: the directory's URL.
    """

    spark: "SparkSession"
    directory: str

    def newest(self) -> int:
        return max(self._numbers(), default=0)

    def read(self, number: int) -> str | None:
        return HadoopFiles(self.spark).read(self._at(number))

    def put(self, number: int, text: str) -> bool:
        conf = self.spark._jsc.hadoopConfiguration()
        return bool(jvm(self.spark).oncelake.S3LogStore.putsIfAbsent(self._at(number), text, conf))

    def remove_before(self, number: int) -> None:
        for lower in self._numbers():
            if lower < number:
                HadoopFiles(self.spark).remove(self._at(lower))

    def _numbers(self) -> list[int]:
        return [int(name) for name in HadoopFiles(self.spark).names(self.directory) if name.isdigit()]

    def _at(self, number: int) -> str:
        return f"{self.directory}/{number:020d}"


@dataclass(frozen=True)
class LeaseEntry:
    """The text of a number.

    Attributes:
        holder: the process, for people.
        token: the holder's own random text.
        term: how many holders there were, with this one.
        renewed: when it was put, in UTC by the holder's clock; for people.
        free: True if the holder has ended.
    """

    holder: str
    token: str
    term: int
    renewed: str
    free: bool

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Return the entry of a text; None without one."""
        return cls(**json.loads(text)) if text else None


@dataclass
class StoreLease:
    """The right to write a lake on S3, as long as its holder renews it.

    Attributes:
        store: the lease's objects.
        lake: the lake's root, for messages.
        holder: this process, for people.
        clock, sleep: the seconds, and how to wait for some.
        term: how many holders there were, with this one; 0 before it holds the lease.
    """

    store: LeaseStore
    lake: str
    holder: str
    clock: Callable[[], float] = clock
    sleep: Callable[[float], object] = time.sleep
    term: int = 0
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _number: int = field(default=0, init=False)
    _sent: float = field(default=0.0, init=False)
    _lost_to: LeaseEntry | None = field(default=None, init=False)
    _mutex: threading.RLock = field(default_factory=threading.RLock, init=False)

    @contextmanager
    def held(self, wait: float, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the lease during the block, and free it after that.

        Args:
            wait: the seconds to wait for a holder that goes on.
            say: called with one line if a holder does not renew, and its term is waited for.

        Raises:
            LockedError: another driver holds the lake.
        """
        self.acquire(wait, say)
        ended = threading.Event()
        renewing = threading.Thread(target=self._keep, args=(ended,), daemon=True, name="lease")
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join(RENEW)
            if not renewing.is_alive():  # else the store does not answer
                self.release()

    def acquire(self, wait: float, say: Callable[[str], None]) -> None:
        """Take the lease when it is free, or when its holder has not renewed it for a term.

        Raises:
            LockedError: another driver renews it, or has it first.
        """
        began, number, first_seen_at, is_told = self.clock(), -1, 0.0, False
        entry: LeaseEntry | None = None
        while True:
            newest, now = self.store.newest(), self.clock()
            is_renewed = newest != number >= 0
            if newest != number:
                number, first_seen_at = newest, now
                entry = LeaseEntry.of(self.store.read(newest)) if newest else None
            is_free = newest == 0 or (entry is not None and entry.free)
            if is_free or now - first_seen_at > TERM:  # guard: lease-waits-for-term
                self.term = 1 + (entry.term if entry is not None else 0)
                if self._advance(newest):
                    return
                continue
            held_by = entry.holder if entry is not None else "another process"
            if now - began >= (wait if is_renewed else wait + 2 * TERM):
                raise LockedError(  # guard: live-driver-not-waited-for
                    f"{self.lake} is being written by {held_by}; only one process at a time may write a lake. Stop "
                    "that process, or wait until it ends"
                )
            if now - first_seen_at > _LATE and not is_told:
                is_told = True
                say(f"{held_by} holds {self.lake} and does not renew its lease: waiting up to {TERM:.0f} s for its end")
            self.sleep(_POLL)

    def renew(self) -> None:
        """Put the next number, which also shows that no other driver has the lease.

        Raises:
            LockedError: another driver has it.
        """
        with self._mutex:
            self._put_next()

    def check(self) -> None:
        """Raise LockedError if another driver has taken the lease over; costs requests only if a renewal is late.

        Raises:
            LockedError: this process no longer holds the lake.
        """
        if self._lost_to is None and self.clock() - self._sent > _LATE:  # guard: late-holder-asks-store
            try:
                self.renew()
            except LockedError:
                raise
            except Exception:  # the store does not answer
                if self.clock() - self._sent > TERM:
                    raise
        self._refuse_if_lost()

    def release(self) -> None:
        """Free the lease, if it is still this process' own; a store that does not answer leaves it to its term."""
        with suppress(Exception), self._mutex:
            self._put_next(free=True)

    def _keep(self, ended: threading.Event) -> None:
        while not ended.wait(RENEW):
            try:
                self.renew()
                self.store.remove_before(self._number)
            except LockedError:
                return
            except Exception:  # the next renewal, or the next check, asks again
                continue

    def _put_next(self, *, free: bool = False) -> None:
        self._refuse_if_lost()
        while not self._advance(self._number, free=free):
            newest = self.store.newest()
            entry = LeaseEntry.of(self.store.read(newest)) if newest else None
            if entry is not None and entry.token != self._token:  # guard: other-token-ends-holder
                self._lost_to = entry
                self._refuse_if_lost()
            if entry is not None:  # a put of this process whose answer got lost
                self._number = newest

    def _advance(self, number: int, *, free: bool = False) -> bool:
        """Put the number after one; return True if it is now the highest.

        A lower number that was removed can be put again, by a process that was paused: it is not the highest.
        """
        sent = self.clock()
        entry = LeaseEntry(self.holder, self._token, self.term, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", free)
        text = json.dumps({**asdict(entry)})
        if not self.store.put(number + 1, text) or self.store.newest() != number + 1:  # guard: highest-number-counts
            return False
        self._number, self._sent = number + 1, sent
        return True

    def _refuse_if_lost(self) -> None:
        if self._lost_to is not None:
            raise LockedError(  # guard: lost-lease-stops-holder
                f"this process no longer holds {self.lake}: it did not renew its lease for {TERM:.0f} s, and "
                f"{self._lost_to.holder} has it now. This process stops and changes nothing more"
            )
