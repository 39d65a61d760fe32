"""Create an empty table, also where a process was killed while it created it."""

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelake.common import tables
from oncelake.common.lake import is_name
from oncelake.common.spark.jvm import hadoop
from oncelake.exactly_once.delta_log import DeltaLog


def make_new(spark: SparkSession, commit_log: DeltaLog, schema: StructType, properties: Mapping[str, str]) -> None:
    """Create a table that does not exist.

    Args:
        spark: the session.
        commit_log: the table's log, which has no version.
        schema: its columns.
        properties: its Delta properties.
    """
    at = commit_log.place
    if not is_name(at) and not any(name.endswith((".json", ".parquet")) for name in commit_log.whole_names()):
        # a process killed while creating a table leaves a log directory without a commit, on which Delta fails
        log, store = hadoop(spark, f"{at}/_delta_log")
        store.delete(log, True)
    tables.make(spark, at, schema, properties)
