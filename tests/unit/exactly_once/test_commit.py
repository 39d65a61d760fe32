"""Commit metadata is written as text and parsed to the same value; metadata of other programs is recognized."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame

from oncelake.common.errors import ReceiptError, StateError
from oncelake.common.lake import SILVER
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog, TableState
from oncelake.exactly_once.positions import same_position
from tests.support.memory import MemoryFiles, at, callback, checkpoint, commit, metadata, offsets, table


def test_commit_metadata_is_parsed_to_the_same_value() -> None:
    written = metadata(7, beside={"silver.quarantine": 3})
    assert CommitMetadata.from_json(written.to_json()) == written


@pytest.mark.parametrize("text", [None, "", "a user's words", "[1]", '{"another": "program"}', "1"])
def test_metadata_of_another_program_is_ignored(text: str | None) -> None:
    assert CommitMetadata.from_json(text) is None


@pytest.mark.parametrize("change", [{"oncelake": 4}, {"unknown": 1}])
def test_commit_metadata_of_another_version_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(StateError, match="another version of oncelake"):
        CommitMetadata.from_json(json.dumps(json.loads(metadata(1).to_json()) | change))


def test_commit_metadata_has_the_version_that_was_compared_only_where_repeats_are_dropped() -> None:
    assert '"oncelake":3,' in metadata(1).to_json()
    assert "deduplicated" not in metadata(1).to_json()
    compared = metadata(1, deduplicated={"version": 7, "dropped": 2})
    assert '"oncelake":4,' in compared.to_json()
    assert CommitMetadata.from_json(compared.to_json()) == compared


def test_commit_metadata_has_lines_only_where_they_are_not_the_rows() -> None:
    assert "lines" not in metadata(1).to_json()
    written = metadata(1, lines={"before": 3, "added": 2})
    assert '"oncelake":5,' in written.to_json()
    assert CommitMetadata.from_json(written.to_json()) == written


def test_a_commit_counts_the_lines_of_its_rows() -> None:
    def chain(added: int, **more: Any) -> ChainCommit:
        return ChainCommit(1, "WRITE", {}, {"numOutputRows": str(added)}, 0, metadata(1, **more))

    states = [TableState(last=each) for each in (chain(5), chain(5, lines={"before": 4, "added": 2}))]
    assert [(state.rows, state.lines) for state in states] == [(15, 15), (15, 6)]
    assert [state.totals for state in states] == [{"rows": 15, "lines": {}}, {"rows": 15, "lines": {"before": 6}}]
    later = chain(5, **states[1].totals)  # a batch of lines that are a row each
    assert (later.lines_added, later.lines_in_all, later.rows_in_all) == (5, 11, 20)


@pytest.mark.parametrize(("form", "lacks"), [(1, ("event", "lost", "quality", "replay")), (2, ("quality", "replay"))])
def test_commit_metadata_of_an_older_form_is_a_batch(form: int, lacks: tuple[str, ...]) -> None:
    earlier = json.loads(metadata(1).to_json()) | {"oncelake": form}
    for key in lacks:
        del earlier[key]
    assert CommitMetadata.from_json(json.dumps(earlier)) == metadata(1)


def test_each_table_of_a_stage_has_its_own_application_id() -> None:
    ids = {metadata(1, table=name, query_id=query).app_id for name in ("a", "b") for query in ("x", "y")}
    assert len(ids) == 4


def test_ranges_are_compared_by_value() -> None:
    one = metadata(1, after=offsets({"alog": {"0": 1, "1": 2}}))
    assert one.covers_same(metadata(1, after=offsets({"alog": {"1": 2, "0": 1}}), rows=99, run="another"))
    assert not one.covers_same(metadata(1, after=offsets({"alog": {"1": 3, "0": 1}})))
    assert not one.covers_same(metadata(1, after=one.after, before=json.dumps(at(0))))
    assert same_position(None, None)
    assert not same_position(None, "{}")


def test_total_rows_come_from_commit_metadata() -> None:
    files = MemoryFiles()
    table(files, "table", 3)
    commit(files, "table", 4, operation="OPTIMIZE")
    assert DeltaLog(files, "table").state().rows == 30


def test_only_a_commit_with_metadata_is_the_chain_s() -> None:
    files = MemoryFiles()
    table(files, "table", 3)
    commit(files, "table", 4, operation="OPTIMIZE")
    log = DeltaLog(files, "table")
    kinds = {each.version: (type(each), each.metadata is None) for each, _ in log.newest_first()}
    assert kinds[4] == (Commit, True)
    assert kinds[3] == (ChainCommit, False)
    last = log.state().last
    assert last is not None
    assert (log.state().batch_id, log.state().end) == (last.metadata.batch_id, last.metadata.end)
    assert last.rows_in_all == 30
    nothing = DeltaLog(files, "nothing").state()
    assert (nothing.last, nothing.batch_id, nothing.end, nothing.rows) == (None, None, None, 0)


def test_commit_metadata_is_found_with_a_missing_or_broken_checksum() -> None:
    files = MemoryFiles()
    table(files, "table", 1)
    files.texts["table/_delta_log/00000000000000000001.crc"] = '{"metadata":{"id":'
    assert DeltaLog(files, "table").table_id() == "table-id"
    files.texts["table/_delta_log/00000000000000000001.crc"] = '{"metadata":{"id":"newer"}}'
    assert DeltaLog(files, "table").table_id() == "newer"


def generator(frame: DataFrame, batch: Batch) -> Iterator[int]:
    yield batch.batch_id
    del frame


async def coroutine(frame: DataFrame, batch: Batch) -> None:
    del frame, batch


@pytest.mark.parametrize("write", [generator, coroutine])
def test_work_that_spark_would_commit_without_running_is_refused(write: object) -> None:
    with pytest.raises(TypeError, match="must be a plain function"):
        callback(write)


def test_a_batch_that_wrote_nothing_is_refused() -> None:
    files = MemoryFiles()
    checkpoint(files, "ckpt", planned=0, committed=-1)
    call = callback(lambda _frame, _batch: None, files=files, tables={SILVER: None})
    with pytest.raises(RuntimeError, match="silver failed in batch 0"):
        call(None, 0)  # type: ignore[arg-type]
    assert isinstance(call.failure, ReceiptError)


def test_a_version_can_be_read_from_a_checkpoint_or_from_the_first_commit_on() -> None:
    files = MemoryFiles()
    table(files, "table", 5)
    log = DeltaLog(files, "table")
    assert [log.holds(version) for version in (-1, 0, 5, 6)] == [False, True, True, False]
    assert [log.lines_up_to(version) for version in (0, 3, 6)] == [0, 20, 50]
    for version in range(3):
        files.texts.pop(f"table/_delta_log/{version:020d}.json")
    assert not any(map(log.holds, range(6)))
    files.texts[f"table/_delta_log/{4:020d}.checkpoint.parquet"] = ""
    assert [log.holds(version) for version in (3, 4, 5)] == [False, True, True]
    assert [log.lines_up_to(version) for version in (0, 2, 4)] == [0, 20, 30]  # the oldest commit has 20 rows before it
