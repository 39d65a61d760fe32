"""A table on a local disk is read without Spark, whatever is asked of it, and without the libraries that take long."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.proven import ProvenTable
from oncelake.exactly_once.span import Span, rows_in

FIRST = datetime(2026, 11, 28, tzinfo=UTC)
ROWS = 600


def no_spark() -> SparkSession:
    raise AssertionError("Spark is started")


@pytest.mark.parametrize("batches", [1, 2, 3, 11, 500])
def test_the_rows_of_batches_are_found_without_spark(tmp_path: Path, batches: int) -> None:
    times = [FIRST + timedelta(milliseconds=number) for number in range(ROWS)]
    column = pyarrow.array(times, pyarrow.timestamp("us", "UTC"))
    deltalake.write_deltalake(str(tmp_path), pyarrow.table({"ingested_at": column}))
    span = Span(BRONZE, str(tmp_path), 0, (), start=ProvenTable("id", -1, -1, "", None, 0))
    asked = [round(time.timestamp() * 1000) for time in times[:: ROWS // batches][:batches]]
    query = f"SELECT count(*) AS rows FROM {{rows}} t WHERE {rows_in(span, asked)}"
    answer = TableRows(no_spark).query(query, str(tmp_path), version=0)
    assert answer["rows"].to_pylist() == [batches]


def written(path: Path, **columns: pyarrow.Array) -> str:
    deltalake.write_deltalake(str(path), pyarrow.table(columns), mode="append", schema_mode="merge")
    return str(path)


def test_a_file_from_before_a_column_was_added_has_no_value_in_it(tmp_path: Path) -> None:
    written(tmp_path, a=pyarrow.array([1]))
    at = written(tmp_path, a=pyarrow.array([2]), b=pyarrow.array([["x"]]))
    query = "SELECT t.a, t.b FROM {rows} t ORDER BY t.a"
    assert TableRows(no_spark).records(query, {"rows": (at, None)}) == [{"a": 1, "b": None}, {"a": 2, "b": ["x"]}]
    names = [{file.name} for file in TableRows(no_spark).files(at) or ()]
    each = [TableRows(no_spark).without_spark(query, {"rows": (at, None)}, files=files) for files in names]
    assert sorted(map(str, each)) == ["[{'a': 1, 'b': None}]", "[{'a': 2, 'b': ['x']}]"]
    assert TableRows(no_spark).query(query, at, ingested_at=FIRST).column_names == ["a", "b"]
    assert TableRows(no_spark).without_spark(query, {"rows": (at, None)}, files=set()) == []


def test_a_time_without_a_zone_in_a_file_is_in_utc(tmp_path: Path) -> None:
    times = pyarrow.array([FIRST], pyarrow.timestamp("us", "UTC"))
    at = written(tmp_path, at=times)
    (file,) = tmp_path.glob("*.parquet")
    parquet.write_table(pyarrow.table({"at": times}), file, use_deprecated_int96_timestamps=True)
    answer = TableRows(no_spark).query("SELECT t.at FROM {rows} t WHERE t.at = :at", at, at=FIRST)
    assert answer["at"].combine_chunks() == times


def test_no_other_file_is_read_whose_path_matches(tmp_path: Path) -> None:
    at = written(tmp_path / "a*b?'c d", a=pyarrow.array([1]))
    shutil.copytree(at, tmp_path / "aXXbYc d")
    shutil.copytree(at, tmp_path / "aXXbY'c d")
    assert TableRows(no_spark).records("SELECT t.a FROM {rows} t", {"rows": (at, None)}) == [{"a": 1}]


@pytest.mark.parametrize(
    "value",
    ["it's", "a\\'b", "$1 ?", ":v {rows} {v}", "\n\t--", "", "ä€😀", "a\0'b", b"\x00'\xff", b"", -7, 2**62, None, True],
    ids=repr,
)
def test_a_value_reaches_the_query_as_it_is(tmp_path: Path, value: object) -> None:
    at = written(tmp_path, a=pyarrow.array([1]))
    answer = TableRows(no_spark).records(
        "SELECT :v AS v FROM {rows} t WHERE t.a = :a", {"rows": (at, None)}, v=value, a=1
    )
    assert answer == [{"v": value}]


@pytest.mark.parametrize(
    "time", [FIRST.replace(microsecond=1), datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
)
def test_a_time_reaches_the_query_to_the_microsecond(tmp_path: Path, time: datetime) -> None:
    at = written(tmp_path, a=pyarrow.array([1]))
    query = "SELECT unix_micros(:at) AS at, list_contains(:times, :at) AS has FROM {rows} t"
    (answer,) = TableRows(no_spark).records(query, {"rows": (at, None)}, at=time, times=[FIRST, time])
    assert answer == {"at": (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), "has": True}


def test_records_are_read_without_pyarrow(tmp_path: Path) -> None:
    at = written(tmp_path, a=pyarrow.array([1]), at=pyarrow.array([FIRST], pyarrow.timestamp("us", "UTC")))
    code = f"""
import sys
from datetime import datetime
from oncelake.common.table_rows import TableRows
rows = TableRows(lambda: 1 / 0)
at = datetime.fromisoformat("{FIRST.isoformat()}")
assert rows.records("SELECT t.a FROM {{rows}} t WHERE t.at = :at", {{"rows": ({at!r}, None)}}, at=at) == [{{"a": 1}}]
assert rows.files({at!r})[0].times["at"]
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pandas", "numpy", "pyarrow"} & set(done.stdout.split()) == set()


def test_an_arrow_table_is_read_without_pandas(tmp_path: Path) -> None:
    at = written(tmp_path, a=pyarrow.array([1]), at=pyarrow.array([FIRST], pyarrow.timestamp("us", "UTC")))
    code = f"""
import sys
from oncelake.common.table_rows import TableRows
assert TableRows(lambda: 1 / 0).query("SELECT * FROM {{rows}} t WHERE t.a = :a", {at!r}, a=1).num_rows == 1
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pandas" not in done.stdout.split()
