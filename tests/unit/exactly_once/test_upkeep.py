"""Tables of many small batches keep few files, a short log and a gold table sorted by window, and no row changes."""

import itertools
import os
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import TableOptimizer

from oncelake.common.spark.rows import Collected
from oncelake.exactly_once import upkeep
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers import MergeSql, TransactionHeldError
from oncelake.exactly_once.writers import local as local_write
from oncelake.exactly_once.writers.local import LocalTable
from tests.support.committed import append_by
from tests.support.memory import metadata

SCHEMA = pa.schema([("log_time", pa.timestamp("us", "UTC")), ("key", pa.string()), ("counted", pa.int64())])
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
APPEND_ONLY = {"delta.appendOnly": "true"}
MONTH = 31 * 24 * 60 * 60


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def rows(*minutes: int, counted: int = 1) -> Collected:
    columns = {
        "log_time": [at(minute) for minute in minutes],
        "key": ["a"] * len(minutes),
        "counted": [counted] * len(minutes),
    }
    return Collected(pa.table(columns, schema=SCHEMA), cast(Any, None))


def sql(*minutes: int) -> MergeSql:
    return MergeSql(
        "gold.log_time = batch.log_time AND gold.key = batch.key",
        {"counted": "gold.counted + batch.counted"},
        [(at(minute), at(minute)) for minute in minutes],
    )


