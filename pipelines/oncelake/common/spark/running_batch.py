"""The batch of a streaming query that Spark runs in this thread: what `foreachBatch` does not pass to its function."""

from dataclasses import dataclass
from uuid import UUID

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.spark.jvm import hadoop, jvm

# What Spark sets in the thread of a query. Source: StreamExecution and MicroBatchExecution of Spark 4.0.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class RunningBatch:
    """A batch of a streaming query.

    Attributes:
        query_id: the query's ID, which its checkpoint keeps.
        run_id: the ID of this start of the query.
        batch_id: the batch.
        checkpoint: the query's checkpoint directory.
        owns: whether the frame that it was asked for belongs to the query's own session, which no other query has.
    """

    query_id: str
    run_id: str
    batch_id: int
    checkpoint: str
    owns: bool


def running_batch(rows: DataFrame) -> RunningBatch | None:
    """Return the batch that Spark runs in this thread; None outside of one, and where Spark does not say which it is.

    Args:
        rows: a frame of the batch.
    """
    try:
        spark = rows.sparkSession
        query_id, batch = (spark.sparkContext.getLocalProperty(key) for key in (_QUERY, _BATCH))
        if not query_id or not batch:
            return None
        queries = spark._jsparkSession.sharedState().activeStreamingQueries()
        query = queries.get(jvm(spark).java.util.UUID.fromString(query_id))
        if query is None:
            return None
        return RunningBatch(
            query_id=str(UUID(query_id)),
            run_id=str(query.runId().toString()),
            batch_id=int(batch),
            checkpoint=_place(spark, query.resolvedCheckpointRoot()),
            owns=bool(query.sparkSessionForStream().equals(spark._jsparkSession)),
        )
    except (PySparkException, Py4JError, AttributeError, TypeError):
        return None  # Spark Connect, or a Spark with other internals


def _place(spark: SparkSession, root: str) -> str:
    """Return a directory that Spark names without escapes: a path if it is local, otherwise its URL."""
    path, _ = hadoop(spark, root)
    return str(path.toUri().getPath() if path.toUri().getScheme() in (None, "file") else path.toString())
