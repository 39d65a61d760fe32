"""Every reader sees every row: filters find in the lake's files what they find where no reader can skip a file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pytest
from deltalake import ColumnProperties, WriterProperties, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from oncelake.common.spark.collect import Collected
from oncelake.exactly_once.local_write import LocalTable, create
from oncelake.exactly_once.write import append
from tests.support.memory import metadata
from tests.support.readers import READERS, ROW, SCHEMA, STATS, WRITERS, Filter, Reader, filters, rows

pytestmark = pytest.mark.spark

# Tables that no reader can skip a part of, and with bounds of every column as delta-rs writes them by itself.
PLAIN, BOUNDED = "plain", "bounded"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the rows by each writer, each into a file of its own, and once without bounds in one file."""
    root = tmp_path_factory.mktemp("tables")
    for name in (*WRITERS, PLAIN, BOUNDED):
        assert create(str(root / name), SCHEMA, STATS if name != BOUNDED else {})
    given = pyarrow.Table.from_pylist(rows(), schema=to_arrow_schema(SCHEMA))
    unbounded = WriterProperties(default_column_properties=ColumnProperties(statistics_enabled="NONE"))
    write_deltalake(str(root / PLAIN), given, mode="append", writer_properties=unbounded)
    one_row = [Collected(given.slice(number, 1), spark) for number in range(given.num_rows)]
    spread = spark.createDataFrame(given).repartitionByRange(given.num_rows, ROW)
    by_hand, of_files = LocalTable(str(root / "delta-rs")), LocalTable(str(root / "files"))
    for number, each in enumerate(one_row):
        snapshot = by_hand.snapshot(SCHEMA.names)
        assert snapshot is not None
        snapshot.append(each, metadata(number))
        write_deltalake(root / BOUNDED, each.rows, mode="append")
    files, snapshot = of_files.new_files(spread), of_files.snapshot(SCHEMA.names)
    assert files is not None
    assert snapshot is not None
    snapshot.append_files(files.written(), metadata(0))
    append(spread, str(root / "Spark"), metadata(0))
    for name in WRITERS:
        assert len([*(root / name).glob("*.parquet")]) == given.num_rows
    return root


@pytest.fixture(scope="module")
def asked() -> Sequence[Filter]:
    return filters()


@pytest.mark.parametrize("name", READERS)
def test_a_filter_finds_every_row_of_every_writer(
    tables: Path, asked: Sequence[Filter], spark: SparkSession, name: str
) -> None:
    reader: Reader = READERS[name](spark)
    wanted = reader.found(tables / PLAIN, asked)
    assert all(wanted), [str(each) for each, found in zip(asked, wanted, strict=True) if not found]
    for writer in WRITERS:
        found = reader.found(tables / writer, asked)
        wrong = [f"{each}: {a} not {b}" for each, a, b in zip(asked, found, wanted, strict=True) if a != b]
        assert wrong == [], f"{name} of {writer}"


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"Spark"}))
def test_the_filters_find_out_bounds_that_hide_rows(
    tables: Path, asked: Sequence[Filter], spark: SparkSession, name: str
) -> None:
    reader: Reader = READERS[name](spark)
    both = zip(asked, reader.found(tables / PLAIN, asked), reader.found(tables / BOUNDED, asked), strict=True)
    assert {each.kind for each, wanted, found in both if wanted - found} >= {"decimal(38,12)", "decimal(38,0)"}
