"""Access to a Delta table by its place: a path or a quoted name in a catalog, as Lake.at returns it."""

from collections.abc import Mapping

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructField, StructType

from oncelake.common.lake import identifier, is_name


def read(spark: SparkSession, at: str) -> DataFrame:
    """Read the newest version of a table."""
    return spark.read.table(at) if is_name(at) else spark.read.format("delta").load(at)


def read_version(spark: SparkSession, at: str, version: int) -> DataFrame:
    """Read one version of a table."""
    if is_name(at):
        return spark.sql(f"SELECT * FROM {at} VERSION AS OF {version}")
    return spark.read.format("delta").option("versionAsOf", str(version)).load(at)


def follow(reader: DataStreamReader, at: str) -> DataFrame:
    """Read a table as a stream."""
    return reader.table(at) if is_name(at) else reader.format("delta").load(at)


def append(writer: DataFrameWriter, at: str) -> None:
    """Append to an existing table."""
    delta = writer.format("delta").mode("append")
    delta.saveAsTable(at) if is_name(at) else delta.save(at)


def opened(spark: SparkSession, at: str) -> DeltaTable:
    """Return the DeltaTable object of a table, for MERGE."""
    return DeltaTable.forName(spark, at) if is_name(at) else DeltaTable.forPath(spark, at)


def make(spark: SparkSession, at: str, schema: StructType, properties: Mapping[str, str]) -> None:
    """Create an empty table if it does not exist."""
    if is_name(at):  # Delta's builder does not accept a name of three parts
        columns = ", ".join(map(_column, schema.fields))
        literals = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
        listed = f" TBLPROPERTIES ({literals})" if literals else ""
        spark.sql(f"CREATE TABLE IF NOT EXISTS {at} ({columns}) USING delta{listed}")
        return
    builder = DeltaTable.createIfNotExists(spark).location(at).addColumns(schema)
    for key, value in properties.items():
        builder = builder.property(key, value)
    builder.execute()


def replace(rows: DataFrame, at: str, properties: Mapping[str, str]) -> None:
    """Replace a table by another one with the rows' columns, in one commit; the new one has an ID of its own."""
    writer = rows.writeTo(identifier(at)).using("delta")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.createOrReplace()


def _column(field: StructField) -> str:
    comment = f" COMMENT {_literal(field.metadata['comment'])}" if "comment" in field.metadata else ""
    return f"`{field.name}` {field.dataType.simpleString()}{comment}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def has_table(spark: SparkSession, name: str) -> bool:
    """Return True if a catalog has a table with this quoted name."""
    return bool(spark.catalog.tableExists(name))
