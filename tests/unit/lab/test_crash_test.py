"""The crash test plans the same kills for a seed, detects durable steps from files, and counts errors."""

import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import LockedError, OncelakeError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake, Table
from oncelake.engine.chain import chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.engine.graph import Stage
from oncelake.gold.declaration import GoldTable
from oncelake.lab.crash_test.conduct import own_serving
from oncelake.lab.crash_test.feed import MadeFiles, Portions
from oncelake.lab.crash_test.place import copy_lake, place_for
from oncelake.lab.crash_test.plan import HORIZON, DurableStep, durable_steps, plan
from oncelake.lab.crash_test.verdict import CrashTestVerdict, Rows, Tally, bound, expected_rows, tally
from oncelake.lab.crash_test.victim import Victims
from oncelake.lab.demo.made_log import lines_of

LOCAL = shipped_conf() / "local.yaml"
SETTINGS, PARSERS = configured(LOCAL, [])


@pytest.fixture
def stages() -> tuple[Stage, ...]:
    return chain_of(SETTINGS, PARSERS).stages


def steps_of(root: Path, stages: tuple[Stage, ...], *, source_log: bool = True) -> tuple[DurableStep, ...]:
    return durable_steps(Lake(f"{root}/lake", f"{root}/checkpoints"), stages, source_log=source_log)


def test_every_kind_of_durable_step_is_covered(tmp_path: Path, stages: tuple[Stage, ...]) -> None:
    names = [step.name for step in steps_of(tmp_path, stages)]
    assert names == [
        "bronze: sources/0 written",
        "bronze: offsets written",
        "bronze: bronze.access_log committed, batch still open",
        "bronze: commits written",
        "silver: offsets written",
        "silver: silver.access_log committed, silver.quarantine not yet",
        "silver: silver.quarantine committed, batch still open",
        "silver: commits written",
        "gold.error_log: offsets written",
        "gold.error_log: gold.error_log committed, batch still open",
        "gold.error_log: commits written",
        "gold.log_volume: offsets written",
        "gold.log_volume: gold.log_volume committed, batch still open",
        "gold.log_volume: commits written",
    ]
    assert [step.name for step in steps_of(tmp_path, stages, source_log=False)] == names[1:]
    served = chain_of(*configured(LOCAL, [f"serving.url=sqlite:///{tmp_path}/served.db"])).stages
    assert [step.name for step in steps_of(tmp_path, served)] == [
        *names,
        "serving.error_log: offsets written",
        "serving.error_log: commits written",
    ]


@pytest.mark.parametrize(
    "sets",
    [
        ["serving.url=mysql+pymysql://user@host/database", "serving.mode=transactional"],
        ["serving.sink=tests.support.sinks:Together", "serving.options.file=/somebody/else"],
    ],
)
def test_the_configured_database_or_sink_is_replaced_by_a_file_of_the_test(tmp_path: Path, sets: list[str]) -> None:
    own = own_serving(configured(LOCAL, sets)[0].serving, tmp_path / "served.db")
    served = chain_of(*configured(LOCAL, [*sets, *own])).stages[-1].served
    assert served is not None
    assert served.place == f"sqlite {tmp_path}/served.db"
    assert own_serving(SETTINGS.serving, tmp_path) == []


@pytest.mark.parametrize("name", ["sources/0", "offsets", "commits"])
def test_a_step_is_detected_in_spark_s_files(tmp_path: Path, name: str) -> None:
    step = DurableStep("step", tmp_path / name)
    assert step.newest() == -1
    assert not step.made_after(-1)
    step.directory.mkdir(parents=True)
    for file in ("0", ".0.crc", "8", "9.compact", ".10.crc", ".11.3d6e.tmp"):
        (step.directory / file).touch()
    assert step.newest() == 9
    assert step.made_after(8)
    assert not step.made_after(9)
    (step.directory / "10").touch()
    assert step.made_after(9)


def test_a_step_is_detected_in_a_table_s_log(tmp_path: Path) -> None:
    step = DurableStep("step", tmp_path / "_delta_log")
    step.directory.mkdir()
    for file in (f"{10:020d}.json", f"{10:020d}.crc", f"{10:020d}.checkpoint.parquet", f".{11:020d}.json.1.tmp"):
        (step.directory / file).touch()
    assert step.newest() == 10
    assert not step.made_after(10)
    (step.directory / f"{11:020d}.json").touch()
    assert step.made_after(10)


