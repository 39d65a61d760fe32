"""Bounds by which readers skip files are exact, or there are none; files with wrong ones are found."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import DecimalType, DoubleType, FloatType, LongType, StringType

from oncelake.common.spark.rows import Collected
from oncelake.exactly_once.bounds import bounded_files, has_exact_bounds, without_float_bounds
from oncelake.exactly_once.writers import MergeSql
from oncelake.exactly_once.writers.local import LocalTable
from tests.support.committed import commit
from tests.support.memory import metadata

SCHEMA = pa.schema([("key", pa.int64()), ("top", pa.decimal128(38, 12)), ("share", pa.float64())])
SQL = MergeSql("gold.key = batch.key", {"share": "batch.share"})
TOP = Decimal("-900719925474.993127")


def rows(*values: tuple[int, Decimal | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], schema=SCHEMA)


def hidden(path: Path) -> list[list[str]]:
    return [file.hidden() for file in bounded_files(DeltaTable(path), str(path))]


def make(path: Path, **properties: str) -> Path:
    DeltaTable.create(str(path), SCHEMA, configuration=cast(Any, properties))
    return path


def test_decimals_that_a_double_does_not_hold_and_floats_have_no_exact_bounds() -> None:
    assert [has_exact_bounds(each) for each in (LongType(), StringType(), DecimalType(15, 2))] == [True] * 3
    assert [has_exact_bounds(each) for each in (DoubleType(), FloatType(), DecimalType(16, 0))] == [False] * 3


@pytest.mark.parametrize(
    ("value", "found"),
    [((1, TOP, 1.0), [["top"]]), ((1, Decimal(5), math.nan), [["share"]]), ((1, Decimal(5), 1.0), [[]])],
)
def test_files_whose_bounds_hide_a_row_are_found(tmp_path: Path, value: Any, found: list[list[str]]) -> None:
    write_deltalake(make(tmp_path / "table"), rows(value), mode="append")
    assert hidden(tmp_path / "table") == found


def test_a_file_s_own_bounds_that_leave_out_a_nan_are_found(tmp_path: Path) -> None:
    path = make(tmp_path / "table", **{"delta.dataSkippingStatsColumns": "key"})
    write_deltalake(path, rows((1, TOP, 1.0), (2, TOP, math.nan)), mode="append")
    write_deltalake(path, rows((1, TOP, 1.0), (2, TOP, None)), mode="append")
    assert sorted(hidden(path)) == [[], ["share"]]


@pytest.mark.parametrize("how", ["append", "merge", "compact", "sort"])
def test_no_file_that_is_written_has_bounds_of_floats(tmp_path: Path, how: str) -> None:
    path = make(tmp_path / "table", **{"delta.dataSkippingStatsColumns": "key"})
    given = Collected(rows((1, TOP, 1.0), (2, TOP, math.nan)), cast(Any, None))
    for batch in range(2):
        table = LocalTable(str(path))
        commit(table.merge(given, lambda _: SQL) if how == "merge" else table.append(given), metadata(batch))
    held = DeltaTable(path)
    if how == "compact":
        held.optimize.compact(writer_properties=without_float_bounds(held))
    if how == "sort":
        held.optimize.z_order(["key"], writer_properties=without_float_bounds(held))
    assert list(bounded_files(DeltaTable(path), str(path))) == []
    assert DeltaTable(path).to_pyarrow_table().num_rows == (2 if how == "merge" else 4)
