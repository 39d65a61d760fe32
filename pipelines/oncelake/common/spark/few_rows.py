"""Count the rows of a frame and take a few out of it, in the job that writes the others."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import applied


@dataclass(frozen=True)
class Taken:
    """What a job counted and took out of a frame.

    Attributes:
        lines: the number of all rows of the frame.
        out: the number of rows that were taken out.
        names: how many rows had each name.
        rows: the rows that were taken out; None if they were more than the bound.
    """

    lines: int
    out: int
    names: Mapping[str, int]
    rows: DataFrame | None


@dataclass
class FewRows:
    """A filter that counts rows, and keeps those that it takes out in Spark's JVM within a bound.

    Attributes:
        spark: a session whose tasks run in its own JVM, and which has our compiled classes.
        max_rows: the most rows to keep.
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

    def without(self, frame: DataFrame, stays: Column, names: Column, columns: Sequence[str]) -> DataFrame:
        """Return the rows of a frame that meet a condition; the job that computes them counts all and keeps the others.

        Args:
            frame: the frame.
            stays: the condition; it is never null.
            names: the names that are counted for a row, a list; null for none.
            columns: the columns of the rows that are taken out.
        """
        function = jvm(self.spark).oncelake.FewRows.filter(self._name, self.max_rows, self.max_bytes)
        return frame.where(applied(function, names, F.when(~stays, F.struct(*columns))))

    def take(self, schema: StructType) -> Taken:
        """Return what was counted and taken out, once, after the job.

        Args:
            schema: the columns of the rows that are taken out.
        """
        kept = jvm(self.spark).oncelake.FewRows.take(self._name)
        rows = kept.rows()
        frame = None if rows is None else _frame(self.spark, rows, schema)
        lines, out = (int(kept.count(is_out)) for is_out in (False, True))
        return Taken(lines, out, {str(key): int(n) for key, n in kept.named().items()}, frame)


def _frame(spark: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    java_schema = jvm(spark).org.apache.spark.sql.types.DataType.fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(rows, java_schema), spark)
