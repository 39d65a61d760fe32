"""Every reader sees every row: filters find in the lake's files what they find where no reader can skip a file."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow
import pytest
from deltalake import ColumnProperties, WriterProperties, write_deltalake
from pyspark.sql import SparkSession

from oncelake.common.spark.rows import Collected, SparkRows, arrow_schema
from oncelake.exactly_once.writers.local import LocalTable, create
from oncelake.exactly_once.writers.spark import append
from tests.support.committed import append_by
from tests.support.memory import metadata
from tests.support.readers import READERS, ROW, SCHEMA, STATS, WRITERS, filters, rows

pytestmark = pytest.mark.spark

FILTERS = filters()
# Tables that no reader can skip a part of, and with bounds of every column as delta-rs writes them by itself.
PLAIN, BOUNDED = "plain", "bounded"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the rows by each writer, each into a file of its own, and once without bounds in one file."""
    root = tmp_path_factory.mktemp("tables")
    for name in (*WRITERS, PLAIN, BOUNDED):
        assert create(str(root / name), SCHEMA, STATS if name != BOUNDED else {})
    given = pyarrow.Table.from_pylist(rows(), schema=arrow_schema(SCHEMA))
    unbounded = WriterProperties(default_column_properties=ColumnProperties(statistics_enabled="NONE"))
    write_deltalake(str(root / PLAIN), given, mode="append", writer_properties=unbounded)
    one_row = [Collected(given.slice(number, 1), spark) for number in range(given.num_rows)]
    spread = spark.createDataFrame(given).repartitionByRange(given.num_rows, ROW)
    by_hand, of_files = LocalTable(str(root / "delta-rs")), LocalTable(str(root / "files"))
    for number, each in enumerate(one_row):
        append_by(by_hand, each, metadata(number))
        write_deltalake(root / BOUNDED, each.rows, mode="append")
    append_by(of_files, SparkRows(spread), metadata(0))
    append(spread, str(root / "Spark"), metadata(0))
    for name in WRITERS:
        assert len([*(root / name).glob("*.parquet")]) == given.num_rows
    return root


@pytest.fixture(scope="module")
def found(tables: Path, spark: SparkSession) -> Callable[[str, str], list[frozenset[int]]]:
    """Return what a reader finds in a table, by all filters."""
    return cache(lambda name, table: READERS[name](spark).found(tables / table, FILTERS))


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        pytest.param(name, writer, marks=[pytest.mark.long] if name == "Spark" and writer != "delta-rs" else [])
        for name in READERS
        for writer in WRITERS
    ],
)
def test_a_filter_finds_every_row(found: Callable[[str, str], list[frozenset[int]]], name: str, writer: str) -> None:
    wanted = found(name, PLAIN)
    assert all(wanted), [str(each) for each, rows_found in zip(FILTERS, wanted, strict=True) if not rows_found]
    both = zip(FILTERS, found(name, writer), wanted, strict=True)
    assert [f"{each}: {a} not {b}" for each, a, b in both if a != b] == []


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"Spark"}))
def test_the_filters_find_out_bounds_that_hide_rows(
    found: Callable[[str, str], list[frozenset[int]]], name: str
) -> None:
    both = zip(FILTERS, found(name, PLAIN), found(name, BOUNDED), strict=True)
    assert {each.kind for each, wanted, there in both if wanted - there} >= {"decimal(38,12)", "decimal(38,0)"}
