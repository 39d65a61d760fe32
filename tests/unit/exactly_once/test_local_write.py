"""A small batch is committed by delta-rs, once for its transaction and against the version that was checked."""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from oncelake.common.errors import LockedError, ReplayError
from oncelake.common.spark.rows import Collected
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.version_checksum import VersionChecksums
from oncelake.exactly_once.write import TableWriter, no_fence
from oncelake.exactly_once.writers import MergeSql, TransactionHeldError, VersionTakenError
from oncelake.exactly_once.writers.local import LocalTable
from tests.support.committed import append_by, commit
from tests.support.memory import metadata

SCHEMA = pa.schema([("key", pa.string()), ("counted", pa.int64())])
OF_ANOTHER = metadata(0, query_id="of another checkpoint", run="other")
SQL = MergeSql("(gold.key IS NOT DISTINCT FROM batch.key)", {"counted": "gold.counted + batch.counted"})


def rows(*pairs: tuple[str | None, int]) -> Collected:
    keys, counted = [key for key, _ in pairs], [count for _, count in pairs]
    return Collected(pa.table({"key": keys, "counted": counted}, schema=SCHEMA), cast(Any, None))


@pytest.fixture
def path(tmp_path: Path) -> str:
    DeltaTable.create(str(tmp_path / "table"), schema=SCHEMA)
    return str(tmp_path / "table")