def test_a_seed_plans_the_same_kills(tmp_path: Path, stages: tuple[Stage, ...]) -> None:
    steps = steps_of(tmp_path, stages)
    assert plan(steps, 100, seed=7) == plan(steps, 100, seed=7)
    assert plan(steps, 100, seed=7) != plan(steps, 100, seed=8)


@pytest.mark.parametrize("kills", [1, 2, 27, 28, 100])
def test_half_of_the_kills_are_after_steps_of_every_kind(tmp_path: Path, stages: tuple[Stage, ...], kills: int) -> None:
    steps = steps_of(tmp_path, stages)
    planned = plan(steps, kills, seed=1)
    at_steps = Counter(kill.step for kill in planned if kill.step)
    assert at_steps.total() == (kills + 1) // 2
    assert len(at_steps) == min(len(steps), at_steps.total())
    assert max(at_steps.values()) - min(at_steps[step] for step in steps) <= 1
    assert all(0 <= kill.after <= HORIZON for kill in planned)
    assert len(planned) == kills


def test_the_bound_is_the_rule_of_three() -> None:
    assert bound(1) == pytest.approx(0.95)
    assert bound(100) == pytest.approx(0.0295, abs=1e-4)
    assert (1 - bound(100)) ** 100 == pytest.approx(0.05)


def test_the_counted_lines_are_the_fed_lines(tmp_path: Path) -> None:
    feed = MadeFiles(tmp_path / "source", Portions(1_001, 5, seed=3))
    assert feed.sets[:2] == ["source.kind=files", f"source.path={tmp_path / 'source'}"]
    for _ in range(3):
        feed.more()
    fed = Counter(feed.lines())
    assert fed == Counter(lines_of(tmp_path / "source"))
    assert fed.total() == 1_001 * 3 // 5
    feed.more()
    feed.more()
    feed.more()
    assert Counter(feed.lines()).total() == 1_001


def test_a_lost_or_doubled_line_is_counted() -> None:
    fed = list(Portions(500, 1, seed=3).next())
    rows: Rows = Counter(fed)
    assert tally(BRONZE, rows, Counter(fed)) == Tally("bronze.access_log", 500, 0, 0)
    assert tally(BRONZE, rows, Counter(fed[1:])) == Tally("bronze.access_log", 500, 1, 0)
    assert tally(BRONZE, rows, Counter([*fed, fed[0]])) == Tally("bronze.access_log", 500, 0, 1)
    assert tally(BRONZE, rows, Counter([*fed[1:], b"other"])) == Tally("bronze.access_log", 500, 1, 1)


def test_plain_python_counts_every_table_it_supports() -> None:
    lines = [b"2017-07-30 14:09:08 error some  message\r", b"2017-07-30 14:09:59 INFO", b"", b"no line"]
    by_level = GoldTable(every="1 hour", by={"kind": "level"}, measures={"n": "count"})
    gold = SETTINGS.gold | {"hourly": by_level, "other": GoldTable(every="1 hour", measures={"last": "max(log_time)"})}
    rows = expected_rows(lines, gold, datetime(2026, 1, 1, tzinfo=UTC))
    at = int(datetime(2017, 7, 30, 14, 9, tzinfo=UTC).timestamp())
    assert rows[BRONZE] == Counter(lines)
    assert rows[QUARANTINE] == Counter([b"", b"no line"])
    assert rows[SILVER] == Counter([(at + 8, "ERROR", "some  message"), (at + 59, "INFO", "")])
    assert rows[Table("gold", "error_log")] == Counter({(at,): 1})
    assert rows[Table("gold", "log_volume")] == Counter({(at, "ERROR"): 1, (at, "INFO"): 1})
    assert rows[Table("gold", "hourly")] == Counter({(at - 540, "ERROR"): 1, (at - 540, "INFO"): 1})
    assert Table("gold", "other") not in rows


