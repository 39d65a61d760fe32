"""`oncelake alerts` shows, tries and sends without Spark, and shows no secret."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.alerts.state import AlertState, Entry, directory, write_state
from tests.support.house import House, error_log_conf
from tests.support.receivers import Web, web

WHEN = "error_log.log_count > 2"


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.with_error_log(tmp_path)


def declare(house: House, server: Web) -> None:
    alerts = {"spike": {"when": WHEN, "to": {"kind": "slack", "url": server.url}}}
    house.conf.write_text(yaml.safe_dump({**error_log_conf(), "alerts": alerts}))


def call(house: House, *arguments: str, expect: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, *house.options])
    assert result.exit_code == expect, result.output
    assert "secret-b7c2" not in result.output
    return result.output


def test_the_commands_show_try_and_send(house: House) -> None:
    with web() as server:
        declare(house, server)
        assert call(house, "alerts") == f"spike: new: {WHEN}; to slack, none sent\n"
        assert call(house, "alerts", "test", "spike") == "spike: a test message is sent to its slack receiver\n"
        assert "oncelake test of alert: spike" in server.got[0]["text"]
        assert json.loads(call(house, "alerts", "test", "spike", "--json"))["status"] == "test"
        assert call(house, "alerts", "send") == f"spike: quiet: {WHEN}; to slack, none sent\n"
        said = call(house, "alerts", "test", "other", expect=2)
        assert said == "oncelake: there is no alert 'other'; declared: spike\n"
        server.answers = [404]
        said = call(house, "alerts", "test", "spike", expect=1)
        assert said == "oncelake: slack receiver of spike: it answers 404 Not Found\n"


def test_what_is_unsent_is_shown_and_sent(house: House) -> None:
    with web() as server:
        declare(house, server)
        where = directory(str(house.lake), "spike")
        due = Entry("spike/2026-01-31T08:00:00Z/0011", 1769846400000, 1769846460000, "log_count is 3")
        write_state(LocalFiles(), where, AlertState(WHEN, 0, entries=(due,), failed="slack receiver of spike: away"))
        said = call(house, "alerts")
        assert said == f"spike: open: {WHEN}; to slack, none sent, 1 unsent\n    slack receiver of spike: away\n"
        server.answers = [400]
        said = call(house, "alerts", "send", expect=1)
        assert "oncelake: warning: alert spike: slack receiver of spike: it answers 400 Bad Request; unsent: 1" in said
        (status,) = json.loads(call(house, "alerts", "send", "--json"))["alerts"]
        assert (status["unsent"], status["failed"], status["keys"]) == (0, "", [due.key])
        assert "log_count is 3" in server.got[0]["text"]
        assert ", last sent 20" in call(house, "alerts")


def test_a_lake_without_alerts_has_none(house: House) -> None:
    assert call(house, "alerts") == "no alert is declared; see docs/alerts.md\n"
    assert json.loads(call(house, "alerts", "send", "--json"))["alerts"] == []
    assert not house.lake.exists()


def test_options_before_a_subcommand_are_refused(house: House) -> None:
    result = CliRunner().invoke(app, ["alerts", *house.options, "test", "spike"])
    assert result.exit_code == 2
    assert "put options after test" in result.output
