"""This is where a served table is: how a batch is applied to it, and where it stands."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

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
from oncelake.serving.tables import POSITION, served_table

Mode = Literal["idempotent", "transactional"]


@dataclass(frozen=True)
class Served:
    """A gold table's copy in a database.

    Attributes:
        table: the stage's table, as `serving.error_log`; the stage has the same name.
        declared: what the gold table is declared as.
        mode: whether gold's values are put over what is there, or silver's lines are counted and added.
        follows: the table that the stage reads.
    """

    table: Table
    declared: GoldTable
    mode: Mode
    follows: Table
    database: Database
    _checked: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    @property
    def stage(self) -> str:
        """The stage's name."""
        return str(self.table)

    @property
    def keeps_nul(self) -> bool:
        """Whether the database keeps the character U+0000 in a text."""
        return self.database.backend != "postgresql"

    def state(self) -> TableState:
        """Give where the table stands.

        Raises:
            TargetAwayError: the database does not answer.
            TargetError: it refuses.
        """
        last = self.database.snapshot(lambda connection: position.recorded(connection, self.stage))
        return TableState(last, newest=last)

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Give the last batch; the database keeps no history."""
        last = self.state().last
        return iter([(last, True)] if last else [])

    def first_position(self) -> None:
        """Give the position before the first batch; a Delta table has none."""

    def apply(self, rows: Rows, metadata: CommitMetadata, patience: Patience, fence: Callable[[], None]) -> Written:
        """Apply a batch in one transaction with its position, or find that it was applied.

        Args:
            rows: the rows to upsert, in the order of their key.
            metadata: the batch.
            patience: how long to wait for a database that is away.
            fence: raises when this process may no longer write.

        Raises:
            ConfigError: a table is missing or is another; asked before the first batch.
            ReplayError: the batch overlaps what was applied, or leaves a gap.
            TargetError: the database refuses, or was away for too long.
        """
        table = served_table(self.table.name, self.declared, rows.schema)
        statement, convert = upsert.driver_sql(self._statement(table), rows.names, self.database.engine.dialect)

        def work(connection: Connection) -> Written:
            if not self._checked.is_set():  # the database may have been away when the run was checked
                self._check_tables(connection, table)
            last = position.recorded(connection, self.stage, lock=True)
            if position.is_applied(metadata, last.metadata if last else None, str(self.database)):
                assert last is not None
                return Written(last, replayed=True)
            carried = replace(metadata, rows=last.rows_in_all if last else 0)
            # the position first: two first batches then meet at its key, not at the rows
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
        """Remove the table's rows and its position, for a rebuild; the user needs the right to delete.

        Raises:
            TargetError: the database refuses or is away.
        """
        rows = SqlTable(self.table.name, MetaData())

        def work(connection: Connection) -> None:
            connection.execute(delete(rows))
            connection.execute(delete(POSITION).where(POSITION.c.stage == self.stage))

        self.database.transaction(work)

    def check(self, schema: StructType) -> None:
        """Check that the tables are there with the columns that they need, and keep transactions.

        Raises:
            ConfigError: one is missing or is another; says what to do.
            TargetAwayError: the database does not answer.
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
        """Keep the first batch out of a table that holds rows nobody has recorded: they would be added to."""
        if self.mode == "transactional" and connection.execute(select(table.primary_key.columns[0]).limit(1)).first():
            raise ReplayError(
                f"{self.database}: {table.name} holds rows, and oncelake_position records no batch of {self.stage}: "
                f"lines would be counted onto them. Empty both and count again: oncelake rebuild {self.stage}"
            )


def _check_table(connection: Connection, table: SqlTable) -> None:
    there = inspect(connection)
    if not there.has_table(table.name):
        raise ConfigError(f"there is no table {table.name} in the serving database; make it: oncelake serving init")
    found = {column["name"] for column in there.get_columns(table.name)}
    missing = [column.name for column in table.columns if column.name not in found]
    if missing:
        raise ConfigError(
            f"{table.name} in the serving database has no column {', '.join(missing)} "
            f"(it has {', '.join(sorted(found))}); drop it or name another database, then: oncelake serving init"
        )
    key = there.get_pk_constraint(table.name)["constrained_columns"]
    if key != [column.name for column in table.primary_key]:
        raise ConfigError(
            f"{table.name} in the serving database has the primary key ({', '.join(key)}), "
            f"({', '.join(column.name for column in table.primary_key)}) is needed: rows would be doubled. "
            "Drop it or name another database, then: oncelake serving init"
        )
    unique = [str(each["name"]) for each in there.get_indexes(table.name) if each["unique"]]
    if unique:
        raise ConfigError(
            f"{table.name} in the serving database has a unique index {', '.join(unique)} beside its key: an upsert "
            "could change another row by it. Drop it"
        )
    engine = str(there.get_table_options(table.name).get(f"{connection.dialect.name}_engine", "InnoDB"))
    if engine.lower() != "innodb":
        raise ConfigError(
            f"{table.name} is of engine {engine}, which keeps no transactions: ALTER TABLE {table.name} ENGINE=InnoDB"
        )
    wrong = wrong_columns(connection, table)
    if wrong:
        stage = "serving" if table is POSITION else f"serving.{table.name}"
        raise ConfigError(
            f"{table.name} in the serving database does not hold every value that is served: {'; '.join(wrong)}. "
            f"Change it, or drop it and run: oncelake serving init. Then, if it held rows: oncelake rebuild {stage}"
        )
