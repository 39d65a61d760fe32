"""A table of a user's own query gets each batch once, or says why not: on checkpoints and logs in memory."""

import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelake import ExactlyOnceTable, LockedError, ReplayError, StageError, StateError
from oncelake.common.errors import ConfigError
from oncelake.common.spark.running_batch import RunningBatch
from oncelake.exactly_once import foreach_batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.write import TableWriter, Written
from oncelake.exactly_once.writers import spark as spark_writer
from tests.support.memory import QUERY, MemoryFiles, at, checkpoint, commit, metadata, offsets

TABLE, CHECKPOINT = "/data/counts", "/data/checkpoint"
OTHER_QUERY = "99999999-2222-3333-4444-555555555555"
ROWS = cast(Any, SimpleNamespace(sparkSession=None))


@dataclass
class World:
    """The disk of a query, and the batch that Spark runs.

    Attributes:
        during: called while a batch is written, before its commit.
        table: what writes the table; None for a new object in each batch.
    """

    files: MemoryFiles = field(default_factory=MemoryFiles)
    query: str = QUERY
    run: str = "run"
    batch: int | None = None
    owns: bool = True
    continue_after: int | None = None
    during: Callable[[], None] = lambda: None

    @property
    def versions(self) -> int:
        """Return the number of versions of the table."""
        return sum(name.startswith(f"{TABLE}/_delta_log/") for name in self.files.texts)

    def start(self) -> None:
        """Start the query again."""
        self.run = uuid.uuid4().hex

    def plan(self, batch: int) -> None:
        """Let Spark plan a batch, with all before it finished."""
        self.files.remove(CHECKPOINT)
        checkpoint(self.files, CHECKPOINT, batch, batch - 1, self.query)
        self.batch = batch

    def append(self, batch: int) -> bool:
        """Plan and write a batch; return whether that made a version of the table."""
        self.plan(batch)
        return self.again()

    def again(self) -> bool:
        """Write the planned batch; return whether that made a version of the table."""
        assert self.batch is not None
        before = self.versions
        ExactlyOnceTable(TABLE, continue_after=self.continue_after).append(ROWS, self.batch)
        return self.versions > before

    def running(self, _: object) -> RunningBatch | None:
        """Return the batch that Spark runs."""
        if self.batch is None:
            return None
        return RunningBatch(self.query, self.run, self.batch, CHECKPOINT, self.owns)

    def write(self, _: object, path: str, written: CommitMetadata) -> None:
        """Commit a batch as Spark's writer does."""
        self.during()
        commit(self.files, path, self.versions, written)

    def others(self, operation: str, **parameters: Any) -> None:
        """Commit a version of another writer."""
        commit(self.files, TABLE, self.versions, operation=operation, **parameters)

    def files_of(self, batch: int, *names: str) -> None:
        """Let a batch be one of files."""
        self.files.texts[f"{CHECKPOINT}/offsets/{batch}"] = offsets({"logOffset": batch})
        listed = (json.dumps({"path": name, "timestamp": 1, "batchId": batch}) for name in names)
        self.files.texts[f"{CHECKPOINT}/sources/0/{batch}"] = "\n".join(["v1", *listed])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    world.start()
    monkeypatch.setattr(foreach_batch, "running_batch", world.running)
    monkeypatch.setattr(foreach_batch, "files_at", lambda *_: world.files)
    monkeypatch.setattr(foreach_batch, "hadoop", lambda *_: (None, SimpleNamespace(getScheme=lambda: "file")))
    monkeypatch.setattr(spark_writer, "append", world.write)
    return world


def test_batches_are_written_once_over_starts(world: World) -> None:
    assert [world.append(batch) for batch in range(3)] == [True] * 3
    world.start()
    assert [world.append(batch) for batch in (2, 3)] == [False, True]
    assert world.versions == 4


def refused(world: World, match: str, error: type[Exception] = StateError) -> None:
    """Write the planned batch, which is refused, and changes nothing."""
    before = dict(world.files.texts)
    with pytest.raises(error, match=match):
        world.again()
    assert world.files.texts == before


def test_a_batch_of_another_query_is_refused(world: World) -> None:
    world.append(0)
    world.query = OTHER_QUERY
    world.start()
    world.plan(0)
    refused(world, r"foreign: query .*1111.* wrote the table's batch 0.*pass continue_after=0\. Or start over")


def test_a_batch_continues_after_the_one_version_that_is_named(world: World) -> None:
    world.append(0)
    world.query, world.continue_after = OTHER_QUERY, 1
    world.start()
    world.plan(0)
    refused(world, "foreign")
    world.continue_after = 0
    assert world.append(0)
    world.start()
    assert [world.append(batch) for batch in (0, 1)] == [False, True]
    world.start()
    assert [world.append(batch) for batch in (1, 2)] == [False, True]
    world.query = QUERY
    world.start()
    world.plan(1)
    refused(world, "foreign")


