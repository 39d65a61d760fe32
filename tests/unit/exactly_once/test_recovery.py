"""A recovery writes what the table records; if it cannot recover exactly, it refuses and names the way out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import position, read_checkpoint
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.positions import same_position
from oncelake.exactly_once.recovery import plan, plan_loss
from oncelake.exactly_once.state import State
from oncelake.sources.files.source import FilesSource
from oncelake.sources.kafka.source import KafkaSource, Topic
from tests.support.memory import QUERY, MemoryFiles, at, checkpoint, commit, metadata, offsets, table
from tests.support.states import case


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def put(files: MemoryFiles, texts: dict[str, str]) -> None:
    files.remove("ckpt")
    for name, text in texts.items():
        files.write(f"ckpt/{name}", text)


def test_a_lost_checkpoint_is_written_as_spark_had_it(files: MemoryFiles) -> None:
    table(files, "table", 3)
    checkpoint(files, "ckpt", planned=2)
    had = {key.removeprefix("ckpt/"): text for key, text in files.texts.items() if key.startswith("ckpt/")}
    files.remove("ckpt")
    recovery = plan(case(files))
    same = {name: text for name, text in recovery.texts.items() if not name.startswith("commits")}
    assert {name: json.loads(text.splitlines()[-1]) for name, text in same.items()} == {
        name: json.loads(had[name].splitlines()[-1]) for name in ("metadata", "offsets/1", "offsets/2")
    }
    assert set(recovery.texts) - set(same) == {"commits/2"}
    put(files, dict(recovery.texts))
    assert case(files).diagnosis.state is State.ALIGNED


def test_a_restored_table_continues_under_a_query_id_without_transactions(files: MemoryFiles) -> None:
    table(files, "table", 3)
    commit(files, "table", 4, operation="RESTORE", version="2")
    checkpoint(files, "ckpt", planned=2)
    recovery = plan(case(files), lambda: "new")
    (carried,) = recovery.commits
    assert (carried.event, carried.query_id, carried.batch_id) == (CommitKind.RECOVERY, "new", 1)
    assert carried.rows == 20
    assert same_position(carried.end, metadata(1).end)
    commit(files, "table", 5, carried)
    put(files, dict(recovery.texts))
    assert case(files).diagnosis.state is State.ALIGNED


@pytest.mark.parametrize(("last", "expected"), [(9, "9.compact"), (12, "9.compact"), (4, "4"), (19, "19.compact")])
def test_the_list_of_seen_files_is_written_where_spark_reads_it(files: MemoryFiles, last: int, expected: str) -> None:
    source = FilesSource("/logs", files, "ckpt")
    texts = source.log(json.dumps({"logOffset": last}), None, lambda: [("file:/logs/a%20b.log", 7)])
    (holder,) = [name for name, text in texts.items() if "path" in text]
    assert holder == f"sources/0/{expected}"
    entry = json.loads(texts[holder].splitlines()[1])
    assert entry == {
        "path": "file:///logs/a%20b.log",
        "timestamp": 7,
        "batchId": int(expected.split(".", maxsplit=1)[0]),
    }
    put(files, {"metadata": "{}", "offsets/0": offsets({"logOffset": last}), **texts})
    assert source.damage(read_checkpoint(files, "ckpt")) is None
    assert max(int(name.split("/")[-1].removesuffix(".compact")) for name in texts) == last
    for name in texts:
        files.remove(f"ckpt/{name}")
        assert source.damage(read_checkpoint(files, "ckpt")) is not None
        files.write(f"ckpt/{name}", texts[name])


def kafka(files: MemoryFiles, earliest: int) -> KafkaSource:
    now = {"alog": Topic("id", {"0": earliest, "1": 0}, {"0": 99, "1": 99})}
    return KafkaSource("alog", lambda: now, files, "ckpt")


def test_an_accepted_loss_moves_the_position_and_is_a_batch_of_its_own(files: MemoryFiles) -> None:
    after = offsets({"alog": {"0": 6, "1": 6}})
    source = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    commit(files, "table", 1, metadata(1, after=after, source=source))
    put(files, {"metadata": json.dumps({"id": QUERY}), "offsets/0": offsets(at(1)), "offsets/1": after})
    files.write("ckpt/commits/1", "v1\n{}")
    found = case(files, kafka(files, earliest=10))
    assert found.diagnosis.state is State.SOURCE_TRIMMED
    recovery = plan_loss(found)
    (lost,) = recovery.commits
    assert (lost.event, lost.batch_id, lost.lost) == (CommitKind.LOSS, 2, ("alog/0/6 to 9",))
    assert json.loads(lost.end or "") == {"alog": {"0": 10, "1": 6}}
    assert json.loads(lost.before or "") == {"alog": {"0": 6, "1": 6}}
    commit(files, "table", 2, lost)
    put(files, dict(recovery.texts))
    assert case(files, kafka(files, earliest=10)).diagnosis.state is State.ALIGNED


def test_a_loss_after_a_restore_is_recorded_by_a_new_query(files: MemoryFiles) -> None:
    """Delta remembers the batches that the RESTORE removed, and skips commits of their query with their numbers."""
    source = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    after = [offsets({"alog": {"0": end, "1": 6}}) for end in (4, 6, 9, 12)]
    for batch, text in enumerate(after):
        before = position(after[batch - 1]) if batch else None
        commit(files, "table", batch + 1, metadata(batch, before=before, after=text, source=source))
    commit(files, "table", 5, operation="RESTORE", version="2")
    put(files, {"metadata": json.dumps({"id": QUERY}), "offsets/2": after[2], "offsets/3": after[3]})
    files.write("ckpt/commits/3", "v1\n{}")
    found = case(files, kafka(files, earliest=8))
    assert found.diagnosis.state is State.CHECKPOINT_AHEAD
    restored = replace(found.checkpoint, planned=2, offsets=(after[1], after[3]))
    recovery = plan_loss(replace(found, checkpoint=restored), lambda: "new")
    continued, lost = recovery.commits
    assert [continued.event, lost.event] == [CommitKind.RECOVERY, CommitKind.LOSS]
    assert [(each.query_id, each.batch_id) for each in recovery.commits] == [("new", 1), ("new", 2)]
    assert lost.lost == ("alog/0/6 to 7",)
    assert same_position(lost.before, continued.end)
    for version, each in enumerate(recovery.commits, 6):
        commit(files, "table", version, each)
    files.remove("ckpt")
    put(files, dict(recovery.texts))
    assert case(files, kafka(files, earliest=8)).diagnosis.state is State.ALIGNED


def test_a_new_partition_whose_first_offsets_expired_is_skipped_over(files: MemoryFiles) -> None:
    after = offsets({"alog": {"0": 6}})
    source = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    commit(files, "table", 1, metadata(0, after=after, source=source))
    put(files, {"metadata": json.dumps({"id": QUERY}), "offsets/0": after, "commits/0": "v1\n{}"})
    now = {"alog": Topic("id", {"0": 0, "1": 5, "2": 0}, dict.fromkeys("012", 9))}
    topic = KafkaSource("alog", lambda: now, files, "ckpt")
    found = case(files, topic)
    assert (found.diagnosis.state, found.diagnosis.seen) == (State.SOURCE_TRIMMED, "offsets alog/1/0 to 4 are gone")
    recovery = plan_loss(found)
    (lost,) = recovery.commits
    assert lost.lost == ("alog/1/0 to 4",)
    assert json.loads(lost.end or "") == {"alog": {"0": 6, "1": 5, "2": 0}}
    commit(files, "table", 2, lost)
    put(files, dict(recovery.texts))
    assert case(files, topic).diagnosis.state is State.ALIGNED


def test_a_first_start_from_offsets_of_another_topic_begins_again(files: MemoryFiles) -> None:
    put(files, {"metadata": json.dumps({"id": QUERY}), "sources/0/0": '\0v1\n{"alog":{"0":400}}'})
    stage = case(files, kafka(files, earliest=0))
    assert stage.diagnosis.state is State.CHECKPOINT_LOST
    assert plan(stage).texts == {}


def test_offsets_that_expired_between_the_first_start_and_the_first_batch_are_a_recorded_loss(
    files: MemoryFiles,
) -> None:
    put(files, {"metadata": json.dumps({"id": QUERY}), "sources/0/0": '\0v1\n{"alog":{"0":4}}'})
    stage = case(files, kafka(files, earliest=6))
    assert stage.diagnosis.state is State.SOURCE_TRIMMED
    with pytest.raises(StateError, match="No checkpoint can fix that"):
        plan(stage)
    recovery = plan_loss(stage)
    (lost,) = recovery.commits
    assert (lost.lost, lost.before, lost.end) == (("alog/0/4 to 5",), '{"alog":{"0":4}}', '{"alog":{"0":6,"1":0}}')
    commit(files, "table", 1, lost)
    put(files, {**recovery.texts, **kafka(files, earliest=6).log(recovery.at or "", recovery.first, list)})
    assert case(files, kafka(files, earliest=6)).diagnosis.state is State.ALIGNED


def test_a_committed_loss_that_is_not_in_the_checkpoint_skips_no_planned_file(
    files: MemoryFiles, tmp_path: Path
) -> None:
    there = tmp_path / "there.log"
    there.write_text("line\n")
    source = FilesSource(str(tmp_path), files, "ckpt")
    commit(files, "table", 1, metadata(0, after=offsets({"logOffset": 0}), source=source.identity()))
    entries = [{"path": f"file://{tmp_path}/{name}.log", "timestamp": 1, "batchId": 1} for name in ("gone", "there")]
    put(files, {"metadata": json.dumps({"id": QUERY}), "commits/0": "v1\n{}", "sources/0/0": "v1"})
    files.write("ckpt/sources/0/1", "\n".join(["v1", *map(json.dumps, entries)]))
    for batch in (0, 1):
        files.write(f"ckpt/offsets/{batch}", offsets({"logOffset": batch}))
    found = case(files, source)
    assert found.diagnosis.state is State.SOURCE_TRIMMED
    (lost,) = plan_loss(found).commits
    commit(files, "table", 2, lost)  # and then it dies
    found = case(files, source)
    assert found.diagnosis.state is State.CHECKPOINT_BEHIND, "a replay of the planned batch would be taken for done"
    recovery = plan(found)
    put(files, {**recovery.texts, **source.log(recovery.at or "", None, list)})
    assert case(files, source).diagnosis.state is State.ALIGNED
    assert source.backlog(lost.end).count == 1, "the file that is there is listed again"


def test_no_existing_input_is_given_up(files: MemoryFiles) -> None:
    after = offsets({"alog": {"0": 6}})
    commit(files, "table", 1, metadata(0, after=after))
    put(files, {"metadata": json.dumps({"id": QUERY}), "offsets/0": after, "commits/0": "v1\n{}"})
    with pytest.raises(StateError, match="no input is permanently lost"):
        plan_loss(case(files, kafka(files, earliest=6)))


def replayed(files: MemoryFiles, batch: int, version: int, name: str = "once") -> None:
    """Record in the commits of both tables that a replay after a batch moved rows."""
    replay = {"id": name, "version": version, "reasons": []}
    moved = metadata(batch, rows=10 * batch + 10, event=CommitKind.REPLAY, replay=replay)
    commit(files, "table", version, replace(moved, beside={"quarantine": batch}))
    commit(files, "quarantine", version, replace(moved, table="silver.quarantine"))


@pytest.mark.parametrize(
    ("back_to", "expected"),
    [(2, {"quarantine": 2}), (3, {"quarantine": 3}), (4, {"quarantine": 4}), (5, {}), (1, {"quarantine": 1})],
)
def test_a_second_table_is_restored_to_before_replays_that_the_first_lost(
    files: MemoryFiles, back_to: int, expected: dict[str, int]
) -> None:
    for batch in range(2):
        beside = {"quarantine": batch - 1 if batch else None}
        commit(files, "table", batch + 1, metadata(batch, beside=beside))
        commit(files, "quarantine", batch + 1, metadata(batch, table="silver.quarantine"))
    replayed(files, 1, 3)
    replayed(files, 1, 4, "again")
    replayed(files, 1, 5, "a third time")
    checkpoint(files, "ckpt", planned=1)
    assert case(files, beside=("quarantine",)).diagnosis.state is State.ALIGNED
    commit(files, "table", 6, operation="RESTORE", version=str(back_to))
    found = case(files, beside=("quarantine",))
    assert (found.diagnosis.state is State.ALIGNED) == (back_to == 5)
    assert plan(found, lambda: "new").restore == expected


def test_a_batch_after_a_replay_keeps_it(files: MemoryFiles) -> None:
    commit(files, "table", 1, metadata(0))
    commit(files, "quarantine", 1, metadata(0, table="silver.quarantine"))
    replayed(files, 0, 2)
    commit(files, "table", 3, metadata(1, beside={"quarantine": 0}))
    commit(files, "quarantine", 3, operation="RESTORE", version="1")
    checkpoint(files, "ckpt", planned=1)
    found = case(files, beside=("quarantine",))
    assert found.diagnosis.state is State.CHECKPOINT_AHEAD
    assert plan(found, lambda: "new").restore == {"quarantine": 2}


def test_a_second_table_is_restored_to_the_version_that_matches_the_first(files: MemoryFiles) -> None:
    for batch in range(4):
        beside = {"quarantine": batch - 1 if batch else None}
        commit(files, "table", batch + 1, metadata(batch, beside=beside))
        commit(files, "quarantine", batch + 1, metadata(batch, table="silver.quarantine"))
    commit(files, "table", 5, operation="RESTORE", version="2")
    checkpoint(files, "ckpt", planned=3)
    recovery = plan(case(files, beside=("quarantine",)), lambda: "new")
    assert recovery.restore == {"quarantine": 2}
    assert [(each.table, each.batch_id) for each in recovery.commits] == [("quarantine", 1), ("silver.access_log", 1)]
    assert recovery.commits[0].rows == 20
    assert recovery.commits[1].beside == {"quarantine": 1}


def test_a_recovery_that_died_after_its_first_commit_uses_a_new_query_id(files: MemoryFiles) -> None:
    table(files, "table", 2)  # an old copy: it remembers no more than it holds
    for batch in range(4):
        commit(files, "quarantine", batch + 1, metadata(batch, table="silver.quarantine"))
    checkpoint(files, "ckpt", planned=3)
    recovery = plan(case(files, beside=("quarantine",)), lambda: "new")
    assert recovery.restore == {"quarantine": 2}
    commit(files, "quarantine", 5, operation="RESTORE", version="2")
    commit(files, "quarantine", 6, recovery.commits[0])  # and then it dies
    again = plan(case(files, beside=("quarantine",)), lambda: "newer")
    assert [each.query_id for each in again.commits] == ["newer", "newer"]


def test_a_second_table_with_a_permanently_missing_batch_is_refused(files: MemoryFiles) -> None:
    table(files, "table", 2)
    commit(files, "table", 3, metadata(2, beside={"quarantine": 1}))
    checkpoint(files, "ckpt", planned=2)
    with pytest.raises(StateError, match=r"lacks batch 1, and no version .* oncelake rebuild silver"):
        plan(case(files, beside=("quarantine",)))


def test_a_table_without_batches_is_not_recovered(files: MemoryFiles) -> None:
    table(files, "table", 0)
    checkpoint(files, "ckpt", planned=2)
    with pytest.raises(StateError, match="oncelake rebuild silver"):
        plan(case(files))


def test_a_table_with_rows_of_no_batch_is_not_continued(files: MemoryFiles) -> None:
    commit(files, "table", 0, operation="CLONE")
    files.texts[f"table/_delta_log/{0:020d}.json"] += '\n{"add":{"path":"copied.parquet","dataChange":true}}'
    with pytest.raises(StateError, match=r"version 0 \(CLONE\) holds rows that no batch .* oncelake rebuild silver"):
        plan(case(files))


def test_a_first_batch_that_is_in_no_table_starts_again(files: MemoryFiles) -> None:
    table(files, "table", 0)
    checkpoint(files, "ckpt", planned=0, committed=-1)
    files.texts["ckpt/offsets/0"] = ""
    assert plan(case(files)).texts == {}
