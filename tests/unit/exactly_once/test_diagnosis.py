"""Each state that refuses a start is detected from checkpoint, table and source, and from nothing else."""

import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.files.source import FilesSource
from oncelake.sources.files.spark_list import FileSourceLog
from oncelake.sources.kafka.source import KafkaSource, LastRecords, Topic
from tests.support.memory import MemoryFiles, at, checkpoint, commit, metadata, offsets, table
from tests.support.states import Silent, source_table


def find(files: MemoryFiles, source: Source | None = None, beside: tuple[str, ...] = ()) -> Diagnosis:
    states = {path: DeltaLog(files, path).state() for path in ("table", *beside)}
    return diagnose(read_checkpoint(files, "ckpt"), states, source or Silent())


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def test_without_checkpoint_and_table_a_stage_is_fresh(files: MemoryFiles) -> None:
    assert find(files).state is State.FRESH


def test_an_empty_table_without_checkpoint_is_fresh(files: MemoryFiles) -> None:
    table(files, "table", 0)
    assert find(files).state is State.FRESH


@pytest.mark.parametrize("name", ["table", "quarantine"])
@pytest.mark.parametrize("operation", ["WRITE", "CLONE", "CREATE TABLE AS SELECT", "CONVERT", "STREAMING UPDATE"])
@pytest.mark.parametrize("data_change", [True, False])
def test_rows_without_a_batch_are_foreign(files: MemoryFiles, name: str, operation: str, *, data_change: bool) -> None:
    for each in ("table", "quarantine"):
        table(files, each, 0)
    commit(files, name, 1, operation=operation)
    add = {"add": {"path": "copied.parquet", "dataChange": data_change}}
    files.texts[f"{name}/_delta_log/{1:020d}.json"] += f"\n{json.dumps(add, separators=(',', ':'))}"
    for planned in (None, 0, 2):
        if planned is not None:
            checkpoint(files, "ckpt", planned, committed=planned - 1)
        diagnosis = find(files, beside=("quarantine",))
        assert diagnosis.state is State.FOREIGN
        assert diagnosis.seen == f"{name}: version 1 ({operation}) holds rows that no batch of this chain wrote"


def test_a_log_with_missing_commits_is_not_fresh(files: MemoryFiles) -> None:
    table(files, "table", 3)
    for version in range(4):
        del files.texts[f"table/_delta_log/{version:020d}.json"]
    commit(files, "table", 4, operation="OPTIMIZE")
    diagnosis = find(files)
    assert diagnosis.state is State.FOREIGN
    assert "its log begins at version 4, and no batch of this chain is left in it" in diagnosis.seen
    files.texts = {f"table/_delta_log/{4:020d}.checkpoint.parquet": ""}
    assert find(files).state is State.FOREIGN


def test_a_table_that_was_only_created_and_maintained_starts(files: MemoryFiles) -> None:
    table(files, "table", 0)
    for version, operation in enumerate(("SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END"), 1):
        commit(files, "table", version, operation=operation)
    assert find(files).state is State.FRESH


def test_rows_appended_by_hand_do_not_stop_the_chain(files: MemoryFiles) -> None:
    table(files, "table", 1)
    commit(files, "table", 2)
    add_files(files, 2, added=["by-hand.parquet"], removed=[])
    checkpoint(files, "ckpt", planned=0)
    assert find(files).state is State.ALIGNED


def test_a_batch_that_died_before_the_first_commit_is_aligned(files: MemoryFiles) -> None:
    table(files, "table", 0)
    checkpoint(files, "ckpt", planned=0, committed=-1)
    assert find(files).state is State.ALIGNED


@pytest.mark.parametrize("broken", ["metadata", "offsets/0"])
def test_a_first_batch_with_an_unreadable_plan_is_lost(files: MemoryFiles, broken: str) -> None:
    table(files, "table", 0)
    checkpoint(files, "ckpt", planned=0, committed=-1)
    files.texts[f"ckpt/{broken}"] = '{"id'
    assert find(files).state is State.CHECKPOINT_LOST


@pytest.mark.parametrize(("planned", "committed"), [(2, 2), (2, 1), (3, 2)])
def test_a_crash_at_any_of_three_points_is_aligned(files: MemoryFiles, planned: int, committed: int) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned, committed)
    diagnosis = find(files)
    assert (diagnosis.state, diagnosis.batch_id) == (State.ALIGNED, 2)


