"""Lines in quarantine move to silver once they pass, and count once, even if a replay dies on the way."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import ConfigError, LockedError, ReceiptError, StateError
from oncelake.engine import replay as replaying
from oncelake.engine.replay import Replay, ReplayResult
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.writers.spark import append, move_out
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import keep_copy, put_back

pytestmark = pytest.mark.spark

GOOD = b"2017-07-30 14:09:08 ERROR one"
DOTTED = b"30.07.2017 14:09:09 ERROR two"
MISSPELT = b"30.07.2017 14:09:10 ERORR three"
NONSENSE = b"no line of any format"
FIRST = [GOOD, DOTTED, DOTTED, MISSPELT, NONSENSE, b""]
SECOND = [b"2017-07-30 14:10:00 ERROR four", b"30.07.2017 14:10:01 ERROR five"]
BOTH_TIMES = (
    r"pattern: '^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d)"
    r" (?<level>[^ ]+)(?: (?<message>.*))?$'"
    "\ntime: [yyyy-MM-dd HH:mm:ss, dd.MM.yyyy HH:mm:ss]\n"
)


def repair_format(house: House, more: str = "") -> None:
    """Change the format to accept both ways of writing a time."""
    path = house.root / "both.yaml"
    path.write_text(BOTH_TIMES + more)
    house.sets = [setting for setting in house.sets if not setting.startswith("source.format")] + [
        f"source.format={path}"
    ]


def replay(house: House, spark: SparkSession) -> Replay:
    chain = house.chain(spark)
    return Replay(chain, spark, chain.silver)


def refused(house: House) -> list[tuple[bytes, list[str]]]:
    rows = house.rows("silver/quarantine")
    return sorted((row["value"], [reason["rule"] for reason in row["reasons"]]) for row in rows)


def messages(house: House) -> list[str]:
    return sorted(row["message"] for row in house.rows("silver/access_log"))


LEFT = [(b"", ["blank"]), (MISSPELT, ["level"]), (NONSENSE, ["pattern"])]
MOVED = ["five", "four", "one", "two", "two"]


def moved_once(house: House, spark: SparkSession) -> None:
    """Check that every line is in one place, counted once, and proven."""
    house.run(spark)
    assert messages(house) == MOVED
    assert refused(house) == LEFT
    assert sum(house.errors().values()) == 5
    assert house.doubts(spark) == []
    assert [str(link) for link in house.lakehouse(spark).prove(full=True).links if not link.holds] == []
    assert not (house.lake / "_replay").exists()


@pytest.fixture(scope="module")
def split(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[House, Path]:
    """Make two batches, each with lines in quarantine; prove and copy the lake."""
    house = House.with_error_log(tmp_path_factory.mktemp("split"))
    for number, lines in enumerate((FIRST, SECOND)):
        house.write(f"{number}.log", *lines)
        house.run(spark)
    assert house.doubts(spark) == []
    return house, keep_copy(house)


@pytest.fixture
def filled(split: tuple[House, Path], spark: SparkSession) -> House:
    """Restore the lake of two batches, with the format repaired."""
    house = put_back(*split, spark)
    repair_format(house)
    return house


def test_lines_that_pass_now_move_to_silver_and_count_once(filled: House, spark: SparkSession) -> None:
    assert replay(filled, spark).plan(["pattern"]) == ReplayResult(5, 3, {"level": 1, "pattern": 1})
    assert len(messages(filled)) == 2
    assert replay(filled, spark).go(["pattern"]) == ReplayResult(5, 3, {"level": 1, "pattern": 1})
    moved_once(filled, spark)
    versions = filled.versions()
    assert replay(filled, spark).go() == ReplayResult(3, 0, {"blank": 1, "level": 1, "pattern": 1})
    assert filled.versions() == versions
    way = filled.lakehouse(spark).trace(f"0.log:{DOTTED.decode()}")
    assert way.holds
    silver, gold = way.steps[1:3]
    assert [metadata.event for commit in silver.commits if (metadata := commit.metadata)] == ["replay"]
    assert [metadata.batch_id for commit in gold.commits if (metadata := commit.metadata)] == [2]


def test_a_replay_works_again_after_more_batches(filled: House, spark: SparkSession) -> None:
    replay(filled, spark).go()
    filled.write("2.log", b"2017-07-30 14:11:00 INFO six", b"broken")
    filled.run(spark)
    repair_format(filled, "levels: {ERORR: ERROR}\n")
    assert replay(filled, spark).go(["level"]) == ReplayResult(1, 1, {})
    filled.run(spark)
    assert messages(filled) == sorted([*MOVED, "three", "six"])
    assert [rules for _, rules in refused(filled)] == [["blank"], ["pattern"], ["pattern"]]
    assert sum(filled.errors().values()) == 6
    assert filled.doubts(spark) == []


def test_a_reason_that_no_line_has_is_refused(filled: House, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"has the reason 'patern'; the reasons in it are blank, pattern"):
        replay(filled, spark).go(["patern"])


def test_an_empty_lake_has_nothing_to_replay(house: House, spark: SparkSession) -> None:
    assert replay(house, spark).go() == ReplayResult()
    house.write("a.log", GOOD)
    house.run(spark)
    assert replay(house, spark).go() == ReplayResult()


def test_a_batch_that_may_be_missing_in_quarantine_is_completed_first(filled: House, spark: SparkSession) -> None:
    commits = filled.checkpoint("silver") / "commits"
    for path in (commits / "1", commits / ".1.crc"):
        path.unlink()
    with pytest.raises(StateError, match="silver's batch 1 is not finished, so no line was moved"):
        replay(filled, spark).go()
    assert len(messages(filled)) == 2


def fail(*_: object) -> None:
    raise KeyboardInterrupt


DEATHS = {
    "the verdicts are written": ("append", False),
    "silver took the lines": ("move_out", True),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_replay_that_died_is_completed_by_the_next(
    filled: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    step, half = DEATHS[death]
    with monkeypatch.context() as patched:
        patched.setattr(replaying, step, fail)
        with pytest.raises(KeyboardInterrupt):
            replay(filled, spark).go()
    assert len(messages(filled)) == (5 if half else 2)
    if half:
        for what in (filled.run, filled.doubts, lambda spark: replay(filled, spark).plan()):
            with pytest.raises(StateError, match="Finish it: oncelake quarantine replay"):
                what(spark)
        shutil.rmtree(filled.checkpoint("silver"))
        assert "Finish it" in str(filled.recover(spark, "silver")["silver"].refused)
        filled.sets = [setting for setting in filled.sets if not setting.startswith("source.format")]
        with pytest.raises(StateError, match="oncelake recover silver"):
            replay(filled, spark).go()  # with the old format nothing passes; moved lines stay moved
        filled.recover(spark, "silver")
    else:
        replay(filled, spark).go()
    moved_once(filled, spark)


def test_a_replay_that_died_at_its_end_is_complete(
    filled: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies_after(*rows: Any) -> None:
        move_out(*rows)
        fail()

    with monkeypatch.context() as patched:
        patched.setattr(replaying, "move_out", dies_after)
        with pytest.raises(KeyboardInterrupt):
            replay(filled, spark).go()
    assert replay(filled, spark).go() == ReplayResult(3, 0, {"blank": 1, "level": 1, "pattern": 1})
    moved_once(filled, spark)


def test_a_replay_with_lost_verdicts_is_rebuilt(
    filled: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(replaying, "move_out", fail)
        with pytest.raises(KeyboardInterrupt):
            replay(filled, spark).go()
    shutil.rmtree(filled.lake / "_replay")
    with pytest.raises(StateError, match="oncelake rebuild silver"):
        replay(filled, spark).go()
    filled.rebuild(spark, "silver")
    moved_once(filled, spark)


@pytest.mark.parametrize("table", ["access_log", "quarantine"])
def test_a_table_restored_to_before_a_replay_is_recovered_with_the_other(
    filled: House, spark: SparkSession, table: str
) -> None:
    version = filled.versions()[f"silver/{table}"]
    replay(filled, spark).go()
    spark.sql(f"RESTORE TABLE delta.`{filled.lake}/silver/{table}` TO VERSION AS OF {version}")
    with pytest.raises(StateError, match="oncelake recover silver"):
        filled.run(spark)
    assert not filled.recover(spark, "silver")["silver"].refused
    if table == "access_log":  # the lines are in quarantine again
        assert len(refused(filled)) == 6
        filled.rebuild(spark, "gold")
        replay(filled, spark).go()
    filled.write("2.log", b"2017-07-30 14:11:00 INFO six")
    filled.run(spark)
    assert messages(filled) == sorted([*MOVED, "six"])
    assert refused(filled) == LEFT
    assert sum(filled.errors().values()) == 5
    assert filled.doubts(spark) == []


def test_a_wrong_number_of_moved_lines_is_found(filled: House, spark: SparkSession) -> None:
    replay(filled, spark).go()
    filled.run(spark)
    log = filled.lake / "silver/access_log/_delta_log"
    newest = log / f"{filled.versions()['silver/access_log']:020d}.json"
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    moved = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    moved["operationMetrics"]["numOutputRows"] = "2"
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (log / f".{newest.name}.crc").unlink(missing_ok=True)
    (said,) = filled.doubts(spark)
    assert "silver.access_log has 3 rows that its batches did not write; replays moved 2" in said


# the files that a replay writes: the verdicts, silver with the lines, quarantine without them
STEPS = ("_replay/*/_delta_log/*.json", "silver/access_log/_delta_log/*2.json", "silver/quarantine/_delta_log/*2.json")


def test_a_crash_before_or_after_any_step_of_a_replay_loses_nothing(house: House, spark: SparkSession) -> None:
    for number, lines in enumerate((FIRST, SECOND)):
        house.write(f"{number}.log", *lines)
    house.tell(spark, "run", "--once")
    repair_format(house)
    for step in STEPS:
        for before in (True, False):
            with crashed(spark, step, before=before):
                house.tell(spark, "quarantine", "replay", expect=1)
    said = house.tell(spark, "quarantine", "replay", "pattern")
    assert "0 of 1 line moved to silver.access_log; still broken: pattern 1" in said
    assert messages(house) == MOVED
    assert refused(house) == LEFT
    assert sum(house.errors().values()) == 5
    assert "every one exactly once" in house.tell(spark, "prove")


def test_a_line_that_was_not_written_to_silver_stays_in_quarantine(
    filled: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = refused(filled)

    def lose_one(frame: DataFrame, path: str, metadata: CommitMetadata) -> None:
        append(frame.limit(frame.count() - 1), path, metadata)

    monkeypatch.setattr(replaying, "append", lose_one)
    with pytest.raises(
        ReceiptError, match=r"silver\.access_log changed by 2 rows, but the replay moved 3\. Check with: oncelake prove"
    ):
        replay(filled, spark).go(["pattern"])
    assert refused(filled) == before


def test_a_replay_stops_if_another_process_wrote(
    filled: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = refused(filled)

    def come_between(frame: DataFrame, path: str, metadata: CommitMetadata) -> None:
        append(frame, path, metadata)
        append(
            frame.limit(0),
            path,
            replace(metadata, run="another", replay={**metadata.replay, "version": 9, "id": "theirs"}),
        )

    monkeypatch.setattr(replaying, "append", come_between)
    with pytest.raises(LockedError, match=r"another process wrote to silver\.access_log during the replay"):
        replay(filled, spark).go(["pattern"])
    assert refused(filled) == before
