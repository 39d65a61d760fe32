"""A transformation of frames that is built once, and then run over the frame of each batch."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_class

_PREPARED_PLAN = "oncelake.PreparedPlan"


class Prepared:
    """A transformation that depends on nothing but the columns of its input, which are the same in every batch.

    Without our compiled class, the transformation is built again for each frame.
    """

    def __init__(self, build: Callable[[DataFrame], DataFrame]) -> None:
        self._build = build
        self._made: DataFrame | None = None

    def __call__(self, batch: DataFrame) -> DataFrame:
        """Return the result for a batch."""
        spark = batch.sparkSession
        if self._made is None:
            if not has_class(spark, _PREPARED_PLAN):
                return self._build(batch)
            self._made = self._build(spark.createDataFrame([], batch.schema))
        return DataFrame(jvm(spark).oncelake.PreparedPlan.over(self._made._jdf, batch._jdf), spark)