def test_a_half_written_temporary_file_of_spark_is_ignored(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    files.texts["ckpt/offsets/.3.0a1b2c.tmp"] = files.texts["ckpt/commits/.2.crc.tmp"] = "v1"
    diagnosis = find(files)
    assert (diagnosis.state, diagnosis.batch_id) == (State.ALIGNED, 2)


@pytest.mark.parametrize(
    "removed",
    [
        ("metadata", "offsets", "commits"),
        ("metadata",),
        ("offsets/2",),
        ("offsets/1",),
        ("offsets", "commits"),
        ("offsets",),
        ("commits",),
    ],
)
def test_a_checkpoint_that_lost_files_is_lost_or_behind(files: MemoryFiles, removed: tuple[str, ...]) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    gone = tuple(f"ckpt/{name}" for name in removed)
    files.texts = {key: text for key, text in files.texts.items() if not key.startswith(gone)}
    assert find(files).state in (State.CHECKPOINT_LOST, State.CHECKPOINT_BEHIND)


def test_a_checkpoint_without_its_last_batch_is_behind(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=1)
    assert find(files).state is State.CHECKPOINT_BEHIND


@pytest.mark.parametrize("text", ["", "v1\n", "v1\n{}\n{", "v1\n{}\n{}\n{}"])
def test_a_truncated_offset_log_is_lost(files: MemoryFiles, text: str) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    files.texts["ckpt/offsets/2"] = text
    assert find(files).state is State.CHECKPOINT_LOST


@pytest.mark.parametrize("version", ["v2", "v9"])
def test_a_position_of_a_version_that_spark_does_not_read_is_lost(files: MemoryFiles, version: str) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    files.texts["ckpt/offsets/2"] = files.texts["ckpt/offsets/2"].replace("v1", version, 1)
    found = find(files)
    assert (found.state, f"offsets/2 has version {version}" in found.seen) == (State.CHECKPOINT_LOST, True)


@pytest.mark.parametrize("text", ["", "v1", "v1\n"])
def test_a_truncated_commit_log_is_lost(files: MemoryFiles, text: str) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    files.texts["ckpt/commits/2"] = text
    assert find(files).state is State.CHECKPOINT_LOST


def test_a_file_that_does_not_match_its_checksum_is_damaged(tmp_path: Path) -> None:
    files = LocalFiles()
    texts = MemoryFiles()
    checkpoint(texts, str(tmp_path), planned=2)
    for path, text in texts.texts.items():
        files.write(path, text)
        sums = b"crc\0" + struct.pack(">iI", 512, zlib.crc32(text.encode()))
        (Path(path).parent / f".{Path(path).name}.crc").write_bytes(sums)
    assert read_checkpoint(files, str(tmp_path)).damage is None
    offset = tmp_path / "offsets" / "2"
    offset.write_text(offset.read_text().replace("3", "4"))
    assert "offsets/2 is incomplete" in str(read_checkpoint(files, str(tmp_path)).damage)


def test_rows_of_another_writer_after_the_last_batch_are_named(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    for name, operation, state in (
        ("silver.access_log", "WRITE", State.TABLE_CHANGED),
        ("silver.access_log", "DELETE", State.ALIGNED),
        ("gold.error_log", "DELETE", State.TABLE_CHANGED),
    ):
        by_another = Commit(7, operation, {}, {}, 1501423748000, None, changes_data=True)
        held = replace(DeltaLog(files, "table").state(), changed=by_another)
        found = diagnose(read_checkpoint(files, "ckpt"), {name: held}, Silent())
        assert found.state is state
        if state is State.TABLE_CHANGED:
            assert found.seen == f"{name} was changed by {operation} in version 7, 2017-07-30 14:09:08 UTC"


def test_an_old_checkpoint_that_continued_with_other_ranges_is_behind(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    files.texts["ckpt/offsets/2"] = offsets(at(17))
    assert find(files).state is State.CHECKPOINT_BEHIND


def test_a_planned_batch_after_another_range_is_behind(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=3, committed=2)
    files.texts["ckpt/offsets/2"] = offsets(at(17))
    assert find(files).state is State.CHECKPOINT_BEHIND


@pytest.mark.parametrize(("planned", "committed"), [(3, 3), (4, 3), (7, 7)])
def test_a_checkpoint_with_a_batch_that_the_table_lacks_is_ahead(
    files: MemoryFiles, planned: int, committed: int
) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned, committed)
    assert find(files).state is State.CHECKPOINT_AHEAD


def test_an_old_checkpoint_of_a_recreated_table_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 0)
    checkpoint(files, "ckpt", planned=2)
    assert find(files).state is State.CHECKPOINT_AHEAD


class ThirtyLines(Silent):
    """A source whose batches have thirty lines; each table of a stage got ten of them."""

    def rows_between(self, start: str | None, end: str | None) -> int:
        del start, end
        return 30


@pytest.mark.parametrize("lacking", ["quarantine", "duplicates", None])
def test_a_done_batch_is_in_all_three_tables_of_silver(files: MemoryFiles, lacking: str | None) -> None:
    for name in ("table", "quarantine", "duplicates"):
        table(files, name, 2 if name == lacking else 3)
    beside = dict.fromkeys(("quarantine", "duplicates"), 1)
    commit(files, "table", 3, metadata(2, beside=beside))
    checkpoint(files, "ckpt", planned=2)
    diagnosis = find(files, ThirtyLines(), beside=("quarantine", "duplicates"))
    if lacking is None:
        assert diagnosis.state is State.ALIGNED
    else:
        assert diagnosis.state is State.CHECKPOINT_AHEAD
        assert f"{lacking} lacks 10 rows of batch 2" in diagnosis.seen


def test_a_restored_table_is_ahead_and_the_restore_is_named(files: MemoryFiles) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, operation="RESTORE", version="2")
    checkpoint(files, "ckpt", planned=2)
    diagnosis = find(files)
    assert (diagnosis.state, diagnosis.batch_id) == (State.CHECKPOINT_AHEAD, 1)
    assert "RESTORE in version 4" in diagnosis.seen


