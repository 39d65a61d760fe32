"""A write that is repeated changes nothing, whichever engine makes it: one suite, which every kind of rows inherits."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from oncelake.common.errors import ReplayError
from oncelake.common.spark.rows import BatchRows, Collected, Count, SparkRows
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers import Dialect, MergeSql
from oncelake.exactly_once.writers.local import create
from oncelake.exactly_once.writers.registry import engines_before_spark
from oncelake.exactly_once.writers.spark import append, merge, move_out
from tests.support.crashing import crashed
from tests.support.memory import metadata

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("key", StringType()), StructField("counted", LongType())])
SAME: dict[Dialect, str] = {
    "spark": "gold.key <=> batch.key",
    "datafusion": "gold.key IS NOT DISTINCT FROM batch.key",
}
Pair = tuple[str | None, int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert create(str(tmp_path / "table"), SCHEMA, {})
    return tmp_path / "table"


def sql(dialect: Dialect) -> MergeSql:
    return MergeSql(SAME[dialect], {"counted": "gold.counted + batch.counted"})


def held(path: Path) -> list[Pair]:
    found = [(row["key"], row["counted"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()]
    return sorted(found, key=str)


def in_spark(spark: SparkSession, pairs: tuple[Pair, ...]) -> SparkRows:
    return SparkRows(spark.createDataFrame(pairs, SCHEMA))


def here(spark: SparkSession, pairs: tuple[Pair, ...]) -> Collected:
    columns = {"key": [key for key, _ in pairs], "counted": [count for _, count in pairs]}
    return Collected(pa.table(columns, pa.schema([("key", pa.string()), ("counted", pa.int64())])), spark)


class Writes(ABC):
    """The suite."""

    is_local: ClassVar[bool]
    # Whether Spark's own writer makes the commits of an append and of a MERGE.
    by_spark: ClassVar[tuple[bool, bool]]

    @abstractmethod
    def rows(self, spark: SparkSession, *pairs: Pair) -> BatchRows:
        """Return rows as the engine gets them."""

    def writer(self, path: Path) -> TableWriter:
        """Return what a process that starts now writes the table with."""
        log = DeltaLog(LocalFiles(), str(path))
        engines = engines_before_spark(str(path)) if self.is_local else ()
        return TableWriter(str(path), log, log.state(), every_batch=True, engines=engines)

    def test_rows_are_appended_once(self, spark: SparkSession, path: Path) -> None:
        written = self.writer(path).append(self.rows(spark, ("a", 1), (None, 2)), metadata(0))
        assert (written.commit.rows_added, written.commit.metadata, written.replayed) == (2, metadata(0), False)
        assert written.by_spark == self.by_spark[0]
        again = self.writer(path).append(self.rows(spark, ("a", 1), (None, 2)), metadata(0))
        assert (again.commit.version, again.replayed) == (written.commit.version, True)
        assert held(path) == [("a", 1), (None, 2)]

    def test_rows_are_merged_once(self, spark: SparkSession, path: Path) -> None:
        table = self.writer(path)
        table.merge(self.rows(spark, ("a", 1), (None, 5)), metadata(0), sql)
        written = table.merge(self.rows(spark, ("b", 1), (None, 2)), metadata(1), sql)
        assert (written.commit.rows_added, written.commit.rows_changed) == (1, 2)
        assert written.by_spark == self.by_spark[1]
        assert self.writer(path).merge(self.rows(spark, ("b", 1), (None, 2)), metadata(1), sql).replayed
        assert held(path) == [("a", 1), ("b", 1), (None, 7)]

    @pytest.mark.parametrize("how", ["append", "merge"])
    def test_a_batch_without_rows_is_a_commit(self, spark: SparkSession, path: Path, how: str) -> None:
        table = self.writer(path)
        for batch, rows in enumerate((self.rows(spark), self.rows(spark, ("a", 1)))):
            if how == "append":
                written = table.append(rows, metadata(batch))
            else:
                written = table.merge(rows, metadata(batch), sql)
            assert (written.commit.rows_added, written.commit.metadata) == (batch, metadata(batch))
        assert held(path) == [("a", 1)]

    def test_a_batch_with_another_range_is_refused(self, spark: SparkSession, path: Path) -> None:
        self.writer(path).append(self.rows(spark, ("a", 1)), metadata(0))
        self.writer(path).append(self.rows(spark, ("a", 1)), metadata(1))
        with pytest.raises(ReplayError, match="another range"):
            self.writer(path).append(self.rows(spark, ("b", 1)), metadata(1, before=None))
        assert held(path) == [("a", 1), ("a", 1)]

    @pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
    def test_a_process_that_dies_at_the_commit_is_completed_by_the_next(
        self, spark: SparkSession, path: Path, *, before: bool
    ) -> None:
        commit = f"{path.name}/_delta_log/{1:020}.json"
        with crashed(spark, commit, before=before), pytest.raises(Exception, match=r"(?i)crash"):
            self.writer(path).append(self.rows(spark, ("a", 1)), metadata(0))
        assert held(path) == ([] if before else [("a", 1)])
        assert self.writer(path).append(self.rows(spark, ("a", 1)), metadata(0)).replayed != before
        assert held(path) == [("a", 1)]

    def test_rows_are_counted_as_they_are_written(self, spark: SparkSession, path: Path) -> None:
        total = Count("total", lambda: F.sum("counted"), lambda rows: sum(rows["counted"].to_pylist()))
        counting = self.rows(spark, ("a", 1), ("b", 2)).counting([total])
        self.writer(path).append(counting.rows.select(["counted", "key"]), metadata(0))
        assert counting.values() == {"total": 3}
        assert held(path) == [("a", 1), ("b", 2)]
        unwritten = self.rows(spark, ("a", 1), ("b", 3)).counting([total])
        assert unwritten.values(written=False) == {"total": 4}


class TestCollectedRows(Writes):
    """Rows of a small batch, which delta-rs commits."""

    is_local, by_spark = True, (False, False)

    def rows(self, spark: SparkSession, *pairs: Pair) -> BatchRows:
        return here(spark, pairs)


class TestFiles(Writes):
    """Rows of a large batch: Spark writes the files that delta-rs commits, and merges."""

    is_local, by_spark = True, (False, True)

    def rows(self, spark: SparkSession, *pairs: Pair) -> BatchRows:
        return in_spark(spark, pairs)


class TestSparksWriter(Writes):
    """Rows of a batch of any size, where delta-rs may not commit."""

    is_local, by_spark = False, (True, True)

    def rows(self, spark: SparkSession, *pairs: Pair) -> BatchRows:
        return in_spark(spark, pairs)


class TestCollectedRowsBySpark(Writes):
    """Rows of a small batch for a table that only Spark writes."""

    is_local, by_spark = False, (True, True)

    def rows(self, spark: SparkSession, *pairs: Pair) -> BatchRows:
        return here(spark, pairs)


def test_rows_are_moved_out_once(spark: SparkSession, tmp_path: Path) -> None:
    path, reasons = str(tmp_path / "table"), "key string, reasons array<string>"
    spark.createDataFrame([("a", ["x"]), ("b", ["x"]), ("c", ["x"])], reasons).write.format("delta").save(path)
    verdicts = spark.createDataFrame([("a", []), ("b", ["y"])], reasons)
    for _ in range(2):
        move_out(verdicts, path, metadata(0), "held.key <=> verdict.key")
    rows = {row["key"]: row["reasons"] for row in spark.read.format("delta").load(path).collect()}
    assert rows == {"b": ["y"], "c": ["x"]}
    assert DeltaTable(path).version() == 1


@pytest.fixture
def three(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, 1), (2, 1), (3, 1)], "key bigint, counted bigint")


def test_a_repeated_append_with_the_same_transaction_is_skipped(
    spark: SparkSession, three: DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    for _ in range(2):
        append(three, path, metadata(0))
    assert spark.read.format("delta").load(path).count() == 3
    append(three, path, metadata(1))
    assert spark.read.format("delta").load(path).count() == 6


def test_a_repeated_merge_with_the_same_transaction_is_skipped(
    spark: SparkSession, three: DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    three.write.format("delta").save(path)
    sql = MergeSql("gold.key = batch.key", {"counted": "gold.counted + batch.counted"})
    for _ in range(2):
        merge(three, path, metadata(0), sql)
    assert _counted(spark, path) == [2, 2, 2]
    merge(three, path, metadata(1), sql)
    assert _counted(spark, path) == [3, 3, 3]


def _counted(spark: SparkSession, path: str) -> list[int]:
    return [row["counted"] for row in spark.read.format("delta").load(path).collect()]
