"""Late lines are counted exactly, from the statistics of silver's files where these decide, and look after look."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest
from pyspark.sql import SparkSession

from oncelake.common.table_rows import TableRows
from oncelake.observe.report.facts import LateFacts
from oncelake.observe.report.late import SPANS, LateByFile
from oncelake.observe.report.remembered import Remembered

PLANNED = datetime(2026, 11, 20, 10, 0, 0, 203_000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A line: its batch, and its time in seconds since 1970.
Line = tuple[int, float]


def never() -> SparkSession:
    raise AssertionError("Spark is not needed")


def add(path: Path, *lines: Line) -> None:
    """Append a data file of some lines."""
    times = pyarrow.timestamp("us", "UTC")
    columns = {
        "log_time": pyarrow.array([EPOCH + timedelta(seconds=at) for _, at in lines], times),
        "ingested_at": pyarrow.array([PLANNED + timedelta(seconds=batch) for batch, _ in lines], times),
    }
    deltalake.write_deltalake(str(path), pyarrow.table(columns), mode="append")


def counted(*lines: Line) -> LateFacts:
    """Count late lines as they are defined."""
    spans, late_batches, most = dict.fromkeys(SPANS, 0), set(), 0
    for batch, at in lines:
        before = [int(other // 1) for earlier, other in lines if earlier < batch]
        late = max(before) - int(at // 1) if before else 0
        if late > 0:
            spans[next(name for name, bound in SPANS.items() if late <= bound)] += 1
            late_batches.add(batch)
            most = max(most, late)
    return LateFacts(len(lines), spans, most, len(late_batches))


def look(path: Path, remembered: Remembered | None = None) -> LateFacts | None:
    return LateByFile(TableRows(never), str(path)).facts(remembered or Remembered())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[str] | None]:
    """Return the names of the data files that each query reads."""
    files, without_spark = list[set[str] | None](), TableRows.without_spark

    def noted(self: TableRows, *given: Any, **values: Any) -> Any:
        files.append(set(values["files"]))
        return without_spark(self, *given, **values)

    monkeypatch.setattr(TableRows, "without_spark", noted)
    return files


def test_no_file_is_read_if_the_log_shows_that_no_line_is_late(tmp_path: Path, asked: list[set[str]]) -> None:
    files = [((0, -1.000001), (0, -7.5)), ((1, -0.000001), (1, 5.0)), ((2, 5.999999), (2, 5.0))]
    for lines in files:
        add(tmp_path, *lines)
    assert look(tmp_path) == counted(*(line for lines in files for line in lines))
    assert asked == []


def test_lines_before_an_earlier_batch_are_late_by_whole_seconds(tmp_path: Path) -> None:
    lines = [
        (0, 100_000.999999),
        (1, 99_999.999999),
        (1, 100_001.0),
        (2, 99_940.5),
        (2, -3.1),
        (3, 200_000.0),
        (3, 0.0),
    ]
    for batch in range(4):
        add(tmp_path, *(line for line in lines if line[0] == batch))
    assert look(tmp_path) == counted(*lines)


def test_a_file_with_several_batches_is_read(tmp_path: Path) -> None:
    lines = [(0, 10.0), (1, 20.0), (1, 5.0), (2, 15.0)]
    add(tmp_path, *lines)
    assert look(tmp_path) == counted(*lines)
    assert counted(*lines).late == 2


def test_a_later_look_reads_only_new_files_and_counts_again_what_they_change(
    tmp_path: Path, asked: list[set[str]]
) -> None:
    remembered, lines = Remembered(), [(1, 50.0), (3, 40.0), (3, 60.0), (5, 55.0)]
    for batch in (1, 3, 5):
        add(tmp_path, *(line for line in lines if line[0] == batch))
    assert look(tmp_path, remembered) == counted(*lines)
    before = len(asked)
    assert look(tmp_path, remembered) == counted(*lines)
    assert len(asked) == before, "nothing is new"
    # a source that lags behind: its batch was planned before, and so lines of a later batch are late now, or later
    for more in ((2, 58.0), (4, 90.0), (6, 90.0), (1, 10.0)):
        lines.append(more)
        add(tmp_path, more)
        assert look(tmp_path, remembered) == counted(*lines), more


def test_compacted_files_are_not_counted_twice(tmp_path: Path) -> None:
    remembered, lines = Remembered(), [(0, 50.0), (1, 40.0), (2, 60.0), (3, 59.0)]
    for line in lines:
        add(tmp_path, line)
    assert look(tmp_path, remembered) == counted(*lines)
    deltalake.DeltaTable(str(tmp_path)).optimize.compact()
    assert look(tmp_path, remembered) == counted(*lines)
    lines.append((4, 1.0))
    add(tmp_path, lines[-1])
    assert look(tmp_path, remembered) == counted(*lines)


def test_lines_are_read_where_the_log_has_no_statistics(tmp_path: Path) -> None:
    properties = {"delta.dataSkippingNumIndexedCols": "0"}
    times = pyarrow.timestamp("us", "UTC")
    schema = pyarrow.schema([("log_time", times), ("ingested_at", times)])
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema.from_arrow(schema), configuration=properties)
    lines = [(0, 50.0), (1, 40.0)]
    for line in lines:
        add(tmp_path, line)
    assert look(tmp_path) == counted(*lines)
