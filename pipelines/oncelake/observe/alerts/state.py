"""The durable state of an alert: what it has looked at, and which of its messages are sent.

It is one small file below `<lake>/_alerts/<name>`, with a new number for each change. A file is written whole, and the
newest one that can be read counts. So a process that dies while it writes leaves the state before.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from oncelake.common.errors import StateError
from oncelake.common.wording import utc
from oncelake.exactly_once.files import Files

FORM = 1
# The number of files that are not removed.
STATE_FILES = 3
# An alert remembers this many windows whose messages are sent; it looks only at windows after those it has forgotten.
MEMORY = 2_000


@dataclass(frozen=True)
class Entry:
    """One window, or one span of time, in which the condition holds, and which of its messages are sent.

    Attributes:
        key: the key of its messages.
        start_ms: the window's start, or the first look at which the condition held, in milliseconds since 1970.
        end_ms: the window's end; None if the condition is not about windows.
        text: what was found, in words.
        sent_ms: when its message was sent; None before.
        over_ms: when it was found to be over; None before.
        over: why it is over, in words.
    """

    key: str
    start_ms: int
    end_ms: int | None
    text: str
    sent_ms: int | None = None
    over_ms: int | None = None
    over: str = ""

    @property
    def unsent(self) -> int:
        """Return how many of its messages are due and not sent."""
        return (self.sent_ms is None) + (self.over_ms is not None)


@dataclass(frozen=True)
class AlertState:
    """The state of an alert.

    Attributes:
        when: the condition that it is about.
        since_ms: only windows that end after this time count, in milliseconds since 1970.
        declared: the `since` of the configuration that it began with, in milliseconds since 1970.
        table_id, version: the gold table and its version that was looked at last.
        until_ms: up to which time finished windows were looked at.
        newest_ms: the start of the newest window at that version.
        entries: what is open or not sent.
        done: the starts of the windows whose messages are all sent.
        last_ms: when the last message was sent.
        failed: why the last attempt failed; empty after a success.
        number: the number of its file; 0 before the first.
    """

    when: str
    since_ms: int
    declared: int | None = None
    table_id: str | None = None
    version: int | None = None
    until_ms: int = 0
    newest_ms: int | None = None
    entries: tuple[Entry, ...] = ()
    done: tuple[int, ...] = ()
    last_ms: int | None = None
    failed: str = ""
    number: int = field(default=0, compare=False)

    @property
    def unsent(self) -> int:
        """Return how many messages are due and not sent."""
        return sum(entry.unsent for entry in self.entries)

    @property
    def open(self) -> int:
        """Return for how many windows or times the condition holds."""
        return sum(entry.over_ms is None for entry in self.entries)

    def put(self, entry: Entry) -> Self:
        """Replace the entry that has the same key, and return the state."""
        return replace(self, entries=tuple(entry if other.key == entry.key else other for other in self.entries))

    def finish(self, entry: Entry) -> Self:
        """Return the state without an entry whose messages are all sent; its window is remembered.

        If there are too many windows to remember, the earliest is forgotten, and earlier ones no longer count.
        """
        entries = tuple(other for other in self.entries if other.key != entry.key)
        if entry.end_ms is None:
            return replace(self, entries=entries)
        done, since = sorted({*self.done, entry.start_ms}), self.since_ms
        length = entry.end_ms - entry.start_ms
        for start in done[:-MEMORY]:
            since = max(since, start + length)
        return replace(self, entries=entries, done=tuple(done[-MEMORY:]), since_ms=since)


def key_of(lake: str, alert: str, when: str, start: str) -> str:
    """Return the key of the messages about one window: the same for each attempt, run and process.

    Args:
        lake: the lake's root or catalog.
        alert: the alert's name.
        when: the condition.
        start: the window's start, in UTC.
    """
    # guard: alert-key-from-window
    digest = hashlib.sha256("\n".join((lake, alert, when, start)).encode()).hexdigest()[:16]
    return f"{alert}/{start}/{digest}"


def directory(lake: str, alert: str) -> str:
    """Return the directory of an alert's state."""
    return f"{lake}/_alerts/{alert}"


def read_state(files: Files, where: str) -> AlertState | None:
    """Return the newest state of an alert that can be read; None if there is none yet.

    Raises:
        StateError: there are files, but none of them can be read.
    """
    numbers = _numbers(files, where)
    for number in reversed(numbers):
        try:
            value: dict[str, Any] = json.loads(files.read(_path(where, number)) or "")
            if value.pop("form") == FORM:
                entries = tuple(Entry(**entry) for entry in value.pop("entries"))
                return AlertState(**{**value, "done": tuple(value["done"])}, entries=entries, number=number)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    if numbers:
        raise StateError(  # guard: unreadable-alert-state
            f"{where}: the state of the alert cannot be read. Restore one of its files; or remove the directory: then "
            "messages that are not sent are lost, and the alert begins now"
        )
    return None


def read_states(files: Files, lake: str, names: Iterable[str]) -> dict[str, AlertState | None]:
    """Return the states of alerts, by name, as `read_state` does.

    Args:
        files: access to the files next to the tables.
        lake: their directory.
        names: the alerts.
    """
    return {name: read_state(files, directory(lake, name)) for name in names}


def write_state(files: Files, where: str, state: AlertState) -> AlertState:
    """Write a state under the next number, remove old files, and return it.

    Raises:
        OSError: the lake is not writable.
    """
    value = asdict(state)
    number = max(state.number, *_numbers(files, where), 0) + 1
    del value["number"]
    files.write(_path(where, number), json.dumps({"form": FORM, **value}))
    for old in _numbers(files, where)[:-STATE_FILES]:
        files.remove(_path(where, old))
    return replace(state, number=number)


def _path(where: str, number: int) -> str:
    return f"{where}/{number:012}.json"


def _numbers(files: Files, where: str) -> list[int]:
    return sorted(int(name[:12]) for name in files.names(where) if re.fullmatch(r"\d{12}\.json", name))


@dataclass(frozen=True)
class AlertStatus:
    """An alert and its state, for people and programs.

    Attributes:
        alert: the name.
        when: the condition.
        to: the kind of the receiver.
        state: `new` before the first look, `open` while the condition holds, otherwise `quiet`.
        open: for how many windows or times the condition holds.
        unsent: how many messages are due and not sent.
        failed: why the last attempt failed; empty after a success.
        last_sent: when the last message was sent, in UTC; null before the first.
        since: only windows that end after this time count, in UTC; null before the first look.
        version: the version of the gold table that was looked at last; null for another condition.
        keys: the keys of the open windows or times.
    """

    alert: str
    when: str
    to: str
    state: str
    open: int = 0
    unsent: int = 0
    failed: str = ""
    last_sent: str | None = None
    since: str | None = None
    version: int | None = None
    keys: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""
        return asdict(self)


def status_of(name: str, when: str, to: str, state: AlertState | None) -> AlertStatus:
    """Return the status of an alert with a state; None before the first look."""
    if state is None or state.when != when:
        return AlertStatus(name, when, to, "new")
    return AlertStatus(
        name,
        when,
        to,
        "open" if state.open else "quiet",
        state.open,
        state.unsent,
        state.failed,
        utc(state.last_ms) if state.last_ms is not None else None,
        utc(state.since_ms),
        state.version,
        tuple(entry.key for entry in state.entries if entry.over_ms is None),
    )
