"""The rows of a batch behind one interface: those of a frame, which Spark computes, and those that were collected.

Whatever works on rows works on both, so it need not ask which they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow


def arrow_schema(schema: StructType) -> "pyarrow.Schema":
    """Return the columns as Arrow has them in the batches that Spark's Java code writes, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - needs pyarrow, which is optional

    # Spark 4.2 wants the zone, which earlier ones do not know as an argument
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


@dataclass(frozen=True)
class Count:
    """A number of a batch's rows, as both engines compute it.

    Attributes:
        name: its name.
        of_frame: returns Spark's aggregate.
        of_table: computes the same from an Arrow table.
    """

    name: str
    of_frame: Callable[[], Column]
    of_table: Callable[["pyarrow.Table"], int]


@dataclass(frozen=True)
class Counting:
    """Rows that are counted while they are written.

    Attributes:
        rows: the rows, to be written in place of the counted ones.
        known: the numbers, by name; None if the job that writes the rows computes them.
        seen: the numbers of that job.
    """

    rows: "BatchRows"
    known: Mapping[str, Any] | None
    seen: Observation | None = None

    def values(self, *, written: bool = True) -> Mapping[str, Any]:
        """Return the numbers, by name.

        Args:
            written: whether this process has written the rows; otherwise a job counts here.
        """
        if self.known is not None:
            return self.known
        assert self.seen is not None, "rows that Spark computes are observed"
        if not written:
            self.rows.frame().count()
        return dict(self.seen.get)


@dataclass(frozen=True)
class SparkRows:
    """The rows of a frame, which Spark computes whenever they are read."""

    rows: DataFrame

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.rows.columns

    @property
    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        return self.rows.schema

    @property
    def here(self) -> None:
        """None: Spark computes the rows."""

    def frame(self) -> DataFrame:
        """Return the frame."""
        return self.rows

    def select(self, names: list[str]) -> Self:
        """Return some columns, in this order."""
        return type(self)(self.rows.select(*names))

    def counting(self, counts: Sequence[Count]) -> Counting:
        """Return the rows with counts, which the job that writes the rows computes."""
        if not counts:
            return Counting(self, {})
        seen = Observation()
        observed = self.rows.observe(seen, *(count.of_frame().alias(count.name) for count in counts))
        return Counting(SparkRows(observed), None, seen)


@dataclass(frozen=True)
class Collected:
    """The rows of a small frame, in this process.

    Attributes:
        rows: the rows; timestamps are in UTC.
        spark: the session that they come from.
    """

    rows: "pyarrow.Table"
    spark: SparkSession

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows.column_names)

    @property
    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - needs pyarrow, which is optional

        return from_arrow_schema(self.rows.schema, prefer_timestamp_ntz=True)

    @property
    def here(self) -> "pyarrow.Table":
        """The rows."""
        return self.rows

    def where(self, mask: "pyarrow.ChunkedArray") -> Self:
        """Return the rows for which the mask is true."""
        return type(self)(self.rows.filter(mask), self.spark)

    def select(self, names: list[str]) -> Self:
        """Return some columns, in this order."""
        return type(self)(self.rows.select(names), self.spark)

    def frame(self) -> DataFrame:
        """Return the rows as a frame that holds them itself, so that Spark computes nothing again."""
        rows = self.rows if self.rows.num_rows else self.rows.schema.empty_table()  # PySpark fails without a chunk
        return self.spark.createDataFrame(rows)

    def counting(self, counts: Sequence[Count]) -> Counting:
        """Return the rows with counts."""
        return Counting(self, {count.name: count.of_table(self.rows) for count in counts})


# The rows of a batch: both classes have the same properties and methods.
BatchRows = SparkRows | Collected
