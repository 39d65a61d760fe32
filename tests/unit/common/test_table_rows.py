"""What a proof asks of a table on a local disk is answered without Spark, however many batches it asks for."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow
import pytest
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
