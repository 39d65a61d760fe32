"""Every kind of damage to a table's commits is found in its log alone, and named."""

import json
from dataclasses import replace

import pytest

from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.proven import ProvenTable
from oncelake.proof.pin import Limits, PinnedTable, from_batch, from_beginning, from_record, from_time, pin
from oncelake.proof.positions import PositionOrigin, follow
from tests.support.memory import QUERY, MemoryFiles, at, commit, metadata, offsets, table

BRONZE = PositionOrigin("bronze.access_log", "source-id", 100)
OTHER = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def files() -> MemoryFiles:
    """Make a table of three batches: versions 1 to 3, ten rows each."""
    files = MemoryFiles()
    table(files, "table", 3)
    return files


def pinned(files: MemoryFiles, path: str = "table", limits: Limits | None = None) -> PinnedTable:
    pinned_table = pin(SILVER, path, DeltaLog(files, path), limits or Limits(from_beginning))
    assert pinned_table
    return pinned_table


def proven(files: MemoryFiles, limits: Limits | None = None, source: PositionOrigin = BRONZE) -> Link:
    return follow(pinned(files, limits=limits), source)


def change(files: MemoryFiles, version: int, **changed: object) -> None:
    """Change the metadata of a batch, not its transaction."""
    path = f"table/_delta_log/{version:020d}.json"
    first, *rest = files.texts[path].splitlines()
    action = json.loads(first)
    said = CommitMetadata.from_json(action["commitInfo"]["userMetadata"])
    assert said
    action["commitInfo"]["userMetadata"] = replace(said, **changed).to_json()  # type: ignore[arg-type]
    files.texts[path] = "\n".join([json.dumps(action).replace('": ', '":'), *rest])


def by_hand(files: MemoryFiles, number: int, operation: str, **parameters: object) -> None:
    """Commit a file of rows as another program does."""
    commit(files, "table", number, None, operation, **parameters)
    files.texts[f"table/_delta_log/{number:020d}.json"] += '\n{"add":{"path":"x","dataChange":true}}'


def recovery(files: MemoryFiles, version: int, batch: int) -> None:
    """Commit that a new query continues after a batch: no rows, no transaction."""
    path = f"table/_delta_log/{version:020d}.json"
    commit(files, "table", version, metadata(batch, query_id=OTHER, rows=10 * (batch + 1), event=CommitKind.RECOVERY))
    first = files.texts[path].splitlines()[0]
    files.texts[path] = first.replace('"numOutputRows":"10"', '"numOutputRows":"0"')


def test_batches_that_follow_each_other_hold(files: MemoryFiles) -> None:
    link = proven(files)
    assert link.holds
    assert link.said == "3 batches (0 to 2) without gap or overlap, 30 rows recorded"
    assert link.notes == ()


def test_a_table_without_a_batch_holds(files: MemoryFiles) -> None:
    table(files, "table2", 0)
    assert follow(pinned(files, "table2"), BRONZE).said == "no batch yet"


def test_a_skipped_range_is_named(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, before=json.dumps(at(6)), after=offsets(at(7)), rows=30))
    link = proven(files)
    assert not link.holds
    assert link.said == (
        "batch 3 (version 4, 1970-01-01 00:00:01 UTC) does not begin where batch 2 ended: "
        "it skips versions 3 to 5 of bronze.access_log"
    )


def test_a_repeated_range_is_named(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, before=json.dumps(at(2)), after=offsets(at(4)), rows=30))
    assert "it reads again version 2 of bronze.access_log" in proven(files).said


def test_a_batch_applied_twice_is_named(files: MemoryFiles) -> None:
    files.texts[f"table/_delta_log/{4:020d}.json"] = files.texts[f"table/_delta_log/{3:020d}.json"]
    said = proven(files).said
    assert "(version 4, " in said
    assert "applies batch 2 a second time: reads again version 2 of bronze.access_log" in said


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"alog": {"0": 6, "1": 5}}, {"alog": {"0": 10, "1": 5}}, "skips alog/0/6 to 9"),
        ({"alog": {"0": 6, "1": 5}}, {"alog": {"0": 6, "1": 4}}, "reads again alog/1/4"),
        ({"alog": {"0": 6}}, {"alog": {"0": 7, "1": 3}}, "skips alog/0/6 and skips alog/1/0 to 2"),
        ({"logOffset": 3}, {"logOffset": 5}, "skips file lists 4 to 5"),
        (at(3), at(5), "skips versions 3 to 4 of source"),
    ],
)
def test_a_gap_is_described_in_the_terms_of_the_source(
    files: MemoryFiles, before: object, after: object, words: str
) -> None:
    change(files, 1, before=None, after=offsets(before))
    change(files, 2, before=json.dumps(after), after=offsets(after))
    files.texts.pop(f"table/_delta_log/{3:020d}.json")
    assert words in proven(files, source=PositionOrigin("source", "source-id", 100)).said


