"""The data files of a large batch are committed once, with statistics that leave out no row."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles, remove_staged
from oncelake.exactly_once.writers import TransactionHeldError, VersionTakenError
from oncelake.exactly_once.writers.local import LocalTable, Snapshot
from oncelake.exactly_once.writers.new_files import DataFile, statistics
from tests.support.memory import metadata

SCHEMA = pa.schema([("key", pa.string()), ("counted", pa.int64())])
NOON = datetime(2017, 7, 30, 12, 0, 0, 123_456, UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    DeltaTable.create(str(tmp_path / "table"), schema=SCHEMA)
    return tmp_path / "table"


def snapshot(path: Path) -> Snapshot:
    found = LocalTable(str(path)).snapshot(SCHEMA.names)
    assert found is not None
    return found


def a_file(path: Path, name: str, *keys: str) -> DataFile:
    parquet.write_table(pa.table({"key": keys, "counted": [1] * len(keys)}, schema=SCHEMA), path / name)
    stats = statistics(parquet.read_metadata(path / name), {"key": "string", "counted": "long"})
    return DataFile(name, (path / name).stat().st_size, 0, stats)


def keys(path: Path) -> list[str]:
    return sorted(DeltaTable(path).to_pyarrow_table()["key"].to_pylist())


def test_files_are_committed_once_for_their_transaction(path: Path) -> None:
    files = [a_file(path, "1.parquet", "a", "b"), a_file(path, "2.parquet", "c")]
    snapshot(path).append_files(files, metadata(0))
    with pytest.raises(TransactionHeldError):
        snapshot(path).append_files([a_file(path, "3.parquet", "d")], metadata(0))
    commit = DeltaLog(LocalFiles(), str(path)).commit(1)
    assert commit is not None
    assert (commit.rows_added, commit.changes_data, commit.metadata) == (3, True, metadata(0))
    assert keys(path) == ["a", "b", "c"]
    assert DeltaTable(path).history(1)[0]["operationMetrics"] == {"numOutputRows": "3"}


def test_a_batch_without_files_is_a_commit(path: Path) -> None:
    snapshot(path).append_files([], metadata(0))
    commit = DeltaLog(LocalFiles(), str(path)).commit(1)
    assert commit is not None
    assert (commit.rows_added, commit.changes_data, commit.metadata) == (0, False, metadata(0))


def test_files_get_the_version_after_the_one_that_was_checked_or_none(path: Path) -> None:
    before = snapshot(path)
    snapshot(path).append_files([a_file(path, "1.parquet", "a")], metadata(0, query_id="another", run="other"))
    with pytest.raises(VersionTakenError, match=r"version 1 of .* is taken"):
        before.append_files([a_file(path, "2.parquet", "b")], metadata(0))
    assert keys(path) == ["a"]


def test_what_a_killed_process_left_is_removed_and_nothing_else(path: Path) -> None:
    snapshot(path).append_files([a_file(path, "1.parquet", "a")], metadata(0))
    (path / "_staged-1" / "_temporary").mkdir(parents=True)
    remove_staged(str(path))
    assert sorted(each.name for each in path.iterdir()) == ["1.parquet", "_delta_log"]


def of_a_column(tmp_path: Path, values: pa.Array, kind: str, **more: Any) -> tuple[Any, Any, Any]:
    """Return a column's bounds and its number of nulls, as the log would have them."""
    name = tmp_path / "column.parquet"
    parquet.write_table(pa.table({"x": values}).replace_schema_metadata(more.pop("noted", None)), name, **more)
    found = json.loads(json.dumps(statistics(parquet.read_metadata(name), {"x": kind})))
    assert found["numRecords"] == len(values)
    return found["minValues"].get("x"), found["maxValues"].get("x"), found["nullCount"].get("x")


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([3, None, -1], pa.int64()), "long", (-1, 3, 1)),
        (pa.array([3, None, -1], pa.int32()), "integer", (-1, 3, 1)),
        (pa.array(["b", "é", None, "a"]), "string", ("a", "é", 1)),
        (
            pa.array([NOON, NOON + timedelta(days=1)], pa.timestamp("us", "UTC")),
            "timestamp",
            ("2017-07-30T12:00:00.123456Z", "2017-07-31T12:00:00.123456Z", 0),
        ),
        (pa.array([datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)], pa.timestamp("us", "UTC")), "timestamp", None),
        (pa.array([date(2017, 7, 30), date(1969, 7, 20)]), "date", ("1969-07-20", "2017-07-30", 0)),
        (pa.array([None, None], pa.int64()), "long", (None, None, 2)),
        (pa.array([1.5, float("nan")]), "double", (None, None, 0)),
        (pa.array([Decimal("1.50")]), "decimal", (None, None, 0)),
        (pa.array([b"\xff"], pa.binary()), "string", (None, None, 0)),
        (pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC")), "timestamp", (None, None, 0)),
    ],
    ids=["long", "integer", "string", "time", "before 1970", "date", "null", "double", "decimal", "bytes", "far time"],
)
def test_the_bounds_of_a_column_are_its_least_and_greatest_value(
    tmp_path: Path, values: pa.Array, kind: str, expected: tuple[Any, Any, Any] | None
) -> None:
    assert of_a_column(tmp_path, values, kind) == (expected or ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z", 0))


def test_the_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    values = pa.array([5, 1, None, None, 9, 2], pa.int64())
    assert of_a_column(tmp_path, values, "long", row_group_size=2) == (1, 9, 2)


@pytest.mark.parametrize(
    ("values", "more"),
    [
        (pa.array([NOON], pa.timestamp("us", "UTC")), {"coerce_timestamps": "ms", "allow_truncated_timestamps": True}),
        (pa.array([NOON], pa.timestamp("us", "UTC")), {"use_deprecated_int96_timestamps": True}),
        (pa.array([NOON], pa.timestamp("us")), {}),
        (pa.array([NOON], pa.timestamp("us", "UTC")), {"noted": {"org.apache.spark.legacyDateTime": ""}}),
    ],
    ids=["milliseconds", "96 bits", "without a zone", "old calendar"],
)
def test_a_time_in_another_unit_or_calendar_has_no_bounds(
    tmp_path: Path, values: pa.Array, more: dict[str, Any]
) -> None:
    assert of_a_column(tmp_path, values, "timestamp", **more)[:2] == (None, None)


def test_a_column_without_statistics_has_no_bounds(tmp_path: Path) -> None:
    values = pa.array([1, 2], pa.int64())
    assert of_a_column(tmp_path, values, "long", write_statistics=False) == (None, None, None)
    parquet.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "other.parquet")
    assert statistics(parquet.read_metadata(tmp_path / "other.parquet"), {"y": "long"})["minValues"] == {"y": 2}
