"""Which broker is used, and what is said when one does not start; nothing of Kafka is started here."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.configuration import BROKER, configured, shipped_conf
from pipelines.demo.broker import There, open_broker
from pipelines.demo.server import wait_until_it_answers
from pipelines.errors import OncelakeError


def test_a_broker_that_is_named_is_used_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKER, "broker.example:9092")
    broker = open_broker(tmp_path / "kafka")
    assert broker == There("broker.example:9092")
    broker.remove()
    assert not (tmp_path / "kafka").exists()


def test_naming_a_broker_for_notebooks_is_no_unknown_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_BOOTSTRAP_SERVERS", "broker.example:9092")
    settings, _ = configured(shipped_conf() / "local.yaml", [f"source.path={tmp_path}"])
    assert settings.source.bootstrap_servers is None


def test_a_server_that_ends_is_not_waited_for_and_its_words_are_shown() -> None:
    def ask() -> None:
        raise ConnectionRefusedError

    with (
        subprocess.Popen([sys.executable, "-c", ""]) as ended,
        pytest.raises(OncelakeError, match="did not start: no room on the disk"),
    ):
        wait_until_it_answers(ended, ask, lambda: "no room on the disk")
