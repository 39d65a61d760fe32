"""Take a few rows out of a frame while one job writes the others."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.common.spark.jvm import jvm


@dataclass
class FewRows:
    """The rows that a filter takes out of a frame, kept in Spark's JVM within a bound.

    Attributes:
        spark: a session whose tasks run in its own JVM, and which has our compiled classes.
        max_rows: the most rows.
        max_bytes: the most bytes of their texts.
    """

    spark: SparkSession
    max_rows: int
    max_bytes: int
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget the rows, also if the job failed."""
        jvm(self.spark).oncelake.FewRows.take(self._name)

    def without(self, frame: DataFrame, kept: Column, columns: Sequence[str]) -> DataFrame:
        """Return the rows of a frame that meet a condition; the job that computes them keeps the other rows.

        Args:
            frame: the frame.
            kept: the condition; it is never null.
            columns: the columns of the other rows.
        """
        function = jvm(self.spark).oncelake.FewRows.keep(self._name, self.max_rows, self.max_bytes)
        call = Column(_call(self.spark, function, F.struct(*columns)))
        return frame.where(F.when(kept, F.lit(True)).otherwise(call))

    def take(self, count: int, schema: StructType) -> DataFrame | None:
        """Return the rows that were taken out, once; None if they are not exactly `count`, or more than the bound.

        Args:
            count: their number, as the same job counted it.
            schema: their columns.
        """
        rows = jvm(self.spark).oncelake.FewRows.take(self._name)
        if rows is None or rows.size() != count:
            return None
        return _frame(self.spark, rows, schema)


def _call(spark: SparkSession, function: Any, argument: Column) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "a session has a JVM"
    columns = gateway.new_array(jvm(spark).org.apache.spark.sql.Column, 1)
    columns[0] = argument._jc
    return function.apply(columns)


def _frame(spark: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    java_schema = jvm(spark).org.apache.spark.sql.types.DataType.fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(rows, java_schema), spark)