def test_a_skipped_part_of_a_version_is_named(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, before=json.dumps({**at(3), "index": 7}), rows=30))
    assert "skips a part of a version of bronze.access_log" in proven(files).said


def test_a_missing_batch_number_is_named(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(5, before=json.dumps(at(3)), rows=30))
    assert "follows batch 2: batches 3 to 4 missing" in proven(files).said


def test_a_missing_commit_file_is_named(files: MemoryFiles) -> None:
    files.texts.pop(f"table/_delta_log/{2:020d}.json")
    assert "no commit file between versions 1 and 3" in proven(files).said


@pytest.mark.parametrize("operation", ["WRITE", "UPDATE", "DELETE", "MERGE"])
def test_rows_changed_by_another_writer_are_named(files: MemoryFiles, operation: str) -> None:
    by_hand(files, 4, operation)
    link = proven(files)
    assert not link.holds
    assert (
        link.said == f"{operation} (version 4, 1970-01-01 00:00:01 UTC) changed rows and is not a commit of the chain"
    )


def test_maintenance_breaks_nothing(files: MemoryFiles) -> None:
    commit(files, "table", 4, operation="OPTIMIZE")
    commit(files, "table", 5, metadata(3))
    assert proven(files).holds


def test_an_overwrite_is_named(files: MemoryFiles) -> None:
    by_hand(files, 4, "WRITE", mode="Overwrite")
    assert "WRITE (version 4" in proven(files).said


def test_rows_overwritten_before_the_first_batch_are_named() -> None:
    files = MemoryFiles()
    table(files, "table", 0)
    by_hand(files, 1, "WRITE", mode="Overwrite")
    commit(files, "table", 2, metadata(0))
    assert "WRITE (version 1" in proven(files).said


def test_rows_without_any_batch_do_not_hold() -> None:
    files = MemoryFiles()
    commit(files, "table", 0, operation="CLONE")
    files.texts[f"table/_delta_log/{0:020d}.json"] += '\n{"add":{"path":"copied.parquet","dataChange":false}}'
    assert "version 0 (CLONE) holds rows that no batch of this chain wrote" in proven(files).said
    assert not proven(files).holds


def test_a_truncated_log_without_a_batch_does_not_hold(files: MemoryFiles) -> None:
    for version in DeltaLog(files, "table").versions():
        del files.texts[f"table/_delta_log/{version:020d}.json"]
    commit(files, "table", 9, operation="OPTIMIZE")
    files.texts[f"table/_delta_log/{9:020d}.json"] += '\n{"metaData":{"id":"table-id","configuration":{}}}'
    link = proven(files)
    assert not link.holds
    assert "its log begins at version 9, and no batch of this chain is left in it" in link.said


def test_a_range_that_ends_before_it_begins_is_named(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, after=offsets(at(1))))
    assert "ends before it begins: it reads again versions 1 to 2 of bronze.access_log" in proven(files).said


def test_a_record_of_another_table_is_not_continued(files: MemoryFiles) -> None:
    record = replace(ProvenTable.up_to("another", pinned(files).span.commits[2]), version=9)
    assert not pinned(files, limits=Limits(from_time(1_003), record)).joins


def test_a_batch_without_its_transaction_is_named(files: MemoryFiles) -> None:
    path = f"table/_delta_log/{2:020d}.json"
    files.texts[path] = "\n".join(line for line in files.texts[path].splitlines() if not line.startswith('{"txn"'))
    assert (
        "batch 1 (version 2, 1970-01-01 00:00:01 UTC) records transaction none of oncelake/silver" in proven(files).said
    )


def test_rows_that_do_not_add_up_are_named(files: MemoryFiles) -> None:
    change(files, 3, rows=19)
    assert proven(files).said.endswith("records 19 rows before it; the earlier commits hold 20")


