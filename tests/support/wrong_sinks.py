"""Sinks with one deliberate fault each, and what the kit must say of it."""

import fcntl
import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from oncelake import OvertakenError, Safety, SinkBatch, SinkRows, SinkTable
from oncelake.serving.sink import Row, Sink
from tests.support.sinks import ByKey, PositionFirst, Together


@dataclass(frozen=True)
class WrongSink:
    """A sink with a fault.

    Attributes:
        kind: the class.
        fault: what it does wrong.
        check: the check of the kit that must name it.
        said: what the kit must say.
    """

    kind: type[Sink]
    fault: str
    check: str
    said: str


WRONG: list[WrongSink] = []


def wrong(fault: str, check: str, said: str) -> Callable[[type[Sink]], type[Sink]]:
    """Register a class as a wrong sink."""

    def register(kind: type[Sink]) -> type[Sink]:
        WRONG.append(WrongSink(kind, fault, check, said))
        return kind

    return register


# --- values ---


class Converting(Together):
    """Stores each value as `stored` returns it."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        super().put(connection, batch, [(row[0], *map(self.stored, row[1:])) for row in rows])

    def stored(self, value: Any) -> Any:
        """Return a value as it is stored."""
        raise NotImplementedError


def converts(kind: type, change: Callable[[Any], Any]) -> type[Sink]:
    """Return a class that changes the values of one type; `bool` is not taken for `int`, nor `datetime` for `date`."""

    def stored(_: Sink, value: Any) -> Any:
        return change(value) if type(value) is kind else value

    return type("Converts", (Converting,), {"stored": stored})


def as_float32(value: float) -> float:
    """Return a float as four bytes hold it."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return value


def base(name: str, kind: type, change: Callable[[Any], Any]) -> type[Sink]:
    """Return a base class that changes the values of one type, under a name that a process can import."""
    made = converts(kind, change)
    made.__name__ = made.__qualname__ = name
    made.__module__ = __name__
    globals()[name] = made
    return made


