"""A run detects another run: by the lock file that is no longer its own, or by the other's commits in its tables."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from oncelake.common.errors import LockedError
from oncelake.common.explain import explain
from oncelake.common.spark.rows import SparkRows
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.lease import NAME, Lease
from oncelake.exactly_once.write import TableWriter, Written
from oncelake.exactly_once.writers import spark as spark_writer
from tests.support.memory import MemoryFiles, commit, metadata, table

SILVER = "/lake/silver/access_log"
OTHER_QUERY = "99999999-2222-3333-4444-555555555555"
# The model of the table looks at the metadata alone.
NO_ROWS = SparkRows(cast(Any, None))


@pytest.fixture
def files() -> MemoryFiles:
    """Make a table that holds batch 0, in version 1."""
    files = MemoryFiles()
    table(files, SILVER, batches=1)
    return files


@pytest.fixture
def append(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Written]:
    """Return a function that appends a batch; during the write, Delta calls `does` with the free version."""
    commit_log = DeltaLog(files, SILVER)
    writer = TableWriter(SILVER, commit_log, commit_log.state(), every_batch=True)

    def append(batch: int, does: Callable[[int], None] | None = None) -> Written:
        ours = metadata(batch)

        def write(*_: object) -> None:
            free = commit_log.versions()[-1] + 1
            does(free) if does else commit(files, SILVER, free, ours)

        monkeypatch.setattr(spark_writer, "append", write)
        return writer.append(NO_ROWS, ours)

    return append


def test_batches_follow_each_other_across_maintenance(files: MemoryFiles, append: Callable[..., Written]) -> None:
    assert append(1).commit.version == 2
    commit(files, SILVER, 3, operation="OPTIMIZE")
    assert append(2).commit.version == 4


@pytest.fixture
def cut(files: MemoryFiles, append: Callable[..., Written]) -> None:
    """Add commits of maintenance after a batch of this run; the log's clean-up removes all but the newest."""
    append(1)
    for version in range(3, 7):
        commit(files, SILVER, version, operation="VACUUM END")
    for version in range(6):
        files.remove(f"{SILVER}/_delta_log/{version:020}.json")


@pytest.mark.usefixtures("cut")
def test_a_batch_is_written_after_the_log_was_cut_behind_the_last_one(append: Callable[..., Written]) -> None:
    assert append(2).commit.version == 7


@pytest.mark.usefixtures("cut")
def test_another_run_is_seen_behind_commits_that_are_gone(files: MemoryFiles, append: Callable[..., Written]) -> None:
    commit(files, SILVER, 7, metadata(2, run="other"))
    before = dict(files.texts)
    with pytest.raises(LockedError, match=r"another run of silver .*wrote batch 2 .*version 7"):
        append(2)
    assert files.texts == before


@pytest.mark.parametrize(
    "other",
    [{"run": "other"}, {"query_id": OTHER_QUERY, "run": "other"}, {"event": CommitKind.RECOVERY, "run": "other"}],
)
def test_a_write_is_refused_if_another_run_has_written(
    files: MemoryFiles, append: Callable[..., Written], other: dict[str, Any]
) -> None:
    append(1)
    commit(files, SILVER, 3, operation="OPTIMIZE")
    commit(files, SILVER, 4, metadata(2, **other))
    before = dict(files.texts)
    with pytest.raises(LockedError, match=r"another run of silver \(run other, query \S+\) wrote batch 2 .*version 4"):
        append(2)
    assert files.texts == before


def test_a_commit_between_the_check_and_the_first_write_is_detected(files: MemoryFiles) -> None:
    commit_log = DeltaLog(files, SILVER)
    state = commit_log.state()
    commit(files, SILVER, 2, metadata(0, query_id=OTHER_QUERY, run="other"))
    writer = TableWriter(SILVER, commit_log, state, every_batch=True)
    with pytest.raises(LockedError, match="version 2"):
        writer.append(NO_ROWS, metadata(1))


