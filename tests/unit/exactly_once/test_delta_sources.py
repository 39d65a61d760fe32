"""Silver's position names every bronze table, whatever their order, and whichever of them come and go."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import offsets_text, position, read_checkpoint
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.delta_sources import DeltaSources, first_is_whole
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.positions import TablesPosition, in_table, is_whole, same_position
from oncelake.exactly_once.recovery import plan
from oncelake.exactly_once.state import State
from tests.support.memory import MemoryFiles, at, commit, metadata
from tests.support.states import case

ADDS = '\n{"add":{"path":"x","dataChange":true}}'
HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n'


def line(version: int, table: str) -> str:
    return json.dumps(at(version, table), separators=(",", ":"))


def lines(*entries: str) -> str:
    return HEADER + "\n".join(entries)


def array(*entries: str) -> str:
    return f"[{','.join('null' if entry == '-' else entry for entry in entries)}]"


A3, A4, B2 = line(3, "a-id"), line(4, "a-id"), line(2, "b-id")


@dataclass
class Tables:
    """Bronze tables of four versions each, and the source that the stage's last commit recorded."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    recorded: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            for version in range(4):
                commit(self.files, name, version, metadata(version, f"bronze.{name}") if version else None)
                if version:
                    self.files.texts[f"{name}/_delta_log/{version:020d}.json"] += ADDS

    def table(self, name: str) -> DeltaSource:
        return DeltaSource(name, DeltaLog(self.files, name.removeprefix("bronze.")))

    def source(self, *declared: str) -> DeltaSources:
        return DeltaSources(
            {f"bronze.{each}": self.table(f"bronze.{each}") for each in declared}, self.record, self.table
        )

    def record(self) -> Mapping[str, str]:
        return self.recorded

    def planned(self, *texts: str) -> None:
        """Write the `offsets` of a checkpoint."""
        for number, text in enumerate(texts):
            self.files.texts[f"ckpt/offsets/{number}"] = text

    def offsets(self) -> list[str]:
        return [self.files.texts[f"ckpt/offsets/{number}"] for number in range(2)]


def test_a_position_in_several_tables_is_an_array_of_their_positions() -> None:
    at_both = position(lines(A3, "-", B2))
    assert at_both == array(A3, "-", B2)
    assert offsets_text(lines(A4), at_both) == lines(A3, "-", B2)
    assert position(lines(A3)) == A3
    assert offsets_text(lines(A4), A3) == lines(A3)
    assert position(lines(A3, "{")) is None
    assert position(lines("-")) is None
    assert position(lines(A3, "{}")) is None, "only tables are read together"
    found = TablesPosition.parse(at_both)
    assert isinstance(found, TablesPosition)
    assert found.numbers() == {"version of a-id": 3, "version of b-id": 2}
    assert in_table(at_both, "b-id") == in_table(B2, "b-id") != in_table(at_both, "c-id")


def test_positions_are_equal_if_they_are_equal_in_every_table() -> None:
    assert same_position(array(A3, B2), array(B2, A3))
    assert same_position(A3, array(A3, "-"))
    assert not same_position(array(A3, B2), array(A3, "-"))
    assert not same_position(array(A3, B2), array(A4, B2))
    within = json.dumps({**at(3, "a-id"), "index": 1})
    assert is_whole(array(A3, B2))
    assert not is_whole(array(B2, within))


def test_a_new_table_gets_a_line_and_every_other_line_stays() -> None:
    tables = Tables()
    tables.planned(lines(A3), lines(A4))
    assert [*tables.source("c", "a", "b").fit(tables.files, "ckpt")] == ["bronze.a", "bronze.c", "bronze.b"]
    assert tables.offsets() == [lines(A3, "-", "-"), lines(A4, "-", "-")]


def test_the_order_of_the_settings_means_nothing() -> None:
    tables = Tables()
    tables.planned(lines(A3, "-"), lines(A4, B2))
    assert [*tables.source("b", "a").fit(tables.files, "ckpt")] == ["bronze.a", "bronze.b"]
    assert tables.offsets() == [lines(A3, "-"), lines(A4, B2)]


def test_a_removed_table_keeps_its_line() -> None:
    tables = Tables(recorded={"kind": "delta", "bronze.a": "a-id", "bronze.b": "b-id"})
    tables.planned(lines(A3, B2), lines(A4, B2))
    source = tables.source("c", "a")
    assert [*source.fit(tables.files, "ckpt")] == ["bronze.a", "bronze.b", "bronze.c"]
    assert tables.offsets() == [lines(A3, B2, "-"), lines(A4, B2, "-")]
    assert source.identity() == {"kind": "delta", "bronze.a": "a-id", "bronze.b": "b-id", "bronze.c": "c-id"}


def test_a_line_of_a_table_that_was_never_read_goes_with_its_source() -> None:
    tables = Tables()
    tables.planned(lines(A3, "-"), lines(A4, "-"))
    assert [*tables.source("a").fit(tables.files, "ckpt")] == ["bronze.a"]
    assert tables.offsets() == [lines(A3), lines(A4)]