def test_lines_that_do_not_add_up_are_named(files: MemoryFiles) -> None:
    for version, lines in ((2, {"before": 10, "added": 3}), (3, {"before": 13, "added": 1})):
        change(files, version, lines=lines)
    assert proven(files).holds
    change(files, 3, lines={"before": 12, "added": 1})
    assert proven(files).said.endswith("records 12 lines before it; the earlier commits hold 13")


def test_a_commit_of_another_table_is_named(files: MemoryFiles) -> None:
    change(files, 3, table="gold.error_log")
    assert "is a commit of gold.error_log" in proven(files).said


def test_a_batch_of_another_query_is_named_unless_a_recovery_is_between(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, query_id=OTHER))
    assert f"is of query {OTHER}; the last batch was of query {QUERY}" in proven(files).said
    recovery(files, 4, 2)
    commit(files, "table", 5, metadata(3, query_id=OTHER))
    link = proven(files)
    assert link.holds, link.said
    assert link.notes == (f"batch 2 (version 4, 1970-01-01 00:00:01 UTC) recovers: the query continues as {OTHER}",)


def test_a_recovery_that_moves_the_position_is_named(files: MemoryFiles) -> None:
    recovery(files, 4, 1)
    assert "continues from batch 1" in proven(files).said


def test_a_replay_holds_and_is_listed_unless_it_has_another_transaction(files: MemoryFiles) -> None:
    replay = {"id": "once", "version": 3, "reasons": []}
    commit(files, "table", 4, metadata(2, rows=30, event=CommitKind.REPLAY, replay=replay))
    commit(files, "table", 5, metadata(3, rows=40))
    link = proven(files)
    assert link.holds, link.said
    moved = "moved 10 rows from silver.quarantine to silver.access_log"
    assert link.notes == (f"batch 2 (version 4, 1970-01-01 00:00:01 UTC) {moved}",)
    change(files, 4, replay={**replay, "version": 9})
    assert "records transaction 3 of" in proven(files).said


def test_a_restore_holds_only_if_the_chain_recovered_from_it(files: MemoryFiles) -> None:
    by_hand(files, 4, "RESTORE", version="2")
    assert "removed batch 2, and no recovery follows it" in proven(files).said
    commit(files, "table", 5, metadata(2, rows=20))
    assert not proven(files).holds
    recovery(files, 5, 1)
    commit(files, "table", 6, metadata(2, query_id=OTHER))
    link = proven(files)
    assert link.holds, link.said
    assert "removed batch 2, later read again" in link.notes[0]


def test_a_change_by_hand_that_a_restore_undid_holds(files: MemoryFiles) -> None:
    by_hand(files, 4, "DELETE")
    by_hand(files, 5, "RESTORE", version="3")
    link = proven(files)
    assert link.holds, link.said
    assert "RESTORE (version 5, 1970-01-01 00:00:01 UTC) removed no batch" in link.notes[0]


def test_an_accepted_loss_holds_and_is_listed(files: MemoryFiles) -> None:
    commit(files, "table", 4, metadata(3, event=CommitKind.LOSS, lost=("alog/0/6 to 9",)))
    link = proven(files)
    assert link.holds, link.said
    assert link.notes == ("batch 3 (version 4, 1970-01-01 00:00:01 UTC) accepts a loss: alog/0/6 to 9",)
    assert link.uncompared == ()  # of a table; the rows are compared