def test_two_runs_that_start_on_an_empty_table_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=0)
    commit_log = DeltaLog(files, SILVER)
    writer = TableWriter(SILVER, commit_log, commit_log.state(), every_batch=True)
    commit(files, SILVER, 1, metadata(0, query_id=OTHER_QUERY, run="other"))
    monkeypatch.setattr(spark_writer, "append", lambda *_: pytest.fail("it wrote"))
    with pytest.raises(LockedError, match="one of them"):
        writer.append(NO_ROWS, metadata(0))


def test_a_commit_during_the_write_is_an_error_that_recommends_a_proof(
    files: MemoryFiles, append: Callable[..., Written]
) -> None:
    def both(free: int) -> None:
        commit(files, SILVER, free, metadata(0, query_id=OTHER_QUERY, run="other"))
        commit(files, SILVER, free + 1, metadata(1))

    with pytest.raises(LockedError, match=r"batch 1 \(version 3\): both are in the table.*doctor, then oncelake prove"):
        append(1, both)


def test_a_batch_skipped_by_delta_was_written_by_the_other_run(
    files: MemoryFiles, append: Callable[..., Written]
) -> None:
    with pytest.raises(LockedError, match=r"another instance wrote batch 1 .* has changed nothing"):
        append(1, lambda free: commit(files, SILVER, free, metadata(1, run="other")))


@pytest.mark.parametrize("seen", [True, False])
def test_a_lost_race_for_a_transaction_is_a_one_line_error(
    files: MemoryFiles, append: Callable[..., Written], *, seen: bool
) -> None:
    def lose(free: int) -> None:
        if seen:
            commit(files, SILVER, free, metadata(1, run="winner"))
        raise RuntimeError("ConcurrentTransactionException: multiple streaming queries use the same checkpoint")

    said = "run winner.*version 2" if seen else "another instance of this stage"
    with pytest.raises(LockedError, match=f"{said}.* was not written twice. Only one run at a time"):
        append(1, lose)


@pytest.mark.parametrize(
    "error", ["ConcurrentDeleteReadException", "java.io.IOException: VersionTakenError: another driver"]
)
def test_only_a_conflict_with_maintenance_is_retried(
    files: MemoryFiles, append: Callable[..., Written], error: str
) -> None:
    tries: list[int] = []

    def conflict(other: str | None) -> Callable[[int], None]:
        def does(free: int) -> None:
            tries.append(free)
            if len(tries) == 1:
                commit(files, SILVER, free, metadata(1, run=other) if other else None, operation="OPTIMIZE")
                raise RuntimeError(error)
            commit(files, SILVER, free, metadata(1))

        return does

    assert append(1, conflict(None)).commit.version == 3
    tries.clear()
    with pytest.raises(LockedError, match="version 4"):
        append(2, conflict("other"))
    assert len(tries) == 1


def test_a_checkpoint_with_two_writers_is_a_one_line_error() -> None:
    error = RuntimeError("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs …")
    assert "another instance uses the same checkpoint; this one stops and has changed nothing" in explain(error)


def test_a_table_changed_by_another_process_is_a_one_line_error() -> None:
    error = RuntimeError("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected. A concurrent UPDATE …")
    assert "another process changed the table at the same time; nothing of this batch was written" in explain(error)


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    path = tmp_path / NAME
    path.write_text("process 1 on here\nabc\n")
    found = path.stat()
    return Lease(path, "process 1 on here\nabc\n", (found.st_dev, found.st_ino))


def test_a_lease_is_valid_while_its_file_is_unchanged(lease: Lease) -> None:
    assert lease.path
    lease.check()
    os.utime(lease.path)
    lease.check()
    Lease().check()


def test_a_lease_ends_with_its_file(lease: Lease) -> None:
    assert lease.path
    lease.path.unlink()
    with pytest.raises(LockedError, match="it now has no holder"):
        lease.check()


def test_a_lease_ends_if_its_file_is_replaced(lease: Lease) -> None:
    assert lease.path
    new = lease.path.with_name("new")
    new.write_text(lease.text)
    new.rename(lease.path)
    with pytest.raises(LockedError, match="was removed or replaced"):
        lease.check()


def test_a_lease_ends_if_another_process_writes_its_file(lease: Lease) -> None:
    assert lease.path
    lease.path.write_text("process 2 on there\ndef\n")
    with pytest.raises(LockedError, match="the holder is now process 2 on there"):
        lease.check()
