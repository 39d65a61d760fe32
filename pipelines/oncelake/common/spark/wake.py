"""Wake a streaming query that waits for its next trigger."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_class

_CLOCK = "oncelake.WakeableClock"


def can_wake(spark: SparkSession) -> bool:
    """Return True if a session's JVM has our compiled class."""
    return has_class(spark, _CLOCK)


class Wake:
    """Makes a query with a processing-time trigger look for new input at once, instead of at its next trigger."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._query: Any = query._jsq
        self._clock: Any = None

    def __call__(self) -> None:
        """Wake the query; do nothing while it is starting, as it then looks for input anyway."""
        self._clock = self._clock or jvm(self._spark).oncelake.WakeableClock.of(self._query)
        if self._clock is not None:
            self._clock.wake()
