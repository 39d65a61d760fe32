"""Sinks of a user, for tests: a right one of each safety, in a file of SQLite, and one that is wrong in each way."""

import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from oncelake import ConfigError, OvertakenError, Safety, Sink, SinkBatch, SinkRows, SinkTable, TargetAwayError
from oncelake.serving.sink import Row


class Together(Sink):
    """Rows and position in one transaction; each served table has its own two tables in the file."""

    safety = Safety.ONE_TRANSACTION

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the file's lock, and commit at the end."""
        connection = sqlite3.connect(self.options["file"], isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing, only a machine would
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.held} (key TEXT, version INTEGER, row BLOB)")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.position} (version INTEGER, batch TEXT)")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    @property
    def held(self) -> str:
        """Return the name of the table with the rows."""
        return f"held_{self.name}"

    @property
    def position(self) -> str:
        """Return the name of the table with the last batch."""
        return f"position_{self.name}"

    def last(self) -> SinkBatch | None:
        with self.transaction() as connection:
            found = connection.execute(f"SELECT batch FROM {self.position}").fetchone()
        return SinkBatch.from_json(found[0]) if found else None

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
            for chunk in rows:
                self.put(connection, batch, chunk)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
            for chunk in keys:
                self.drop(connection, batch, chunk)

    def empty(self, mark: SinkBatch) -> None:
        with self.transaction() as connection:
            connection.execute(f"DELETE FROM {self.held}")
            self.record(connection, mark)

    def read(self, table: SinkTable) -> Iterator[Row]:
        with self.transaction() as connection:
            query = f"SELECT row FROM {self.held} WHERE row IS NOT NULL ORDER BY key"
            found = connection.execute(query).fetchall()
        return iter([pickle.loads(row) for (row,) in found])

    def store(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        """Store the batch if its version is the next one."""
        found = connection.execute(f"SELECT version FROM {self.position}").fetchone()
        if (found[0] if found else 0) != batch.version - 1:
            raise OvertakenError("another process has written")
        self.record(connection, batch)

    def record(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        """Store the batch, whatever is stored."""
        connection.execute(f"DELETE FROM {self.position}")
        connection.execute(f"INSERT INTO {self.position} VALUES (?, ?)", (batch.version, batch.to_json()))

    def put(self, connection: sqlite3.Connection, batch: SinkBatch, rows: list[Row]) -> None:
        """Replace rows by their key, but none of a later batch."""
        for row in rows:
            self.replace(connection, str(row[0]), batch.version, pickle.dumps(row))

    def drop(self, connection: sqlite3.Connection, batch: SinkBatch, keys: list[Row]) -> None:
        """Replace rows by a mark that they are removed, so that no row of an earlier batch comes back."""
        for (key,) in keys:
            self.replace(connection, str(key), batch.version, None)

    def replace(self, connection: sqlite3.Connection, key: str, version: int, row: bytes | None) -> None:
        """Replace what is there under a key, unless it is of a later batch."""
        later = f"SELECT 1 FROM {self.held} WHERE key = ? AND version > ?"
        if not connection.execute(later, (key, version)).fetchone():
            connection.execute(f"DELETE FROM {self.held} WHERE key = ?", (key,))
            connection.execute(f"INSERT INTO {self.held} VALUES (?, ?, ?)", (key, version, row))


class ByKey(Together):
    """Idempotent by key: each part of the rows is a transaction, and then the position is one."""

    safety = Safety.BY_KEY

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        for chunk in rows:
            with self.transaction() as connection:
                self.put(connection, batch, chunk)
        with self.transaction() as connection:
            self.store(connection, batch)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        for chunk in keys:
            with self.transaction() as connection:
                self.drop(connection, batch, chunk)
        with self.transaction() as connection:
            self.store(connection, batch)


class ForgetsTheBatch(Together):
    """Wrong: every batch is stored as batch 0."""

    def store(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        super().store(connection, replace(batch, batch_id=0))


class StoresNothing(Together):
    """Wrong: the position is never stored."""

    def store(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        pass


class PositionFirst(Together):
    """Wrong: the position is committed before the rows."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)
        for chunk in rows:
            with self.transaction() as connection:
                self.put(connection, batch, chunk)


class DoublesOnReplay(ByKey):
    """Wrong: a row replaces rows of earlier batches, and stands beside those of its own batch."""

    def put(self, connection: sqlite3.Connection, batch: SinkBatch, rows: list[Row]) -> None:
        for row in rows:
            connection.execute(f"DELETE FROM {self.held} WHERE key = ? AND version < ?", (row[0], batch.version))
            connection.execute(f"INSERT INTO {self.held} VALUES (?, ?, ?)", (row[0], batch.version, pickle.dumps(row)))


class NotFenced(Together):
    """Wrong: a writer that read the position before its successor wrote still commits."""

    def store(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        self.record(connection, batch)


class ChecksTooEarly(NotFenced):
    """Wrong: the version is compared before the transaction that writes."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        last = self.last()
        if (last.version if last else 0) != batch.version - 1:
            raise OvertakenError("another process has written")
        super().write(table, batch, rows)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        last = self.last()
        if (last.version if last else 0) != batch.version - 1:
            raise OvertakenError("another process has written")
        super().remove(table, batch, keys)


class OldRowsWin(ByKey):
    """Wrong: the position is fenced, but a late row replaces a newer one."""

    def put(self, connection: sqlite3.Connection, batch: SinkBatch, rows: list[Row]) -> None:
        super().put(connection, replace(batch, version=2**40), rows)


class CountsAgain(ByKey):
    """Wrong: a rebuild begins with version 0 again, so a process from before it can write."""

    def empty(self, mark: SinkBatch) -> None:
        super().empty(replace(mark, version=0))


class ForgetsTheQuery(Together):
    """Wrong: the query of a batch is not stored."""

    def store(self, connection: sqlite3.Connection, batch: SinkBatch) -> None:
        super().store(connection, replace(batch, query_id="one"))


class KeepsRows(Together):
    """Wrong: a rebuild leaves the rows that are there."""

    def empty(self, mark: SinkBatch) -> None:
        with self.transaction() as connection:
            self.record(connection, mark)


class Unreadable(Together):
    """Right, without the methods that may be left out."""

    read = Sink.read
    remove = Sink.remove


class Incomplete(Sink):
    """Lacks methods."""

    safety = Safety.BY_KEY

    def last(self) -> SinkBatch | None:
        return None


class Undeclared(Together):
    """Does not say how it is made safe."""

    safety = None  # type: ignore[assignment]


class Refusing(Together):
    """Does what a file says: `away` is unavailable, `broken` raises, `leaky` raises with its password."""

    def last(self) -> SinkBatch | None:
        what = Path(self.options["says"]).read_text() if Path(self.options["says"]).exists() else ""
        if what == "away":
            raise TargetAwayError(f"no route with {self.options['password']}")
        if what == "broken":
            raise LookupError(f"no table\nfor {self.options['password']}")
        if what == "leaky":
            raise ConfigError(f"refused: {self.options['password']}")
        return super().last()


class Careless(Together):
    """Returns before it has taken all rows."""

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        with self.transaction() as connection:
            self.store(connection, batch)


NOT_A_SINK = "text"
