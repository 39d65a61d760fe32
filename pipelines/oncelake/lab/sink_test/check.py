"""Test a sink: batches, replays, a start from its last batch, a rebuild, two writers, and kills before every line.

Each step runs in a process of its own, through the code that applies batches in a run. After each step another process
reads what the sink holds, and compares it with what the batches made. Spark is not started.
"""

import random
import signal
import sys
import time
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from oncelake.common.errors import OvertakenError
from oncelake.common.wording import count_of
from oncelake.lab.sink_test import made
from oncelake.lab.sink_test.made import NAME, Seen, batch_rows, content_after, metadata_of, served_by
from oncelake.lab.sink_test.process import Halt, Line, Outcome, Step, run
from oncelake.serving import rows as serving_rows
from oncelake.serving.load import make_sink, sink_class
from oncelake.serving.patience import Patience
from oncelake.serving.sink import Row, Safety, Sink, SinkBatch, SinkRows

# A batch is handed over in parts of this many rows, so that it has several.
_PART = 3
# Seconds that a sink may be unavailable, and that a second writer may wait for the first.
_PATIENCE, _LOCKED_OUT = 10.0, 1.5
# The first lines of a loop are enough: how often a line is chosen, and how many lines in all.
_TIMES, LINES, PAUSES = 2, 150, 12


@dataclass(frozen=True)
class SinkCheck:
    """One thing that a sink must do.

    Attributes:
        name: what was checked.
        holds: True if no fault was found.
        said: what was done, or the fault.
    """

    name: str
    holds: bool
    said: str

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'does NOT hold'}: {self.name}: {self.said}"


class _FaultError(Exception):
    """Raised when a sink does not do what it must."""