def test_no_continuation_is_offered_within_a_version(world: World) -> None:
    world.plan(0)
    world.files.texts[f"{CHECKPOINT}/offsets/0"] = offsets(at(1) | {"index": 3})
    world.again()
    world.query = OTHER_QUERY
    world.start()
    world.plan(0)
    refused(world, "Or start over.* within a version of its source, where no query can begin")


def test_a_new_checkpoint_must_not_read_files_again(world: World) -> None:
    world.plan(0)
    world.files_of(0, "0.json")
    world.again()
    world.query = OTHER_QUERY
    world.start()
    world.plan(0)
    world.files_of(0, "0.json")
    refused(world, "ends, without a file that was read before, pass continue_after=0")


def topic(world: World, batch: int, begins: int, end: int) -> None:
    """Plan a batch of a topic, whose first batch begins at an offset."""
    world.plan(batch)
    world.files.texts[f"{CHECKPOINT}/sources/0/0"] = f'\0v1\n{{"events":{{"0":{begins},"1":0}}}}'
    world.files.texts[f"{CHECKPOINT}/offsets/0"] = offsets({"events": {"0": end}})


def test_a_query_of_a_topic_continues_only_where_the_table_ends(world: World) -> None:
    topic(world, 0, 0, 5)
    world.again()
    world.query, world.continue_after = OTHER_QUERY, 0
    for begins in (0, 4, 6):
        world.start()
        topic(world, 0, begins, 9)
        refused(world, r'batch 0 begins at .*, and version 0 of the table ends at \{"events": ?\{"0": ?5\}\}')
    world.start()
    topic(world, 0, 5, 9)
    assert world.again()


def test_a_batch_that_delta_would_skip_needs_a_new_checkpoint(world: World) -> None:
    for batch in range(3):
        world.append(batch)
    world.continue_after = 2
    world.start()
    world.plan(1)
    refused(world, "checkpoint behind.*a query with a new checkpoint begins")


def test_a_table_of_a_lake_is_refused(world: World) -> None:
    commit(world.files, TABLE, 0, metadata(0))
    world.plan(1)
    world.continue_after = 0
    refused(world, "is silver.access_log of a lake")


def test_a_table_on_a_store_that_is_not_safe_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsafe(_: object, at: str) -> None:
        raise ConfigError(f"{at}: two drivers would overwrite each other's commits")

    monkeypatch.setattr(foreach_batch, "check_two_drivers", unsafe)
    world.plan(0)
    refused(world, f"{TABLE}: two drivers would overwrite", ConfigError)


def test_a_batch_writes_the_table_once(world: World) -> None:
    world.append(0)
    refused(world, "is written a second time by the same run")
    world.start()
    assert not world.append(0)
    refused(world, "is written a second time by the same run")


def test_a_table_that_two_objects_name_otherwise_is_written_once_in_a_batch(world: World) -> None:
    world.append(0)
    before = dict(world.files.texts)
    for name in [name for name in before if name.startswith(TABLE)]:
        world.files.texts[name.replace("counts", "link")] = before[name]
    with pytest.raises(StateError, match="is written a second time by the same run"):
        ExactlyOnceTable("/data/link").append(ROWS, 0)


def test_a_batch_with_other_files_is_refused(world: World) -> None:
    for batch in range(2):
        world.plan(batch)
        for number in range(batch + 1):  # as planned before
            world.files_of(number, f"{number}.json")
        world.again()
    world.start()
    assert not world.again()
    world.start()
    world.files_of(1, "1.json", "2.json")
    refused(world, "replayed with other files", ReplayError)
    del world.files.texts[f"{CHECKPOINT}/sources/0/1"]
    refused(world, "the list of the files of a batch, is missing")


def test_a_batch_that_follows_other_files_is_refused(world: World) -> None:
    world.plan(0)
    world.files_of(0, "0.json")
    world.again()
    listed = world.files.texts[f"{CHECKPOINT}/sources/0/0"]
    world.plan(1)
    for number in range(2):
        world.files_of(number, f"{number}.json", "another.json")
    world.start()
    refused(world, "batch 0 has other files in the checkpoint", ReplayError)
    repeated = world.files.texts.pop(f"{CHECKPOINT}/sources/0/1").split("\n")
    del world.files.texts[f"{CHECKPOINT}/sources/0/0"]
    world.files.texts[f"{CHECKPOINT}/sources/0/1.compact"] = "\n".join([listed, *repeated[1:]])
    assert world.again()


def test_a_first_batch_with_another_beginning_is_refused(world: World) -> None:
    for begins, wrote in (("0", True), ("0", False)):
        world.plan(0)
        world.files.texts[f"{CHECKPOINT}/sources/0/0"] = f'v1\n{{"topic":{{"0":{begins}}}}}'
        assert world.again() is wrote
        world.start()
    world.files.texts[f"{CHECKPOINT}/sources/0/0"] = 'v1\n{"topic":{"0":7}}'
    refused(world, "from another beginning", ReplayError)


