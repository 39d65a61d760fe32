"""What `oncelake plan` says is what the next run does."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common.errors import OncelakeError
from oncelake.observe.plan.plan import Plan
from oncelake.observe.plan.text import plan_lines
from tests.support.house import House, Recorder, error_log_conf
from tests.support.lakes import BATCHES
from tests.support.terminal import Terminal

pytestmark = pytest.mark.spark

Conf = dict[str, Any]
COUNT = {"measures": {"lines": "count"}}
HOURLY = {"every": "1 hour", "by": {"level": "level"}, **COUNT}
OTHER = {"where": "level <> 'INFO'", **HOURLY}


@dataclass
class Lake:
    """A lake whose configuration a test changes between its runs."""

    house: House
    conf: Conf

    def declare(self, conf: Conf) -> None:
        self.house.conf.write_text(yaml.safe_dump(conf, sort_keys=False))

    def plan(self) -> Plan:
        """Return the plan; without a session, so that none can be needed."""
        return self.house.lakehouse().plan()

    def versions(self) -> dict[str, int]:
        return self.house.lakehouse().versions()

    def run(self, spark: SparkSession, rebuild: Callable[[Plan], bool] | None = None) -> set[str]:
        """Run once, and return the stages that committed."""
        before = len(self.house.reports)
        self.house.lakehouse(spark).run(once=True, show=lambda *_: Recorder(self.house.reports), rebuild=rebuild)
        return {report.stage for report in self.house.reports[before:]}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    house = House.with_error_log(tmp_path)
    (tmp_path / "other").mkdir()
    house.write("0.log", *BATCHES[0])
    conf = {
        **error_log_conf(),
        "sources": {"access_log": {"path": str(house.logs)}},
        "lake": {"root": str(house.lake)},
    }
    del conf["source"]
    house.sets = []
    made = Lake(_Quiet(house.root, house.conf), conf)
    made.declare(conf)
    made.run(spark)
    return made


class _Quiet(House):
    """A lake whose configuration names every place."""

    @property
    def flags(self) -> list[str]:
        return self.sets


def with_gold(conf: Conf, **tables: Any) -> Conf:
    return {**conf, "gold": {name: table for name, table in {**conf["gold"], **tables}.items() if table}}


def with_source(conf: Conf, **keys: Any) -> Conf:
    return {**conf, "sources": {**conf["sources"], "access_log": {**conf["sources"]["access_log"], **keys}}}


def accepted(conf: Conf, root: Path) -> dict[str, tuple[Conf, set[str], set[str]]]:
    """Return changes that a run accepts, each with the stages that the plan names as changed and as built.

    Each change begins with what the one before it left.
    """
    steps: dict[str, tuple[Conf, set[str], set[str]]] = {"nothing": (conf, set(), set())}

    def step(name: str, changed: Conf, named: set[str], built: set[str] | None = None) -> Conf:
        steps[name] = (changed, named, built or set())
        return changed

    conf = step("metrics", {**conf, "metrics": {"port": 9100}, "run": {"trigger": "1 second"}}, set())
    conf = {name: part for name, part in conf.items() if name != "metrics"}
    conf = step("new gold", with_gold(conf, by_hour=HOURLY), {"gold.by_hour"}, {"gold.by_hour"})
    renamed = with_gold(conf, by_hour=None, per_hour=HOURLY)
    conf = step("renamed gold", renamed, {"gold.by_hour", "gold.per_hour"}, {"gold.per_hour"})
    conf = step("no gold", with_gold(conf, per_hour=None), {"gold.per_hour"})
    conf = step("zone", with_source(conf, zone="Europe/Paris"), {"silver"})
    rules = {"rules": [{"pattern": "one", "action": "replace", "text": "x"}]}
    conf = step("mask", with_source(conf, mask=rules), {"bronze"})
    conf = step("limits", {**conf, "silver": {"ahead": "2 days"}}, {"silver"})
    more = {**conf, "sources": {**conf["sources"], "app": {"path": str(root / "other")}}}
    conf = step("new source", more, {"bronze.app"}, {"bronze.app"})
    fewer = {**conf, "sources": {"access_log": conf["sources"]["access_log"]}}
    step("no source", fewer, {"bronze.app"})
    return steps


def refused(conf: Conf, root: Path) -> dict[str, tuple[Conf, str]]:
    """Return changes that a run refuses, each with the command or word that solves it."""
    path = str(root / "other")
    return {
        "another directory": (with_source(conf, path=path), "oncelake rebuild bronze"),
        "renamed source": ({**conf, "sources": {"web": conf["sources"]["access_log"]}}, "name it access_log"),
        "no names": ({**conf, "sources": {}, "source": {"path": path}}, "Write sources instead"),
        "another declaration": (with_gold(conf, error_log=OTHER), "oncelake rebuild gold.error_log"),
        "no checkpoints": ({**conf, "checkpoints": path}, "oncelake recover"),
        "no key": (
            with_source(conf, mask={"rules": [{"find": "email", "action": "hash"}], "key_variable": "NO_SUCH_KEY"}),
            "openssl",
        ),
        "no directory": (with_source(conf, path=f"{path}/none"), "there is no such directory"),
    }


def test_a_run_does_what_the_plan_says(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    for name, (conf, changed, built) in accepted(lake.conf, tmp_path).items():
        if name == "new source":
            (tmp_path / "other" / "0.log").write_bytes(b"2017-07-30 14:09:08 ERROR other\n")
        lake.declare(conf)
        plan, before = lake.plan(), lake.versions()
        assert plan.holds, name
        assert {change.stage for change in plan.changes} == changed, name
        assert {stage.stage for stage in plan.stages if stage.action == "build"} == built, name
        reads = {stage.stage for stage in plan.stages if stage.action == "build" or stage.work}
        committed = lake.run(spark)
        follows = {"silver", "gold.error_log"} if name == "new source" else set()
        assert reads <= committed <= reads | follows, name
        made = {table for table in lake.versions() if table not in before}
        assert made == {_table(stage) for stage in built}, name
        if lake.plan().changes:  # a batch with lines records the rules, and that a stage is behind
            lake.house.write(f"{name}.log", b"2017-07-30 14:09:08 ERROR one more")
            lake.run(spark)
        assert lake.plan().changes == [], name
    assert lake.house.doubts(spark) == []


def _table(stage: str) -> str:
    return "bronze.access_log" if stage == "bronze" else stage


def test_what_the_plan_refuses_a_run_refuses_by_the_same_words(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    for name, (conf, solution) in refused(lake.conf, tmp_path).items():
        lake.declare(conf)
        plan, before = lake.plan(), lake.versions()
        assert not plan.holds, name
        assert solution in "\n".join([refusal.reason for refusal in plan.refused]), name
        with pytest.raises(OncelakeError) as error:
            lake.run(spark)
        assert any(_same(str(error.value), refusal.reason) for refusal in plan.refused), (name, str(error.value))
        assert lake.versions() == before, name
        assert lake.house.told(spark, "plan", "--json")[0] == 1, name
    lake.declare(lake.conf)
    assert lake.plan().holds


def _same(error: str, reason: str) -> bool:
    return error in reason or reason in error


def test_a_run_that_may_rebuild_builds_the_changed_tables_and_goes_on(lake: Lake, spark: SparkSession) -> None:
    lake.declare(with_gold(lake.conf, error_log=OTHER, by_hour=HOURLY))
    plan, asked = lake.plan(), list[Plan]()

    def refuse(plan: Plan) -> bool:
        asked.append(plan)
        return False

    assert plan.rebuilt == ["gold.error_log"]
    text = "\n".join(plan_lines(plan))
    assert "where: level = 'ERROR' becomes level <> 'INFO'" in text
    assert "reads 3 rows, " in text
    assert " of silver.access_log, about 1 s" in text or " of silver.access_log, about 2 s" in text
    with pytest.raises(OncelakeError, match="is declared as"):
        lake.run(spark, rebuild=refuse)
    assert [plan.rebuilt for plan in asked] == [["gold.error_log"]]
    assert lake.run(spark, rebuild=lambda _: True) >= {"gold.by_hour"}
    assert {row["level"] for row in lake.house.rows("gold/error_log")} == {"ERROR"}
    assert not lake.plan().changes
    assert lake.house.doubts(spark) == []

    # something else stops the run too, so nobody is asked
    lake.declare({**with_gold(lake.conf, error_log=HOURLY), "checkpoints": str(lake.house.root / "none")})
    with pytest.raises(OncelakeError):
        lake.run(spark, rebuild=refuse)
    assert len(asked) == 1


def test_a_sample_says_which_lines_a_format_moves_as_a_replay_does(lake: Lake, spark: SparkSession) -> None:
    path = lake.house.root / "loose.yaml"
    pattern = "^(?<time>.{19})(?: (?<level>[A-Z]+)(?: (?<message>.*))?)?$"
    path.write_text(yaml.safe_dump({"time": "yyyy-MM-dd HH:mm:ss", "default_level": "INFO", "pattern": pattern}))
    lake.house.write("1.log", b"2017-07-30 14:09:08 ERROR", b"2017-07-30 14:09:08")
    lake.run(spark)
    lake.declare(with_source(lake.conf, format=str(path)))
    plan = lake.house.lakehouse(spark).plan(sample=100)
    sample = plan.sample
    assert sample is not None
    assert plan.holds
    replayed = lake.house.lakehouse(spark).replay(dry_run=True)
    assert (sample.out.lines, sample.out.moved) == (replayed.lines, replayed.moved)
    assert sample.out.moved == 1
    assert (sample.into.lines, sample.into.moved) == (4, 1)
    assert dict(sample.into.rules) == {"pattern": 1}
    assert sample.into.examples == ["0.log:2017-07-30 14:09:59 error two"]
    text = "\n".join(plan_lines(plan, 80))
    assert "silver: 1 of 4 lines would go to quarantine; they break pattern 1" in text
    assert max(map(len, text.splitlines())) <= 80

    lake.declare(with_gold(lake.conf, wrong={**HOURLY, "where": "no_such_column = 1"}))
    assert lake.plan().holds, "only Spark can check an expression"
    assert "no_such_column" in lake.house.lakehouse(spark).plan(sample=10).refused[0].reason


def test_a_run_on_a_terminal_asks_and_obeys_the_answer(lake: Lake) -> None:
    lake.declare(with_gold(lake.conf, error_log=OTHER))
    command = [sys.executable, "-m", "oncelake", "run", "--once", "-c", str(lake.house.conf)]

    def answered(answer: str) -> tuple[int, str]:
        terminal = Terminal.start(command, lake.house.root)
        terminal.wait_for(lambda said: "[y/N]" in said)
        os.write(terminal.descriptor, answer.encode())
        return terminal.end(120), terminal.said

    code, said = answered("\n")
    assert (code, "where: level = 'ERROR' becomes level <> 'INFO'" in said) == (2, True)
    assert "oncelake: gold.error_log is declared as where level <> 'INFO'" in said
    assert "starting Spark" not in said
    code, said = answered("\x04")
    assert (code, "[y/N] \r\noncelake: gold.error_log is declared as" in said) == (2, True)
    code, said = answered("y\n")
    assert code == 0, said
    assert "gold.error_log is now the new table" in said
    assert json.loads(lake.house.call("plan", "--json"))["changes"] == []
