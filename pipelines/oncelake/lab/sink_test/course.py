"""Apply the batches of a generated table to the sink under test, each step in its own process; check the content."""

import reprlib
import signal
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from oncelake.common.errors import OvertakenError
from oncelake.lab.sink_test.made import PART, MadeTable, SinkContents
from oncelake.lab.sink_test.process import Halt, Line, Outcome, run
from oncelake.serving import rows as serving_rows
from oncelake.serving.load import make_sink
from oncelake.serving.patience import Patience
from oncelake.serving.sink import Row, Safety, Sink, SinkBatch, SinkRows, SinkTable

# Seconds that a sink may be unavailable.
_PATIENCE = 10.0
# The first lines of a loop are enough: how often a line is chosen.
_TIMES = 2
# Characters of a value in a message.
_SHORT = 60


class FaultError(Exception):
    """Raised when a sink does not do what it must."""


@dataclass
class Course:
    """A generated table in the sink, and the batches that were applied to it.

    Attributes:
        name: the class of the sink, as `module:Class`.
        options: what it is given.
        kind: the class.
        places: the directories of its own code.
        table: the table.
        done: how many batches of the query are applied.
        queries: how many queries have been begun.
    """

    name: str
    options: Mapping[str, str]
    kind: type[Sink]
    places: tuple[str, ...]
    table: MadeTable
    done: int = field(default=0, init=False)
    queries: int = field(default=0, init=False)

    @property
    def query(self) -> str:
        """The query of the batches."""
        return f"query {self.queries}"

    # --- what a process does ---

    def child(self, work: Callable[[Sink], object]) -> Callable[[], object]:
        """Return a function for a process: it makes the sink, and calls `work` with it."""

        def step() -> object:
            serving_rows.CHUNK = PART  # of this process alone
            return work(make_sink(self.name, self.table.name, self.options))

        return step

    def apply(self, sink: Sink, number: int, query: str | None = None) -> "AppliedBatch":
        """Apply a batch as a run does."""
        spy = _Spy(sink)
        served = self.table.served_by(sink)
        change = served.remove if self.table.batch(number).removes else served.apply
        with spy:
            written = change(
                self.table.rows(number), self.table.metadata(number, query or self.query), Patience(_PATIENCE), _free
            )
        return AppliedBatch(written.replayed, spy.batch)

    def batch(self, number: int) -> Callable[[], object]:
        """Return a function for a process: it applies a batch."""
        return self.child(lambda sink: self.apply(sink, number))

    def late(self, number: int, version: int) -> str:
        """Call `write` or `remove` with a batch that is written already, past oncelake's own check."""

        def change(sink: Sink) -> str:
            served, note = self.table.served_by(sink), self.table.metadata(number, self.query)
            batch = SinkBatch(
                served.stage,
                version,
                note.query_id,
                number,
                note.before,
                note.end or "",
                offset_log=note.after,
                source=f"gold.{self.table.name}@{note.source['table_id']}",
            )
            rows = self.table.rows(number)
            method = sink.remove if self.table.batch(number).removes else sink.write
            try:
                method(served.shape(self.table.schema), batch, SinkRows(rows.count, rows.chunks))
            except OvertakenError:
                return "refused"
            return "accepted"

        return str(must(run(self.child(change)), f"a second write of batch {number}").value)

    def seen(self, sink: Sink) -> SinkContents:
        """Return what a sink holds."""
        served = self.table.served_by(sink)
        if not sink.reads_back:
            last, rows = sink.last(), None
        else:
            with served.snapshot(self.table.schema) as stored:
                last, rows = stored.last, tuple(stored.rows)
        metadata = served.state().metadata
        return SinkContents(last, metadata.after if metadata else "", rows)

    # --- the steps ---

    def make(self) -> None:
        """Create what the table needs, and check it.

        Raises:
            FaultError: `make` or `check` failed.
        """
        must(run(self.child(lambda sink: self.table.served_by(sink).make(self.table.schema))), "make")
        must(run(self.child(lambda sink: self.table.served_by(sink).check(self.table.schema))), "check")

    def look(self) -> SinkContents:
        """Return what the sink holds."""
        return must(run(self.child(self.seen)), "reading").value  # type: ignore[no-any-return]

    def apply_next(self, when: str = "") -> None:
        """Apply a batch, and check what the sink holds then."""
        number, first = self.done, not when  # an earlier attempt may have stored the batch with its own clock
        apply, look = self.batch(number), self.child(self.seen)
        what = f"batch {number}{when and f', {when},'}"
        applied, seen = must(run(lambda: (apply(), look())), what).value
        self.done += 1
        when = when or f"after batch {number} ({self._what(number)})"
        self.must_be(self.done, when, seen)
        if first and applied.batch is not None:
            _must_be_stored(applied.batch, seen.last, when)

    def _what(self, number: int) -> str:
        batch = self.table.batch(number)
        parts = -(-len(batch.rows) // PART)
        if batch.removes:
            return f"removes {len(batch.rows)} keys"
        return f"{len(batch.rows)} rows in {parts} {'part' if parts == 1 else 'parts'}" if batch.rows else "no rows"

    def empty(self) -> None:
        """Empty the table, and begin a new query."""
        must(run(self.child(lambda sink: self.table.served_by(sink).empty())), "empty")
        self.done, self.queries = 0, self.queries + 1
        self.must_be(0, "after the table was emptied")

    def lines(self) -> list[tuple[int, Line]]:
        """Apply a batch, and return the lines of the sink's own code that it ran, each with its place in the order."""
        outcome = must(run(self.batch(self.done), Halt(None, signal.SIGKILL, self.places)), f"batch {self.done}")
        self.done += 1
        seen: Counter[Line] = Counter()
        lines = []
        for at, line in enumerate(outcome.lines):
            seen[line] += 1
            if seen[line] <= _TIMES:
                lines.append((at, line))
        return lines

    # --- what must be there ---

    def must_survive(self, when: str) -> None:
        """Check what a killed process left, let a successor write its batch again, and check that too."""
        self.must_be_either(self.look(), when)
        self.apply_next(f"{when}, and the same batch again")

    def must_be_either(self, seen: SinkContents, when: str) -> None:
        """Check that the sink holds what it held before an unfinished batch, or the batch as a whole.

        A sink that is safe by key may hold some of the rows of the batch before it is stored.
        """
        if seen.batch_id == self.done and seen.query == self.query:
            self.must_be(self.done + 1, when, seen)
        elif self.kind.safety is Safety.ONE_TRANSACTION or not self.done:
            self.must_be(self.done, when, seen)
        else:
            self._must_be_between(seen, when)

    def must_be(self, batches: int, when: str, seen: SinkContents | None = None) -> None:
        """Check that the sink holds exactly this many batches.

        Args:
            batches: the batches of the query.
            when: when this is checked, for a fault.
            seen: what the sink holds, if it was read.
        """
        seen, last = seen or self.look(), batches - 1 if batches else None
        if seen.batch_id != last:
            # guard: kit-compares-last-batch
            raise FaultError(f"{when}: the last batch is {seen.batch_id}, expected: {last}")
        if last is not None and seen.query != self.query:
            raise FaultError(f"{when}: the last batch is of {seen.query!r}, expected: {self.query!r}")
        if seen.rows is None:
            return
        fault = self._difference(seen.rows, batches)
        if fault:
            raise FaultError(f"{when}, the last batch is {last}: {fault}")

    def _must_be_between(self, seen: SinkContents, when: str) -> None:
        """Check that each row is as it was before an unfinished batch, or as the batch makes it."""
        before, after = self.table.content_after(self.done), self.table.content_after(self.done + 1)
        if seen.batch_id != self.done - 1:
            raise FaultError(f"{when}: the last batch is {seen.batch_id}, expected: {self.done - 1} or {self.done}")
        if seen.rows is None:
            return
        rows_by_key = {row[0]: row for row in seen.rows}
        if len(rows_by_key) < len(seen.rows):
            raise FaultError(f"{when}: {len(seen.rows) - len(rows_by_key)} keys are there twice")
        for key in before.keys() | rows_by_key.keys():
            if rows_by_key.get(key) not in (before.get(key), after.get(key)):
                raise FaultError(f"{when}: {self._difference(seen.rows, self.done)}")

    def _named(self, key: str | datetime, batches: int) -> str:
        label = self.table.label(key, batches)
        return f"the row with the key {_key(key)}" + (f" ({label})" if label else "")

    def _misshapen(self, rows: Sequence[Row], batches: int) -> str:  # guard: kit-checks-row-length
        """Describe a row that has not the number of values or the type of key that rows have; empty without one."""
        names, key = self.table.names, next(iter(self.table.content_after(batches)), None)
        for row in rows:
            if not isinstance(row, tuple) or len(row) != len(names):
                return f"read yields {_shown(row)}, expected: a tuple of {len(names)} values, {', '.join(names)}"
            if key is not None and type(row[0]) is not type(key):
                return f"a row has the key {_shown(row[0])}, expected: one such as {_shown(key)}"
        return ""

    def _difference(self, rows: Sequence[Row], batches: int) -> str:
        """Describe how rows differ from those that there must be after some batches; empty if they do not."""
        if wrong := self._misshapen(rows, batches):
            return wrong
        names, expected = self.table.names, self.table.content_after(batches)
        keys = [row[0] for row in rows]
        number = f"{len(keys)} rows instead of {len(expected)}"
        if len(set(keys)) < len(keys):  # guard: kit-counts-rows
            key, times = Counter(keys).most_common(1)[0]
            return f"{number}: the row with the key {_key(key)} is there {times} times"
        rows_by_key = {row[0]: row for row in rows}
        for key, row in expected.items():
            if key not in rows_by_key:
                return f"{number}: {self._named(key, batches)} is missing"
            for name, one, other in zip(names, rows_by_key[key], row, strict=True):
                if one != other or type(one) is not type(other):  # guard: kit-compares-values
                    return f"in {self._named(key, batches)}, {name} is {_shown(one)}, expected: {_shown(other)}"
        for key in rows_by_key.keys() - expected.keys():
            return f"{number}: the row with the key {_key(key)} should not be there"  # guard: kit-finds-extra-rows
        # guard: kit-compares-order
        return "" if keys == sorted(keys) else "the rows are not in the order of their key"


@dataclass(frozen=True)
class AppliedBatch:
    """What applying a batch did.

    Attributes:
        replayed: True if the sink had it already.
        batch: the batch that the sink was given last; None if it was given none.
    """

    replayed: bool
    batch: SinkBatch | None


class _Spy:
    """Keeps the batch that a sink is given while the block runs."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.batch: SinkBatch | None = None

    def __enter__(self) -> None:
        for name in ("write", "remove"):
            setattr(self._sink, name, self._through(getattr(self._sink, name)))

    def __exit__(self, *_: object) -> None:
        for name in ("write", "remove"):
            delattr(self._sink, name)

    def _through(self, method: Callable[[SinkTable, SinkBatch, SinkRows], None]) -> Callable[..., None]:
        def call(table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
            self.batch = batch
            method(table, batch, rows)

        return call


def must(outcome: Outcome, what: str) -> Outcome:
    """Return how a step ended.

    Raises:
        FaultError: it raised an error, or was killed.
    """
    if outcome.error or outcome.killed:
        raise FaultError(f"{what} failed: {outcome.error or 'the process was killed'}")
    return outcome


def _free() -> None:
    """Let the process write."""


def _must_be_stored(batch: SinkBatch, stored: SinkBatch | None, when: str) -> None:
    """Check that a batch is stored as it was given."""
    stored_fields = asdict(stored) if stored else {}
    for name, value in asdict(batch).items():
        if stored_fields.get(name) != value:
            raise FaultError(  # guard: kit-compares-stored-batch
                f"{when}: the stored batch has {name} {_shown(stored_fields.get(name))}, expected: {_shown(value)}. "
                "Store all of it: to_json returns it as text"
            )


def _key(key: object) -> str:
    """Return a key for a message: its first and last characters, as keys may differ in either."""
    return f"{key:.8}…{key[-4:]}" if isinstance(key, str) else _shown(key)


def _shown(value: Any) -> str:
    """Return a value for a message: its type where that is not plain, and the length of a long one."""
    if isinstance(value, str) and value != unicodedata.normalize("NFC", value):
        return ascii(value)  # its composed form looks the same
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = _SHORT
    if isinstance(value, str | bytes) and len(value) > _SHORT:
        return f"{short.repr(value)} ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"
    return short.repr(value)
