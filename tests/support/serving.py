"""Test served tables without Spark: batches made by hand, rows from Python."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType, TimestampType
from sqlalchemy import Connection

from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.write import Written
from oncelake.gold.declaration import GoldTable
from oncelake.proof import served as proof
from oncelake.serving.database import Database, parse_url
from oncelake.serving.patience import NONE, Patience
from oncelake.serving.rows import Rows, sink_table
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sql import SqlSink
from oncelake.serving.tables import POSITION, create_statements, served_table

ERRORS = GoldTable(where="level = 'ERROR'", every="1 minute", measures={"log_count": "count"})
SCHEMA = StructType([StructField("log_time", TimestampType()), StructField("log_count", LongType())])
TABLE_ID = "0d9c0fd4-1111-2222-3333-444455556666"
MINUTES = [datetime(2026, 1, 1, 0, minute) for minute in range(10)]


def at(version: int) -> str:
    """Return the position before a version, as Delta writes it."""
    return (
        f'{{"sourceVersion":1,"reservoirId":"{TABLE_ID}","reservoirVersion":{version},"index":-1,'
        '"isStartingVersion":false}'
    )


def metadata(
    batch_id: int, start: int | None, end: int, *, query_id: str = "query", run: str = "run"
) -> CommitMetadata:
    """Return the metadata of a batch over the versions from `start` to before `end`."""
    return CommitMetadata(
        stage="serving.error_log",
        table="serving.error_log",
        query_id=query_id,
        batch_id=batch_id,
        before=None if start is None else at(start),
        after=f'v1\n{{"batchTimestampMs":1}}\n{at(end)}',
        rows=0,
        rules="rules",
        run=run,
        source={"kind": "delta", "table_id": TABLE_ID},
    )


def rows(counts: dict[datetime, int], taken: int = 1) -> Rows:
    """Return rows of error_log."""

    def read() -> Iterator[tuple[Any, ...]]:
        return iter(sorted(counts.items()))

    return Rows(("log_time", "log_count"), len(counts), taken, SCHEMA, read)


def served(url: str, mode: Mode = "idempotent") -> Served:
    """Return error_log in a database."""
    follows = Table("gold", "error_log") if mode == "idempotent" else Table("silver", "access_log")
    return Served(
        Table("serving", "error_log"), ERRORS, mode, follows, SqlSink("error_log", {"url": url, "mode": mode})
    )


def database(table: Served) -> Database:
    """Return the database of a table that is served from one."""
    assert isinstance(table.sink, SqlSink)
    return table.sink.database


def make_tables(url: str, *more: str) -> None:
    """Create the tables as a user with that privilege, then run further statements."""
    owner = Database(parse_url(url))
    tables = [POSITION, served_table(sink_table("error_log", ERRORS, SCHEMA))]
    run_all(owner, [*create_statements(tables, owner.engine.dialect), *more])


def run_all(there: Database, statements: Iterable[str]) -> None:
    """Run statements in one transaction."""

    def work(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    there.transaction(work)


def apply(table: Served, counts: dict[datetime, int], batch: CommitMetadata, patience: Patience = NONE) -> Written:
    """Apply a batch."""
    return table.apply(rows(counts), batch, patience, lambda: None)


def content(table: Served) -> dict[Any, int]:
    """Return the rows of error_log."""

    def read(connection: Connection) -> dict[Any, int]:
        found = connection.exec_driver_sql("SELECT log_time, log_count FROM error_log").all()
        return {_time(when): count for when, count in found}

    return database(table).transaction(read)


def _time(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def compare(served: Served, gold: DataFrame) -> Link:
    """Compare a served table with rows that have the gold table's columns, in its current state."""
    return proof.compare(served, getattr(gold, "schema", SCHEMA), lambda _: gold)