def always(made: MergeSql, _: str) -> MergeSql:
    return made


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep up every five commits, and sort a gold table after a MERGE that copied three rows."""
    for name, value in (("EVERY", 5), ("CLEAN_EVERY", 10), ("FEW", 3), ("COPIED", 3), ("GROUP", 10_000)):
        monkeypatch.setattr(upkeep, name, value)


@pytest.fixture
def path(tmp_path: Path) -> str:
    DeltaTable.create(str(tmp_path / "table"), schema=SCHEMA, configuration=cast(Any, APPEND_ONLY))
    return str(tmp_path / "table")


@pytest.fixture
def gold(tmp_path: Path) -> str:
    DeltaTable.create(str(tmp_path / "gold"), schema=SCHEMA)
    return str(tmp_path / "gold")


def writer(path: str, windows: str | None = None) -> TableWriter:
    commit_log = DeltaLog(LocalFiles(), path)
    return TableWriter(path, commit_log, commit_log.state(), every_batch=True, engines=[LocalTable(path, windows)])


def append(path: str, *batches: int) -> TableWriter:
    table = writer(path)
    for batch in batches:
        table.append(rows(batch), metadata(batch))
    return table


def operations(path: str) -> list[str]:
    return [commit.operation for commit, _ in reversed(list(DeltaLog(LocalFiles(), path).newest_first()))]


def held(path: str) -> list[tuple[datetime, int]]:
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["log_time"], row["counted"]) for row in found)


def log(path: str) -> list[str]:
    return sorted(each.name for each in Path(path, "_delta_log").iterdir())


def age(path: str, *names: str, seconds: float = MONTH) -> None:
    for name in names:
        os.utime(f"{path}/_delta_log/{name}", (time.time() - seconds,) * 2)


def test_small_files_are_compacted_and_no_row_changes(path: str) -> None:
    append(path, *range(12))
    assert operations(path).count("OPTIMIZE") == 2
    assert len(DeltaTable(path).file_uris()) < 6
    assert held(path) == [(at(batch), 1) for batch in range(12)]
    commits = [commit for commit, _ in DeltaLog(LocalFiles(), path).newest_first()]
    assert not any(each.changes_data or each.rows_added for each in commits if each.operation == "OPTIMIZE")
    assert sum(each.rows_added for each in commits if each.metadata) == 12


def test_batches_go_on_after_upkeep_and_are_written_once(path: str) -> None:
    append(path, *range(5))
    assert operations(path)[-1] == "OPTIMIZE"
    again = append(path, 4, 5)
    assert again.state.batch_id == 5
    assert held(path) == [(at(batch), 1) for batch in range(6)]


def test_runs_of_few_batches_are_kept_up_too(path: str) -> None:
    for batch in range(12):
        append(path, batch)
    assert operations(path).count("OPTIMIZE") == 2


def test_files_of_half_the_target_are_left_alone(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "TARGET", 100)
    append(path, *range(6))
    assert "OPTIMIZE" not in operations(path)


@pytest.mark.parametrize("bound", ["MANY", "MUCH"])
def test_more_than_the_bound_is_left_to_maintain(path: str, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(upkeep, bound, 4)
    append(path, *range(6))
    assert "OPTIMIZE" not in operations(path)


def test_checkpoints_keep_transactions_and_metadata_without_the_older_commits(path: str) -> None:
    table_id = DeltaLog(LocalFiles(), path).table_id()
    append(path, *range(6))
    (checkpoint,) = (name for name in log(path) if "checkpoint.parquet" in name)
    for name in log(path):
        if name.endswith(".json") and name[:20] < checkpoint[:20]:
            (Path(path) / "_delta_log" / name).unlink()
    assert DeltaLog(LocalFiles(), path).table_id() == table_id
    with pytest.raises(TransactionHeldError):
        append_by(LocalTable(path), rows(5), metadata(5))
    assert len(held(path)) == 6


def test_a_large_checkpoint_is_written_less_often(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "ENTRIES_PER_COMMIT", 1)
    append(path, *range(21))
    versions = [int(name[:20]) for name in log(path) if "checkpoint.parquet" in name]
    gaps = [later - earlier for earlier, later in itertools.pairwise(versions)]
    assert len(versions) > 1
    assert min(gaps) > 5


def test_the_checksum_of_a_replaced_file_goes(path: str) -> None:
    old = Path(path) / "_delta_log" / "._last_checkpoint.crc"
    old.write_bytes(b"crc\0 of the file that Spark wrote")
    append(path, *range(6))
    assert (old.parent / "_last_checkpoint").exists()
    assert not old.exists()


def test_commits_older_than_the_retention_and_a_checkpoint_are_removed(path: str) -> None:
    table = append(path, *range(8))
    age(path, *(name for name in log(path) if name.endswith(".json")))
    newest = log(path)
    for batch in range(8, 10):
        table.append(rows(batch), metadata(batch))
    kept = DeltaLog(LocalFiles(), path).versions()
    assert 0 < kept[0] <= int(next(name for name in newest if "checkpoint" in name)[:20])
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert held(path) == [(at(batch), 1) for batch in range(10)]
    assert append(path, 9, 10).state.batch_id == 10


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableExpiredLogCleanup": "false"},
        {"delta.logRetentionDuration": "interval 90 days"},
        {"delta.logRetentionDuration": "INTERVAL 90 DAYS"},
        {"delta.logRetentionDuration": "90 days"},
        {"delta.logRetentionDuration": "interval '90' day"},
        {"delta.logRetentionDuration": "interval 1 week 90 days"},
        {"delta.enableExpiredLogCleanup": "False"},
    ],
    ids=str,
)
def test_commits_are_kept_as_the_table_s_properties_say(path: str, properties: dict[str, str]) -> None:
    DeltaTable(path).alter.set_table_properties(properties)
    table = append(path, *range(8))
    age(path, *(name for name in log(path) if name.endswith(".json")))
    for batch in range(8, 18):
        table.append(rows(batch), metadata(batch))
    assert DeltaLog(LocalFiles(), path).versions()[0] == 0


def test_a_table_whose_log_is_not_cleaned_up_is_compacted(path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    append(path, *range(8))
    assert "OPTIMIZE" in operations(path)


@pytest.mark.parametrize("step", ["compact", "create_checkpoint", "cleanup_metadata"])
def test_a_step_that_fails_fails_no_batch(path: str, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise DeltaError("no space left on device")

    monkeypatch.setattr(TableOptimizer if step == "compact" else DeltaTable, step, fails)
    assert append(path, *range(12)).state.batch_id == 11
    assert held(path) == [(at(batch), 1) for batch in range(12)]


def test_a_gold_table_is_sorted_by_window_once_merges_copy_many_rows(gold: str) -> None:
    table = writer(gold, "log_time")
    table.merge(rows(*range(0, 40_000, 2)), metadata(0), lambda _: sql())
    table.merge(rows(*range(1, 40_000, 2)), metadata(1), lambda _: sql())
    for batch in range(2, 6):
        table.merge(rows(7), metadata(batch), lambda _: sql(7))
    assert "OPTIMIZE" in operations(gold)
    files = DeltaTable(gold).get_add_actions(flatten=True)
    spans = sorted(zip(*(pa.table(files)[f"{b}.log_time"].to_pylist() for b in ("min", "max")), strict=True))
    assert len(spans) > 1
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(spans))
    assert held(gold) == [(at(minute), 5 if minute == 7 else 1) for minute in range(40_000)]


def test_a_gold_table_of_many_files_is_sorted(gold: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FILES", 4)
    table = writer(gold, "log_time")
    for batch in range(6):
        table.merge(rows(batch), metadata(batch), partial(always, sql(batch)))
    assert "OPTIMIZE" in operations(gold)
    assert len(DeltaTable(gold).file_uris()) < 4
    assert held(gold) == [(at(minute), 1) for minute in range(6)]


@pytest.mark.parametrize("bound", ["SORTED", "SORTED_BYTES"])
def test_a_gold_table_above_the_bound_is_not_sorted(gold: str, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(upkeep, bound, 19)
    table = writer(gold, "log_time")
    table.merge(rows(*range(20)), metadata(0), lambda _: sql())
    for batch in range(1, 6):
        table.merge(rows(7), metadata(batch), lambda _: sql(7))
    assert "OPTIMIZE" not in operations(gold)


def test_the_rows_that_a_merge_touches_are_those_of_the_files_with_its_windows(
    gold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch, minutes in enumerate([(0, 10), (20, 21, 30), (40,)]):
        append_by(LocalTable(gold, "log_time"), rows(*minutes), metadata(batch))
    snapshot = LocalTable(gold, "log_time").snapshot(SCHEMA.names)
    assert snapshot is not None
    touched = {
        (): 6,
        ((at(5), at(5)),): 2,
        ((at(15), at(15)),): 0,
        ((at(15), at(15)), (at(20), at(20))): 3,
        ((at(10), at(20)),): 5,
        ((at(0), at(0)), (at(40), at(40))): 3,
        ((at(41), at(90)),): 0,
    }
    assert {windows: snapshot.rows_touched(windows) for windows in touched} == touched
    monkeypatch.setattr(local_write, "MERGED", 3)
    assert [snapshot.can_merge(windows) for windows in touched] == [False, True, True, True, False, True, True]


@pytest.mark.parametrize("behind", [True, False])
def test_a_clean_up_waits_for_a_stage_that_still_reads_the_old_commits(path: str, *, behind: bool) -> None:
    append(path, *range(8))
    age(path, *(name for name in log(path) if name.endswith(".json")))
    commit_log = DeltaLog(LocalFiles(), path)
    local = LocalTable(path, needed=lambda: 2 if behind else commit_log.newest())
    table = TableWriter(path, commit_log, commit_log.state(), every_batch=True, engines=[local])
    for batch in range(8, 12):
        table.append(rows(batch), metadata(batch))
    assert (commit_log.versions()[0] == 0) == behind
    assert held(path) == [(at(batch), 1) for batch in range(12)]