def test_a_restored_table_with_its_old_checkpoint_is_ahead(
    files: MemoryFiles,
) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, operation="RESTORE", version="2")
    checkpoint(files, "ckpt", planned=1)
    assert find(files).state is State.CHECKPOINT_AHEAD


def test_a_table_restored_to_before_its_first_batch_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 2)
    commit(files, "table", 3, operation="RESTORE", version="0")
    assert find(files).state is State.CHECKPOINT_AHEAD


def test_a_restore_to_a_timestamp_is_resolved_by_its_files(files: MemoryFiles) -> None:
    table(files, "table", 3)
    for version in (1, 2, 3):
        add_files(files, version, added=[f"{version}.parquet"], removed=["1.parquet"] if version == 2 else [])
    commit(files, "table", 4, operation="RESTORE", version=None, timestamp="2026-11-21 10:00:00.0")
    add_files(files, 4, added=[], removed=["3.parquet"])
    checkpoint(files, "ckpt", planned=2)
    assert find(files).batch_id == 1


def add_files(files: MemoryFiles, version: int, added: list[str], removed: list[str]) -> None:
    actions = [{"add": {"path": path}} for path in added] + [{"remove": {"path": path}} for path in removed]
    text = "".join(f"\n{json.dumps(action, separators=(',', ':'))}" for action in actions)
    files.texts[f"table/_delta_log/{version:020d}.json"] += text


def test_an_overwritten_table_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, mode="Overwrite")
    checkpoint(files, "ckpt", planned=2)
    assert find(files).state is State.CHECKPOINT_AHEAD


def test_a_table_replaced_by_a_clone_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, operation="CLONE")
    checkpoint(files, "ckpt", planned=2)
    diagnosis = find(files)
    assert diagnosis.state is State.CHECKPOINT_AHEAD
    assert "CLONE in version 4" in diagnosis.seen


def test_a_second_table_with_another_batch_of_the_same_id_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 2)
    commit(files, "quarantine", 1, metadata(1, table="silver.quarantine", after=offsets(at(17))))
    checkpoint(files, "ckpt", planned=1)
    diagnosis = find(files, beside=("quarantine",))
    assert diagnosis.state is State.CHECKPOINT_AHEAD
    assert "batch 1 of quarantine ends at" in diagnosis.seen


