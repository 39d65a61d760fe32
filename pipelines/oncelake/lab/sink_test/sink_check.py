"""Test a sink: batches, values, replays, a rebuild, removals, errors, two writers, and kills before every line.

Each step runs in a process of its own, through the code that applies batches in a run. After each step another process
reads what the sink holds, and compares it with what the batches made. Spark is not started.
"""

import gc
import random
import signal
import sys
import time
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oncelake.common.wording import count_of
from oncelake.lab.sink_test.course import Course, FaultError, must
from oncelake.lab.sink_test.made import (
    MAIN,
    NAME,
    PART,
    REMOVED,
    SIZES,
    VALUES,
    WINDOWS,
    MadeError,
    MadeTable,
    values_table,
)
from oncelake.lab.sink_test.process import Halt, Line, Step, run
from oncelake.serving.load import make_sink, sink_class
from oncelake.serving.patience import NONE
from oncelake.serving.sink import Safety, Sink

# Seconds that a second writer may wait for the first.
_LOCKED_OUT = 1.5
LINES, PAUSES = 150, 12


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
    _main: Course = field(init=False)
    _values: Course = field(init=False)

    def checks(self) -> Iterator[SinkCheck]:
        """Run the test, and yield what holds and what does not.

        Raises:
            ConfigError: the class cannot be loaded or made.
        """
        self._kind = sink_class(self.name)
        sink = make_sink(self.name, NAME, self.options)
        self._places = _places_of(self._kind)
        self._main, self._values = self._course(MAIN), self._course(values_table(nul=sink.keeps_nul))
        steps: list[tuple[str, Callable[[], str]]] = [
            ("an emptied table", self._emptied),
            ("batches", self._batches),
            ("replays", self._replays),
            ("a late write", self._late_writes),
            ("a start from the last batch", self._seeding),
            ("a rebuild", self._rebuild),
            ("values", self._value_checks),
            ("sizes", self._sizes),
            ("another table", self._another_table),
            ("a table without keys", self._windows),
            ("removing rows", self._removals),
            ("an error of the rows", self._errors_of_rows),
            ("an error before each line", self._errors_at_lines),
            ("two writers", self._two_writers),
            ("a kill before each line", self._killed_at_lines),
            ("a kill in a rebuild", self._killed_in_a_rebuild),
        ]
        if self.kills:
            steps.append(("kills at random moments", self._killed_at_random))
        for name, step in steps:
            try:
                yield SinkCheck(name, True, step())
            except FaultError as fault:
                yield SinkCheck(name, False, str(fault))
                try:
                    self._main.empty()  # the next check begins with a table that is right
                except FaultError:
                    return

    # --- the checks ---

    def _course(self, table: MadeTable) -> Course:
        return Course(self.name, self.options, self._kind, self._places, table)

    def _emptied(self) -> str:
        self._main.make()
        self._main.empty()
        return f"no batch and no row; declared as {self._kind.safety}"

    def _batches(self) -> str:
        for _ in range(3):
            self._main.apply_next()
        unread = (
            "" if self._main.look().rows is not None else "; the rows are NOT compared: the class has no method read"
        )
        return f"{count_of(3, 'batch')}, each with its rows and its position{unread}"

    def _replays(self) -> str:
        main = self._main
        before = main.look()
        again = must(run(main.batch(main.done - 1)), "a replay of the last batch")
        if not again.value.replayed:
            raise FaultError("the last batch was written again instead of being recognized as a replay")
        older = run(main.batch(main.done - 2))
        if not older.error.startswith("ReplayError"):
            raise FaultError(f"an older batch was not refused: {older.error or 'it was written'}")
        main.must_be(main.done, "after replays of the last two batches")
        if main.look() != before:
            raise FaultError("a replay changed what the sink holds")
        return "the last batch again, and an older one: nothing changed"

    def _late_writes(self) -> str:  # guard: kit-writes-late-batch
        """Call `write` with batches that are written already, as a process does that decided before another wrote."""
        main = self._main
        for back in (1, 2):
            number = main.done - back
            answer = main.late(number, main.look().version - back + 1)
            main.must_be(main.done, f"after batch {number} was written a second time ({answer})")
        return "two batches that are stored already were written again past the check of replays: nothing changed"

    def _seeding(self) -> str:  # guard: kit-writes-in-turns
        main = self._main
        seen, note = main.look(), main.table.metadata(main.done - 1, main.query)
        if (seen.query, seen.batch_id, seen.offset_log) != (note.query_id, note.batch_id, note.after):
            raise FaultError(
                f"a new process finds batch {seen.batch_id} of query {seen.query!r} and the checkpoint text "
                f"{seen.offset_log!r}, instead of batch {note.batch_id} of {note.query_id!r} and {note.after!r}"
            )
        main.apply_next()

        def two_objects(sink: Sink) -> bool:
            """Let another object write a batch between two batches of one object."""
            main.apply(sink, main.done)
            main.apply(make_sink(self.name, NAME, self.options), main.done + 1)
            replayed = main.apply(sink, main.done + 1).replayed
            main.apply(sink, main.done + 2)
            return replayed

        if not must(run(main.child(two_objects)), "a batch after another object has written one").value:
            raise FaultError("a batch that another object has written was not recognized as a replay")
        main.done += 3
        main.must_be(main.done, "after two objects wrote in turns")
        return "a new process finds query, batch and position, and continues"

    def _rebuild(self) -> str:
        main = self._main
        before, old = main.look().version, main.done
        main.empty()
        for _ in range(2):
            main.apply_next()
        if self._kind.safety is Safety.BY_KEY and main.look().version <= before:
            raise FaultError(f"the version went from {before} back to {main.look().version} over a rebuild")
        late = run(main.child(lambda sink: main.apply(sink, old, "an old query")))
        if not late.error.startswith("ReplayError"):
            raise FaultError(f"a batch of the query before the rebuild was not refused: {late.error or 'written'}")
        main.must_be(main.done, "after a batch of the query before the rebuild")
        return "the table was emptied and filled again by a new query; a batch of the old one was refused"

    def _another_table(self) -> str:  # guard: kit-writes-two-tables
        """Empty and write a second table, and check that the first one does not change, nor the second by the first."""
        self._main.empty()
        self._main.apply_next()
        self._begin_values()
        for one, other in ((self._values, self._main), (self._main, self._values)):
            if one is self._main:
                one.apply_next()
            name = one.table.name
            other.must_be(other.done, f"after {name} was {'written' if one is self._main else 'emptied'}")
        self._values.apply_next()
        self._main.must_be(self._main.done, f"after {self._values.table.name} was written")
        return "two tables were emptied and written in turns: neither changed the other"

    def _value_checks(self) -> str:
        self._begin_values()
        while self._values.done < VALUES:
            self._values.apply_next()
        rows = len(self._values.table.batch(0).rows)
        return f"{rows} rows that differ in one value or in a few characters of their key came back as they were"

    def _sizes(self) -> str:  # guard: kit-writes-any-size
        """Write batches of no row, one part, ten and a hundred."""
        if self._values.done != VALUES:
            self._begin_values(VALUES)
        while self._values.done < SIZES:
            self._values.apply_next()
        return f"no row, and 1, 10 and 100 parts of {PART} rows; each stored with all of its rows"

    def _windows(self) -> str:  # guard: kit-writes-without-keys
        windows = self._course(WINDOWS)
        try:
            windows.make()
        except FaultError as fault:
            if "ConfigError: " in str(fault):  # such as parquet files that are split by a key
                return f"NOT tried, as the class refuses it: {str(fault).partition('ConfigError: ')[2]}"
            raise
        windows.empty()
        for _ in range(3):
            windows.apply_next()
        return "its key is a time, from the year 1 to 9999; its first batch has no row"

    def _removals(self) -> str:
        if not self._kind_removes():
            return "NOT tried: the class has no method remove, which may be left out"
        values = self._values
        if values.done != REMOVED:
            self._begin_values(REMOVED)
        values.apply_next()
        version = values.look().version
        if not must(run(values.batch(REMOVED)), "a removal that was done before").value.replayed:
            raise FaultError("a removal was done again instead of being recognized as a replay")
        values.late(REMOVED - 1, version - 1)
        # guard: kit-writes-after-removal
        values.must_be(values.done, "after rows were removed and an older batch with these rows was written late")
        values.apply_next()
        values.late(REMOVED, version)
        # guard: kit-removes-twice
        values.must_be(values.done, "after removed rows were written again and the removal came a second time")
        while values.done < REMOVED + 4:
            values.apply_next()
        self._next_removal()
        chosen = _spread(values.lines(), self.pauses)
        for at, line in chosen:
            self._next_removal()
            run(values.batch(values.done), Halt(at, signal.SIGKILL, self._places))
            values.must_survive(f"after a kill before {_named(line)} in a removal")  # guard: kit-kills-during-removal
        return f"keys with and without rows, none, a late one, and {count_of(len(chosen), 'kill')} in a removal"

    def _next_removal(self) -> None:
        """Write batches up to the next one that removes rows."""
        while not self._values.table.batch(self._values.done).removes:
            self._values.apply_next()

    def _errors_of_rows(self) -> str:
        """Raise an error before a part of the rows, after the last part, and in the middle of a part."""
        main = self._main
        parts = -(-len(main.table.batch(main.done).rows) // PART)
        places = [f"before part {at + 1}" for at in range(parts)]
        places += ["after the last part", "in the middle of part 2"]
        for at, place in enumerate(places):
            # oncelake asks once before the first part, once for each part, and once at the end
            self._raise_in_rows(at + 1 if at <= parts else None, PART + 1 if at > parts else None, place)
        return f"{count_of(len(places), 'error')} while the rows were taken: each passed, and nothing was stored"

    def _raise_in_rows(self, calls: int | None, row: int | None, place: str) -> None:
        main, number = self._main, self._main.done
        when = f"after the rows of batch {number} raised an error {place}"

        def step(sink: Sink) -> str:
            count = 0

            def fence() -> None:
                nonlocal count
                if calls is not None and count >= calls:
                    raise MadeError("this process may no longer write: an error made by the test")
                count += 1

            try:
                main.table.served_by(sink).apply(
                    main.table.rows(number, row), main.table.metadata(number, main.query), NONE, fence
                )
            except MadeError:
                return ""
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            return "none"

        raised = must(run(main.child(step)), when).value
        seen = main.look()
        if seen.batch_id == number:
            # guard: kit-finds-swallowed-error
            raise FaultError(f"{when}: the batch is stored. Let the errors pass that the rows raise, and store nothing")
        if raised:
            raise FaultError(f"{when}: write did not let it pass, it ended with {raised}")  # guard: kit-sees-row-errors
        main.must_be_either(seen, when)  # guard: kit-reads-after-error
        main.apply_next(f"{when}, and the batch again")

    def _errors_at_lines(self) -> str:  # guard: kit-applies-failed-again
        """Raise an error before a line of the sink, read what is there, and apply the batch again by one object."""
        main = self._main
        chosen = _spread(main.lines(), 3 * self.pauses)
        for at, line in chosen:
            number = main.done
            when = f"after an error before {_named(line)}"

            def step(sink: Sink, number: int = number) -> object:
                main.apply(sink, number)
                return main.seen(sink)

            def steps(number: int = number) -> object:
                sinks: list[Sink] = []
                with_error = False
                try:
                    main.child(sinks.append)()
                    main.apply(sinks[0], number)
                except Exception:
                    with_error = True
                gc.collect()  # what a frame of the failed call holds
                between = main.child(main.seen)() if with_error else None
                return between, step(sinks[0], number) if sinks else main.child(step)()

            between, after = must(run(steps, Halt(at, None, self._places)), f"batch {number}, {when}").value
            if between is not None:
                main.must_be_either(between, when)
            main.done += 1
            main.must_be(main.done, f"{when}, and the same batch again by the same object", after)
        return f"{count_of(len(chosen), 'error')}, each in the middle of a batch, which was then applied again"

    def _begin_values(self, batches: int = 0) -> None:
        """Empty the second table, and apply some batches to it."""
        if not self._values.queries:
            self._values.make()
        self._values.empty()
        while self._values.done < batches:
            self._values.apply_next()

    def _kind_removes(self) -> bool:
        return make_sink(self.name, NAME, self.options).removes

    def _two_writers(self) -> str:  # guard: kit-lets-stopped-continue
        """Stop a writer before a line, let a successor write this batch and the next one, and let it continue."""
        main = self._main
        chosen = _spread(main.lines(), self.pauses)
        waited = 0
        for at, line in chosen:
            number = main.done

            def both(number: int = number) -> None:
                for batch_number in (number, number + 1):
                    main.batch(batch_number)()

            with Step(main.batch(number), Halt(at, signal.SIGSTOP, self._places)) as old:
                old.has_stopped()
                with Step(both) as new:
                    first = new.outcome(_LOCKED_OUT)
                    waited += first is None
                    old.go_on()
                    ended = first or new.outcome()
                    old.outcome()
            if ended is None or ended.error or ended.killed:  # it gave up while the other one held a lock
                must(run(both), "the successor of a writer that was stopped")
            main.done += 2
            main.must_be(
                main.done,
                f"after a writer of batch {number} was stopped before {_named(line)}, a successor wrote batches "
                f"{number} and {number + 1}, and the first one continued",
            )
        locked = f", {waited} times the successor had to wait for it" if waited else ""
        return f"a writer was stopped before {count_of(len(chosen), 'line')}, and continued after its successor{locked}"

    def _killed_at_lines(self) -> str:
        main = self._main
        chosen = _spread(main.lines(), self.lines)
        for at, line in chosen:
            run(main.batch(main.done), Halt(at, signal.SIGKILL, self._places))
            main.must_survive(f"after a kill before {_named(line)}")  # guard: kit-kills-each-line
        return f"{count_of(len(chosen), 'kill')}, each in the middle of a batch"

    def _killed_in_a_rebuild(self) -> str:
        main = self._main
        empty = main.child(lambda sink: main.table.served_by(sink).empty())
        lines = must(run(empty, Halt(None, signal.SIGKILL, self._places)), "empty").lines
        chosen = _spread(list(enumerate(lines)), self.pauses)
        for at, line in chosen:
            main.empty()
            main.apply_next()
            run(empty, Halt(at, signal.SIGKILL, self._places))
            must(run(empty), f"empty after a kill before {_named(line)}")
            # guard: kit-kills-while-emptying
            main.must_be(0, f"after a rebuild was killed before {_named(line)} and begun again")
            main.done = 0
        return f"{count_of(len(chosen), 'kill')} while the table was emptied, which was then done again"

    def _killed_at_random(self) -> str:
        main, drawn = self._main, random.Random(self.seed)
        began = time.monotonic()
        main.apply_next()
        usual, hit = time.monotonic() - began, 0
        for number in range(self.kills):
            with Step(main.batch(main.done)) as victim:
                ended = victim.outcome(drawn.uniform(0, usual))
                if ended is None:
                    victim.kill()
                    hit += 1
            main.must_survive(f"after kill {number + 1} at a random moment, seed {self.seed}")
        return f"{count_of(self.kills, 'kill')}, {hit} of them in the middle of a batch, seed {self.seed}"


def _places_of(kind: type[Sink]) -> tuple[str, ...]:
    """Return the directories of a sink's own code: those of its class and of the classes that it derives from."""
    modules = {class_.__module__ for class_ in kind.__mro__ if class_ not in (Sink, ABC, object)}
    files = (getattr(sys.modules.get(module), "__file__", None) for module in sorted(modules))
    return tuple(sorted({str(Path(file).parent) for file in files if file}))


def _spread(lines: list[tuple[int, Line]], most: int) -> list[tuple[int, Line]]:
    """Return at most this many lines, evenly spread."""
    if len(lines) <= most:
        return lines
    return [lines[index * len(lines) // most] for index in range(most)]


def _named(line: Line) -> str:
    return f"line {line[1]} of {Path(line[0]).name}"
