"""Spark writes the files of a large batch, and this process commits them: the table is as Spark's writer makes it."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Schema
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from oncelake.common.errors import LockedError, ReceiptError
from oncelake.common.spark.rows import SparkRows
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers.local import LocalTable, create
from tests.support.crashing import crashed
from tests.support.memory import metadata

pytestmark = pytest.mark.spark

BEGIN = datetime(1999, 12, 31, 23, 59, 59, 999_999, UTC)
ROWS = 1_000
INDEXED = {"delta.dataSkippingStatsColumns": "at,number,text"}


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS, numPartitions=3).select(
        F.timestamp_micros(F.lit(int(BEGIN.timestamp() * 1_000_000)) + F.col("id") * 1_000_001).alias("at"),
        (F.col("id") - 500).cast("int").alias("number"),
        F.when(F.col("id") == 2, F.lit("é" * 4_000))
        .when(F.col("id") % 3 > 0, F.format_string("é%04d", "id"))
        .alias("text"),
        F.encode(F.col("id").cast("string"), "UTF-8").alias("bytes"),
        F.array(F.struct(F.lit("a").alias("key"), F.lit(None).cast("binary").alias("value"))).alias("nested"),
    )


def made(path: Path, rows: DataFrame) -> Path:
    """Create a table for rows; as in a lake, each of its columns may be null."""
    columns = StructType([StructField(each.name, each.dataType) for each in rows.schema])
    assert create(str(path), columns, INDEXED)
    return path


def writer(path: Path, *, local: bool = True) -> TableWriter:
    log = DeltaLog(LocalFiles(), str(path))
    return TableWriter(str(path), log, log.state(), every_batch=True, engines=[LocalTable(str(path))] if local else [])


def held(spark: SparkSession, path: Path) -> list[Any]:
    return sorted(map(str, spark.read.format("delta").load(str(path)).collect()))


def test_the_rows_are_those_that_spark_s_writer_writes(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    files = made(tmp_path / "files", rows)
    of_spark = made(tmp_path / "spark", rows)
    for batch in range(2):
        written = writer(files).append(SparkRows(rows), metadata(batch))
        by_spark = writer(of_spark, local=False).append(SparkRows(rows), metadata(batch))
        assert (written.by_spark, by_spark.by_spark) == (False, True)
        assert written.commit.rows_added == by_spark.commit.rows_added == ROWS
    assert writer(files).append(SparkRows(rows), metadata(1)).replayed
    assert held(spark, files) == held(spark, of_spark)
    assert not list(files.glob("_staged-*"))


def test_no_row_is_left_out_where_readers_look_at_the_bounds(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    path = made(tmp_path / "table", rows)
    writer(path).append(SparkRows(rows), metadata(0))
    table = spark.read.format("delta").load(str(path))
    for at in (BEGIN + number * timedelta(microseconds=1_000_001) for number in (0, 1, 333, 334, 666, 667, ROWS - 1)):
        assert table.where(F.col("at") == F.lit(at)).count() == 1
    for number in (-500, -1, 0, 499):
        assert table.where(F.col("number") == number).count() == 1
    assert table.where("text IS NULL").count() == sum(number % 3 == 0 for number in range(ROWS))
    assert table.where("text = 'é0001'").count() == 1
    assert table.where("text > 'é0997'").count() == 2
    assert table.where(F.col("text") == "é" * 4_000).count() == 1
    assert len(DeltaTable(str(path)).to_pyarrow_table(filters=[("number", "=", 499)])) == 1
    stats = [json.loads(each["stats"]) for each in DeltaLog(LocalFiles(), str(path)).added(1) or ()]
    assert [sorted(stat["minValues"]) for stat in stats] == [["at", "number"], *[["at", "number", "text"]] * 2]


def test_a_batch_without_rows_is_a_commit(rows: DataFrame, tmp_path: Path) -> None:
    path = made(tmp_path / "table", rows)
    written = writer(path).append(SparkRows(rows.where("number > 10000")), metadata(0))
    assert (written.by_spark, written.commit.rows_added, written.commit.changes_data) == (False, 0, False)
    assert writer(path).append(SparkRows(rows.limit(1)), metadata(1)).commit.rows_added == 1


def test_a_batch_that_lost_its_version_commits_the_same_files(
    rows: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.exactly_once.write.again_on_conflict.retry.sleep", lambda _: None)
    path = made(tmp_path / "table", rows)
    first = writer(path)
    checked, checks = first.must_be_alone, [0]

    def and_another_commits(*given: Any) -> None:
        checked(*given)
        checks[0] += 1
        if checks[0] == 2:  # the second check is the one after the snapshot was read
            DeltaTable(str(path)).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})

    monkeypatch.setattr(first, "must_be_alone", and_another_commits)
    written = first.append(SparkRows(rows), metadata(0))
    assert (written.commit.version, written.by_spark) == (2, False)
    assert len(list(path.glob("*.parquet"))) == len(DeltaTable(str(path)).file_uris()) == 3


def test_files_that_were_removed_while_they_were_written_are_not_committed_in_part(
    rows: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "table", rows)
    write = DataFrameWriter.parquet

    def after_a_removal(writer_of_spark: DataFrameWriter, staged: str) -> None:
        shutil.rmtree(staged)
        write(writer_of_spark, staged)

    monkeypatch.setattr(DataFrameWriter, "parquet", after_a_removal)
    with pytest.raises(ReceiptError, match=r"_staged-.* was removed while a batch was written into it"):
        writer(path).append(SparkRows(rows), metadata(0))
    assert [each.name for each in path.iterdir()] == ["_delta_log"]
    assert DeltaTable(str(path)).version() == 0


def test_a_process_that_lost_the_lake_during_the_job_commits_nothing(rows: DataFrame, tmp_path: Path) -> None:
    path = made(tmp_path / "table", rows)

    def lost() -> None:
        raise LockedError("another process holds the lake")

    with pytest.raises(LockedError, match="holds the lake"):
        writer(path).append(SparkRows(rows), metadata(0), lost)
    assert DeltaTable(str(path)).version() == 0


def test_a_table_that_changes_during_the_job_gets_the_rows_from_spark_alone(rows: DataFrame, tmp_path: Path) -> None:
    path = made(tmp_path / "table", rows)

    def changed() -> None:
        DeltaTable(str(path)).alter.add_constraint({"positive": "number > -501"})

    written = writer(path).append(SparkRows(rows), metadata(0), changed)
    assert (written.by_spark, written.commit.rows_added) == (True, ROWS)
    assert len(list(path.glob("*.parquet"))) == len(DeltaTable(str(path)).file_uris())


@pytest.mark.parametrize("wrong", ["type", "null", "invariant", "column", "feature"])
def test_a_table_that_only_spark_s_writer_writes_rightly_is_left_to_it(
    rows: DataFrame, tmp_path: Path, wrong: str
) -> None:
    path, given = tmp_path / "table", rows
    schema = StructType([StructField(each.name, each.dataType) for each in rows.schema])
    assert LocalTable(str(made(tmp_path / "right", rows))).new_files(SparkRows(rows)) is not None
    if wrong == "type":
        given = rows.withColumn("number", F.col("number").cast("smallint"))
    if wrong == "null":
        schema["number"].nullable = False
    if wrong == "invariant":
        schema["number"].metadata = {"delta.invariants": '{"expression":{"expression":"number > -501"}}'}
    properties = {"delta.enableDeletionVectors": "true"} if wrong == "feature" else {}
    DeltaTable.create(str(path), Schema.from_json(schema.json()), configuration=properties)
    table = LocalTable(str(path))
    more = rows.withColumn("more", F.lit(1)) if wrong == "column" else given
    assert table.new_files(SparkRows(more)) is None
    if wrong == "type":
        assert writer(path).append(SparkRows(given), metadata(0)).by_spark


def test_a_job_that_fails_leaves_no_files(rows: DataFrame, tmp_path: Path) -> None:
    path = made(tmp_path / "table", rows)
    fails = rows.where(F.when(F.col("number") < 400, F.lit(True)).otherwise(F.raise_error(F.lit("no"))))
    with pytest.raises((PySparkException, Py4JJavaError)):
        writer(path).append(SparkRows(fails), metadata(0))
    assert [each.name for each in path.iterdir()] == ["_delta_log"]


def test_a_crash_at_the_end_of_the_job_leaves_no_files(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = made(tmp_path / "table", rows)
    with (
        crashed(spark, f"{path.name}/_staged-*/_SUCCESS", before=True),
        pytest.raises((PySparkException, Py4JJavaError)),
    ):
        writer(path).append(SparkRows(rows), metadata(0))
    assert [each.name for each in path.iterdir()] == ["_delta_log"]
    assert writer(path).append(SparkRows(rows), metadata(0)).commit.rows_added == ROWS
