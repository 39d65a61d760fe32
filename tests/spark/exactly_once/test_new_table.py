"""A table is created where a killed process has begun to, and never over the table of another driver."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from oncelake.common import tables
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.new_table import make_new

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("id", LongType())])


def rows(spark: SparkSession, at: Path) -> int:
    return spark.read.format("delta").load(str(at)).count()


def test_what_a_killed_process_leaves_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / f".{0:020}.json.1.tmp").write_text("{")
    make_new(spark, DeltaLog(LocalFiles(), str(tmp_path)), SCHEMA, {})
    assert rows(spark, tmp_path) == 0
    assert not (log / f".{0:020}.json.1.tmp").exists()


def test_the_table_of_another_driver_that_is_made_at_the_same_moment_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeltaLog, "whole_names", lambda _: [])
    spark.range(3).write.format("delta").save(str(tmp_path))
    make_new(spark, DeltaLog(LocalFiles(), str(tmp_path)), SCHEMA, {})
    assert rows(spark, tmp_path) == 3


def test_a_creation_that_comes_second_is_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comes_second(*_: object) -> None:
        raise AnalysisException("the location is not empty")

    commit_log = DeltaLog(LocalFiles(), str(tmp_path))
    monkeypatch.setattr(tables, "make", comes_second)
    with pytest.raises(AnalysisException):
        make_new(spark, commit_log, SCHEMA, {})
    monkeypatch.setattr(DeltaLog, "newest", lambda _: 0)
    make_new(spark, commit_log, SCHEMA, {})
