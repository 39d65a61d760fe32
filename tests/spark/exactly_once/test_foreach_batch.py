"""A user's own query writes each row once, or is refused by name: whatever is lost, copied, changed or killed."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from delta.tables import DeltaMergeBuilder
from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from oncelake import ExactlyOnceTable, StateError
from oncelake.common.spark.jvm import jvm, with_conf
from tests.support.crashing import crashed
from tests.support.house import until
from tests.support.own_query import SCHEMA, OwnQuery, Write, add, merged

pytestmark = pytest.mark.spark


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> OwnQuery:
    return OwnQuery(tmp_path, spark)


@pytest.fixture(params=["json", "delta"])
def any_query(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> OwnQuery:
    return OwnQuery(tmp_path, spark, kind=request.param)


def write_of(query: OwnQuery, how: str) -> Write:
    table = ExactlyOnceTable(query.table)
    return table.append if how == "append" else merged(table)


def refused(query: OwnQuery, match: str, write: Write | None = None) -> str:
    """Run a query that is refused and changes nothing; return what it says."""
    log = Path(query.table, "_delta_log")
    before = sorted(log.iterdir()) if log.exists() else None
    with pytest.raises(StreamingQueryException, match=match) as error:
        query.run(write)
    assert (sorted(log.iterdir()) if log.exists() else None) == before
    return str(error.value)


def steps(batch: int, how: str) -> Iterator[str]:
    """Yield every file that a batch of the query writes, in order."""
    if batch == 0:
        yield "checkpoint/metadata"
    yield f"checkpoint/sources/0/{batch}"
    yield f"checkpoint/offsets/{batch}"
    if batch == 0 and how == "merge":
        yield f"counts/_delta_log/{0:020}.json"
    yield "counts/part-*"
    yield f"counts/_delta_log/{batch + (how == 'merge'):020}.json"
    yield f"checkpoint/commits/{batch}"


@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_crash_before_or_after_any_durable_step_counts_each_row_once(query: OwnQuery, how: str) -> None:
    for batch, (keys, all_keys) in enumerate((("aab", {"a": 2, "b": 1}), ("bc", {"a": 2, "b": 2, "c": 1}))):
        query.put(str(batch), *keys)
        for step in steps(batch, how):
            for before in (True, False):
                with (
                    crashed(query.spark, step, before=before),
                    pytest.raises((StreamingQueryException, Py4JJavaError)),
                ):
                    query.run(write_of(query, how))
        query.run(write_of(query, how))
        assert query.counts() == all_keys


@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_batch_that_spark_runs_again_is_a_no_op(any_query: OwnQuery, how: str) -> None:
    query = any_query
    for name, keys in enumerate(("ab", "b")):
        query.put(str(name), *keys)
        query.run(write_of(query, how))
    query.forget_commit(1)
    version = query.version()
    query.run(write_of(query, how))
    assert (query.version(), query.counts()) == (version, {"a": 1, "b": 2})
    query.put("2", "c")
    query.run(write_of(query, how))
    assert query.counts() == {"a": 1, "b": 2, "c": 1}


def test_two_tables_of_one_query_get_a_half_written_batch_once(query: OwnQuery) -> None:
    second = OwnQuery(query.root / "second", query.spark)
    query.put("0", "a")

    def write(rows: DataFrame, batch: int) -> None:
        ExactlyOnceTable(query.table).append(rows, batch)
        ExactlyOnceTable(second.table).append(rows, batch)

    commit = f"second/counts/_delta_log/{0:020}.json"
    with crashed(query.spark, commit, before=True), pytest.raises(StreamingQueryException):
        query.run(write)
    assert query.counts() == {"a": 1}
    query.run(write)
    assert query.counts() == second.counts() == {"a": 1}


def test_two_tables_that_two_threads_merge_get_each_batch_once(query: OwnQuery) -> None:
    other = OwnQuery(query.root / "second", query.spark)
    for name in "ab":
        query.put(name, name)

    def write(rows: DataFrame, batch: int) -> None:
        def merge(table: str) -> None:
            merged(ExactlyOnceTable(table))(rows, batch)

        inherited = inheritable_thread_target(query.spark)(merge)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(inherited, (query.table, other.table)))

    for batch in range(2):
        query.run(write)
        query.forget_commit(1)
        assert query.counts() == other.counts() == {"a": 1, "b": 1}, batch


def test_a_deleted_checkpoint_is_refused(any_query: OwnQuery) -> None:
    any_query.put("0", "a")
    any_query.run()
    shutil.rmtree(any_query.place)
    said = refused(any_query, "foreign")
    assert "Put the checkpoint back of the query that wrote the table" in said
    assert "continue_after=0" in said


def test_a_new_checkpoint_continues_after_the_version_that_it_names(query: OwnQuery) -> None:
    query.kind = "delta"
    query.put("0", "a")
    query.run()
    shutil.rmtree(query.place)
    query.put("1", "b")
    query.options = {"startingVersion": "1"}
    refused(query, "continue_after=0")
    refused(query, "continue_after=0", ExactlyOnceTable(query.table, continue_after=7).append)
    continued = ExactlyOnceTable(query.table, continue_after=0)
    commit = f"counts/_delta_log/{1:020}.json"
    for before in (True, False):
        with crashed(query.spark, commit, before=before), pytest.raises(StreamingQueryException):
            query.run(continued.append)
    query.run(continued.append)
    query.put("2", "c")
    query.run(continued.append)
    query.put("3", "d")
    query.run()
    assert query.counts() == dict.fromkeys("abcd", 1)
    shutil.rmtree(query.place)
    refused(query, "continue_after=3", continued.append)


def test_an_older_checkpoint_is_refused(any_query: OwnQuery) -> None:
    any_query.put("0", "a")
    any_query.run()
    copy = any_query.copied("older")
    for name in "bc":
        any_query.put(name, name)
        any_query.run()
    (older := copy).put("d", "d")
    said = refused(older, "checkpoint behind")
    assert "Put the newest copy of the checkpoint back" in said
    said = refused(older, "new checkpoint", ExactlyOnceTable(older.table, continue_after=2).append)
    assert "a query with a new checkpoint begins" in said


def test_a_copied_checkpoint_is_refused_with_other_files(query: OwnQuery) -> None:
    query.put("0", "a")
    query.run()
    copy = query.copied("copy")
    query.put("1", "b")
    query.run()
    (query.root / "in/1.json").unlink()
    copy.put("2", "c")
    refused(copy, "other files, or from another beginning")
    assert query.counts() == {"a": 1, "b": 1}


def test_a_copied_checkpoint_with_the_same_input_writes_nothing_twice(any_query: OwnQuery) -> None:
    any_query.put("0", "a")
    any_query.run()
    copy = any_query.copied("copy")
    any_query.put("1", "b")
    any_query.run()
    copy.run()
    assert any_query.counts() == {"a": 1, "b": 1}


def test_a_second_query_on_the_table_is_refused_and_the_first_goes_on(query: OwnQuery) -> None:
    query.put("0", "a")
    first = query.start(ExactlyOnceTable(query.table).append, once=False)
    try:
        until((query.place / "commits/0").exists)
        other = OwnQuery(query.root, query.spark, "other", "elsewhere")
        other.put("0", "x")
        refused(other, "foreign")
        query.put("1", "b")
        until((query.place / "commits/1").exists)
        other.run(ExactlyOnceTable(query.table, continue_after=1).append)  # against the advice
        query.put("2", "c")
        with pytest.raises(StreamingQueryException, match="another run of foreachBatch"):
            first.awaitTermination(60)
    finally:
        first.stop()
    assert query.counts() == {"a": 1, "b": 1, "x": 1}


def test_a_batch_with_another_range_is_refused(query: OwnQuery) -> None:
    query.kind = "delta"
    for name in "ab":
        query.put(name, name)
    query.run()
    query.put("c", "c")
    query.forget_commit(1)
    offsets = query.place / "offsets/1"
    *header, at = offsets.read_text().split("\n")
    later = json.loads(at) | {"reservoirVersion": 3}
    offsets.write_text("\n".join([*header, json.dumps(later)]))
    offsets.with_name(".1.crc").unlink()
    refused(query, "covers another range in the table than in the checkpoint")


def test_a_batch_with_other_files_is_refused(query: OwnQuery) -> None:
    query.put("a", "a")
    query.run()
    query.put("b", "b")
    query.forget_commit(0)
    listed = query.place / "sources/0/0"
    listed.write_text(listed.read_text().replace("a.json", "b.json"))
    listed.with_name(".0.crc").unlink()
    refused(query, "replayed with other files")


def test_the_files_of_a_list_are_known_after_spark_has_removed_it(query: OwnQuery) -> None:
    lists = {"fileSource.log.compactInterval": "3", "fileSource.log.cleanupDelay": "0", "minBatchesToRetain": "1"}
    with with_conf(query.spark, {f"spark.sql.streaming.{key}": value for key, value in lists.items()}):
        for batch in range(7):
            query.put(str(batch), "a")
            query.run()
            if batch == 5:
                query.forget_commit(batch)
                query.run()
    assert not {"3", "4"} & {path.name for path in (query.place / "sources/0").iterdir()}
    assert query.counts() == {"a": 7}


def test_a_list_of_files_that_is_missing_is_refused(query: OwnQuery) -> None:
    query.put("a", "a")
    query.run()
    query.put("b", "b")

    def write(rows: DataFrame, batch: int) -> None:
        (query.place / f"sources/0/{batch}").unlink()
        ExactlyOnceTable(query.table).append(rows, batch)

    refused(query, "the list of the files of a batch, is missing", write)


def test_a_batch_that_was_not_written_is_a_gap(query: OwnQuery) -> None:
    for name in "abc":
        query.put(name, name)
    table = ExactlyOnceTable(query.table)
    with pytest.raises(StreamingQueryException, match="batch 2 of foreachBatch starts at"):
        query.run(lambda rows, batch: table.append(rows, batch) if batch != 1 else None)
    assert "or write every batch to it, also an empty one" in refused(query, "checkpoint ahead")
    query.run(ExactlyOnceTable(query.table, continue_after=0).append)
    assert query.counts() == {"a": 1, "c": 1}


@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_batch_without_rows_is_written(query: OwnQuery, how: str) -> None:
    write = write_of(query, how)
    for name in "abc":
        query.put(name, name)
    query.run(lambda rows, batch: write(rows.where("key <> 'b'"), batch))
    assert query.counts() == {"a": 1, "c": 1}


def test_maintenance_and_writes_of_others_change_nothing_for_the_query(query: OwnQuery) -> None:
    query.put("a", "a")
    query.run()
    query.spark.createDataFrame([("others", 1)], SCHEMA).write.format("delta").mode("append").save(query.table)
    at = f"delta.`{query.table}`"
    for statement in (
        f"OPTIMIZE {at}",
        f"VACUUM {at}",
        f"DELETE FROM {at} WHERE key = 'others'",
        f"REORG TABLE {at} APPLY (PURGE)",
    ):
        query.spark.sql(statement)
        query.forget_commit(0)
        query.run()
        assert query.counts() == (
            {"a": 1, "others": 1} if "DELETE" not in statement and "REORG" not in statement else {"a": 1}
        )
    query.put("b", "b")
    query.run()
    assert query.counts() == {"a": 1, "b": 1}


def test_a_restored_table_is_refused_until_the_query_may_continue(query: OwnQuery) -> None:
    for name in "abc":
        query.put(name, name)
    query.run()
    query.spark.sql(f"RESTORE TABLE delta.`{query.table}` TO VERSION AS OF 1")
    query.put("d", "d")
    assert "Undo what removed rows" in refused(query, "checkpoint ahead.*RESTORE in version 3")
    query.run(ExactlyOnceTable(query.table, continue_after=3).append)
    query.put("e", "e")
    query.run()
    assert query.counts() == dict.fromkeys("abde", 1)


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE {}", "INSERT OVERWRITE {} SELECT 'x', 1"])
def test_an_emptied_table_is_refused(query: OwnQuery, statement: str) -> None:
    query.put("a", "a")
    query.run()
    query.spark.sql(statement.format(f"delta.`{query.table}`"))
    query.put("b", "b")
    refused(query, "checkpoint ahead")


def test_a_table_that_is_gone_is_refused(query: OwnQuery) -> None:
    query.put("a", "a")
    query.run()
    shutil.rmtree(query.table)
    jvm(query.spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    query.put("b", "b")
    assert "create it and pass continue_after=0" in refused(query, "the table holds no batch, the checkpoint is at 1")
    assert not Path(query.table).exists()


@pytest.mark.parametrize("gone", ["restored", "removed"])
def test_rows_that_are_removed_during_a_run_end_it(query: OwnQuery, gone: str) -> None:
    for name in "ab":
        query.put(name, name)
    running = query.start(ExactlyOnceTable(query.table).append, once=False)
    try:
        until((query.place / "commits/1").exists)
        if gone == "restored":
            query.spark.sql(f"RESTORE TABLE delta.`{query.table}` TO VERSION AS OF 0")
        else:
            shutil.rmtree(query.table)
            jvm(query.spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        query.put("c", "c")
        said = "removed rows of earlier batches" if gone == "restored" else "was removed while its query runs"
        with pytest.raises(StreamingQueryException, match=said):
            running.awaitTermination(60)
    finally:
        running.stop()
    refused(query, "checkpoint ahead")


@pytest.mark.parametrize("same", [True, False], ids=["one object", "two objects"])
def test_a_batch_that_writes_the_table_twice_is_refused_at_every_start(query: OwnQuery, *, same: bool) -> None:
    query.put("a", "a")
    table = ExactlyOnceTable(query.table)

    def write(rows: DataFrame, batch: int) -> None:
        table.append(rows, batch)
        (table if same else ExactlyOnceTable(f"file:{query.table}")).append(rows, batch)

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="is written a second time by the same run"):
            query.run(write)
    assert query.counts() == {"a": 1}


def test_rows_that_were_there_before_the_query_are_refused_until_it_may_continue(query: OwnQuery) -> None:
    query.spark.createDataFrame([("old", 1)], SCHEMA).write.format("delta").save(query.table)
    query.put("a", "a")
    assert "continue_after=0" in refused(query, r"foreign: the table: version 0 \(WRITE\) holds rows")
    query.run(ExactlyOnceTable(query.table, continue_after=0).append)
    assert query.counts() == {"old": 1, "a": 1}


def test_a_query_that_ran_before_is_given_a_table_of_its_own(query: OwnQuery) -> None:
    query.put("a", "a")
    query.run(lambda *_: None)
    query.spark.sql(f"CREATE TABLE delta.`{query.table}` ({SCHEMA}) USING delta")
    query.put("b", "b")
    refused(query, "checkpoint ahead.*continue_after=0")
    query.run(ExactlyOnceTable(query.table, continue_after=0).append)
    assert query.counts() == {"b": 1}


def test_rows_of_another_session_are_not_merged(query: OwnQuery) -> None:
    query.put("a", "a")

    def write(rows: DataFrame, batch: int) -> None:
        del rows
        table = ExactlyOnceTable(query.table)
        table.merge(query.spark.createDataFrame([("a", 1)], SCHEMA), batch, "target.key = batch.key", add)

    refused(query, "belong to another session than batch 0", write)


def test_a_merge_that_the_user_executes_counts_once(query: OwnQuery) -> None:
    query.put("a", "a")

    def executed(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
        add(merge).execute()
        return None  # type: ignore[return-value]

    def write(rows: DataFrame, batch: int) -> None:
        ExactlyOnceTable(query.table).merge(rows, batch, "target.key = batch.key", executed)

    with pytest.raises(StreamingQueryException, match="and not execute it"):
        query.run(write)
    query.run(write)
    assert query.counts() == {"a": 1}


def test_a_call_outside_of_a_batch_is_refused(query: OwnQuery) -> None:
    rows = query.spark.createDataFrame([("a", 1)], SCHEMA)
    with pytest.raises(StateError, match="this thread runs no batch of a streaming query"):
        ExactlyOnceTable(query.table).append(rows, 0)
    query.put("a", "a")
    refused(
        query,
        "batch 7 was passed, but this thread runs batch 0",
        lambda rows, _: ExactlyOnceTable(query.table).append(rows, 7),
    )
    assert not Path(query.table).exists()


def test_a_query_of_several_sources_is_refused(query: OwnQuery) -> None:
    other = OwnQuery(query.root, query.spark, source="elsewhere")
    for each in (query, other):
        each.put("0", "a")
    paths = [str(query.root / each.source) for each in (query, other)]
    one, two = (query.spark.readStream.schema(SCHEMA).json(path) for path in paths)
    writer = one.union(two).writeStream.foreachBatch(ExactlyOnceTable(query.table).append)
    running = writer.option("checkpointLocation", str(query.place)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="several sources"):
        running.awaitTermination()
    assert not Path(query.table).exists()


def test_a_union_of_delta_tables_is_written(query: OwnQuery) -> None:
    query.kind = "delta"
    other = OwnQuery(query.root, query.spark, source="elsewhere", kind="delta")
    for batch in range(2):
        for each in (query, other):
            each.put("", "a")
        one, two = (
            query.spark.readStream.format("delta").load(str(query.root / each.source)) for each in (query, other)
        )
        for _ in range(2):
            writer = one.union(two).writeStream.foreachBatch(ExactlyOnceTable(query.table).append)
            writer.option("checkpointLocation", str(query.place)).trigger(availableNow=True).start().awaitTermination()
            assert query.counts() == {"a": 2 * batch + 2}
            query.forget_commit(batch)


def test_a_table_of_a_catalog_is_written_once(query: OwnQuery) -> None:
    name = "default.counts_of_foreach_batch"
    query.put("a", "a")
    try:
        for _ in range(2):
            query.run(merged(ExactlyOnceTable(name)))
            query.forget_commit(0)
        assert [tuple(row) for row in query.spark.table(name).collect()] == [("a", 1)]
        query.put("b", "b")
        query.run(merged(ExactlyOnceTable(name)))
        shutil.rmtree(query.place)
        with pytest.raises(StreamingQueryException, match="foreign"):
            query.run(merged(ExactlyOnceTable(name)))
    finally:
        query.spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_path_with_spaces_and_percents_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "a b %41 é"
    root.mkdir()
    query = OwnQuery(root, spark)
    query.put("a", "a")
    for _ in range(2):
        query.run()
        query.forget_commit(0)
    rows = spark.read.format("delta").load(query.table)
    assert [tuple(row) for row in rows.collect()] == [("a", 1)]
