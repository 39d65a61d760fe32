"""One alert: look at the lake, store the due messages, send them, then record them as sent.

A due message is written before it is sent, together with the position that was looked at. It is recorded as sent after
the receiver has accepted it. So a process that dies in between sends it again, with the same key, and loses nothing.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import inf

from oncelake.common.errors import DeliveryError
from oncelake.common.wording import utc
from oncelake.engine.alerts import AlertSettings
from oncelake.exactly_once.files import Files
from oncelake.observe.alerts.look import Look, Window
from oncelake.observe.alerts.message import Message, Status
from oncelake.observe.alerts.state import AlertState, Entry, directory, key_of, read_state, write_state

# The most messages that one round sends, and that wait for a round: a look takes no more windows while they wait.
MOST = 20


@dataclass(frozen=True)
class Alert:
    """An alert of a lake.

    Attributes:
        name: its name.
        settings: its declaration.
        lake: the lake's root or catalog, for messages and keys.
        root: the directory of the files next to the tables.
        files: access to those files.
        look: what it knows of the lake.
        send: delivers a message; raises DeliveryError.
        alone: keeps other processes from this alert while it is entered; raises LockedError.
        now_ms: returns the time in milliseconds since 1970.
    """

    name: str
    settings: AlertSettings
    lake: str
    root: str
    files: Files
    look: Look
    send: Callable[[Message], None]
    alone: Callable[[], AbstractContextManager[object]]
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    @property
    def directory(self) -> str:
        """The directory of its state."""
        return directory(self.root, self.name)

    def round(self, seconds: float | None = None) -> AlertState:
        """Look once, and send the due messages.

        Args:
            seconds: no message is begun this long after the look; None for no limit.

        Returns:
            The state afterwards; `failed` says why a message is not sent.

        Raises:
            LockedError: another process is working on this alert.
            StateError: the state cannot be read.
            OSError: the lake is not writable.
        """
        with self.alone():  # guard: one-process-per-alert
            before = read_state(self.files, self.directory)
            now = self.now_ms()
            state = self._begun(before, now)
            try:
                state = self._looked(state, now)
            finally:
                if state != before:
                    state = write_state(self.files, self.directory, state)  # guard: alert-kept-before-sent
            return self._sent(state, None if seconds is None else time.monotonic() + seconds)

    def test(self) -> Message:
        """Send a test message, which changes no state, and return it.

        Raises:
            DeliveryError: it was not delivered.
        """
        now = self.now_ms()
        entry = Entry(key_of(self.lake, self.name, "test", utc(now)), now, None, "this is a test; nothing is wrong")
        message = self._message(entry, "test", now)
        self.send(message)
        return message

    def _begun(self, state: AlertState | None, now: int) -> AlertState:
        """Return the state to continue from; a new one before the first look, or for a changed condition."""
        when, since = self.settings.when, self.settings.since
        declared = int(since.timestamp() * 1000) if since is not None else None
        if state is None:
            return AlertState(when, now if declared is None else declared, declared)
        if state.when != when:
            entries = (_over(entry, now, "the condition was changed") for entry in state.entries)
            fresh = AlertState(when, now if declared is None else declared, declared, number=state.number)
            return replace(fresh, entries=tuple(entries), last_ms=state.last_ms, failed=state.failed)
        if state.declared != declared:
            since_ms = now if declared is None else declared
            return replace(state, since_ms=since_ms, declared=declared, version=None, until_ms=0)
        # a start after now was taken from a clock that has been set back
        # guard: alert-begins-not-later
        return replace(state, since_ms=min(state.since_ms, now)) if declared is None else state

    # --- look ---

    def _looked(self, state: AlertState, now: int) -> AlertState:
        subject = self.settings.condition.subject
        if subject == "gold":
            return self._gold(state, now)
        if subject == "refused":
            return self._refused(state, now)
        return self._holding(state, now)

    def _gold(self, state: AlertState, now: int) -> AlertState:
        falling = "<" in self.settings.condition.operator or self.look.may_fall  # guard: falling-window-is-over
        # before the version is read: what is settled now is in it
        settled = (falling or state.open > 0) and self.look.settled()
        head = self.look.head()
        if head is None:
            return state
        table_id, version = head
        changed = (table_id, version) != (state.table_id, state.version)
        newest = self.look.newest(version) if changed else state.newest_ms
        clock = now if settled else min(newest or 0, now)  # guard: alert-ends-when-counted
        # guard: window-finished-by-clock
        until = max(self._finished(clock), min(state.until_ms, self._finished(now))) if falling else None
        waits = until is not None and newest is not None and state.until_ms < min(until, newest + self._length)
        if changed or waits:
            most = len(state.done) + len(state.entries) + MOST + 1
            windows = self.look.windows(version, state.since_ms, until, most)
            whole = len(windows) < most
            if whole:
                state = _fallen(state, windows, now)
            state, all_added = self._add_windows(state, windows)
            if whole and all_added:  # guard: alert-position-when-kept
                state = replace(state, table_id=table_id, version=version, newest_ms=newest, until_ms=until or 0)
        if clock != now and state.open and self.look.settled() and self.look.head() == head:
            clock = now
        return _ended(state, clock, now, extra=falling)

    @property
    def _length(self) -> int:
        return self.look.length_ms

    def _finished(self, clock: int) -> int:
        """Return the end of the last window that ended the length of a window ago: lines may be late by that much."""
        return clock - clock % self._length - self._length

    def _refused(self, state: AlertState, now: int) -> AlertState:
        length = self.settings.condition.span * 1000
        # guard: clock-behind-refused-lines
        known = min(state.until_ms, now - now % length)  # less if the clock was set back
        entries = (
            _over(entry, now, "the clock was set back") if entry.start_ms > now else entry for entry in state.entries
        )
        state = replace(state, entries=tuple(entries))
        after = max(known, state.since_ms - state.since_ms % length)
        windows, until = self.look.spans(after, now)
        state = _fallen(state, windows, now, after, until)
        before = len(state.entries)
        state, all_added = self._add_windows(state, windows)
        if not all_added:
            until = windows[len(state.entries) - before].start_ms
        state = replace(state, until_ms=max(until, known))
        return _ended(state, now, now)

    def _add_windows(self, state: AlertState, windows: list[Window]) -> tuple[AlertState, bool]:
        """Add new windows to the state as due, as far as there is room; return it, and True if there was for all."""
        done, keys = frozenset(state.done), {entry.key for entry in state.entries}
        fresh = []
        for window in windows:
            key = self._key(window.start_ms)
            if window.start_ms not in done and key not in keys:  # guard: one-message-per-window
                fresh.append(Entry(key, window.start_ms, window.end_ms, window.text))
        room = max(MOST - state.unsent, 0)
        return replace(state, entries=(*state.entries, *fresh[:room])), len(fresh) <= room

    def _holding(self, state: AlertState, now: int) -> AlertState:
        holding = self.look.holding(now)
        if holding is None:
            return state
        if not holding.holds:
            return replace(state, entries=tuple(_over(entry, now, holding.text) for entry in state.entries))
        if any(entry.over_ms is None for entry in state.entries) or state.unsent >= MOST:
            return state
        return replace(state, entries=(*state.entries, Entry(self._key(now), now, None, holding.text)))

    def _key(self, start_ms: int) -> str:
        return key_of(self.lake, self.name, self.settings.when, utc(start_ms))

    # --- send ---

    def _sent(self, state: AlertState, until: float | None) -> AlertState:
        """Send the due messages, the oldest first, and record each as sent; stop if the receiver does not answer."""
        failed, room = "", MOST
        for due in state.entries:
            entry = due
            for status in ("alert", "end"):
                if not _is_due(entry, status):
                    continue
                if room == 0 or (until is not None and time.monotonic() > until):
                    return self._failed(state, failed)
                room -= 1
                try:
                    self.send(self._message(entry, status, self.now_ms()))  # guard: alert-sent-then-recorded
                except DeliveryError as error:
                    failed = str(error)
                    if not error.refused:
                        return self._failed(state, failed)
                    break  # guard: refused-message-not-sent
                entry = replace(entry, sent_ms=entry.sent_ms or self.now_ms())
                state = state.finish(entry) if status == "end" else state.put(entry)
                state = self._record(replace(state, last_ms=self.now_ms(), failed=failed))
        return self._failed(state, failed)

    def _failed(self, state: AlertState, why: str) -> AlertState:
        return state if state.failed == why else self._record(replace(state, failed=why))

    def _record(self, state: AlertState) -> AlertState:
        return write_state(self.files, self.directory, state)

    def _message(self, entry: Entry, status: Status, now: int) -> Message:
        text = f"{entry.over}. It began with: {entry.text}" if status == "end" else entry.text
        window = utc(entry.start_ms) if entry.end_ms is None else f"{utc(entry.start_ms)} to {utc(entry.end_ms)}"
        at = utc(entry.over_ms or now) if status == "end" else utc(now)
        return Message(entry.key, self.name, status, self.settings.when, text, window, self.lake, at)


def _is_due(entry: Entry, status: Status) -> bool:
    return entry.sent_ms is None if status == "alert" else entry.over_ms is not None


def _over(entry: Entry, now: int, why: str) -> Entry:
    return entry if entry.over_ms is not None else replace(entry, over_ms=now, over=why)


def _fallen(
    state: AlertState, windows: list[Window], now: int, first_ms: float = -inf, end_ms: float = inf
) -> AlertState:
    """End the open windows in which the condition no longer holds, and return the state.

    Args:
        state: the state before.
        windows: those in which it holds.
        now: the current time.
        first_ms, end_ms: the times between which all windows are known; one that is not within them stays as it is.
    """
    holding = {window.start_ms for window in windows}

    def falls(entry: Entry) -> bool:
        is_known = first_ms <= entry.start_ms and (entry.end_ms is None or entry.end_ms <= end_ms)
        return is_known and entry.start_ms not in holding

    entries = (
        _over(entry, now, "the condition no longer holds in this window") if falls(entry) else entry
        for entry in state.entries
    )
    return replace(state, entries=tuple(entries))


def _ended(state: AlertState, clock: int, now: int, *, extra: bool = False) -> AlertState:
    """End the windows whose end is one window length ago, with `extra` two lengths, and return the state."""

    def is_past(entry: Entry) -> bool:
        if entry.end_ms is None:
            return False
        return clock >= entry.end_ms + (entry.end_ms - entry.start_ms) * (2 if extra else 1)

    entries = (_over(entry, now, "the window is over") if is_past(entry) else entry for entry in state.entries)
    return replace(state, entries=tuple(entries))