@pytest.mark.parametrize(
    ("tallies", "proves", "clean"),
    [
        ([Tally("gold.error_log", 9, 0, 0)], True, True),
        ([Tally("gold.error_log", 9, 1, 0)], True, False),
        ([Tally("gold.error_log", 9, 0, 1)], True, False),
        ([Tally("gold.error_log", 9, 0, 0)], False, False),
        ([], True, True),
    ],
)
def test_the_verdict_is_red_if_anything_is_wrong(tallies: list[Tally], proves: bool, clean: bool) -> None:
    verdict = CrashTestVerdict(1, "files", 100, {"random moment": 100}, 0, 100, 400.0, 500.0, 9, tallies, proves, [])
    assert verdict.clean is clean
    assert (verdict.to_dict()["bound"] is not None) is clean
    assert any("2.9 %" in sentence or "3.0 %" in sentence for sentence in verdict.sentences()) is clean


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kills", "0"], "--kills 0: at least one kill is needed"),
        (["--lines", "0"], "--lines 0: at least one line is needed"),
        (["--lines", "5", "--own-source"], "--lines is for generated lines"),
        (["--copy-lake", "--set", "lake.root=/none"], "there is no lake /none"),
        (["--own-source", "--set", "source.path=/none"], "source.path /none: there is no such directory"),
    ],
)
def test_wrong_use_exits_2_in_one_line(tmp_path: Path, arguments: list[str], expected: str) -> None:
    sets = [] if "--own-source" in arguments else ["--set", f"source.path={tmp_path}"]
    result = CliRunner().invoke(app, ["crash-test", "-c", str(LOCAL), *arguments, *sets])
    assert result.exit_code == 2
    assert expected in result.output
    assert result.output.count("\n") == 1


def test_the_copy_of_a_lake_has_everything_except_the_lock(tmp_path: Path) -> None:
    lake, copy = Lake(f"{tmp_path}/lake", f"{tmp_path}/lake/_checkpoints"), Lake(f"{tmp_path}/b", f"{tmp_path}/c")
    for file in ("bronze/access_log/1.parquet", "_checkpoints/bronze/metadata", ".oncelake.lock"):
        path = tmp_path / "lake" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    copy_lake(lake, copy)
    copied = {
        str(path.relative_to(tmp_path)) for root in "bc" for path in (tmp_path / root).rglob("*") if path.is_file()
    }
    assert copied == {"b/bronze/access_log/1.parquet", "c/bronze/metadata"}


def test_a_lake_that_is_being_written_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    lock = tmp_path / "lake" / ".oncelake.lock"
    lock.write_text("process 4711 on here\nabc\n")
    program = (
        f"import fcntl, time; f = open({str(lock)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-uc", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            with pytest.raises(LockedError, match="is being written by process 4711 on here; stop it first"):
                copy_lake(
                    Lake(f"{tmp_path}/lake", f"{tmp_path}/lake/_checkpoints"), Lake(f"{tmp_path}/b", f"{tmp_path}/c")
                )
        finally:
            writer.kill()
    assert not (tmp_path / "b").exists()


def test_the_directory_is_kept_only_if_something_is_wrong(tmp_path: Path) -> None:
    with place_for(None) as place:
        assert place.root.is_dir()
    assert not place.root.exists()
    with pytest.raises(KeyboardInterrupt), place_for(None) as place:
        raise KeyboardInterrupt
    assert not place.root.exists()
    with pytest.raises(OncelakeError, match=r"it broke \(the files are kept in .*crash-test"), place_for(None) as place:
        raise OncelakeError("it broke")
    assert place.root.exists()
    place.root.rmdir()
    with place_for(tmp_path / "kept") as place:
        pass
    assert place.root.is_dir()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OncelakeError])
def test_no_process_outlives_the_test(tmp_path: Path, error: type[BaseException]) -> None:
    started: list[int] = []

    def break_off() -> None:
        with Victims(Path("none.yaml"), [], Lake(str(tmp_path), str(tmp_path / "c")), tmp_path / "tmp") as victims:
            started.extend(victims.start("run").process.pid for _ in range(3))
            raise error

    with pytest.raises(error):
        break_off()
    assert len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)


def test_a_process_that_ends_by_itself_fails_the_test_and_is_shown(tmp_path: Path) -> None:
    with Victims(Path("none.yaml"), [], Lake(str(tmp_path), str(tmp_path / "c")), tmp_path / "tmp") as victims:
        victims.start("run").process.wait(60)
        with pytest.raises(OncelakeError, match=r"was not killed exited with code 2: oncelake: there is no conf"):
            victims.check()
