"""A batch that must not be written, or whose range is unknown, is not written."""

from collections.abc import Callable
from typing import Any

import pytest

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import LockedError, StageError, StateError
from oncelake.common.lake import SILVER, Table
from oncelake.exactly_once.batch import Batch, ForeignWriter, Writer
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers import spark as writes
from oncelake.sources.kafka.kind import kafka_client
from tests.support.memory import MemoryFiles, callback, checkpoint, metadata, table

SERVED = Table("serving", "error_log")
WRITES: dict[str, Callable[[Batch], object]] = {
    "append": lambda batch: batch.append(SILVER, None),  # type: ignore[arg-type]
    "merge": lambda batch: batch.merge(SILVER, None, None),  # type: ignore[arg-type]
    "put": lambda batch: batch.put(SERVED, lambda _: pytest.fail("it wrote")),
}


def lost() -> None:
    raise LockedError("this process no longer holds the lake")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """Make a table of one batch and its checkpoint; any write fails the test."""
    files = MemoryFiles()
    table(files, "table", 1)
    checkpoint(files, "ckpt", planned=1, committed=0)
    for name in ("append", "merge"):
        monkeypatch.setattr(writes, name, lambda *_, **__: pytest.fail("it wrote"))
    return files


@pytest.mark.parametrize("kind", WRITES)
def test_a_batch_does_not_write_to_a_lake_that_was_taken_over(files: MemoryFiles, kind: str) -> None:
    commit_log = DeltaLog(files, "table")
    writers: dict[Table, Writer] = {
        SILVER: TableWriter("table", commit_log, commit_log.state(), every_batch=True),
        SERVED: ForeignWriter(),
    }
    batch = Batch(1, lambda name: metadata(1, str(name)), writers, fence=lost)
    with pytest.raises(LockedError, match="no longer holds"):
        WRITES[kind](batch)


def failure(files: MemoryFiles, **changed: Any) -> BaseException | None:
    """Process batch 1, and return the error that it ends with."""
    work = changed.pop("write", lambda *_: pytest.fail("the stage's work began"))
    call = callback(work, files=files, tables={SILVER: ForeignWriter()}, **changed)
    with pytest.raises(RuntimeError, match="silver failed in batch 1"):
        call(None, 1)  # type: ignore[arg-type]
    return call.failure


def test_a_batch_does_not_start_in_a_lake_that_was_taken_over(files: MemoryFiles) -> None:
    assert isinstance(failure(files, fence=lost), LockedError)


@pytest.mark.parametrize("batch", [0, 1])
def test_a_batch_without_its_range_in_the_checkpoint_does_not_start(files: MemoryFiles, batch: int) -> None:
    files.texts[f"ckpt/offsets/{batch}"] = ""
    error = failure(files)
    assert isinstance(error, StageError)
    assert str(error) == f"ckpt/offsets lacks batch {batch}. Run: oncelake doctor"


@pytest.mark.parametrize(("text", "said"), [(None, "is missing"), ("{", "metadata cannot be read")])
def test_a_batch_without_its_query_in_the_checkpoint_does_not_start(
    files: MemoryFiles, text: str | None, said: str
) -> None:
    files.texts.pop("ckpt/metadata")
    if text is not None:
        files.texts["ckpt/metadata"] = text
    error = failure(files)
    assert isinstance(error, StateError)
    assert said in str(error)


def test_the_same_range_of_another_query_is_another_batch() -> None:
    assert metadata(1).covers_same(metadata(1, run="another"))
    assert not metadata(1).covers_same(metadata(1, query_id="another"))
    assert not metadata(1).covers_same(metadata(1, batch_id=2))


def test_kafka_is_always_read_committed() -> None:
    source = SourceSettings(kind="kafka", topic="alog", bootstrap_servers="host:9092")
    assert kafka_client(source)["isolation.level"] == "read_committed"
