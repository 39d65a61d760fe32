"""Wake a streaming query that waits for its next trigger."""

import logging
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelake.common.explain import cause_of, explain
from oncelake.common.spark.jvm import has_other_internals, jvm
from oncelake.common.spark.runtime import has_class
from oncelake.common.spark.versions import line_of

_CLOCK = "oncelake.WakeableClock"
_LOG = logging.getLogger(__name__)


def can_wake(spark: SparkSession, trigger: str | None = None) -> bool:
    """Return True if a session's JVM has our compiled class, and Spark's class has the field that it sets.

    Args:
        spark: the session.
        trigger: the name of Spark's class; None for that of the session's version.
    """
    return has_class(spark, _CLOCK) and why_not_woken(spark, trigger) is None


def why_not_woken(spark: SparkSession, trigger: str | None = None) -> str | None:
    """Return why our compiled class does not fit the session's Spark; None if it does.

    Args:
        spark: a session whose JVM has the class.
        trigger: the name of Spark's class; None for that of the session's version.
    """
    line = line_of(spark.version)
    trigger = trigger or (line.trigger if line is not None else None)
    if trigger is None:
        return f"Spark {spark.version} is not known"
    try:
        jvm(spark).oncelake.WakeableClock.check(trigger)
    except Py4JError as error:
        return cause_of(error)
    return None


class Wake:
    """Makes a query with a processing-time trigger look for new input at once, instead of at its next trigger."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark = spark
        self._query: Any = query._jsq
        self._clock: Any = None
        self._is_unfit = False

    def __call__(self) -> None:
        """Wake the query; do nothing while it is starting, as it then looks for input anyway."""
        if self._is_unfit:
            return
        try:
            self._clock = self._clock or jvm(self._spark).oncelake.WakeableClock.of(self._query)
            if self._clock is not None:
                self._clock.wake()
        except Py4JJavaError as error:  # as for a prepared plan; then the query looks at its own triggers only
            if not has_other_internals(self._spark, error):
                raise
            _LOG.debug("the query is not woken: %s", explain(error))
            self._is_unfit = True