def test_maintenance_commits_do_not_change_the_state(files: MemoryFiles) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, operation="OPTIMIZE")
    commit(files, "table", 5, operation="VACUUM END")
    checkpoint(files, "ckpt", planned=2)
    assert find(files).state is State.ALIGNED


def test_another_query_id_is_foreign(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2, query="another")
    assert find(files).state is State.FOREIGN


@pytest.mark.parametrize(("quarantine", "state"), [(2, State.ALIGNED), (1, State.ALIGNED), (0, State.CHECKPOINT_AHEAD)])
def test_a_second_table_has_the_same_batch_or_the_previous_one(
    files: MemoryFiles, quarantine: int, state: State
) -> None:
    table(files, "table", 2)
    commit(files, "table", 3, metadata(2, beside={"quarantine": 1}))
    commit(files, "quarantine", 0, operation="CREATE TABLE")
    commit(files, "quarantine", 1, metadata(quarantine, table="silver.quarantine"))
    checkpoint(files, "ckpt", planned=2)
    assert find(files, beside=("quarantine",)).state is state


def test_a_recreated_second_table_is_ahead(files: MemoryFiles) -> None:
    table(files, "table", 2)
    commit(files, "table", 3, metadata(2, beside={"quarantine": 1}))
    checkpoint(files, "ckpt", planned=2)
    assert find(files, beside=("quarantine",)).state is State.CHECKPOINT_AHEAD


def test_a_source_table_with_another_id_is_replaced(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    for batch in (1, 2):
        files.texts[f"ckpt/offsets/{batch}"] = offsets(at(batch + 1, "source-id"))
    assert find(files, source_table(files, 4)).state is State.ALIGNED
    files.texts["source/_delta_log/00000000000000000000.json"] = '{"metaData":{"id":"other","configuration":{}}}'
    assert find(files, DeltaSource("bronze.access_log", DeltaLog(files, "source"))).state is State.SOURCE_REPLACED


def test_a_source_table_shorter_than_the_position_is_replaced(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    assert find(files, source_table(files, 2)).state is State.SOURCE_REPLACED


def test_a_source_table_whose_log_starts_after_the_position_is_trimmed(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    source = source_table(files, 9)
    for version in range(5):
        text = files.texts.pop(f"source/_delta_log/{version:020d}.json")
        if version == 0:
            files.texts["source/_delta_log/00000000000000000005.json"] += "\n" + text.splitlines()[-1]
    diagnosis = find(files, source)
    assert diagnosis.state is State.SOURCE_TRIMMED
    assert "versions 3 to 4" in diagnosis.seen


def topic(earliest: int, latest: int, topic_id: str = "id") -> Topic:
    return Topic(topic_id, {"0": earliest}, {"0": latest})


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (topic(0, 30), State.ALIGNED),
        (topic(30, 30), State.ALIGNED),
        (topic(31, 40), State.SOURCE_TRIMMED),
        (topic(0, 29), State.SOURCE_REPLACED),
        (topic(0, 99, "another"), State.SOURCE_REPLACED),
        (Topic("id", {"1": 0}, {"1": 99}), State.SOURCE_REPLACED),
        (Topic("id", {"0": 0, "1": 0}, {"0": 30, "1": 5}), State.ALIGNED),  # a partition added
        (Topic("id", {"0": 0, "1": 5}, {"0": 30, "1": 5}), State.SOURCE_TRIMMED),
    ],
)
def test_a_topic_is_compared_by_id_and_offsets(files: MemoryFiles, now: Topic, state: State) -> None:
    for batch in range(3):
        files.texts[f"ckpt/offsets/{batch}"] = offsets({"alog": {"0": 10 * (batch + 1)}})
        files.texts[f"ckpt/commits/{batch}"] = "v1\n{}"
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    last = metadata(2, after=files.texts["ckpt/offsets/2"], source={"kind": "kafka", "topic": "alog", "topic_id": "id"})
    commit(files, "table", 1, last)
    source = KafkaSource("alog", lambda: {"alog": now}, files, "ckpt")
    assert find(files, source).state is state


def with_last(files: MemoryFiles, found: LastRecords, now: Topic) -> KafkaSource:
    """Return a topic whose last record compares as given, and a bronze that has read 30 offsets of it in 3 batches."""
    for batch in range(3):
        files.texts[f"ckpt/offsets/{batch}"] = offsets({"alog": {"0": 10 * (batch + 1)}})
        files.texts[f"ckpt/commits/{batch}"] = "v1\n{}"
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    last = metadata(2, after=files.texts["ckpt/offsets/2"], source={"kind": "kafka", "topic": "alog", "topic_id": "id"})
    commit(files, "table", 1, last)

    def compare(ends: Mapping[str, Mapping[str, int]], _now: object, _last: object) -> LastRecords:
        assert ends == {"alog": {"0": 30}}
        return found

    source = KafkaSource("alog", lambda: {"alog": now}, files, "ckpt", compare_last=compare)
    return source.after(lambda: last)


def test_a_topic_with_another_record_than_the_last_one_is_replaced(files: MemoryFiles) -> None:
    source = with_last(files, LastRecords(("alog/0/29 is another record than bronze has read there",)), topic(0, 99))
    diagnosis = find(files, source)
    assert diagnosis.state is State.SOURCE_REPLACED
    assert diagnosis.seen.startswith("alog/0/29 is another record than bronze has read there: the topic lost the end")
    assert find(files, with_last(files, LastRecords(), topic(0, 99))).state is State.ALIGNED
    expired = with_last(files, LastRecords(("never asked",)), topic(30, 99))
    assert find(files, expired).state is State.ALIGNED
    assert expired.last_records().uncompared == {"has expired": 1}


def test_a_planned_batch_is_read_from_its_start(files: MemoryFiles) -> None:
    for batch in range(3):
        files.texts[f"ckpt/offsets/{batch}"] = offsets({"alog": {"0": 10 * (batch + 1)}})
    files.texts["ckpt/commits/1"] = "v1\n{}"
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    commit(
        files, "table", 1, metadata(1, after=files.texts["ckpt/offsets/1"], source={"kind": "kafka", "topic_id": "id"})
    )
    diagnosis = find(files, KafkaSource("alog", lambda: {"alog": topic(25, 30)}, files, "ckpt"))
    assert diagnosis.state is State.SOURCE_TRIMMED
    assert "alog/0/20 to 24" in diagnosis.seen


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (topic(4, 9), State.FRESH),
        (topic(5, 9), State.SOURCE_TRIMMED),
        (topic(0, 3), State.CHECKPOINT_LOST),
        (topic(3, 9), State.CHECKPOINT_LOST),
    ],
)
def test_a_first_start_without_a_plan_begins_at_its_recorded_offsets(
    files: MemoryFiles, now: Topic, state: State
) -> None:
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    files.texts["ckpt/sources/0/0"] = '\0v1\n{"alog":{"0":4}}'
    assert find(files, KafkaSource("alog", lambda: {"alog": now}, files, "ckpt")).state is state


