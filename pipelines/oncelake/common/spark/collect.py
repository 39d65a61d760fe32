"""Collect the rows of a small batch into this process as Arrow, within a bound of rows and bytes."""

from dataclasses import dataclass
from importlib.util import find_spec

from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.rows import Collected, arrow_schema
from oncelake.common.spark.runtime import has_class

_BOUNDED_ROWS = "oncelake.BoundedRows"
# Partitions hold their rows at the same time. With more of them than this, each may hold less.
_PARTITIONS = 4
# About how many times larger the rows of a log are in memory than in Parquet files.
PARQUET = 8


@dataclass(frozen=True)
class SmallBatches:
    """Collects the rows of small batches; their bytes are those of Spark's row format."""

    max_rows: int
    max_bytes: int

    def seems_small(self, frame: DataFrame, *, packed: int = 1) -> bool:
        """Return True unless Spark estimates that a frame's input has more bytes; Kafka has no estimate.

        Args:
            frame: the input.
            packed: how many times larger its rows are than the files that hold them.
        """
        estimate = packed * int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        unknown = int(frame.sparkSession._jsparkSession.sessionState().conf().defaultSizeInBytes())
        return estimate <= self.max_bytes or estimate >= unknown

    def collect(self, frame: DataFrame) -> Collected | None:
        """Run a frame as one job and return its rows; None if it has more rows or bytes than the bound.

        The job ends when a partition reaches the bound, so the memory that it uses is bounded as well.
        """
        import pyarrow  # noqa: PLC0415 - a run that collects nothing need not have it

        spark = frame.sparkSession
        share = max(frame._jdf.queryExecution().toRdd().getNumPartitions() / _PARTITIONS, 1.0)
        bounded = jvm(spark).oncelake.BoundedRows.recordBatches(
            frame._jdf, int(self.max_rows / share), int(self.max_bytes / share)
        )
        chunks: list[bytes] = RDD(bounded, spark.sparkContext, NoOpSerializer()).collect()
        if not all(chunks):
            return None
        schema = arrow_schema(frame.schema)
        batches = [pyarrow.ipc.read_record_batch(pyarrow.py_buffer(chunk), schema) for chunk in chunks]
        rows = pyarrow.Table.from_batches(batches, schema)
        return Collected(rows, spark) if rows.num_rows <= self.max_rows and rows.nbytes <= self.max_bytes else None


def can_collect(spark: SparkSession) -> bool:
    """Return True if a session's JVM has our compiled class and runs its tasks itself, and delta-rs is installed."""
    master = str(spark.sparkContext.master)
    in_this_jvm = master == "local" or master.startswith("local[")  # those of local-cluster[...] do not
    return in_this_jvm and has_class(spark, _BOUNDED_ROWS) and find_spec("deltalake") is not None
