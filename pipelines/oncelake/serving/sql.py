"""The SQL databases as a sink: MySQL, MariaDB, PostgreSQL and SQLite. Rows and position change in one transaction."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

from sqlalchemy import Connection, MetaData, bindparam, delete, inspect, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.sql.dml import Delete, Insert

from oncelake.common.errors import ConfigError, OvertakenError, ReplayError
from oncelake.serving import position, refused, upsert
from oncelake.serving.columns import wrong_columns
from oncelake.serving.database import Database, keep_alive, parse_url
from oncelake.serving.overflow import overflowing
from oncelake.serving.sink import RefusedRow, Row, Safety, Sink, SinkBatch, SinkContent, SinkRows, SinkTable
from oncelake.serving.tables import POSITION, REFUSED, create_statements, served_table
from oncelake.serving.values import LIMITS

# The most digits after the point that a decimal of MySQL and MariaDB has.
_MYSQL_SCALE = 30


class SqlSink(Sink):
    """A served table in a SQL database, and its row of `oncelake_position`.

    Options:
        url: a SQLAlchemy URL, with its password.
        mode: `idempotent` replaces values (the default), `transactional` adds to them.
    """

    safety: ClassVar[Safety] = Safety.ONE_TRANSACTION
    adds: ClassVar[bool] = True

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, {})  # without the password
        self.database = Database(parse_url(options["url"]))
        self.transactional = options.get("mode") == "transactional"
        self.limits = LIMITS[self.database.backend]
        if self.transactional and self.database.backend == "sqlite":  # its sum of both infinities is NULL
            self.limits = replace(self.limits, infinity=False)
        self._checked = threading.Event()
        self._has_refused = False

    def __str__(self) -> str:
        return str(self.database)

    @property
    def stage(self) -> str:
        """The stage, which is the key of its position."""
        return f"serving.{self.name}"

    def last(self) -> SinkBatch | None:
        return self.database.snapshot(lambda connection: position.recorded(connection, self.stage))

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        """Upsert the rows and write the position in one transaction.

        Raises:
            ConfigError: a table is missing or is not as it must be; checked once, before the first batch.
            ReplayError: counts would be added to rows that no recorded batch wrote.
        """
        self._change(table, batch, rows, self._statement(served_table(table), table), table.names)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        """Delete the rows of the keys and write the position in one transaction; the user needs the DELETE right."""
        sql_table = served_table(table)
        statement = delete(sql_table).where(sql_table.c[table.key] == bindparam(table.key))
        self._change(table, batch, keys, statement, (table.key,))

    def _change(
        self,
        table: SinkTable,
        batch: SinkBatch,
        rows: SinkRows,
        statement: Insert | Delete,
        names: Sequence[str],
    ) -> None:
        """Run a statement for each row, and write the position, in one transaction."""
        sql_table = served_table(table)
        text, convert = upsert.driver_sql(statement, names, self.database.engine.dialect)
        adds = self.transactional and isinstance(statement, Insert)

        def work(connection: Connection) -> None:
            if not self._checked.is_set():  # the database may have been unavailable in the preflight
                self._check_tables(connection, sql_table)  # guard: tables-checked-before-batch
            last = position.recorded(connection, self.stage, lock=True)
            if (last.version if last else 0) != batch.version - 1:
                # guard: database-batch-follows-position
                raise OvertakenError(f"{self}: {table.name} has got another batch")
            # the position first: so two first batches conflict at its key, not at the rows
            position.write(connection, batch, first=last is None)
            if last is None:
                self.refuse_unknown_rows(connection, sql_table)
            before, grown = self._refused(connection), dict[Any, RefusedRow]()
            for chunk in rows.chunks(idle=lambda: keep_alive(connection)):
                part = refused.accepted(connection, self.stage, chunk, before, adds=adds)
                if adds and last is not None:
                    for row in overflowing(connection, sql_table, table, part):
                        rows.refuse(row)  # guard: run-stops-at-sum
                        grown[row.key] = row
                    part = [row for row in part if row[0] not in grown] if grown else part
                if part:
                    connection.exec_driver_sql(text, [convert(row) for row in part])
            refused.write(connection, sql_table, batch, chain(rows.refused.read(), grown.values()), before)

        self.database.transaction(work)

    def empty(self, mark: SinkBatch) -> None:
        """Delete the table's rows and its position; the user needs the DELETE right."""
        del mark  # without its row, the position begins again
        rows = SqlTable(self.name, MetaData())

        def work(connection: Connection) -> None:
            connection.execute(delete(rows))
            if self._refused(connection):
                refused.forget(connection, self.stage)
            connection.execute(delete(POSITION).where(POSITION.c.stage == self.stage))

        self.database.transaction(work)

    def read(self, table: SinkTable) -> Iterator[Row]:
        with self.snapshot(table) as stored:
            yield from stored.rows

    @contextmanager
    def snapshot(self, table: SinkTable) -> Iterator[SinkContent]:
        """Yield the position and the rows of one snapshot of the database."""
        sql_table = served_table(table)
        query = select(*(sql_table.c[name] for name in table.names)).order_by(sql_table.c[table.key])
        with self.database.reading() as connection:
            last, others = position.recorded(connection, self.stage), self._refused(connection)
            result = connection.execution_options(yield_per=10_000).execute(query)
            yield SinkContent(last, (tuple(row) for row in result), lambda: keep_alive(connection), others)

    def make(self, table: SinkTable) -> None:
        def work(connection: Connection) -> None:
            for statement in self.statements(table):
                connection.exec_driver_sql(statement)

        self.database.transaction(work)
        self.check(table)

    def statements(self, table: SinkTable) -> list[str]:
        """Return the SQL that creates oncelake_position and the table; this does not connect to the database."""
        self._refuse_types(table)
        return create_statements([POSITION, REFUSED, served_table(table)], self.database.engine.dialect)

    def check(self, table: SinkTable) -> None:
        """Check that the tables exist, have the needed columns and keys, and support transactions."""
        self._refuse_types(table)
        sql_table = served_table(table)
        self.database.transaction(lambda connection: self._check_tables(connection, sql_table))

    def _refuse_types(self, table: SinkTable) -> None:
        """Raise ConfigError if no type of the database holds the values of a column."""
        large = [column for column in table.columns if column.scale > _MYSQL_SCALE]
        if large and self.database.backend in ("mysql", "mariadb"):
            raise ConfigError(
                f"gold.{table.name}: {large[0].name} has type decimal({large[0].precision},{large[0].scale}), but "
                f"{self.database.backend} has at most {_MYSQL_SCALE} digits after the point. Cast it in the "
                "declaration, or remove the table from serving.tables"
            )

    def _check_tables(self, connection: Connection, sql_table: SqlTable) -> None:
        self._has_refused = refused.has_table(connection)  # it is needed only when a row is refused
        for table in (POSITION, *([REFUSED] if self._has_refused else []), sql_table):
            _check_table(connection, table)
        self._checked.set()

    def _refused(self, connection: Connection) -> frozenset[str]:
        """Return the keys of the refused rows; the database is asked for their table until it has it."""
        self._has_refused = self._has_refused or refused.has_table(connection)
        return refused.keys(connection, self.stage) if self._has_refused else frozenset()

    def _statement(self, sql_table: SqlTable, table: SinkTable) -> Insert:
        if self.transactional:
            return upsert.add(sql_table, table, self.database.backend)
        return upsert.replace(sql_table, self.database.backend)

    def refuse_unknown_rows(self, connection: Connection, table: SqlTable) -> None:
        """Raise ReplayError if the first batch would add its counts to rows that no recorded batch wrote."""
        if self.transactional and connection.execute(select(table.primary_key.columns[0]).limit(1)).first():
            raise ReplayError(  # guard: first-served-table-empty
                f"{self.database}: {table.name} holds rows, but oncelake_position records no batch of {self.stage}. "
                f"New counts would be added to them. To delete them and count again: oncelake rebuild {self.stage}"
            )


