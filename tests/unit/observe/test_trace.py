"""The argument of a trace is parsed in one way only; the commit that ingested a line is found by positions alone."""

from datetime import UTC, datetime

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.wording import printable
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.observe.trace.find import FileLine, Position, parse_line_query
from oncelake.observe.trace.tracer import commits_planned_at, commits_reading, is_behind, replays_after
from tests.support.memory import MemoryFiles, at, commit, metadata, offsets, table

SILVER = "/lake/silver/access_log"
SOURCE = "source-id"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("alog/0/1234", Position("alog", 0, 1234)),
        ("my.topic-1_x/12/0", Position("my.topic-1_x", 12, 0)),
        ("0/0/9223372036854775807", Position("0", 0, 2**63 - 1)),
    ],
)
def test_a_position_is_topic_partition_and_offset(text: str, position: Position) -> None:
    assert parse_line_query(text) == position
    assert str(position) == text


@pytest.mark.parametrize(
    "text", ["", "alog", "alog/0", "a/b/c", "alog/0/-1", ":line", "alog/0/9223372036854775808", "٣/٣/٣"]
)
def test_an_argument_of_neither_form_is_refused_with_both_forms(text: str) -> None:
    with pytest.raises(ConfigError, match=r"topic/partition/offset, as alog/0/1234, or file:line"):
        parse_line_query(text)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("b.log:x", [b"x"]),
        ("b.log:", [b""]),
        ("b.log:b.log:x", [b"b.log:x"]),
        ("d 1:2/b.log:x:y", [b"x:y"]),
        ("d%201:2/b.log:x", [b"x"]),
        ("/logs/d 1:2/b.log:\udcff", [b"\xff"]),
        ("file:/logs/d%201:2/b.log:x", [b"x"]),
        ("file:///logs/d 1:2/b.log:x", [b"x"]),
        (".log:x", []),
        ("2/b.log:x", []),
        ("other/b.log:x", []),
        ("b.log/:x", []),
    ],
)
def test_a_file_and_its_line_are_split_at_each_colon(text: str, lines: list[bytes]) -> None:
    asked = parse_line_query(text)
    assert isinstance(asked, FileLine)
    assert asked.lines_of("file:/logs/d%201:2/b.log") == lines


def test_a_name_with_a_colon_can_be_split_in_two_ways() -> None:
    assert FileLine("a:b:a:b:x").lines_of("file:/logs/a:b") == [b"a:b:x"]
    assert FileLine("a:a:x").lines_of("file:/a:a") == [b"x"]


def versions(files: MemoryFiles, version: int) -> list[int]:
    return [entry.version for entry in commits_reading(DeltaLog(files, SILVER), SOURCE, version)]


def test_a_version_was_read_by_the_batch_whose_range_covers_it() -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=3)
    assert [versions(files, version) for version in range(4)] == [[1], [2], [3], []]
    assert [is_behind(DeltaLog(files, SILVER), SOURCE, version) for version in range(4)] == [False] * 3 + [True]


def test_a_version_that_several_batches_read_in_parts_has_them_all() -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=0)
    inside = {**at(4), "index": 7}
    ends: list[dict[str, object]] = [{**at(2), "index": 3, "isStartingVersion": True}, at(3), at(4), inside, at(5)]
    for batch, end in enumerate(ends):
        before = str(offsets(ends[batch - 1]).splitlines()[-1]) if batch else None
        commit(files, SILVER, batch + 1, metadata(batch, before=before, after=offsets(end)))
    assert [versions(files, version) for version in range(2, 6)] == [[1, 2], [3], [4, 5], []]


def test_a_recovery_and_an_undone_batch_read_nothing() -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=2)
    commit(files, SILVER, 3, metadata(1, event=CommitKind.RECOVERY, query_id="another"))
    assert versions(files, 1) == [2]
    commit(files, SILVER, 4, operation="RESTORE", version=1)
    assert versions(files, 1) == []


def test_a_replay_reads_nothing_from_the_source_and_follows_its_batch() -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=2)
    replay = {"id": "once", "version": 2, "reasons": []}
    commit(files, SILVER, 3, metadata(1, event=CommitKind.REPLAY, replay=replay))
    assert versions(files, 1) == [2]
    commit_log = DeltaLog(files, SILVER)
    assert [entry.version for entry in replays_after(commit_log, 1)] == [3]
    assert replays_after(commit_log, 3) == ()


def test_positions_in_a_recreated_table_are_ignored() -> None:
    files = MemoryFiles()
    table(files, SILVER, batches=2)
    commit_log = DeltaLog(files, SILVER)
    assert commits_reading(commit_log, "another-id", 0) == []
    assert is_behind(commit_log, "another-id", 0)
    assert is_behind(DeltaLog(MemoryFiles(), SILVER), SOURCE, 0)


def test_bronze_has_a_batch_s_planned_time_in_its_rows() -> None:
    files = MemoryFiles()
    commit(files, SILVER, 0, operation="CREATE TABLE")
    for batch, millis in enumerate((1_500_000_000_123, 1_500_000_000_124)):
        after = f'v1\n{{"batchTimestampMs":{millis}}}\n{{"logOffset":{batch}}}'
        commit(files, SILVER, batch + 1, metadata(batch, after=after))
    commits = commits_planned_at(DeltaLog(files, SILVER), datetime(2017, 7, 14, 2, 40, 0, 123_000, tzinfo=UTC))
    assert [entry.version for entry in commits] == [1]


def test_nothing_that_moves_the_cursor_is_printed() -> None:
    assert (
        printable("a\x1b[2J\tb\u202e\u2028\x9b\U0001f525é[red]") == "a\\x1b[2J\\tb\\u202e\\u2028\\x9b\U0001f525é[red]"
    )
    assert printable("x" * 300) == "x" * 200 + "… (300 characters)"
