"""This is where the tables of the serving database are made."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from sqlalchemy import Connection, Table

from oncelake.serving.check import schema_of
from oncelake.serving.served import Served
from oncelake.serving.tables import POSITION, create_statements, served_table


def wanted_tables(spark: SparkSession, found: Sequence[Served]) -> list[Table]:
    """Give the tables that served tables need: theirs, and oncelake_position."""
    return [POSITION, *(served_table(each.table.name, each.declared, schema_of(spark, each)) for each in found)]


def statements(spark: SparkSession, found: Sequence[Served]) -> list[str]:
    """Give the SQL that makes them, in the words of their database; nothing is asked of it."""
    return create_statements(wanted_tables(spark, found), found[0].database.engine.dialect)


def make(spark: SparkSession, found: Sequence[Served]) -> list[str]:
    """Make the tables, unless they are there, check those that were, and give the SQL.

    Raises:
        ConfigError: a table is there and is another one.
        TargetError: the database refuses, or does not answer.
    """
    sql = statements(spark, found)

    def work(connection: Connection) -> None:
        for each in sql:
            connection.exec_driver_sql(each)

    found[0].database.transaction(work)
    for served in found:
        served.check(schema_of(spark, served))
    return sql
