"""Decide which columns have bounds (least and greatest value of a file), and find the files that have wrong ones.

Readers skip a file, or a part of it, if the value that they look for is outside its bounds. So inexact bounds hide
rows:

- delta-rs writes those of decimals as floats, which hold 15 digits.
- A NaN is in no bounds that delta-rs writes, while Spark orders it above all numbers; and 0.0 = -0.0 is one value with
  two of them.

A gold table has bounds of its windows alone, by Delta's property `delta.dataSkippingStatsColumns`, which Spark and
delta-rs follow. Parquet files have bounds of their own, which delta-rs is told not to write for floats.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow
import pyarrow.compute
from deltalake import ColumnProperties, DeltaTable, WriterProperties
from pyarrow import parquet
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, StructType

from oncelake.common.lake import listed_files

# A decimal of more digits is not the same after it was a double.
_DIGITS = 15
# Spark's writer of Parquet files, whose bounds say that there is a NaN.
_BY_SPARK = "parquet-mr"
_FLOATS = (FloatType, DoubleType)


def has_exact_bounds(kind: DataType) -> bool:
    """Return True if the bounds of a type's values are exact for every reader."""
    return not isinstance(kind, _FLOATS) and not (isinstance(kind, DecimalType) and kind.precision > _DIGITS)


def without_float_bounds(table: DeltaTable) -> WriterProperties | None:
    """Return how delta-rs writes the Parquet files of a table: no bounds of floats; None for its own way."""
    floats = [name for name, kind in _inexact(table).items() if isinstance(kind, _FLOATS)]
    if not floats:
        return None
    none = ColumnProperties(statistics_enabled="NONE")
    return WriterProperties(compression="SNAPPY", column_properties=dict.fromkeys(floats, none))


@dataclass(frozen=True)
class BoundedFile:
    """A data file that has bounds of columns that must have none.

    Attributes:
        file: the path of the file.
        listed: per column, the least and the greatest value as the table's log has them.
        own: the columns with bounds in the Parquet file itself.
    """

    file: Path
    listed: dict[str, tuple[Any, Any]]
    own: Sequence[str]

    def hidden(self) -> list[str]:
        """Return the columns with a value that is not within its bounds: readers that look for it skip the file."""
        rows = parquet.ParquetFile(self.file).read(sorted({*self.listed, *self.own}))
        return [name for name in rows.column_names if _is_outside(rows[name], self.listed.get(name))]


def bounded_files(table: DeltaTable, path: str) -> Iterator[BoundedFile]:
    """Yield the data files of a table on a local disk that have bounds of columns that must have none."""
    inexact = _inexact(table)
    if not inexact:
        return
    floats = [name for name, kind in inexact.items() if isinstance(kind, _FLOATS)]
    files = listed_files(table)
    names = [name for name in inexact if f"min.{name}" in files.column_names and f"max.{name}" in files.column_names]
    sides = [files[f"{side}.{name}"].to_pylist() for name in names for side in ("min", "max")]
    for at, relative in enumerate(files["path"].to_pylist()):
        file = Path(path, unquote(relative))
        bounds = {name: (sides[2 * n][at], sides[2 * n + 1][at]) for n, name in enumerate(names)}
        listed = {name: pair for name, pair in bounds.items() if pair != (None, None)}
        own = _own(file, floats) if floats else []
        if listed or own:
            yield BoundedFile(file, listed, own)


def _inexact(table: DeltaTable) -> dict[str, DataType]:
    """Return the columns of a table that must have no bounds, with their types."""
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    return {field.name: field.dataType for field in schema if not has_exact_bounds(field.dataType)}


def _own(file: Path, floats: Sequence[str]) -> list[str]:
    """Return the floats with bounds in a Parquet file, if delta-rs wrote it."""
    footer = parquet.read_metadata(file)
    if footer.created_by.startswith(_BY_SPARK) or not footer.num_row_groups:
        return []
    group = footer.row_group(0)
    columns = (group.column(place) for place in range(footer.num_columns))
    return [column.path_in_schema for column in columns if column.path_in_schema in floats and column.is_stats_set]


def _is_outside(values: pyarrow.ChunkedArray, listed: tuple[Any, Any] | None) -> bool:
    """Return True if one of the values is not within its bounds: a NaN is within none.

    JSON has no infinity, and readers take a bound of 0.0 for one of two values.
    """
    if pyarrow.types.is_floating(values.type):
        plain = pyarrow.compute.is_finite(values) if listed else pyarrow.compute.invert(pyarrow.compute.is_nan(values))
        if not pyarrow.compute.all(plain).as_py() or (listed and 0.0 in values.to_pylist()):
            return True
    least, most = listed or (None, None)
    extremes = pyarrow.compute.min_max(values).as_py()
    if extremes["min"] is None:
        return False
    is_below = least is not None and extremes["min"] < Decimal(least)
    return is_below or (most is not None and extremes["max"] > Decimal(most))
