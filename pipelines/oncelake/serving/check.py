"""Check that a gold table can be served before a run starts, and create the tables of the serving database."""

from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DecimalType, StringType, StructType
from sqlalchemy import Connection

from oncelake.common.errors import ConfigError, TargetAwayError
from oncelake.gold.schema import gold_schema
from oncelake.serving.served import Served
from oncelake.serving.tables import POSITION, create_statements, served_table


def check_served(spark: SparkSession, served: Served) -> None:
    """Check the declaration, then the tables in the database; skip the tables if the database is unavailable.

    Raises:
        ConfigError: the table cannot be served as configured; the message says what to do.
        TargetError: the database reports an error that waiting does not fix.
    """
    schema = schema_of(spark, served)
    if served.mode == "transactional":
        _check_adds_up(served, schema)
    with suppress(TargetAwayError):
        served.check(schema)


def schema_of(spark: SparkSession, served: Served) -> StructType:
    """Return the columns of the gold table."""
    return gold_schema(spark, served.declared, served.silver_schema(spark))


def _check_adds_up(served: Served, schema: StructType) -> None:
    """Refuse measures that the database cannot merge exactly."""
    for measure in served.declared.parsed:
        kind, merge, why = schema[measure.name].dataType, measure.how.merge, None
        if merge == "sketch":
            why = "a database cannot add up estimates"
        elif merge in ("least", "greatest") and isinstance(kind, (StringType, BinaryType)):
            why = "databases order text differently from Spark"
        elif merge == "sum" and isinstance(kind, DecimalType) and served.database.backend == "sqlite":
            why = "SQLite has no exact decimals"
        if why:
            raise ConfigError(
                f"gold.{served.table.name}: {measure.name} is {measure.function}, and {why}. Use "
                "serving.mode idempotent, or remove the table from serving.tables"
            )


def statements(spark: SparkSession, found: Sequence[Served]) -> list[str]:
    """Return the SQL that creates oncelake_position and the served tables; this does not connect to the database."""
    tables = [served_table(each.table.name, each.declared, schema_of(spark, each)) for each in found]
    return create_statements([POSITION, *tables], found[0].database.engine.dialect)


def make(spark: SparkSession, found: Sequence[Served]) -> list[str]:
    """Create the missing tables, check the served ones, and return the SQL.

    Raises:
        ConfigError: an existing table is not as it must be.
        TargetError: the database reports an error, or is unavailable.
    """
    sql = statements(spark, found)

    def work(connection: Connection) -> None:
        for each in sql:
            connection.exec_driver_sql(each)

    found[0].database.transaction(work)
    for served in found:
        served.check(schema_of(spark, served))
    return sql
