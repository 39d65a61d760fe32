"""Apply batches to a served table in the database, and read its recorded position."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from sqlalchemy import Connection, MetaData, delete, inspect, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.sql.dml import Insert

from oncelake.common.errors import ConfigError, ReplayError
from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, TableState
from oncelake.exactly_once.write import Written
from oncelake.gold.declaration import GoldTable
from oncelake.serving import position, upsert
from oncelake.serving.columns import wrong_columns
from oncelake.serving.database import Database, Patience, keep_alive
from oncelake.serving.rows import Rows
from oncelake.serving.settings import Mode
from oncelake.serving.tables import POSITION, served_table
from oncelake.silver.schema import SILVER


@dataclass(frozen=True)
class Served:
    """A gold table's copy in a database.

    Attributes:
        table: the stage's table, such as `serving.error_log`; the stage has the same name.
        declared: the gold table's declaration.
        mode: idempotent replaces values with gold's; transactional counts silver's lines and adds the counts.
        follows: the table that the stage reads.
        database: the database that serves the table.
        silver_schema: returns silver's columns.
    """

    table: Table
    declared: GoldTable
    mode: Mode
    follows: Table
    database: Database
    silver_schema: Callable[[SparkSession], StructType] = lambda _: SILVER
    _checked: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    @property
    def stage(self) -> str:
        """The stage's name."""
        return str(self.table)

    @property
    def keeps_nul(self) -> bool:
        """Return True if the database can store the character U+0000 in text."""
        return self.database.backend != "postgresql"

    def state(self) -> TableState:
        """Return the state of the table: its last batch.

        Raises:
            TargetAwayError: the database is unavailable.
            TargetError: the database reports an error that waiting does not fix.
        """
        last = self.database.snapshot(lambda connection: position.recorded(connection, self.stage))
        return TableState(last, newest=last)

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Return the last batch only: the database keeps no history."""
        last = self.state().last
        return iter([(last, True)] if last else [])

    def first_position(self) -> None:
        """Return None: a stage that reads a Delta table has no position before its first batch."""

    def apply(self, rows: Rows, metadata: CommitMetadata, patience: Patience, fence: Callable[[], None]) -> Written:
        """Apply a batch and its position in one transaction; change nothing if the batch was already applied.

        Args:
            rows: the rows to upsert, in the order of their key.
            metadata: the batch.
            patience: how long to wait for an unavailable database.
            fence: raises an error if this process may no longer write.

        Raises:
            ConfigError: a table is missing or is not as it must be; checked once, before the first batch.
            ReplayError: the batch overlaps the recorded range, or leaves a gap.
            TargetError: the database reports an error that waiting does not fix, or is unavailable for too long.
        """
        table = served_table(self.table.name, self.declared, rows.schema)
        statement, convert = upsert.driver_sql(self._statement(table), rows.names, self.database.engine.dialect)

        def work(connection: Connection) -> Written:
            if not self._checked.is_set():  # the database may have been unavailable in the preflight
                self._check_tables(connection, table)
            last = position.recorded(connection, self.stage, lock=True)
            if position.is_applied(metadata, last.metadata if last else None, str(self.database)):
                assert last is not None
                return Written(last, replayed=True)
            carried = replace(metadata, rows=last.rows_in_all if last else 0)
            # the position first: so two first batches conflict at its key, not at the rows
            position.write(connection, carried, str(self.follows), rows.taken, first=last is None)
            if last is None:
                self.refuse_unknown_rows(connection, table)
            for chunk in rows.chunks(idle=lambda: keep_alive(connection)):
                connection.exec_driver_sql(statement, [convert(row) for row in chunk])
            fence()
            metrics = {"numOutputRows": str(rows.count)}
            return Written(ChainCommit(metadata.batch_id, "UPSERT", {}, metrics, 0, carried))

        return self.database.transaction(work, patience)

    def empty(self) -> None:
        """Delete the table's rows and its position, for a rebuild; the user needs the DELETE right.

        Raises:
            TargetError: the database reports an error, or is unavailable.
        """
        rows = SqlTable(self.table.name, MetaData())

        def work(connection: Connection) -> None:
            connection.execute(delete(rows))
            connection.execute(delete(POSITION).where(POSITION.c.stage == self.stage))

        self.database.transaction(work)

    def check(self, schema: StructType) -> None:
        """Check that the tables exist, have the needed columns and keys, and support transactions.

        Raises:
            ConfigError: a table is missing or is not as it must be; the message says what to do.
            TargetAwayError: the database is unavailable.
        """
        wanted = served_table(self.table.name, self.declared, schema)
        self.database.transaction(lambda connection: self._check_tables(connection, wanted))

    def _check_tables(self, connection: Connection, wanted: SqlTable) -> None:
        for table in (POSITION, wanted):
            _check_table(connection, table)
        self._checked.set()

    def _statement(self, table: SqlTable) -> Insert:
        if self.mode == "transactional":
            return upsert.add(table, self.declared, self.database.backend)
        return upsert.replace(table, self.database.backend)

    def refuse_unknown_rows(self, connection: Connection, table: SqlTable) -> None:
        """Raise ReplayError if the first batch would add its counts to rows that no recorded batch wrote."""
        if self.mode == "transactional" and connection.execute(select(table.primary_key.columns[0]).limit(1)).first():
            raise ReplayError(
                f"{self.database}: {table.name} holds rows, but oncelake_position records no batch of {self.stage}. "
                f"New counts would be added to them. To delete them and count again: oncelake rebuild {self.stage}"
            )


def _check_table(connection: Connection, table: SqlTable) -> None:
    inspector = inspect(connection)
    if not inspector.has_table(table.name):
        raise ConfigError(f"there is no table {table.name} in the serving database. Run: oncelake serving init")
    found = {column["name"] for column in inspector.get_columns(table.name)}
    missing = [column.name for column in table.columns if column.name not in found]
    if missing:
        raise ConfigError(
            f"{table.name} in the serving database has no column {', '.join(missing)} "
            f"(it has {', '.join(sorted(found))}). Drop the table, or name another database; then run: "
            "oncelake serving init"
        )
    key = inspector.get_pk_constraint(table.name)["constrained_columns"]
    if key != [column.name for column in table.primary_key]:
        raise ConfigError(
            f"{table.name} in the serving database has the primary key ({', '.join(key)}), "
            f"accepted: ({', '.join(column.name for column in table.primary_key)}). Rows would be stored twice. "
            "Drop the table, or name another database; then run: oncelake serving init"
        )
    unique = [str(each["name"]) for each in inspector.get_indexes(table.name) if each["unique"]]
    if unique:
        raise ConfigError(
            f"{table.name} in the serving database has a unique index {', '.join(unique)} in addition to its key. "
            "An upsert could then change the wrong row. Drop the index"
        )
    engine = str(inspector.get_table_options(table.name).get(f"{connection.dialect.name}_engine", "InnoDB"))
    if engine.lower() != "innodb":
        raise ConfigError(
            f"{table.name} is of engine {engine}, which has no transactions. "
            f"Run: ALTER TABLE {table.name} ENGINE=InnoDB"
        )
    wrong = wrong_columns(connection, table)
    if wrong:
        stage = "serving" if table is POSITION else f"serving.{table.name}"
        raise ConfigError(
            f"{table.name} in the serving database has columns that cannot hold every served value: "
            f"{'; '.join(wrong)}. Change the columns, or drop the table and run: oncelake serving init. If the table "
            f"held rows, then run: oncelake rebuild {stage}"
        )