@pytest.mark.parametrize(
    ("before", "end", "lost", "said"),
    [
        ({"alog": {"0": 6}}, {"alog": {"0": 10}}, "alog/0/6 to 9", "4 offsets of an accepted loss: alog/0/6 to 9"),
        ({"logOffset": 1}, {"logOffset": 2}, "a.log", "1 file of an accepted loss: a.log"),
        (
            {"tail": {"read": 10, "next": 1, "files": {}}},
            {"tail": {"read": 40, "next": 1, "files": {}}},
            "bytes 10 to 39 of file 0",
            "30 bytes of an accepted loss: bytes 10 to 39 of file 0",
        ),
    ],
    ids=["kafka", "files", "tail"],
)
def test_what_an_accepted_loss_skipped_of_the_source_is_a_number_of_every_later_proof(
    files: MemoryFiles, before: object, end: object, lost: str, said: str
) -> None:
    for version in (1, 2, 3):
        files.texts.pop(f"table/_delta_log/{version:020d}.json")
    table_id(files, 0)
    commit(files, "table", 1, metadata(0, before=None, after=offsets(before)))
    moved = {"before": json.dumps(before), "event": CommitKind.LOSS, "lost": (lost,)}
    commit(files, "table", 2, metadata(1, "silver.access_log", after=offsets(end), **moved))
    link = proven(files, source=PositionOrigin("logs"))
    assert link.holds, link.said
    assert link.uncompared == (Uncompared(int(said.split(maxsplit=1)[0]), said, lasting=True),)
    record = replace(ProvenTable.up_to("table-id", pinned(files).span.commits[-1]), uncompared=link.uncompared)
    again = proven(files, Limits(from_record(record, "table-id"), record), PositionOrigin("logs"))
    assert again.said == "nothing new since batch 1"
    assert again.uncompared == link.uncompared


def test_a_change_of_the_topics_holds_if_it_moves_no_other_offset(files: MemoryFiles) -> None:
    before, source = {"web": {"0": 6}, "app": {"0": 3}}, PositionOrigin("web, app")
    files.texts.pop(f"table/_delta_log/{3:020d}.json")
    change(files, 1, before=None, after=offsets(before))
    moved = {"before": json.dumps(before), "event": CommitKind.TOPICS}
    change(files, 2, after=offsets({"late": {"0": 40}, "web": {"0": 6}}), **moved)
    link = proven(files, source=source)
    assert link.holds, link.said
    assert link.notes[0].endswith("changes the topics: left at app/0/3; joined at late/0/40")
    change(files, 2, event=CommitKind.BATCH)
    assert "ends before it begins: it reads again app/0/0 to 2" in proven(files, source=source).said
    change(files, 2, after=offsets({"web": {"0": 8}}), **moved)
    assert "changes the topics, and skips web/0/6 to 7" in proven(files, source=source).said


def test_a_cleaned_up_log_is_proven_from_its_start_with_a_note(files: MemoryFiles) -> None:
    table_id(files)
    for version in (0, 1):
        files.texts.pop(f"table/_delta_log/{version:020d}.json")
    pinned_table = pinned(files)
    link = follow(pinned_table, BRONZE)
    assert link.holds, link.said
    assert link.notes == (
        "silver.access_log: versions below 2 are gone from its log, and no earlier proof covers them; "
        "checked from batch 1 on",
    )
    assert pinned_table.span.start == ProvenTable("table-id", 1, 0, QUERY, pinned_table.span.before, 10)
    assert (pinned_table.span.whole, pinned_table.span.complete, pinned_table.span.rows_in_all) == (True, False, 30)


def test_a_record_covers_cleaned_up_commits(files: MemoryFiles) -> None:
    table_id(files)
    earlier = pinned(files).span.commits[0]
    record = ProvenTable.up_to("table-id", earlier)
    for version in (0, 1):
        files.texts.pop(f"table/_delta_log/{version:020d}.json")
    link = proven(files, Limits(from_record(record, "table-id"), record))
    assert link.holds, link.said
    assert (link.said, link.notes) == ("2 batches (1 to 2) without gap or overlap, 20 rows recorded", ())
    assert not pinned(files, limits=Limits(from_record(record, "table-id"), record)).span.whole
    assert proven(files, Limits(from_beginning, record)).notes == ()


def test_a_proof_starts_where_the_record_ends(files: MemoryFiles) -> None:
    record = ProvenTable.up_to("table-id", pinned(files).span.commits[1])
    pinned_table = pinned(files, limits=Limits(from_record(record, "table-id"), record))
    assert (pinned_table.span.start, [entry.version for entry in pinned_table.span.commits], pinned_table.joins) == (
        record,
        [3],
        True,
    )
    assert follow(pinned_table, BRONZE).holds


@pytest.mark.parametrize("changed", [{"table_id": "another"}, {"query_id": OTHER}, {"end": json.dumps(at(7))}])
def test_a_record_of_another_history_is_not_used(files: MemoryFiles, changed: dict[str, str]) -> None:
    record = replace(ProvenTable.up_to("table-id", pinned(files).span.commits[1]), **changed)  # type: ignore[arg-type]
    limits = Limits(from_record(record, "table-id"), record)
    assert pinned(files, limits=limits).span.whole