@dataclass
class SinkTest:
    """The test of one sink.

    Attributes:
        name: the class, as `module:Class`.
        options: what it is given.
        kills: kills at random moments, in addition to those before each line.
        seed: decides the moments.
        lines: before how many lines of the sink a process is killed at most.
        pauses: before how many lines of the sink a process is stopped at most.
    """

    name: str
    options: Mapping[str, str]
    kills: int = 0
    seed: int = 0
    lines: int = LINES
    pauses: int = PAUSES
    _done: int = field(default=0, init=False)
    _query: int = field(default=0, init=False)

    def checks(self) -> Iterator[SinkCheck]:
        """Run the test, and yield what holds and what does not.

        Raises:
            ConfigError: the class cannot be loaded or made.
        """
        self._kind = sink_class(self.name)
        make_sink(self.name, NAME, self.options)
        self._places = places_of(self._kind)
        steps: list[tuple[str, Callable[[], str]]] = [
            ("an emptied table", self._emptied),
            ("batches", self._batches),
            ("replays", self._replays),
            ("a late write", self._late_writes),
            ("a start from the last batch", self._seeding),
            ("a rebuild", self._rebuild),
            ("two writers", self._two_writers),
            ("a kill before each line", self._killed_at_lines),
            ("a kill in a rebuild", self._killed_in_a_rebuild),
        ]
        if self.kills:
            steps.append(("kills at random moments", self._killed_at_random))
        for name, step in steps:
            try:
                yield SinkCheck(name, True, step())
            except _FaultError as fault:
                yield SinkCheck(name, False, str(fault))
                try:
                    self._empty()  # the next check begins with a table that is right
                except _FaultError:
                    return

    # --- the checks ---

    def _emptied(self) -> str:
        self._must(run(self._child(lambda sink: served_by(sink).make(made.SCHEMA))), "make")
        self._must(run(self._child(lambda sink: served_by(sink).check(made.SCHEMA))), "check")
        self._empty()
        return f"no batch and no row; declared as {self._kind.safety}"

    def _batches(self) -> str:
        for _ in range(3):
            self._apply_next()
        return f"{count_of(3, 'batch')}, each with its rows and its position{self._unread()}"

    def _replays(self) -> str:
        before = self._look()
        again = self._must(run(self._batch(self._done - 1)), "a replay of the last batch")
        if again.value is not True:
            raise _FaultError("the last batch was written again instead of being recognized as a replay")
        older = run(self._batch(self._done - 2))
        if not older.error.startswith("ReplayError"):
            raise _FaultError(f"an older batch was not refused: {older.error or 'it was written'}")
        self._must_be(self._done, "after replays of the last two batches")
        if self._look() != before:
            raise _FaultError("a replay changed what the sink holds")
        return "the last batch again, and an older one: nothing changed"

    def _late_writes(self) -> str:
        """Call `write` with batches that are written already, as a process does that decided before another wrote."""
        for number in (self._done - 1, self._done - 2):
            version = self._look().version - (self._done - 1 - number)

            def write(sink: Sink, number: int = number, version: int = version) -> str:
                served, note = served_by(sink), metadata_of(number, self._name)
                batch = SinkBatch(
                    served.stage,
                    version,
                    note.query_id,
                    number,
                    note.before,
                    note.end or "",
                    offset_log=note.after,
                    source=f"gold.{NAME}@{note.source['table_id']}",
                )
                rows = batch_rows(number)
                try:
                    sink.write(served.shape(made.SCHEMA), batch, SinkRows(rows.count, rows.chunks))
                except OvertakenError:
                    return "refused"
                return "accepted"

            found = self._must(run(self._child(write)), f"a second write of batch {number}")
            self._must_be(self._done, f"after batch {number} was written a second time ({found.value})")
        return "two batches that are stored already were written again past the check of replays: nothing changed"

    def _seeding(self) -> str:
        seen, note = self._look(), metadata_of(self._done - 1, self._name)
        if (seen.query, seen.batch_id, seen.offset_log) != (note.query_id, note.batch_id, note.after):
            raise _FaultError(
                f"a new process finds batch {seen.batch_id} of query {seen.query!r} and the checkpoint text "
                f"{seen.offset_log!r}, instead of batch {note.batch_id} of {note.query_id!r} and {note.after!r}"
            )
        self._apply_next()
        return "a new process finds query, batch and position, and continues"

    def _rebuild(self) -> str:
        before, old = self._look().version, self._done
        self._empty()
        for _ in range(2):
            self._apply_next()
        if self._kind.safety is Safety.BY_KEY and self._look().version <= before:
            raise _FaultError(f"the version went from {before} back to {self._look().version} over a rebuild")
        late = run(self._child(lambda sink: _applied(sink, old, "an old query")))
        if not late.error.startswith("ReplayError"):
            raise _FaultError(f"a batch of the query before the rebuild was not refused: {late.error or 'written'}")
        self._must_be(self._done, "after a batch of the query before the rebuild")
        return "the table was emptied and filled again by a new query; a batch of the old one was refused"

    def _two_writers(self) -> str:
        """Stop a writer before a line, let a successor write this batch and the next one, and let it continue."""
        chosen = _spread(self._lines(), self.pauses)
        waited = 0
        for at, line in chosen:
            number = self._done
            both = partial(self._both, number)
            with Step(self._batch(number), Halt(at, signal.SIGSTOP, self._places)) as old:
                old.has_stopped()
                with Step(both) as new:
                    first = new.outcome(_LOCKED_OUT)
                    waited += first is None
                    old.go_on()
                    ended = first or new.outcome()
                    old.outcome()
            if ended is None or ended.error or ended.killed:  # it gave up while the other one held a lock
                self._must(run(both), "the successor of a writer that was stopped")
            self._done += 2
            self._must_be(
                self._done,
                f"after a writer of batch {number} was stopped before {_named(line)}, a successor wrote batches "
                f"{number} and {number + 1}, and the first one continued",
            )
        locked = f", {waited} times the successor had to wait for it" if waited else ""
        return f"a writer was stopped before {count_of(len(chosen), 'line')}, and continued after its successor{locked}"

    def _killed_at_lines(self) -> str:
        chosen = _spread(self._lines(), self.lines)
        for at, line in chosen:
            run(self._batch(self._done), Halt(at, signal.SIGKILL, self._places))
            self._must_survive(f"after a kill before {_named(line)}")
        return f"{count_of(len(chosen), 'kill')}, each in the middle of a batch"

    def _killed_in_a_rebuild(self) -> str:
        empty = self._child(lambda sink: served_by(sink).empty())
        lines = self._must(run(empty, Halt(None, signal.SIGKILL, self._places)), "empty").lines
        chosen = _spread(list(enumerate(lines)), self.pauses)
        for at, line in chosen:
            self._empty()
            self._apply_next()
            run(empty, Halt(at, signal.SIGKILL, self._places))
            self._must(run(empty), f"empty after a kill before {_named(line)}")
            self._must_be(0, f"after a rebuild was killed before {_named(line)} and begun again")
            self._done = 0
        return f"{count_of(len(chosen), 'kill')} while the table was emptied, which was then done again"

    def _killed_at_random(self) -> str:
        drawn = random.Random(self.seed)
        began = time.monotonic()
        self._apply_next()
        usual, hit = time.monotonic() - began, 0
        for number in range(self.kills):
            with Step(self._batch(self._done)) as victim:
                ended = victim.outcome(drawn.uniform(0, usual))
                if ended is None:
                    victim.kill()
                    hit += 1
            self._must_survive(f"after kill {number + 1} at a random moment, seed {self.seed}")
        return f"{count_of(self.kills, 'kill')}, {hit} of them in the middle of a batch, seed {self.seed}"

    # --- the steps ---

    @property
    def _name(self) -> str:
        return f"query {self._query}"

    def _child(self, work: Callable[[Sink], object]) -> Callable[[], object]:
        def step() -> object:
            serving_rows.CHUNK = _PART  # of this process alone
            return work(make_sink(self.name, NAME, self.options))

        return step

    def _batch(self, number: int) -> Callable[[], object]:
        return self._child(lambda sink: _applied(sink, number, self._name))

    def _both(self, number: int) -> None:
        for each in (number, number + 1):
            self._batch(each)()

    def _apply_next(self, when: str = "") -> None:
        """Apply a batch, and check what the sink holds then."""
        number = self._done
        apply, look = self._batch(number), self._child(_seen)
        seen = self._must(run(lambda: (apply(), look())[1]), f"batch {number}{when and f', {when},'}").value
        self._done += 1
        self._must_be(self._done, when or f"after batch {number}", seen)

    def _empty(self) -> None:
        self._must(run(self._child(lambda sink: served_by(sink).empty())), "empty")
        self._done, self._query = 0, self._query + 1
        self._must_be(0, "after the table was emptied")

    def _lines(self) -> list[tuple[int, Line]]:
        """Apply a batch, and return the lines of the sink's own code that it ran, each with its place in the order."""
        outcome = self._must(
            run(self._batch(self._done), Halt(None, signal.SIGKILL, self._places)), f"batch {self._done}"
        )
        self._done += 1
        seen: Counter[Line] = Counter()
        found = []
        for at, line in enumerate(outcome.lines):
            seen[line] += 1
            if seen[line] <= _TIMES:
                found.append((at, line))
        return found

    def _look(self) -> Seen:
        return self._must(run(self._child(_seen)), "reading").value  # type: ignore[no-any-return]

    def _must(self, outcome: Outcome, what: str) -> Outcome:
        if outcome.error or outcome.killed:
            raise _FaultError(f"{what} failed: {outcome.error or 'the process was killed'}")
        return outcome

    def _must_survive(self, when: str) -> None:
        """Check what a killed process left, let a successor write its batch again, and check that too."""
        seen, number = self._look(), self._done
        if seen.batch_id == number:
            self._must_be(number + 1, when, seen)
        elif self._kind.safety is Safety.ONE_TRANSACTION or not number:
            self._must_be(number, when, seen)
        else:
            self._must_be_between(seen, when)
        self._apply_next(f"{when}, and the same batch again")

    def _must_be(self, batches: int, when: str, seen: Seen | None = None) -> None:
        """Check that the sink holds exactly this many batches.

        Args:
            batches: the batches of the query.
            when: when this is checked, for a fault.
            seen: what the sink holds, if it was read.
        """
        seen, last = seen or self._look(), batches - 1 if batches else None
        if seen.batch_id != last:
            raise _FaultError(f"{when}: the last batch is {seen.batch_id}, expected: {last}")
        if last is not None and seen.query != self._name:
            raise _FaultError(f"{when}: the last batch is of {seen.query!r}, expected: {self._name!r}")
        if seen.rows is None:
            return
        wanted = content_after(batches)
        fault = _difference(seen.rows, wanted)
        if fault:
            raise _FaultError(f"{when}, the last batch is {last}: {fault}")

    def _must_be_between(self, seen: Seen, when: str) -> None:
        """Check that each row is as it was before an unfinished batch, or as the batch makes it."""
        before, after = content_after(self._done), content_after(self._done + 1)
        if seen.batch_id != self._done - 1:
            raise _FaultError(f"{when}: the last batch is {seen.batch_id}, expected: {self._done - 1} or {self._done}")
        found = {row[0]: row for row in seen.rows or ()}
        if seen.rows is None:
            return
        if len(found) < len(seen.rows):
            raise _FaultError(f"{when}: {len(seen.rows) - len(found)} keys are there twice")
        for key in before.keys() | found.keys():
            if found.get(key) not in (before.get(key), after.get(key)) or (key in before and key not in found):
                raise _FaultError(f"{when}: {_difference(seen.rows, before)}")

    def _unread(self) -> str:
        return "" if self._look().rows is not None else "; the rows are NOT compared: the class has no method read"