def held(path: str) -> list[tuple[str | None, int]]:
    found = [(row["key"], row["counted"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()]
    return sorted(found, key=str)


def writer(path: str) -> TableWriter:
    commit_log = DeltaLog(LocalFiles(), path)
    return TableWriter(path, commit_log, commit_log.state(), every_batch=True, engines=[LocalTable(path)])


@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_commit_is_made_once_for_its_transaction(path: str, how: str) -> None:
    def commit_batch(batch: int) -> None:
        table = LocalTable(path)
        change = table.append(rows(("a", 1))) if how == "append" else table.merge(rows(("a", 1)), lambda _: SQL)
        commit(change, metadata(batch))

    commit_batch(0)
    with pytest.raises(TransactionHeldError):
        commit_batch(0)
    commit_batch(1)
    assert held(path) == ([("a", 1), ("a", 1)] if how == "append" else [("a", 2)])


@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_commit_that_comes_in_after_the_snapshot_takes_the_version(path: str, how: str) -> None:
    def another_commits() -> None:
        if not held(path):
            append_by(LocalTable(path), rows(("other", 1)), OF_ANOTHER)

    checks = [no_fence, another_commits] if how == "append" else [another_commits]

    def alone(newest: int | None = None) -> int:
        del newest
        checks.pop(0)()
        return 0

    table = LocalTable(path)
    change = table.append(rows(("a", 1))) if how == "append" else table.merge(rows(("a", 1)), lambda _: SQL)
    assert change is not None
    with pytest.raises(VersionTakenError, match=r"version 1 of .* is taken"):
        change(metadata(0), alone, no_fence)
    assert held(path) == [("other", 1)]


def test_a_failed_commit_of_a_free_version_is_not_taken_for_a_lost_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise CommitFailedError("no space left on device")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails)
    with pytest.raises(CommitFailedError, match="no space left"):
        append_by(LocalTable(path), rows(("a", 1)), metadata(0))


def test_batches_are_written_once_and_their_commits_are_read_back(path: str) -> None:
    first = writer(path)
    assert first.append(rows(("a", 1), ("b", 2)), metadata(0)).commit.rows_added == 2
    written = first.append(rows(), metadata(1))
    assert (written.commit.rows_added, written.commit.changes_data, written.replayed) == (0, False, False)
    again = writer(path)
    assert again.append(rows(("c", 1)), metadata(1)).replayed
    assert again.append(rows(("c", 1)), metadata(2)).commit.version == 3
    with pytest.raises(ReplayError, match="another range"):
        again.append(rows(("d", 1)), metadata(2, before=None))
    assert held(path) == [("a", 1), ("b", 2), ("c", 1)]
    assert [row.get("userMetadata") for row in DeltaTable(path).history(1)] == [metadata(2).to_json()]


def test_a_merge_counts_inserted_and_updated_rows_and_null_equals_null(path: str) -> None:
    gold = writer(path)
    gold.merge(rows(("a", 1), (None, 5)), metadata(0), lambda _: SQL)
    commit = gold.merge(rows(("b", 1), (None, 2)), metadata(1), lambda _: SQL).commit
    assert (commit.rows_added, commit.rows_changed) == (1, 2)
    assert held(path) == [("a", 1), ("b", 1), (None, 7)]


def test_a_merge_without_rows_records_the_batch(path: str) -> None:
    gold = writer(path)
    assert gold.merge(rows(), metadata(0), lambda _: SQL).commit.rows_added == 0
    assert gold.merge(rows(("a", 1)), metadata(1), lambda _: SQL).commit.rows_added == 1


def test_a_batch_that_lost_its_version_to_maintenance_is_written_after_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.exactly_once.write.again_on_conflict.retry.sleep", lambda _: None)
    first = writer(path)
    first.append(rows(("a", 1)), metadata(0))
    first.append(rows(("a", 1)), metadata(1))
    compacted: list[int] = []
    checked, checks = first.must_be_alone, [0]

    def compact_once(*given: Any) -> None:
        checked(*given)
        checks[0] += 1
        if checks[0] == 2:  # the second check is the one after the snapshot was read
            DeltaTable(path).optimize.compact()
            compacted.append(DeltaTable(path).version())

    monkeypatch.setattr(first, "must_be_alone", compact_once)
    assert first.append(rows(("b", 1)), metadata(2)).commit.version == compacted[0] + 1
    assert held(path) == [("a", 1), ("a", 1), ("b", 1)]


def test_a_batch_after_another_run_s_commit_is_refused(path: str) -> None:
    first = writer(path)
    first.append(rows(("a", 1)), metadata(0))
    append_by(LocalTable(path), rows(("b", 1)), OF_ANOTHER)
    with pytest.raises(LockedError, match="another run of silver"):
        first.append(rows(("b", 1)), metadata(1))
    assert held(path) == [("a", 1), ("b", 1)]


def test_a_commit_of_another_run_before_the_snapshot_is_read_is_seen(path: str) -> None:
    first = writer(path)
    with pytest.raises(LockedError, match=r"another run of silver .* has changed nothing"):
        first.append(rows(("b", 1)), metadata(0), lambda: append_by(LocalTable(path), rows(("a", 1)), OF_ANOTHER))
    assert held(path) == [("a", 1)]


def test_a_batch_whose_transaction_the_table_holds_is_said_to_be_another_s(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer(path)
    monkeypatch.setattr(first, "must_be_alone", lambda *_: None)
    writer(path).append(rows(("b", 1)), metadata(0, run="other"))
    with pytest.raises(LockedError, match=r"another run of silver .* was not written twice"):
        first.append(rows(("b", 1)), metadata(0))
    assert held(path) == [("b", 1)]


def test_a_table_with_other_features_is_left_to_spark(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    assert LocalTable(str(tmp_path)).snapshot(SCHEMA.names) is None


def test_a_table_with_constraints_or_generated_columns_is_left_to_spark(tmp_path: Path) -> None:
    """They have the version of Delta's protocol that a change data feed has."""
    generated = Field("twice", PrimitiveType("long"), metadata={"delta.generationExpression": "counted * 2"})
    plain = [Field("key", PrimitiveType("string")), Field("counted", PrimitiveType("long"))]
    found = []
    for number, schema in enumerate([Schema(plain), Schema(plain), Schema([*plain, generated])]):
        path = str(tmp_path / str(number))
        table = DeltaTable.create(path, schema=schema, configuration={"delta.enableChangeDataFeed": "true"})
        if number == 1:
            table.alter.add_constraint({"positive": "counted > 0"})
        assert table.protocol().min_writer_version in (4, 7)
        found.append(LocalTable(path).snapshot(SCHEMA.names) is not None)
    assert found == [True, False, False]


def test_a_merge_writes_the_change_data_feed(tmp_path: Path) -> None:
    path = str(tmp_path)
    DeltaTable.create(path, schema=SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    for batch, given in enumerate([[("a", 1), ("b", 2)], [("b", 3), ("c", 4)], []]):
        commit(LocalTable(path, "key").merge(rows(*given), lambda _: SQL), metadata(batch))
        VersionChecksums(DeltaLog(LocalFiles(), str(tmp_path)), LocalFiles()).write(batch + 1)
        assert (tmp_path / "_delta_log" / f"{batch + 1:020}.crc").exists()
    DeltaTable(path).optimize.z_order(["key"])
    feed = pa.table(DeltaTable(path).load_cdf(starting_version=1).read_all())
    names = ["_commit_version", "_change_type", "key", "counted"]
    assert sorted(zip(*(feed[name].to_pylist() for name in names), strict=True)) == [
        (1, "insert", "a", 1),
        (1, "insert", "b", 2),
        (2, "insert", "c", 4),
        (2, "update_postimage", "b", 5),
        (2, "update_preimage", "b", 2),
    ]


def test_a_partitioned_table_is_left_to_spark(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=SCHEMA, partition_by=["key"])
    assert LocalTable(str(tmp_path)).snapshot(SCHEMA.names) is None


def test_a_table_that_delta_rs_cannot_read_is_left_to_spark(path: str) -> None:
    table = LocalTable(path)
    assert table.snapshot(SCHEMA.names) is not None
    log = Path(path) / "_delta_log"
    for version in (1, 3):
        (log / f"{version:020}.json").write_text((log / f"{0:020}.json").read_text())
    assert table.snapshot(SCHEMA.names) is None
    (log / f"{3:020}.json").unlink()
    assert table.snapshot(SCHEMA.names) is not None


def test_a_snapshot_has_the_commits_of_others(path: str) -> None:
    table = LocalTable(path)
    for version in range(3):
        found = table.snapshot(SCHEMA.names)
        assert found is not None
        assert found.version == version
        write_deltalake(path, rows(("x", 1)).rows, mode="append")


def test_a_table_with_other_columns_is_left_to_spark(path: str) -> None:
    assert LocalTable(path).snapshot([*SCHEMA.names, "note"]) is None
    DeltaTable(path).alter.add_columns([Field("note", PrimitiveType("string"))])
    assert LocalTable(path, "key").snapshot(SCHEMA.names) is None
    assert LocalTable(path, "key").snapshot([*SCHEMA.names, "note"]) is not None


ADDED = {
    "note": "string",
    **{kind: kind for kind in ("integer", "long", "double", "boolean", "date", "timestamp")},
    "decimal": "decimal(10,2)",
}


def test_appended_rows_get_the_order_and_the_columns_of_the_table(path: str) -> None:
    DeltaTable(path).alter.add_columns([Field(name, PrimitiveType(kind)) for name, kind in ADDED.items()])
    given = pa.table({"note": ["n"], "counted": pa.array([1], pa.int64()), "key": ["a"]})
    append_by(LocalTable(path), Collected(given, cast(Any, None)), metadata(0))
    (row,) = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert row == {"key": "a", "counted": 1, **dict.fromkeys(ADDED), "note": "n"}


def test_a_table_that_is_changed_during_a_run_is_left_to_spark_from_then_on(path: str) -> None:
    table = LocalTable(path)
    assert table.snapshot(SCHEMA.names) is not None
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert table.snapshot(SCHEMA.names) is not None
    DeltaTable(path).alter.add_constraint({"positive": "counted > 0"})
    assert table.snapshot(SCHEMA.names) is None


def test_the_metadata_of_a_table_of_many_commits_is_found_without_reading_them_all(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(4):
        writer(path).append(rows(("a", 1)), metadata(batch))
    monkeypatch.setattr("oncelake.exactly_once.delta_log.LOOK_BACK", 2)
    read: list[str] = []

    class Counting(LocalFiles):
        def read(self, path: str) -> str | None:
            read.append(path)
            return super().read(path)

    found = DeltaLog(Counting(), path).metadata()
    assert found is not None
    assert found["id"] == str(DeltaTable(path).metadata().id)
    assert not any(name.endswith("0.json") for name in read)


def test_a_writer_that_knows_nothing_of_the_chain_is_allowed(path: str) -> None:
    first = writer(path)
    first.append(rows(("a", 1)), metadata(0))
    write_deltalake(path, rows(("x", 1)).rows, mode="append")
    assert first.append(rows(("b", 1)), metadata(1)).commit.version == 3
