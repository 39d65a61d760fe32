"""Alerts are checked at start: what does not fit is one line that names the key, and shows no secret."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncelake.common.errors import ConfigError
from oncelake.engine.alerts import Condition, parse_condition
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import load
from oncelake.engine.settings import Settings

SECRET = "https://hooks.example.org/secret-b7c2"
TO = {"kind": "slack", "url": SECRET}
PLACES = ["source.path=/logs", "lake.root=/lake"]


def loaded(tmp_path: Path, alerts: Any, *sets: str) -> Settings:
    """Return the settings of a file with alerts."""
    values = yaml.safe_load((shipped_conf() / "local.yaml").read_text())
    path = tmp_path / "local.yaml"
    path.write_text(yaml.safe_dump({**values, "alerts": alerts}))
    return load(path, [*PLACES, *sets])


def refused(tmp_path: Path, alerts: Any, *sets: str) -> str:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, alerts, *sets)
    text = str(error.value)
    assert "\n" not in text
    assert "secret-b7c2" not in text
    return text


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("error_log.log_count > 100", Condition("gold", 100, ">", table="error_log", column="log_count")),
        ("error_log.log_count>=0.5", Condition("gold", 0.5, ">=", table="error_log", column="log_count")),
        ("error_log.log_count  <  -3", Condition("gold", -3, "<", table="error_log", column="log_count")),
        ("error_log.log_count <= 3", Condition("gold", 3, "<=", table="error_log", column="log_count")),
        ("freshness of gold.error_log > 10 minutes", Condition("freshness", 600, stage="gold.error_log")),
        ("backlog of bronze.web > 100000", Condition("backlog", 100000, stage="bronze.web")),
        ("refused > 5%", Condition("refused", 0.05, span=300)),
        ("refused > 0.5 % in 1 hour", Condition("refused", 0.005, span=3600)),
        ("proof fails", Condition("proof")),
    ],
)
def test_each_form_of_a_condition(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("error_log.log_count => 5", "there is no operator '=>'; use one of >=, <=, >, <"),
        ("error_log.log_count == 5", "there is no operator '=='"),
        ("error_log.log_count > many", "'many' is no number to compare with"),
        ("error_log.log_count > 1e3", "'1e3' is no number to compare with"),
        ("error_log > 5", "a condition is one of: <gold table>.<measure> > 100"),
        ("freshness of silver > 10 parsecs", "'10 parsecs' is no duration; write it as 10 minutes or 2 hours"),
        ("refused > 100%", "refused takes a share below 100% and a time of 1 second to 1 day"),
        ("refused > 5% in 2 days", "refused takes a share below 100%"),
        ("", "a condition is one of"),
        ("no_such.log_count > 5", "alerts.spike.when: there is no gold table no_such; declared: error_log, log_volume"),
        ("error_log.level > 5", "error_log has no measure level; its measures are log_count"),
        ("log_volume.level > 5", "log_volume has no measure level; its measures are log_count"),
        ("freshness of gold > 1 minute", "there is no stage gold; the stages are bronze, silver, gold.error_log"),
        ("backlog of serving.error_log > 5", "there is no stage serving.error_log"),
    ],
)
def test_a_condition_that_does_not_fit(tmp_path: Path, when: str, said: str) -> None:
    assert said in refused(tmp_path, {"spike": {"when": when, "to": TO}})


def test_windows_in_a_zone_are_not_watched(tmp_path: Path) -> None:
    table = "{every: 1 day, zone: Europe/Berlin, measures: {log_count: count}}"
    alerts = {"spike": {"when": "error_log.log_count > 5", "to": TO}}
    said = refused(tmp_path, alerts, f"gold.error_log={table}")
    assert "alerts.spike.when: gold.error_log has windows in a zone, which have no fixed length" in said


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ({"kind": "slack"}, "url is required for kind slack: the address of the incoming webhook; set it in the env"),
        ({"kind": "slack", "url": ""}, "alerts.spike.to.url: an address of a webhook has the form https://host/path"),
        ({"kind": "teams", "url": "ftp://secret-b7c2"}, "an address of a webhook has the form https://host/path"),
        ({"kind": "webhook", "url": "https://a b/secret-b7c2"}, "an address of a webhook has the form"),
        ({"kind": "webhook", "url": "https://h:99999/secret-b7c2"}, "an address of a webhook has the form"),
        (
            {"kind": "pagerduty"},
            "key is required for kind pagerduty: the routing key of an Events API v2 integration; ",
        ),
        ({"kind": "pagerduty", "key": " "}, "key is required for kind pagerduty"),
        ({"kind": "email", "host": "h", "sender": "a@b"}, "recipients is required for kind email"),
        ({"kind": "email", "host": "h", "sender": "a", "recipients": ["b@c"]}, "an address has the form name@host"),
        ({"kind": "email", "host": "h", "sender": "a@b", "recipients": ["b@c\nBcc: d@e"]}, "has the form name@host"),
        (
            {"kind": "email", "host": "h", "sender": "a@b", "recipients": ["b@c"], "user": "u"},
            "go together; set the pa",
        ),
        (
            {"kind": "email", "host": "h", "sender": "a@b", "recipients": ["b@c"], "user": "u", "password": SECRET}
            | {"security": "none"},
            "a password needs security starttls or tls",
        ),
        ({"kind": "command"}, "command is required for kind command"),
        ({"kind": "slack", "url": SECRET, "host": "h"}, "host is not for kind slack; its keys are url, timeout"),
        ({"kind": "pager", "url": SECRET}, "alerts.spike.to.kind: Input should be 'slack', 'teams'"),
        ({"kind": "slack", "url": SECRET, "token": SECRET}, "alerts.spike.to.token: there is no such setting"),
        ({"kind": "slack", "url": SECRET, "timeout": "2 minutes"}, "alerts.spike.to.timeout: Input should be less"),
        (SECRET, "alerts.spike.to: expected a mapping of keys and values"),
        ([SECRET], "alerts.spike.to: expected a mapping of keys and values"),
    ],
)
def test_a_receiver_that_does_not_fit(tmp_path: Path, to: Any, said: str) -> None:
    assert said in refused(tmp_path, {"spike": {"when": "proof fails", "to": to}})


@pytest.mark.parametrize("name", ["Spike", "a-b", "../x", "1st", "a" * 41, ""])
def test_a_name_is_a_directory_and_part_of_a_variable(tmp_path: Path, name: str) -> None:
    assert "is not a valid name" in refused(tmp_path, {name: {"when": "proof fails", "to": TO}})


def test_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, {"a": {"when": "proof fails", "to": TO, "since": "2026-01-31T08:00:00"}})
    assert "alerts.a.since: expected a time with its zone, such as" in said


def test_a_secret_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_ALERTS__SPIKE__TO__URL", SECRET)
    settings = loaded(tmp_path, {"spike": {"when": "proof fails", "to": {"kind": "slack"}}})
    assert settings.alerts["spike"].to.secret("url") == SECRET
    assert "secret-b7c2" not in f"{settings!r} {settings.model_dump_json()}"


def test_a_secret_of_databricks_is_refused_elsewhere(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"a": {"when": "proof fails", "to": {"kind": "slack", "url": "{{secrets/s/k}}"}}})
    with pytest.raises(ConfigError, match="this is not a Databricks cluster"):
        settings.alerts["a"].to.check()


def test_settings_without_alerts_have_no_trace_of_them() -> None:
    settings = load(shipped_conf() / "local.yaml", PLACES)
    assert "alerts" not in json.loads(settings.model_dump_json())