def _check_table(connection: Connection, table: SqlTable) -> None:
    inspector = inspect(connection)
    if not inspector.has_table(table.name):
        # guard: served-tables-exist
        raise ConfigError(f"there is no table {table.name} in the serving database. Run: oncelake serving init")
    existing = {column["name"] for column in inspector.get_columns(table.name)}
    missing = [column.name for column in table.columns if column.name not in existing]
    if missing:
        raise ConfigError(  # guard: served-tables-have-columns
            f"{table.name} in the serving database has no column {', '.join(missing)} "
            f"(it has {', '.join(sorted(existing))}). Drop the table, or name another database; then run: "
            "oncelake serving init"
        )
    key = inspector.get_pk_constraint(table.name)["constrained_columns"]
    if key != [column.name for column in table.primary_key]:
        raise ConfigError(  # guard: served-tables-have-keys
            f"{table.name} in the serving database has the primary key ({', '.join(key)}), "
            f"accepted: ({', '.join(column.name for column in table.primary_key)}). Rows would be stored twice. "
            "Drop the table, or name another database; then run: oncelake serving init"
        )
    unique = [str(index["name"]) for index in inspector.get_indexes(table.name) if index["unique"]]
    if unique:
        raise ConfigError(  # guard: no-other-unique-index
            f"{table.name} in the serving database has a unique index {', '.join(unique)} in addition to its key. "
            "An upsert could then change the wrong row. Drop the index"
        )
    engine = str(inspector.get_table_options(table.name).get(f"{connection.dialect.name}_engine", "InnoDB"))
    if engine.lower() != "innodb":
        raise ConfigError(  # guard: served-tables-keep-transactions
            f"{table.name} is of engine {engine}, which has no transactions. "
            f"Run: ALTER TABLE {table.name} ENGINE=InnoDB"
        )
    wrong = wrong_columns(connection, table)
    if wrong:
        stage = "serving" if table in (POSITION, REFUSED) else f"serving.{table.name}"
        raise ConfigError(  # guard: served-tables-hold-values
            f"{table.name} in the serving database has columns that cannot hold every served value: "
            f"{'; '.join(wrong)}. Change the columns, or drop the table and run: oncelake serving init. If the table "
            f"held rows, then run: oncelake rebuild {stage}"
        )