def test_a_batch_whose_range_is_unknown_is_refused(world: World) -> None:
    world.append(0)
    world.plan(1)
    del world.files.texts[f"{CHECKPOINT}/offsets/0"]
    refused(world, r"offsets lacks batch 0\. Put the checkpoint back", StageError)


def test_a_query_of_several_sources_is_refused(world: World) -> None:
    world.plan(0)
    world.files.texts[f"{CHECKPOINT}/offsets/0"] += '\n{"logOffset":0}'
    refused(world, "several sources that are not all Delta tables")


@pytest.mark.parametrize(
    ("operation", "parameters"), [("RESTORE", {"version": "0"}), ("WRITE", {"mode": "Overwrite"}), ("TRUNCATE", {})]
)
def test_rows_that_are_removed_during_a_run_end_it(world: World, operation: str, parameters: dict[str, Any]) -> None:
    world.append(0)
    world.append(1)
    world.others(operation, **parameters)
    world.plan(2)
    refused(world, "removed rows of earlier batches")


def test_rows_that_are_removed_while_a_batch_is_written_end_the_next(world: World) -> None:
    world.append(0)
    world.append(1)
    world.during = lambda: world.others("RESTORE", version="0")
    world.append(2)
    world.plan(3)
    refused(world, "removed rows of earlier batches")


def test_a_table_that_is_removed_during_a_run_is_not_created_again(world: World) -> None:
    world.append(0)
    world.files.remove(TABLE)
    world.plan(1)
    refused(world, "was removed while its query runs")


def test_another_start_of_the_query_ends_this_one(world: World) -> None:
    world.append(0)
    commit(world.files, TABLE, 1, metadata(1, stage="foreachBatch", table=TABLE, run="another"))
    world.plan(1)
    refused(world, "another run of foreachBatch .* Only one query may write the table", LockedError)


def test_a_batch_that_spark_does_not_run_is_refused(world: World) -> None:
    world.plan(0)
    with pytest.raises(StateError, match="batch 1 was passed, but this thread runs batch 0"):
        ExactlyOnceTable(TABLE).append(ROWS, 1)
    world.batch = None
    with pytest.raises(StateError, match="no batch of a streaming query"):
        ExactlyOnceTable(TABLE).append(ROWS, 0)


def test_rows_of_another_session_are_not_merged(world: World) -> None:
    world.plan(0)
    world.owns = False
    with pytest.raises(StateError, match="another session than batch 0"):
        ExactlyOnceTable(TABLE).merge(ROWS, 0, "true", lambda merge: merge)


def test_two_threads_merge_in_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = list[str](), list[int]()

    def merge(writer: TableWriter, _: object, written: CommitMetadata, *__: object) -> Written:
        inside.append(written.table)
        time.sleep(0.05)
        most.append(len(inside))
        inside.remove(written.table)
        commit(world.files, writer.path, 1, written)
        return Written(writer.receipt(written))

    monkeypatch.setattr(TableWriter, "merge_by", merge)
    world.plan(0)
    places = [f"/data/{number}" for number in range(4)]
    for place in places:
        commit(world.files, place, 0, operation="CREATE TABLE")
    with ThreadPoolExecutor(len(places)) as pool:
        merges = [pool.submit(ExactlyOnceTable(place).merge, ROWS, 0, "true", lambda made: made) for place in places]
    for merged in merges:
        merged.result()
    assert most == [1] * len(places)


def test_of_two_threads_that_write_a_table_in_one_batch_the_second_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge(writer: TableWriter, _: object, written: CommitMetadata, *__: object) -> Written:
        time.sleep(0.05)
        commit(world.files, writer.path, 1, written)
        return Written(writer.receipt(written))

    monkeypatch.setattr(TableWriter, "merge_by", merge)
    world.plan(0)
    commit(world.files, TABLE, 0, operation="CREATE TABLE")
    with ThreadPoolExecutor(2) as pool:
        merges = [pool.submit(ExactlyOnceTable(TABLE).merge, ROWS, 0, "true", lambda made: made) for _ in range(2)]
    errors = [error for merged in merges if (error := merged.exception()) is not None]
    assert len(errors) == 1
    assert "is written a second time by the same run" in str(errors[0])


def test_a_position_is_that_of_the_checkpoint(world: World) -> None:
    world.append(0)
    world.append(1)
    recorded = CommitMetadata.from_json(
        json.loads(world.files.texts[f"{TABLE}/_delta_log/{1:020}.json"].split("\n")[0])["commitInfo"]["userMetadata"]
    )
    assert recorded is not None
    assert (json.loads(recorded.before or ""), json.loads(recorded.end or "")) == (at(1), at(2))
    assert (recorded.run, recorded.app_id) == (world.run, f"oncelake/foreachBatch/{TABLE}/{QUERY}")
