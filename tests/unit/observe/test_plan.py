"""A plan compares two configurations without a lake, and says of a new lake what a run makes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncelake.lakehouse import Lakehouse
from oncelake.observe.plan.plan import Plan
from oncelake.observe.plan.text import plan_lines
from tests.support.house import House, error_log_conf

SECRET = "sekret-1234567890"
Conf = dict[str, Any]


@pytest.fixture
def conf(tmp_path: Path) -> Conf:
    logs = tmp_path / "logs"
    logs.mkdir()
    source = {"path": str(logs), "zone": "UTC"}
    return {**error_log_conf(), "source": source, "lake": {"root": str(tmp_path / "lake")}}


def compared(root: Path, before: Conf, now: Conf) -> Plan:
    """Return the plan for a configuration against another one, in a process without Spark."""
    for name, conf in (("before", before), ("now", now)):
        (root / f"{name}.yaml").write_text(yaml.safe_dump(conf, sort_keys=False))
    with Lakehouse.open(root / "now.yaml") as lake:
        return lake.plan(against=root / "before.yaml")


def text(plan: Plan) -> str:
    return "\n".join(plan_lines(plan))


def test_a_plan_against_the_same_file_is_one_line(tmp_path: Path, conf: Conf) -> None:
    plan = compared(tmp_path, conf, dict(conf))
    assert text(plan) == f"nothing changed since {tmp_path}/before.yaml"
    assert (plan.holds, plan.commands) == (True, [])


def test_a_setting_beside_the_data_builds_and_refuses_nothing(tmp_path: Path, conf: Conf) -> None:
    plan = compared(tmp_path, conf, {**conf, "metrics": {"port": 9100}, "run": {"trigger": "1 second"}})
    assert (plan.holds, plan.commands) == (True, [])
    assert {stage.action for stage in plan.stages} == {"go on"}
    assert "settings: no table changes by these\n    run.trigger: " in text(plan)
    assert "metrics.port: added, 9100" in text(plan)


def test_a_changed_declaration_is_refused_with_the_command(tmp_path: Path, conf: Conf) -> None:
    gold = {"error_log": {**conf["gold"]["error_log"], "every": "1 hour"}}
    plan = compared(tmp_path, conf, {**conf, "gold": gold})
    assert [(refusal.stage, refusal.command) for refusal in plan.refused] == [
        ("gold.error_log", "oncelake rebuild gold.error_log")
    ]
    assert "every: 1 minute becomes 1 hour" in text(plan)
    assert "gold.error_log is declared as every 1 hour, but its table was built as every 1 minute" in text(plan)
    assert plan.rebuilt == ["gold.error_log"]


def test_a_renamed_table_is_a_new_one_beside_the_old_one(tmp_path: Path, conf: Conf) -> None:
    plan = compared(tmp_path, conf, {**conf, "gold": {"errors": conf["gold"]["error_log"]}})
    assert plan.holds
    assert "gold.errors: new; declared as gold.error_log was" in text(plan)
    assert f"gold.error_log: removed; the table {tmp_path}/lake/gold/error_log stays as it is" in text(plan)
    assert {stage.stage: stage.action for stage in plan.stages}["gold.errors"] == "build"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ({"path": "/var/log"}, "source replaced: lines were read from .*logs, the source is now /var/log"),
        ({"kind": "tail"}, "source replaced: .*kind files.*kind tail"),
    ],
)
def test_another_source_is_refused_as_a_run_does(tmp_path: Path, conf: Conf, now: Conf, reason: str) -> None:
    plan = compared(tmp_path, conf, {**conf, "source": {**conf["source"], **now}})
    (refusal,) = plan.refused
    assert (refusal.stage, refusal.command) == ("bronze", None)

    assert re.search(reason, refusal.reason)
    assert "oncelake rebuild bronze" in refusal.reason


def test_a_served_table_that_would_follow_another_one_is_refused(tmp_path: Path, conf: Conf) -> None:
    serving = {"url": f"sqlite:///{tmp_path}/served.db", "tables": ["error_log"]}
    modes = [{**conf, "serving": {**serving, "mode": mode}} for mode in ("idempotent", "transactional")]
    plan = compared(tmp_path, *modes)
    assert [refusal.stage for refusal in plan.refused] == ["serving.error_log"]
    assert "Replay it from silver.access_log: oncelake rebuild serving.error_log" in plan.refused[0].reason
    assert "serving.mode: idempotent becomes transactional" in text(plan)


def test_a_declaration_of_a_served_table_keeps_its_order(tmp_path: Path, conf: Conf) -> None:
    def served(*names: str) -> Conf:
        table = {"every": "1 hour", "by": {name: name for name in names}, "measures": {"lines": "count"}}
        serving = {"url": f"sqlite:///{tmp_path}/served.db", "tables": ["by"]}
        return {**conf, "gold": {"by": table}, "serving": serving}

    (refusal,) = compared(tmp_path, served("level", "message"), served("message", "level")).refused
    assert "gold.by.by has the order message, level, but its table was built with level, message" in refusal.reason
    assert compared(tmp_path, served("level", "message"), served("level", "message")).holds


def test_a_column_of_another_type_is_refused(tmp_path: Path, conf: Conf) -> None:
    def typed(name: str, kind: str) -> Conf:
        path = tmp_path / f"{name}.yaml"
        keys = {"time": "time", "level": "level", "message": "message"}
        path.write_text(yaml.safe_dump({"json": keys, "time": "iso8601", "columns": {"status": kind}}))
        return {**conf, "source": {**conf["source"], "format": str(path)}}

    plan = compared(tmp_path, typed("a", "int"), typed("b", "string"))
    (refusal,) = plan.refused
    assert "columns.status is declared as string, but silver.access_log has the column status of type int" in (
        refusal.reason
    )
    assert "format.columns.status.type: int becomes string" in text(plan)


def test_changed_rules_offer_the_commands_that_apply_them(tmp_path: Path, conf: Conf) -> None:
    plan = compared(tmp_path, conf, {**conf, "source": {**conf["source"], "zone": "Europe/Paris"}})
    assert plan.holds
    assert "format.zone: UTC becomes Europe/Paris" in text(plan)
    assert [command.command for command in plan.commands] == ["oncelake quarantine replay", "oncelake rebuild silver"]


def test_no_secret_is_in_a_plan(tmp_path: Path, conf: Conf) -> None:
    secrets = {
        "serving": {"url": f"sqlite:////tmp/{SECRET}.db"},
        "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}},
        "alerts": {"a": {"when": "proof fails", "to": {"kind": "slack", "url": f"https://hooks.example/{SECRET}"}}},
    }
    plan = compared(tmp_path, conf, {**conf, **secrets})
    shown = text(plan) + json.dumps(plan.to_dict())
    assert "serving.url: added, (not shown)" in shown
    assert "spark.conf.spark.hadoop.fs.s3a.secret.key: added, (not shown)" in shown
    assert SECRET not in shown


def test_another_place_is_a_lake_to_fill(tmp_path: Path, conf: Conf) -> None:
    gold = {"error_log": {**conf["gold"]["error_log"], "every": "1 hour"}}
    plan = compared(tmp_path, conf, {**conf, "gold": gold, "lake": {"root": str(tmp_path / "other")}})
    assert (plan.holds, plan.commands) == (True, [])
    assert {stage.action for stage in plan.stages} == {"build"}


def test_a_new_lake_says_what_a_run_makes(tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    house.write("a.log", b"2017-07-30 14:09:08 ERROR one")
    plan = house.lakehouse().plan()
    assert text(plan).splitlines()[:5] == [
        f"a new lake in {house.lake}",
        "a run would",
        "  build bronze from 1 file, 30 bytes of the source, time not known",
        "  build silver from bronze.access_log, time not known",
        "  build gold.error_log from silver.access_log, time not known",
    ]
    assert plan.holds
    assert not house.lake.exists()