def test_a_record_that_a_restore_undid_is_not_used(files: MemoryFiles) -> None:
    record = ProvenTable.up_to("table-id", pinned(files).span.commits[2])
    by_hand(files, 4, "RESTORE", version="1")
    pinned_table = pinned(files, limits=Limits(from_record(record, "table-id"), record))
    assert pinned_table.span.whole
    assert "removed batches 1 to 2" in follow(pinned_table, BRONZE).said


def test_a_proof_since_a_time_is_not_joined_to_the_record(files: MemoryFiles) -> None:
    pinned_table = pinned(files, limits=Limits(from_time(1_003)))
    assert ([entry.version for entry in pinned_table.span.commits], pinned_table.joins) == ([3], False)
    assert follow(pinned_table, BRONZE).holds
    assert pinned(files, limits=Limits(from_time(0))).joins


def test_a_batch_inside_a_snapshot_is_left_out(files: MemoryFiles) -> None:
    inside = {**at(9), "index": 4, "isStartingVersion": True}
    commit(files, "table", 4, metadata(3, after=offsets(inside)))
    pinned_table = pinned(files)
    assert (pinned_table.span.version, len(pinned_table.span.commits)) == (3, 3)
    assert pinned_table.notes[0].startswith(
        "batch 3 is excluded: it has not yet read the first snapshot, or a large version"
    )


def test_positions_in_another_table_or_past_its_end_are_named(files: MemoryFiles) -> None:
    assert (
        "read table source-id; bronze is table other"
        in proven(files, source=PositionOrigin("bronze", "other", 100)).said
    )
    assert (
        "up to version 2, which ends at version 1"
        in proven(files, source=PositionOrigin("bronze", "source-id", 1)).said
    )


def quarantine(files: MemoryFiles, *batches: int) -> PinnedTable:
    commit(files, "second", 0, operation="CREATE TABLE")
    for index, batch in enumerate(batches):
        commit(files, "second", index + 1, metadata(batch, str(QUARANTINE), rows=10 * index))
    pinned_table = pin(QUARANTINE, "second", DeltaLog(files, "second"), Limits(from_beginning))
    assert pinned_table
    return pinned_table


def silver(files: MemoryFiles, *beside: int | None) -> PinnedTable:
    for batch, last in enumerate(beside):
        change(files, batch + 1, beside={str(QUARANTINE): last})
    return pinned(files)


def test_a_second_table_has_the_batches_that_the_first_lists(files: MemoryFiles) -> None:
    link = follow(quarantine(files, 0, 2), BRONZE, silver(files, None, 0, 0).span)
    assert link.holds, link.said
    assert link.said == "2 batches (0 to 2) without gap or overlap, 20 rows recorded"


def test_a_batch_that_a_second_table_lacks_is_named(files: MemoryFiles) -> None:
    link = follow(quarantine(files, 0), BRONZE, silver(files, None, 0, 1).span)
    assert "records that batch 1 was the last before it in silver.quarantine, which holds batch 0" in link.said


def test_a_batch_that_only_a_second_table_has_is_named(files: MemoryFiles) -> None:
    link = follow(quarantine(files, 0, 7), BRONZE, silver(files, None, 0, 0).span)
    assert "matches no batch in silver.access_log" in link.said


def test_a_repeated_batch_of_a_second_table_is_named(files: MemoryFiles) -> None:
    link = follow(quarantine(files, 0, 0), BRONZE, silver(files, None, 0, 0).span)
    assert "follows batch 0: batch 0 came before" in link.said


def test_a_second_table_is_proven_from_the_same_batch(files: MemoryFiles) -> None:
    quarantine(files, 0, 2)
    first = pinned(files, limits=Limits(from_batch(1)))
    second = pin(QUARANTINE, "second", DeltaLog(files, "second"), Limits(from_batch(1)))
    assert second
    assert [entry.version for entry in second.span.commits] == [2]
    assert follow(second, BRONZE, first.span).holds


def table_id(files: MemoryFiles, version: int = 3) -> None:
    """Write the checksum file that keeps a table's ID after its first commits are cleaned up."""
    files.texts[f"table/_delta_log/{version:020d}.crc"] = json.dumps(
        {"metadata": {"id": "table-id", "configuration": {}}}
    )
