"""A table as it was before a batch: what the batch's rows are compared with, also when the batch is replayed.

The version is fixed. So a replay of a half-written batch does not see the rows that the batch itself wrote, whatever
has been committed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset

# Ranges of times from a first to a last one, both included, in microseconds since 1970.
Times = Sequence[tuple[int, int]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Delta's statistics of times are cut to milliseconds.
_CUT = 1_000
_FIRST, _LAST = (
    (moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for moment in (datetime.min, datetime.max)
)


@dataclass(frozen=True)
class TableVersion:
    """One version of a table.

    Attributes:
        path: the table's path or catalog name.
        table: the table's name.
        version: the version.
        opened: this version as delta-rs has it open; None if Spark has to read it.
        replayed: True if the table holds the batch already.
    """

    path: str
    table: str
    version: int
    opened: "DeltaTable | None" = field(default=None, repr=False)
    replayed: bool = False

    def read(self, spark: SparkSession, column: str, times: Times) -> DataFrame:
        """Read the rows whose time in a column is in one of the ranges."""
        rows = tables.read_version(spark, self.path, self.version)
        conditions = [
            f"(`{column}` BETWEEN timestamp_micros({first}L) AND timestamp_micros({last}L))" for first, last in times
        ]
        return rows.where(F.expr(" OR ".join(conditions) or "false"))

    def files(self, column: str, times: Times) -> "Dataset":
        """Return the data files that can hold a time in one of the ranges, by their statistics, for Arrow."""
        from pyarrow.dataset import ParquetReadOptions  # noqa: PLC0415 - a run that collects nothing need not have it

        assert self.opened is not None, "the caller has checked"
        conditions = [
            f"({column} >= '{_text(first - _CUT)}' AND {column} <= '{_text(last + _CUT)}')" for first, last in times
        ]
        return self.opened.to_pyarrow_dataset(
            file_pruning_predicate=" OR ".join(conditions),
            parquet_read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"),
        )


def _text(at: int) -> str:
    moment = _EPOCH + timedelta(microseconds=min(max(at, _FIRST), _LAST))
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
