"""The lab uses the right broker, and reports one that does not start; these tests start no Kafka."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from oncelake.common.errors import OncelakeError
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import BROKER, configured
from oncelake.lab.demo.broker import ExternalBroker, open_broker
from oncelake.lab.demo.server import wait_until_it_answers


def test_a_named_broker_is_used_and_left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROKER, "broker.example:9092")
    broker = open_broker(tmp_path / "kafka")
    assert broker == ExternalBroker("broker.example:9092")
    broker.remove()
    assert not (tmp_path / "kafka").exists()


def test_the_variable_of_the_notebooks_broker_is_a_known_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELAKE_BOOTSTRAP_SERVERS", "broker.example:9092")
    settings, _ = configured(shipped_conf() / "local.yaml", [f"source.path={tmp_path}"])
    assert settings.by_name["access_log"].bootstrap_servers is None


def test_a_server_that_exits_is_an_error_with_its_output() -> None:
    def ask() -> None:
        raise ConnectionRefusedError

    with (
        subprocess.Popen([sys.executable, "-c", ""]) as ended,
        pytest.raises(OncelakeError, match="did not start: no room on the disk"),
    ):
        wait_until_it_answers(ended, ask, lambda: "no room on the disk")


def test_a_started_process_is_killed_with_its_parent() -> None:
    starter = """
    import os, signal, subprocess, sys
    from oncelake.common.afterwards import kill_afterwards
    child = subprocess.Popen(["sleep", "60"], stdout=sys.stdout)
    watch = kill_afterwards(child)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(starter)], stdout=subprocess.PIPE, check=False, timeout=20
    )
    assert done.returncode == -9  # and it was no time-out: the child, which has the output open, has ended too