_OF_TYPES: tuple[tuple[str, type, Callable[[Any], Any], str, str, str], ...] = (
    ("Float32", float, as_float32, "a float in 32 bits", "values", "share is"),
    ("RoundedFloat", float, lambda x: float(f"{x:.15g}"), "a float with 15 digits", "values", "share is"),
    ("CappedFloat", float, lambda x: max(min(x, 1e300), -1e300), "a float up to 1e300", "values", "share is 1e+300"),
    ("TinyFloatsAreZero", float, lambda x: 0.0 if abs(x) < 1e-300 else x, "a small float as 0", "values", "share is 0"),
    ("Int32", int, lambda x: (x + 2**31) % 2**32 - 2**31, "a bigint wrapped to 32 bits", "values", "large is"),
    ("Int32Clamped", int, lambda x: max(min(x, 2**31 - 1), -(2**31)), "a bigint cut at 32 bits", "values", "large is"),
    ("IntAsFloat", int, lambda x: int(float(x)), "a bigint through a float", "values", "large is"),
    ("Unsigned", int, abs, "an integer without its sign", "values", "expected: -"),
    ("IntAsText", int, str, "a number as text", "batches", "lines is '"),
    ("DecimalAsFloat", Decimal, lambda x: Decimal(float(x)), "a decimal through a float", "batches", "total is"),
    ("DecimalAsInteger", Decimal, lambda x: Decimal(int(x)), "a decimal without its digits", "values", "fine is Decim"),
    ("DecimalTwelve", Decimal, lambda x: Decimal(f"{x:.12f}"), "a decimal to 12 digits", "values", "fine is Decimal"),
    ("BooleanAsInt", bool, int, "a boolean as 0 and 1", "values", "flag is 0, expected: False"),
    ("Truncated", str, lambda x: x[:255], "text cut at 255 characters", "values", "(255 characters)"),
    ("TruncatedLong", str, lambda x: x.encode()[:65_535].decode(errors="ignore"), "text cut at 64 kB", "values", "700"),
    ("Stripped", str, lambda x: x.rstrip(" "), "trailing blanks lost", "values", "trailing blanks"),
    ("StrippedLeft", str, lambda x: x.lstrip(" "), "leading blanks lost", "values", "leading blanks"),
    ("Lowered", str, str.lower, "text in lower case", "batches", "level is '"),
    ("EmptyIsNull", str, lambda x: x or None, "an empty text as NULL", "batches", "note is None, expected: ''"),
    ("NullWord", str, lambda x: None if x == "NULL" else x, "the text NULL as NULL", "values", "expected: 'NULL'"),
    ("Composed", str, lambda x: x.replace("e\u0301", "\u00e9"), "accents composed", "values", "an accent of its own"),
    (
        "ThreeBytes", str, lambda x: "".join(c if ord(c) < 2**16 else "?" for c in x),
        "characters of four bytes as `?`", "batches", "note is '? é'",
    ),
    ("Latin", str, lambda x: x.encode("latin1", "replace").decode("latin1"), "text in Latin-1", "batches", "note is"),
    ("LineBreaks", str, lambda x: x.replace("\r\n", "\n"), "line breaks changed", "values", "a line break"),
    ("CutAtNul", str, lambda x: x.partition("\0")[0], "text cut at U+0000", "values", "U+0000"),
    ("Digits", str, lambda x: str(int(x)) if x.isdecimal() else x, "digits taken for a number", "values", "digits"),
    ("CutBytes", bytes, lambda x: x.rstrip(b"\0"), "bytes cut at their zeros", "values", "a byte 0"),
    ("NoBytes", bytes, lambda x: x or None, "no byte as NULL", "values", "raw is None, expected: b''"),
    ("TextBytes", bytes, lambda x: x.decode(errors="replace").encode(), "bytes as UTF-8", "values", "each byte"),
    ("Milliseconds", datetime, lambda x: x.replace(microsecond=x.microsecond // 1000 * 1000), "a time in ms",
     "batches", "latest is"),
    ("Until2038", datetime, lambda x: min(x, datetime(2038, 1, 19, 3, 14, 7)), "a time up to 2038", "values", "2038"),
    ("Since1970", datetime, lambda x: max(x, datetime(1970, 1, 1)), "a time from 1970", "values", "a time before 1970"),
    ("ShiftedTime", datetime, lambda x: x + timedelta(hours=1) if 2000 < x.year < 2100 else x, "a time in another zone",
     "batches", "log_time is"),
)  # fmt: skip
for _name, _kind, _change, _fault, _check, _said in _OF_TYPES:
    wrong(_fault, _check, _said)(base(_name, _kind, _change))


# --- keys ---


class OtherKey(Together):
    """Stores rows under another key than theirs."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        for row in rows:
            self.replace(connection, self.key_of(row), batch.version, pickle.dumps(row))

    def key_of(self, row: Row) -> str:
        """Return the key under which a row is stored."""
        raise NotImplementedError

    def read(self, table: SinkTable) -> Iterator[Row]:
        return iter(sorted(super().read(table), key=lambda row: row[0]))


@wrong("the key is `log_time` only", "values", "is missing")
class KeyOfTime(OtherKey):
    """Takes the window for the key."""

    def key_of(self, row: Row) -> str:
        return str(row[1] if isinstance(row[0], str) else row[0])


@wrong("the key is cut to four characters", "values", "is missing")
class ShortKey(OtherKey):
    """Cuts the key."""

    def key_of(self, row: Row) -> str:
        return str(row[0])[:4] if isinstance(row[0], str) else str(row[0])


@wrong("the key is cut to 63 characters", "values", "is missing")
class AlmostWholeKey(OtherKey):
    """Cuts the last character of the key."""

    def key_of(self, row: Row) -> str:
        return str(row[0])[:63]


@wrong("the key is its last 32 characters", "values", "is missing")
class EndOfKey(OtherKey):
    """Takes the end of the key."""

    def key_of(self, row: Row) -> str:
        return str(row[0])[-32:]


@wrong("the key is window and first column, without case", "values", "is missing")
class KeyOfColumns(OtherKey):
    """Makes a key of its own from columns."""

    def key_of(self, row: Row) -> str:
        return f"{row[1]} {row[2]}".lower()


@wrong("a key that is a time is cut to the minute", "a table without keys", "is missing")
class MinuteKey(OtherKey):
    """Cuts times in keys."""

    def key_of(self, row: Row) -> str:
        return f"{row[0]:%Y-%m-%d %H:%M}" if isinstance(row[0], datetime) else str(row[0])


@wrong("a NULL does not replace an older value", "batches", "expected: None")
class KeepsValues(Together):
    """Updates only the columns that have a value."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        merged = []
        for row in rows:
            query = f"SELECT row FROM {self.held} WHERE key = ? AND row IS NOT NULL"
            found = connection.execute(query, (str(row[0]),)).fetchone()
            old = pickle.loads(found[0]) if found else row
            merged.append(tuple(two if one is None else one for one, two in zip(row, old, strict=True)))
        super().put(connection, batch, merged)


@wrong("an older row is not replaced", "batches", "lines is")
class FirstWins(Together):
    """Inserts only."""

    def replace(self, connection: Any, key: str, version: int, row: bytes | None) -> None:
        if row is None or not connection.execute(f"SELECT 1 FROM {self.held} WHERE key = ?", (key,)).fetchone():
            super().replace(connection, key, version, row)


@wrong("numbers are added instead of replaced", "batches", "lines is")
class Adds(Together):
    """Adds counts to the stored ones."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        added = []
        for row in rows:
            query = f"SELECT row FROM {self.held} WHERE key = ? AND row IS NOT NULL"
            found = connection.execute(query, (str(row[0]),)).fetchone()
            old = pickle.loads(found[0]) if found else None
            both = zip(row, old or row, strict=True)
            added.append(tuple(one + two if old and type(one) is int else one for one, two in both))
        super().put(connection, batch, added)


@wrong("a batch replaces the whole table", "batches", "is missing")
class WholeTable(Together):
    """Deletes the rows of other batches."""

    def store(self, connection: Any, batch: SinkBatch) -> None:
        super().store(connection, batch)
        connection.execute(f"DELETE FROM {self.held}")


@wrong("the columns come in another order", "batches", "log_time is")
class AnotherOrder(Together):
    """Sorts the columns by name after the key."""

    def read(self, table: SinkTable) -> Iterator[Row]:
        order = [0, *sorted(range(1, len(table.names)), key=lambda at: table.names[at])]
        return (tuple(row[at] for at in order) for row in super().read(table))


@wrong("a column is left out", "batches", "expected: a tuple of 8 values")
class LeavesOut(Together):
    """Reads one column less."""

    def read(self, table: SinkTable) -> Iterator[Row]:
        return (row[:-1] for row in super().read(table))


@wrong("rows are not read in the order of their key", "batches", "not in the order of their key")
class Backwards(Together):
    """Reads rows backwards."""

    def read(self, table: SinkTable) -> Iterator[Row]:
        return iter(list(super().read(table))[::-1])


# --- batches ---


@wrong("rows after the tenth part are dropped", "values", "is missing")
class TenParts(Together):
    """Writes at most ten parts."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
            for at, chunk in enumerate(rows):
                if at < 10:
                    self.put(connection, batch, chunk)


@wrong("rows after the fiftieth part are dropped", "sizes", "is missing")
class FiftyParts(Together):
    """Writes at most fifty parts."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
            for at, chunk in enumerate(rows):
                if at < 50:
                    self.put(connection, batch, chunk)


@wrong("only the last part is written", "batches", "is missing")
class LastPart(Together):
    """Keeps the last part alone."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        chunks = list(rows)
        with self.transaction() as connection:
            self.store(connection, batch)
            self.put(connection, batch, chunks[-1] if chunks else [])


@wrong("the first row of each part is lost", "batches", "is missing")
class WithoutHeader(Together):
    """Takes the first row of a part for a header."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        super().put(connection, batch, rows[1:])


@wrong("a batch without rows is not stored", "sizes", "was given batch 2")
class SkipsEmpty(Together):
    """Does nothing for a batch without rows."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        if rows.count:
            super().write(table, batch, rows)
        else:
            list(rows)


@wrong("a batch without rows removes all rows", "sizes", "is missing")
class EmptyClears(Together):
    """Takes a batch without rows for an empty table."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        super().write(table, batch, rows)
        if not rows.count:
            with self.transaction() as connection:
                connection.execute(f"DELETE FROM {self.held}")


@wrong("a batch of one part is not stored", "sizes", "was given batch 4")
class BuffersSmall(Together):
    """Waits for more rows."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        if rows.count > 3 or not rows.count:
            super().write(table, batch, rows)
        else:
            list(rows)


@wrong("two batches are written in one", "batches", "was given batch 0")
class TwoInOne(Together):
    """Stores every second batch."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        if batch.batch_id is not None and batch.batch_id % 2:
            super().write(table, batch, rows)
        else:
            list(rows)


@wrong("two tables share their rows", "another table", "oncelake_sink_test_values was emptied")
class SharedRows(Together):
    """Has one table for the rows of all."""

    held = "held"


@wrong("two tables share their last batch", "another table", "oncelake_sink_test_values was emptied: the last batch is")
class SharedBatch(Together):
    """Has one table for the last batches of all."""

    position = "position"


class Losing(Together):
    """Stores a batch without one of its fields."""

    lost: Any = ""

    def record(self, connection: Any, batch: SinkBatch) -> None:
        super().record(connection, replace(batch, **self.lost))


for _field, _value in (("offset_log", ""), ("source", ""), ("total_rows", 0), ("rules", ""), ("run", "")):
    _kind_of_loss = type(f"Loses_{_field}", (Losing,), {"lost": {_field: _value}, "__module__": __name__})
    globals()[f"Loses_{_field}"] = _kind_of_loss
    wrong(f"`{_field}` of the batch is not stored", "batches", f"the stored batch has {_field}")(_kind_of_loss)


# --- errors, kills and other writers ---


@wrong("an error of the rows is swallowed", "an error of the rows", "the batch is stored")
class Swallows(Together):
    """Commits what it has when the rows fail."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
            try:
                for chunk in rows:
                    self.put(connection, batch, chunk)
            except OvertakenError:
                raise
            except Exception:
                return


@wrong("an error of its own is swallowed", "an error before each line", "expected")
class SwallowsItsOwn(Together):
    """Passes over rows that it cannot write."""

    def put(self, connection: Any, batch: SinkBatch, rows: list[Row]) -> None:
        try:
            super().put(connection, batch, rows)
        except Exception:
            return


@wrong("an error of the rows is raised as another one", "an error of the rows", "did not let it pass")
class Rewords(Together):
    """Raises an error of its own."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        try:
            super().write(table, batch, rows)
        except OvertakenError:
            raise
        except Exception as error:
            raise RuntimeError("could not write") from error


@wrong("an error commits what was written", "an error of the rows", "expected")
class CommitsOnError(Together):
    """Commits the parts before an error, without the batch."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        failed: Exception | None = None
        last = self.last()
        if (last.version if last else 0) != batch.version - 1:
            raise OvertakenError("another process has written")
        with self.transaction() as connection:
            try:
                for chunk in rows:
                    self.put(connection, batch, chunk)
                self.store(connection, batch)
            except Exception as error:
                failed = error
        if failed:
            raise failed


@wrong(
    "the batch is committed after its last row was asked for, not after it was allowed",
    "an error of the rows",
    "is stored",
)
class DoesNotAskAtTheEnd(Together):
    """Stops asking when it has counted all rows."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        taken, parts = 0, []
        for chunk in rows:
            parts.append(chunk)
            taken += len(chunk)
            if taken == rows.count:
                break
        with self.transaction() as connection:
            self.store(connection, batch)
            for chunk in parts:
                self.put(connection, batch, chunk)
        list(rows)


@wrong("rows are committed before the batch, and it says that they are not", "an error of the rows", "expected")
class RowsFirst(ByKey):
    """Is safe by key, and is declared as one transaction."""

    safety = Safety.ONE_TRANSACTION


@wrong("the batch is committed before its rows", "an error of the rows", "the batch is stored")
class BatchFirst(PositionFirst):
    """Stores the batch in a transaction before its rows."""


@wrong("the last batch is remembered and not read again", "a start from the last batch", "refuses batch")
class Remembers(Together):
    """Reads the last batch once."""

    remembered: SinkBatch | None = None

    def last(self) -> SinkBatch | None:
        self.remembered = self.remembered or super().last()
        return self.remembered

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        super().write(table, batch, rows)
        self.remembered = batch


@wrong("a batch that failed is undone by the process itself", "a kill before each line", "after a kill before line")
class UndoesByItself(ByKey):
    """Writes part by part under a lock, and puts the rows back after an error; nobody does so after a kill."""

    safety = Safety.ONE_TRANSACTION
    remove = Together.remove

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with Path(f"{self.options['file']}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self.transaction() as connection:
                before = connection.execute(f"SELECT * FROM {self.held}").fetchall()
            try:
                super().write(table, batch, rows)
            except BaseException:
                with self.transaction() as connection:
                    connection.execute(f"DELETE FROM {self.held}")
                    connection.executemany(f"INSERT INTO {self.held} VALUES (?, ?, ?)", before)
                raise


@wrong("a rebuild that is killed leaves rows under a new mark", "a kill in a rebuild", "instead of 0")
class MarkFirst(Together):
    """Stores the mark before the rows are removed, and passes over a rebuild whose mark is there."""

    def empty(self, mark: SinkBatch) -> None:
        last = self.last()
        if last is None or last.batch_id is not None:
            with self.transaction() as connection:
                self.record(connection, mark)
            with self.transaction() as connection:
                connection.execute(f"DELETE FROM {self.held}")
        else:
            with self.transaction() as connection:
                self.record(connection, mark)


# --- removing rows ---


@wrong("a removal takes rows whose key begins alike", "removing rows", "is missing")
class RemovesTooMuch(Together):
    """Compares the first sixty characters of a key."""

    def drop(self, connection: Any, batch: SinkBatch, keys: list[Row]) -> None:
        for (key,) in keys:
            connection.execute(f"DELETE FROM {self.held} WHERE substr(key, 1, 60) = ?", (key[:60],))


@wrong("a removal takes the first key of each part only", "removing rows", "should not be there")
class RemovesTooLittle(Together):
    """Removes one row of a part."""

    def drop(self, connection: Any, batch: SinkBatch, keys: list[Row]) -> None:
        super().drop(connection, batch, keys[:1])


@wrong("a removal fails at a key without a row", "removing rows", "KeyError")
class NeedsRows(Together):
    """Raises an error if a key has no row."""

    def drop(self, connection: Any, batch: SinkBatch, keys: list[Row]) -> None:
        for (key,) in keys:
            if not connection.execute(f"SELECT 1 FROM {self.held} WHERE key = ?", (key,)).fetchone():
                raise KeyError(key)
        super().drop(connection, batch, keys)


@wrong("a removal does not store its batch", "removing rows", "was given batch 7")
class ForgetsRemovals(Together):
    """Removes rows outside the batches."""

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        with self.transaction() as connection:
            for chunk in keys:
                self.drop(connection, batch, chunk)


@wrong("a removal that comes late takes newer rows", "removing rows", "came a second time")
class LateRemoval(ByKey):
    """Removes a row whatever batch wrote it."""

    def drop(self, connection: Any, batch: SinkBatch, keys: list[Row]) -> None:
        for (key,) in keys:
            connection.execute(f"DELETE FROM {self.held} WHERE key = ?", (key,))
            super().drop(connection, batch, [(key,)])


@wrong("a removed row comes back by an older batch that comes late", "removing rows", "written late")
class ForgetsWhatWasRemoved(ByKey):
    """Removes a row without a mark."""

    def drop(self, connection: Any, batch: SinkBatch, keys: list[Row]) -> None:
        for (key,) in keys:
            connection.execute(f"DELETE FROM {self.held} WHERE key = ? AND version <= ?", (key, batch.version))


@wrong("a removal is not one transaction with its batch", "removing rows", "should not be there")
class RemovalInTwo(Together):
    """Stores the batch of a removal before the rows are removed."""

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
        with self.transaction() as connection:
            for chunk in keys:
                self.drop(connection, batch, chunk)


@wrong("a removal without keys removes all rows", "removing rows", "is missing")
class NoKeysIsAll(Together):
    """Makes a statement without a condition."""

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        super().remove(table, batch, keys)
        if not keys.count:
            with self.transaction() as connection:
                connection.execute(f"DELETE FROM {self.held}")
