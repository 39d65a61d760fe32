"""Split a frame by a condition in the job that writes it: count all rows, and keep a few that do not meet it."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import applied, has_class

_FEW_ROWS = "oncelake.FewRows"


@dataclass(frozen=True)
class RemovedRows:
    """The rows that a job removed from a frame, and its counts.

    Attributes:
        lines: the number of all rows of the frame.
        removed: the number of removed rows.
        names: how many rows had each name.
        rows: the removed rows; None if they were more than the bound.
    """

    lines: int
    removed: int
    names: Mapping[str, int]
    rows: DataFrame | None


@dataclass
class FewRows:
    """A filter that counts all rows, and keeps the rows that it removes in Spark's JVM, within a bound.

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
        """Split a frame by a condition in one job; return the matching rows, keep the others, count both.

        Args:
            frame: the frame.
            stays: the condition; it is never null.
            names: the names that are counted for a row, a list; null for none.
            columns: the columns of the removed rows.
        """
        function = jvm(self.spark).oncelake.FewRows.filter(self._name, self.max_rows, self.max_bytes)
        return frame.where(applied(function, names, F.when(~stays, F.struct(*columns))))

    def take(self, schema: StructType) -> RemovedRows:
        """Return the removed rows and the counts, once, after the job.

        Args:
            schema: the columns of the removed rows.
        """
        counted = jvm(self.spark).oncelake.FewRows.take(self._name)
        rows = counted.rows()
        frame = None if rows is None else _frame(self.spark, rows, schema)
        lines, removed = (int(counted.count(is_removed)) for is_removed in (False, True))
        return RemovedRows(lines, removed, {str(name): int(count) for name, count in counted.named().items()}, frame)


def can_split(spark: SparkSession) -> bool:
    """Return True if a session's JVM has our compiled class."""
    return has_class(spark, _FEW_ROWS)


def _frame(spark: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    java_schema = jvm(spark).org.apache.spark.sql.types.DataType.fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(rows, java_schema), spark)