def test_another_directory_is_another_source(files: MemoryFiles) -> None:
    table(files, "table", 1)
    files.texts.update({"ckpt/metadata": json.dumps({"id": metadata(0).query_id}), "ckpt/commits/0": "v1\n{}"})
    files.texts["ckpt/offsets/0"] = offsets({"logOffset": 0})
    files.texts["ckpt/sources/0/0"] = "v1"
    source = {"kind": "files", "path": "/logs"}
    commit(files, "table", 1, metadata(0, after=files.texts["ckpt/offsets/0"], source=source))
    assert find(files, FilesSource("/logs", files, "ckpt")).state is State.ALIGNED
    assert find(files, FilesSource("/other", files, "ckpt")).state is State.SOURCE_REPLACED


@pytest.mark.parametrize("name", ["3", "3.compact", "4"])
def test_a_missing_file_of_a_planned_batch_is_trimmed(files: MemoryFiles, name: str) -> None:
    table(files, "table", 0)
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    files.texts["ckpt/commits/0"] = "v1\n{}"
    for batch, seen in enumerate((2, 4)):
        files.texts[f"ckpt/offsets/{batch}"] = offsets({"logOffset": seen})
    commit(
        files, "table", 1, metadata(0, after=files.texts["ckpt/offsets/0"], source={"kind": "files", "path": "/logs"})
    )
    files.texts.update({f"ckpt/sources/0/{seen}": "v1" for seen in range(5)})
    read = '{"path":"file:///no/such/read.log","timestamp":1,"batchId":2}'
    number = name.removesuffix(".compact")
    needed = f'{{"path":"file:///no/such/a%20b.log","timestamp":1,"batchId":{number}}}'
    files.texts[f"ckpt/sources/0/{name}"] = f"v1\n{read}\n{needed}"
    diagnosis = find(files, FilesSource("/logs", files, "ckpt"))
    assert diagnosis.state is State.SOURCE_TRIMMED
    assert "needs file:///no/such/a%20b.log, which" in diagnosis.seen