def test_a_line_of_an_unknown_table_is_not_fitted() -> None:
    tables = Tables()
    tables.planned(lines(A3, B2), lines(A4, B2))
    with pytest.raises(StateError, match="has a position in table b-id"):
        tables.source("a").fit(tables.files, "ckpt")


class Dying(MemoryFiles):
    """Files of a process that dies after its first write."""

    def write(self, path: str, text: str) -> None:
        super().write(path, text)
        raise KeyboardInterrupt


@pytest.mark.parametrize("open_batch", [True, False])
def test_a_kill_between_the_two_files_changes_no_position_and_is_completed(open_batch: bool) -> None:
    tables = Tables()
    tables.planned(lines(A3), lines(A4))
    files = tables.files
    files.texts["ckpt/metadata"] = json.dumps({"id": metadata(0).query_id})
    files.texts["ckpt/commits/0"] = "v1\n{}"
    if not open_batch:
        files.texts["ckpt/commits/1"] = "v1\n{}"
    commit(files, "table", 0, metadata(0, before=None, after=lines(A3)))
    commit(files, "table", 1, metadata(1, before=A3, after=lines(A4)))
    source = tables.source("a", "b")
    dying = Dying(files.texts)
    with pytest.raises(KeyboardInterrupt):
        source.fit(dying, "ckpt")
    assert tables.offsets() == [lines(A3, "-"), lines(A4)]
    state = {"table": DeltaLog(files, "table").state()}
    assert diagnose(read_checkpoint(files, "ckpt"), state, source).state is State.ALIGNED
    source.fit(files, "ckpt")
    assert tables.offsets() == [lines(A3, "-"), lines(A4, "-")]
    assert diagnose(read_checkpoint(files, "ckpt"), state, source).state is State.ALIGNED


def test_a_recovery_writes_a_line_for_each_table() -> None:
    tables = Tables()
    commit(tables.files, "table", 0, metadata(0, before=None, after=lines(A3, "-")))
    commit(tables.files, "table", 1, metadata(1, before=array(A3, "-"), after=lines(A4, B2)))
    texts = plan(case(tables.files, tables.source("a", "b"))).texts
    assert (texts["offsets/0"], texts["offsets/1"]) == (lines(A3, "-"), lines(A4, B2))


def test_the_first_batch_of_a_table_is_planned_from_its_snapshot_again() -> None:
    tables = Tables()
    within = json.dumps({**at(3, "b-id"), "index": 5, "isStartingVersion": True}, separators=(",", ":"))
    assert first_is_whole(tables.files, "ckpt", "b-id")
    tables.planned(lines(A3, "-"), lines(A4, within))
    assert not first_is_whole(tables.files, "ckpt", "b-id")
    assert first_is_whole(tables.files, "ckpt", "a-id")
    tables.planned(lines(A3, within), lines(A4, within))
    assert first_is_whole(tables.files, "ckpt", "b-id"), "the stream continues from a position"


def test_trouble_in_one_table_is_trouble() -> None:
    tables = Tables(recorded={"kind": "delta", "bronze.a": "a-id", "bronze.b": "b-id"})
    both = tables.source("a", "b")
    assert both.trouble(array(A3, B2), None, tables.recorded) is None
    beyond = both.trouble(array(A3, line(9, "b-id")), None, tables.recorded)
    assert beyond is not None
    assert beyond.seen == "bronze.b ends at version 3, but version 8 was read from it"
    other = both.trouble(array(A3, line(2, "old-id")), None, {**tables.recorded, "bronze.b": "old-id"})
    assert other is not None
    assert (other.state, other.seen) == (
        State.SOURCE_REPLACED,
        "bronze.b is table b-id, positions are of table old-id",
    )
    unknown = both.trouble(A3, array(A4, line(2, "new-id")), tables.recorded)
    assert unknown is not None
    assert "table new-id, which is none of bronze.a, bronze.b" in unknown.seen


def test_rows_and_backlog_are_those_of_all_tables() -> None:
    tables = Tables()
    both = tables.source("a", "b")
    assert both.rows_between(array(A3, B2), array(A4, line(4, "b-id"))) == 3 * 10
    assert both.backlog(array(A3, B2)).count == 3 * 10
    assert both.exhausted(array(line(4, "a-id"), line(4, "b-id")))
    assert not both.exhausted(array(line(4, "a-id"), line(3, "b-id")))
    assert not both.exhausted(line(4, "a-id")), "b holds rows that were never read"


def test_a_removed_table_must_have_been_read_to_its_end() -> None:
    tables = Tables(recorded={"kind": "delta", "bronze.a": "a-id", "bronze.b": "b-id"})
    source = tables.source("a")
    assert source.unread(array(A4, B2)) == ["bronze.b"]
    assert source.unread(A4) == ["bronze.b"], "b was never read"
    assert source.unread(array(A3, line(4, "b-id"))) == []
