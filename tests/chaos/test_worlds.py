"""The chaos test sees every line of growing files, of several sources and of gold, and detects each violation."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow
import pytest

from oncelake.sources.tail.plan import TailFiles
from oncelake.sources.tail.position import TailPosition
from tests.chaos.growing import Logs
from tests.chaos.judge import Judge
from tests.chaos.operations import Place
from tests.chaos.product import Outcome
from tests.chaos.sources import Sources
from tests.chaos.steps import parsed
from tests.chaos.whole import DECLARATIONS, Whole

HOLDS = Outcome(ok=True, said="")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(Place.below(tmp_path))


def play(world: Logs | Sources, steps: str) -> list[bool]:
    return [world.apply(step) for step in parsed(steps)]


def bronze(directory: Path, *values: bytes) -> Path:
    """Write a table with these rows."""
    deltalake.write_deltalake(directory, pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())}))
    return directory


def plan(logs: Logs, checkpoint: Path) -> None:
    """Plan a batch of all files, as the product does."""
    end = TailFiles(logs.place.root.decode()).plan(TailPosition(), 2**40)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{end.to_json()}")


def test_a_line_is_there_when_its_end_is_written_whatever_file_holds_it(logs: Logs) -> None:
    assert all(play(logs, "append app.log #7 #2\nappend app.log #6 #1\nhalf app.log #9"))
    assert sorted(logs.look().files) == [b"L1000000006.0", b"L1000000007.0 \xff\xfe", b"L1000000007.1\r"]
    assert all(play(logs, "rotate app.log\npack-half app.log #1 #0\nappend app.log #12 #1"))
    assert logs.look().strange == (b"app.log.1.gz",)
    assert b"L1000000009.begun" not in logs.look().files
    assert all(play(logs, "pack app.log #1 #0\ncopy app.log\nappend-copied app.log #14 #1"))
    assert not any(play(logs, "rotate app.log\nappend app.log #15 #1\naway app.log"))
    assert all(play(logs, "cut app.log\nappend app.log #16 #1"))
    assert logs.look().strange == (b"app.log.2.gz",), "its last line has no end, and it has just changed"
    assert all(play(logs, "date app.log.2.gz #0"))
    listing = logs.look()
    assert {line[9:13] for line in listing.files} == {b"06.0", b"07.0", b"07.1", b"09.b", b"12.0", b"16.0"}
    assert listing.strange == ()


def test_a_line_that_is_there_twice_or_not_at_all_breaks_the_invariant(logs: Logs, tmp_path: Path) -> None:
    play(logs, "append app.log #6 #1\nappend app.log #18 #1")
    for at, values in enumerate(
        [(b"L1000000006.0", b"L1000000006.0", b"L1000000018.0"), (b"L1000000006.0", b"L1000000018.0", b"L1000000001.0")]
    ):
        judge = Judge(logs)
        judge.saw(logs.look())
        judge.proved(HOLDS, logs.look(), logs.held(bronze(tmp_path / str(at), *values)), deep=False, sound=True)
        assert len(judge.broken) == 1
    judge.ran([logs.look()], HOLDS, logs.held(bronze(tmp_path / "2", b"L1000000006.0")), alone=True)
    judge.proved(HOLDS, logs.look(), logs.held(tmp_path / "2"), deep=False, sound=True)
    assert any("not in bronze after a run that ended well" in how for how in judge.broken)


def test_equal_lines_of_twins_both_count_wherever_their_files_are(logs: Logs, tmp_path: Path) -> None:
    assert all(
        play(logs, "append-twins one/job.log two/job.log #6 #1\nrotate one/job.log\npack-keep one/job.log #1 #0")
    )
    assert all(play(logs, "olddir one/job.log #1 #1"))
    assert not any(play(logs, "delete two/job.log\nhide two/job.log #0\ndrop one/job.log #1"))
    first, second = sorted(logs.look().files)
    assert (first, second) == (b"L1000000006.0", b"L1000000006.0 of twin 2")
    assert sorted(logs.owed([logs.look()])) == [first, second]
    listings = [logs.look(), *(logs.look() for _ in play(logs, "rewrite two/job.log #7 #1"))]
    assert list(logs.owed(listings)) == [first]
    for values, faults in [
        ((b"L1000000006.0",), 0),
        ((b"L1000000006.0", b"L1000000006.0"), 0),
        ((b"L1000000006.0",) * 3, 1),
    ]:
        judge = Judge(logs)
        judge.saw(logs.look())
        held = logs.held(bronze(tmp_path / str(len(values)), *values))
        judge.proved(HOLDS, logs.look(), held, deep=False, sound=True)
        assert len(judge.broken) == faults
        assert (second in held) == (len(values) > 1)


def test_operations_on_logs_leave_the_lines_that_they_do_not_add(logs: Logs) -> None:
    assert all(play(logs, "append app.log #8 #3\nrotate app.log"))
    lines = set(logs.look().files)
    for step in ("pack-keep app.log #1 #1", "restore app.log #1", "delete app.log.1", "repack app.log #1 #8"):
        assert (play(logs, step), set(logs.look().files)) == ([True], lines)
    for step in ("olddir app.log #1 #1", "olddir-back app.log #1 #0", "unpack-half app.log #1", "delete app.log.1"):
        assert (play(logs, step), set(logs.look().files)) == ([True], lines)
    assert play(logs, "append-member app.log #1 #10 #1\nbegin-member app.log #1 #11 #2") == [True, True]
    assert logs.look().strange == (b"app.log.1.bz2",)
    assert all(play(logs, "end-member app.log #1"))
    assert len(logs.look().files) == 6
    assert not any(play(logs, "unpack app.log #1\nrestore app.log #1")), "its time is no longer that of its lines"
    assert all(play(logs, "append app.log #12 #2\nrewrite app.log #13 #1"))
    assert len(logs.look().files) == 9


def test_a_crash_cuts_less_than_half_and_waits_for_growth_that_is_read(logs: Logs, tmp_path: Path) -> None:
    assert play(logs, "append app.log #2 #8\ncrash app.log #30") == [True, False]
    before = set(logs.look().files)
    assert play(logs, "crash app.log #95\ncrash app.log #95\nrotate app.log\naway app.log") == [True, *[False] * 3]
    kept = set(logs.look().files)
    assert 0 < len(before - kept) < 4
    assert all(play(logs, "append app.log #4 #1"))
    assert list(logs.wrong(bronze(tmp_path / "table", *logs.look().files), whole=True)) == []
    assert play(logs, "rotate app.log") == [True]


def test_a_file_that_may_not_be_opened_excuses_a_proof_that_fails(logs: Logs) -> None:
    play(logs, "append app.log #6 #1")
    assert (logs.look().strange, play(logs, "permit app.log #0")) == ((), [False])
    assert play(logs, "deny app.log #0\nrotate app.log") == [True, True]
    assert logs.look().strange == (b"app.log.1",)
    assert {os.stat(logs.place.root + b"/app.log.1").st_ino} == set(logs.refused())  # noqa: PTH116 - bytes
    assert (play(logs, "permit app.log #1"), logs.look().strange) == ([True], ())


def test_planned_lines_that_are_in_no_file_are_lost_until_that_is_accepted(logs: Logs, tmp_path: Path) -> None:
    play(logs, "append app.log #6 #1\nappend app.log #18 #1")
    plan(logs, tmp_path / "checkpoint")
    logs.planned(tmp_path / "checkpoint")
    play(logs, "append app.log #24 #1\nrotate app.log\npack app.log #1 #0")
    assert logs.lost({}) == []
    play(logs, "drop app.log #1")
    assert logs.lost(logs.held(bronze(tmp_path / "table", b"L1000000006.0"))) == [b"L1000000018.0"]
    judge = Judge(logs)
    judge.saw(logs.look())
    judge.proved(HOLDS, logs.look(), {}, deep=False, sound=True)
    assert len(judge.broken) == 2
    logs.forgotten()
    assert logs.lost({}) == []


def test_a_row_with_two_records_or_within_one_is_wrong(tmp_path: Path) -> None:
    logs = Logs(Place.below(tmp_path), records=True)
    table = bronze(
        tmp_path / "table",
        b"L1000000001.0\n\tL1000000001.1",
        b"L1000000002.0\nL1000000003.0",
        b"\tL1000000004.1",
        b"\tL1000000005.rest",
    )
    logs.torn.add(b"L1000000005")
    assert len(list(logs.wrong(table, whole=False))) == 2


def test_a_removed_source_has_no_parts_until_it_is_back(tmp_path: Path) -> None:
    sources = Sources.below(tmp_path)
    play(sources, "create access_log/a.log #1 #2\nappend tail/app.log #6 #1")
    assert set(sources.look().files) == {b"access_log/a.log", b"tail/L1000000006.0"}
    assert play(sources, "remove #1\nremove #0\nremove #1") == [True, False, False]
    assert set(sources.look().files) == {b"access_log/a.log"}
    assert (sources.stage, list(sources.lake.sources)) == ("bronze", ["access_log"])
    assert play(sources, "return #1\nreturn #1") == [True, False]
    assert (sources.stage, set(sources.lake.sources)) == ("bronze.tail", {"access_log", "tail"})


def test_lines_that_silver_lacks_after_a_run_are_detected(tmp_path: Path) -> None:
    sources = Sources.below(tmp_path)
    table = sources.lake.table("bronze/access_log")
    bronze(table, b"one")
    assert list(sources.wrong(table, whole=False)) == []
    assert list(sources.wrong(table, whole=True)) == ["bronze holds 1 rows of access_log, silver and quarantine hold 0"]


def chain(lake: Path, lines: int, counted: dict[int, int]) -> Path:
    """Write bronze, silver with lines of one second each, and gold of the first declaration; return bronze."""
    for each in ("bronze/access_log", "silver/access_log", "silver/quarantine", "gold/lines"):
        (lake / each).mkdir(parents=True)
    offsets = pyarrow.array(range(lines), pyarrow.int64())
    messages = [f".{number}" for number in range(lines)]
    times = [datetime.fromtimestamp(number, UTC) for number in range(lines)]
    silver = pyarrow.table({"offset": offsets, "message": messages, "log_time": times})
    deltalake.write_deltalake(lake / "bronze" / "access_log", pyarrow.table({"offset": offsets}))
    deltalake.write_deltalake(lake / "silver" / "access_log", silver)
    starts = [datetime.fromtimestamp(start, UTC) for start in counted]
    newest = [datetime.fromtimestamp(min(start + 4, lines - 1), UTC) for start in counted]
    gold = pyarrow.table({"log_time": starts, "lines": [*counted.values()], "newest": newest})
    position = json.dumps({"reservoirVersion": 1, "index": -1, "isStartingVersion": False})
    metadata = {"userMetadata": json.dumps({"after": f"v1\n{{}}\n{position}"})}
    properties = deltalake.CommitProperties(custom_metadata=metadata)
    deltalake.write_deltalake(lake / "gold" / "lines", gold, commit_properties=properties)
    first = lake / "gold" / "lines" / "_delta_log" / f"{0:020}.json"
    declared = json.dumps({"oncelake.declaration": json.dumps(DECLARATIONS[0].text)})
    first.write_text(first.read_text().replace('"configuration":{}', f'"configuration":{declared}'))
    return lake / "bronze" / "access_log"


def test_what_gold_counts_twice_or_not_at_all_is_detected(tmp_path: Path) -> None:
    whole = Whole(Place.below(tmp_path), directory=tmp_path)
    right, twice, less = (
        chain(tmp_path / name, 7, counted)
        for name, counted in (("right", {0: 5, 5: 2}), ("twice", {0: 5, 5: 4}), ("less", {0: 5}))
    )
    for table, found in ((right, 0), (twice, 1), (less, 0)):
        assert len(list(whole.wrong(table, whole=False))) == found
        assert len(list(whole.wrong_if_proven(table))) == (table != right)
    said = [list(whole.wrong(table, whole=True)) for table in (right, less)]
    assert [len(each) for each in said] == [1, 2]
    assert said[0][0].startswith("served are {}, not ")
    assert list(whole.took_over(right, {})) == []
    assert list(whole.took_over(less, whole.counted(less))) == []
    assert len(list(whole.took_over(less, {}))) == 1


def test_a_run_goes_on_with_the_declaration_that_gold_was_built_by(tmp_path: Path) -> None:
    whole = Whole(Place.below(tmp_path), directory=tmp_path)
    table = chain(tmp_path / "lake", 7, {0: 5, 5: 2})
    assert whole.may_run(table)
    assert all(whole.apply(step) for step in parsed("declare #1\nwatch #2\nwriter #0"))
    assert (whole.may_run(table), whole.stage) == (False, "gold.lines")
    with whole.as_built(table):
        assert whole.may_run(table)
    assert whole.declared == 1
