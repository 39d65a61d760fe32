"""Check that a gold table can be served before a run starts, and create the tables in its sink."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StringType, StructType

from oncelake.common.errors import ConfigError, TargetAwayError
from oncelake.gold.schema import gold_schema
from oncelake.serving.dashboard import dashboard
from oncelake.serving.served import Served
from oncelake.serving.sink import SinkTable
from oncelake.serving.sql import SqlSink


def check_served(spark: SparkSession, served: Served) -> None:
    """Check the declaration, then the tables in the sink; skip the tables if the sink is unavailable.

    Raises:
        ConfigError: the table cannot be served as configured; the message says what to do.
        TargetError: the sink reports an error that waiting does not fix.
    """
    schema = _schema_of(spark, served)
    if served.mode == "transactional":
        _check_adds_up(served, schema)
    with suppress(TargetAwayError):
        served.check(schema)


def _schema_of(spark: SparkSession, served: Served) -> StructType:
    """Return the columns of the gold table."""
    return gold_schema(spark, served.declared, served.silver_schema(spark))


def _check_adds_up(served: Served, schema: StructType) -> None:
    """Refuse measures that the database cannot merge exactly."""
    for measure in served.declared.parsed:
        kind, merge, why = schema[measure.name].dataType, measure.how.merge, None
        if merge is None:
            why = "a database cannot add up its values"
        elif merge in ("least", "greatest") and isinstance(kind, (StringType, BinaryType)):
            why = "databases order text differently from Spark"
        if why:
            raise ConfigError(
                f"gold.{served.table.name}: {measure.name} is {measure.text}, and {why}. Use "
                "serving.mode idempotent, or remove the table from serving.tables"
            )


@dataclass(frozen=True)
class ServedTables:
    """The served tables, and the SQL that creates them; a sink that is no SQL database has none.

    Attributes:
        tables: the tables.
        shapes: each of them as its sink gets it.
        sql: the statements.
    """

    tables: list[Served]
    shapes: list[SinkTable]
    sql: list[str]

    def dashboard(self) -> dict[str, Any]:
        """Return a dashboard of the tables for Grafana.

        Raises:
            ConfigError: Grafana has no data source of its own for where they are served.
        """
        sink = self.tables[0].sink
        assert isinstance(sink, SqlSink), "there is no SQL for another sink"
        tables = zip(self.shapes, self.tables, strict=True)
        return dashboard([(shape, [*table.declared.by]) for shape, table in tables], sink.database.backend)


def make_served_tables(spark: SparkSession, served: list[Served], *, dry_run: bool) -> ServedTables:
    """Create the served tables unless they exist; with `dry_run`, only return their SQL, without connecting.

    Raises:
        ConfigError: no table is served, or one does not fit.
    """
    if not served:
        raise ConfigError(
            "no database is configured; set serving.url, such as mysql+pymysql://user@host/database, "
            "or serving.sink to a class of your own"
        )
    shapes = [each.shape(_schema_of(spark, each)) for each in served]
    return ServedTables(served, shapes, (statements if dry_run else make)(spark, served))


def statements(spark: SparkSession, served_tables: Sequence[Served]) -> list[str]:
    """Return the SQL that creates oncelake_position and the served tables; this does not connect to the database.

    Raises:
        ConfigError: the tables are not served from a SQL database.
    """
    texts: list[str] = []
    for served in served_tables:
        if not isinstance(served.sink, SqlSink):
            raise ConfigError(f"{served.place} is no SQL database, so it has no SQL, and Grafana does not read it")
        statements = served.sink.statements(served.shape(_schema_of(spark, served)))
        texts.extend(text for text in statements if text not in texts)
    return texts


def make(spark: SparkSession, served_tables: Sequence[Served]) -> list[str]:
    """Create what is missing in the sink, check the served tables, and return the SQL; a sink of your own has none.

    Raises:
        ConfigError: an existing table is not as it must be.
        TargetError: the sink reports an error, or is unavailable.
    """
    sql = statements(spark, served_tables) if isinstance(served_tables[0].sink, SqlSink) else []
    for served in served_tables:
        served.make(_schema_of(spark, served))
    return sql