def test_a_file_that_grew_after_it_was_read_is_named(files: MemoryFiles, tmp_path: Path) -> None:
    grew, same, gone = (tmp_path / name for name in ("grew %20.log", "same.log", "gone.log"))
    entries = []
    for path in (grew, same, gone):
        path.write_text("line\n")
        at = path.stat().st_mtime_ns // 1_000_000
        entries.append(json.dumps({"path": f"file://{quote(str(path))}", "timestamp": at, "batchId": 0}))
    files.texts["ckpt/sources/0/9.compact"] = "\n".join(["v1", *entries])
    source = FilesSource(str(tmp_path), files, "ckpt")
    gone.unlink()
    assert source.warnings() == []
    os.utime(grew, (1, 1))
    (warning,) = source.warnings()
    assert "grew %20.log changed after being read" in warning


@pytest.mark.parametrize("mark", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_a_commit_or_list_with_another_line_end_in_a_string_is_read_completely(files: MemoryFiles, mark: str) -> None:
    table(files, "table", 3)
    add = {"add": {"path": f"a{mark}b.parquet", "dataChange": True, "stats": json.dumps({"minValues": {"k": mark}})}}
    text = json.dumps(add, separators=(",", ":"), ensure_ascii=False)
    files.texts["table/_delta_log/00000000000000000003.json"] += f"\n{text}\n"
    checkpoint(files, "ckpt", planned=2)
    commit_log = DeltaLog(files, "table")
    assert find(files).state is State.ALIGNED
    assert commit_log.files_added(3) == [f"a{mark}b.parquet"]
    assert (commit_log.added(3), commit_log.commit(3).changes_data) == ([add["add"]], True)  # type: ignore[union-attr]
    entry = {"path": f"file:///a{mark}.log", "timestamp": 7, "batchId": 0}
    files.texts["ckpt/sources/0/0"] = f"v1\n{json.dumps(entry, ensure_ascii=False)}"
    assert list(FileSourceLog(files, "ckpt").entries()) == [(f"file:///a{mark}.log", 7, 0)]
    assert FileSourceLog(files, "ckpt").damage(0) is None


OTHER_QUERY = "66666666-7777-8888-9999-000000000000"


def replaced(files: MemoryFiles) -> None:
    """Write a table of three batches, and batch 0 of another query in a commit that replaced it."""
    table(files, "table", 3)
    first = metadata(0, query_id=OTHER_QUERY, rows=0)
    commit(files, "table", 4, first, operation="CREATE OR REPLACE TABLE AS SELECT")


def test_a_table_begins_with_the_commit_that_put_it_in_the_place_of_another(files: MemoryFiles) -> None:
    replaced(files)
    checkpoint(files, "ckpt", 2)
    assert find(files).state is State.FOREIGN
    files.remove("ckpt")
    checkpoint(files, "ckpt", 0, query=OTHER_QUERY)
    assert find(files).state is State.ALIGNED
    state = DeltaLog(files, "table").state()
    assert (state.batch_id, state.rows, state.previous) == (0, 10, None)
    commit(files, "table", 5, metadata(1, query_id=OTHER_QUERY, rows=10))
    checkpoint(files, "ckpt", 1, query=OTHER_QUERY)
    assert find(files).state is State.ALIGNED
    assert DeltaLog(files, "table").state().rows == 20


def test_a_replaced_table_that_is_restored_has_its_batches_again(files: MemoryFiles) -> None:
    replaced(files)
    commit(files, "table", 5, operation="RESTORE", version="3")
    state = DeltaLog(files, "table").state()
    assert (state.batch_id, state.rows) == (2, 30)
    assert state.metadata is not None
    assert state.metadata.query_id != OTHER_QUERY
