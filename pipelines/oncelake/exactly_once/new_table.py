"""Create an empty table, also where a process was killed while it created it."""

from collections.abc import Mapping
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
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
        _remove_empty_log(spark, f"{at}/_delta_log")
    try:
        tables.make(spark, at, schema, properties)
    except PySparkException:
        if commit_log.newest() is None:  # guard: table-made-by-other-driver
            raise


def _remove_empty_log(spark: SparkSession, at: str) -> None:
    """Remove a log directory without a commit, as a process leaves it that is killed while it creates a table.

    Delta fails on it. On a store without locks, another driver may create the table at this moment: so nothing is
    removed together with what is in it.
    """
    log, store = hadoop(spark, at)
    if not store.exists(log):
        return
    with suppress(Py4JJavaError):  # it holds a commit by now
        for status in store.listStatus(log):
            if status.isDirectory() or status.getPath().getName().startswith("."):
                store.delete(status.getPath(), False)
        store.delete(log, False)  # guard: only-empty-log-removed
