"""A transformation of frames that is built once, and then run over the frame of each batch."""

import logging
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.explain import cause_of, explain
from oncelake.common.spark.jvm import has_other_internals, jvm
from oncelake.common.spark.runtime import has_class

_PREPARED_PLAN = "oncelake.PreparedPlan"
_LOG = logging.getLogger(__name__)


def why_not_prepared(spark: SparkSession) -> str | None:
    """Return why our compiled class does not fit the session's Spark; None if it does.

    Args:
        spark: a session whose JVM has the class.
    """
    rows = spark.range(0)._jdf
    try:
        jvm(spark).oncelake.PreparedPlan.over(rows, rows)
    except (Py4JError, PySparkException) as error:
        return cause_of(error)
    return None


class Prepared:
    """A transformation that depends on nothing but the columns of its input, which are the same in every batch.

    Without our compiled class, or if Spark lacks what the class calls, it is built again for each frame.

    Args:
        build: the transformation.
    """

    def __init__(self, build: Callable[[DataFrame], DataFrame]) -> None:
        self._build = build
        self._made: DataFrame | None = None
        self._is_built_again = False

    def __call__(self, batch: DataFrame) -> DataFrame:
        """Return the result for a batch."""
        spark = batch.sparkSession
        if self._made is None:
            if self._is_built_again or not has_class(spark, _PREPARED_PLAN):
                return self._build(batch)
            self._made = self._build(spark.createDataFrame([], batch.schema))
        try:
            return DataFrame(jvm(spark).oncelake.PreparedPlan.over(self._made._jdf, batch._jdf), spark)
        except Py4JJavaError as error:  # a given Spark can have other internals than the Spark of the compilation
            if not has_other_internals(spark, error):
                raise
            _LOG.debug("plans are not prepared: %s", explain(error))
        self._made, self._is_built_again = None, True
        return self._build(batch)