def places_of(kind: type[Sink]) -> tuple[str, ...]:
    """Return the directories of a sink's own code: those of its class and of the classes that it derives from."""
    modules = {each.__module__ for each in kind.__mro__ if each not in (Sink, ABC, object)}
    files = (getattr(sys.modules.get(each), "__file__", None) for each in sorted(modules))
    return tuple(sorted({str(Path(each).parent) for each in files if each}))


def _applied(sink: Sink, number: int, query: str) -> bool:
    """Apply a batch as a run does; return True if it was a replay."""
    written = served_by(sink).apply(batch_rows(number), metadata_of(number, query), Patience(_PATIENCE), lambda: None)
    return written.replayed


def _seen(sink: Sink) -> Seen:
    served = served_by(sink)
    if not sink.reads_back:
        last, rows = sink.last(), None
    else:
        with served.snapshot(made.SCHEMA) as stored:
            last, rows = stored.last, tuple(tuple(row) for row in stored.rows)
    metadata = served.state().metadata
    offset_log = metadata.after if metadata else ""
    if last is None:
        return Seen(None, "", offset_log, 0, rows)
    return Seen(last.batch_id, last.query_id, offset_log, last.version, rows)


def _difference(rows: Sequence[Row], wanted: made.Content) -> str:
    """Describe how rows differ from those that they must be; empty if they do not."""
    found = [row[0] for row in rows]
    if len(set(found)) < len(found):
        key, times = Counter(found).most_common(1)[0]
        return f"{len(found)} rows instead of {len(wanted)}: the row with the key {key:.8}… is there {times} times"
    there = {row[0]: row for row in rows}
    for key, row in wanted.items():
        if key not in there:
            return f"{len(found)} rows instead of {len(wanted)}: the row with the key {key:.8}… is missing"
        if there[key] != row:
            name, one, other = next(
                each for each in zip(made.NAMES, there[key], row, strict=True) if each[1] != each[2]
            )
            return f"in the row with the key {key:.8}…, {name} is {one!r}, expected: {other!r}"
    for key in there.keys() - wanted.keys():
        return f"{len(found)} rows instead of {len(wanted)}: the row with the key {key:.8}… should not be there"
    return "" if found == sorted(found) else "the rows are not in the order of their key"


def _spread(lines: list[tuple[int, Line]], most: int) -> list[tuple[int, Line]]:
    """Return at most this many lines, evenly spread."""
    if len(lines) <= most:
        return lines
    return [lines[each * len(lines) // most] for each in range(most)]


def _named(line: Line) -> str:
    return f"line {line[1]} of {Path(line[0]).name}"
