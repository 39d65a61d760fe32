"""Every command reports an error in one line, exits as documented, and never shows a traceback."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.cli.program import interrupt, reported, stop_on_signals
from oncelake.common.spark import launch
from oncelake.common.spark.versions import installed
from oncelake.engine import open_lake
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import CONF
from tests.support.house import House

LOCAL = str(shipped_conf() / "local.yaml")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.mark.parametrize("command", ["run", "plan", "status", "doctor", "recover", "prove", "report"])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-c", "none.yaml"], "there is no configuration file none.yaml"),
        (["--set", "lake.rot=/x"], "lake.rot: there is no such setting"),
        (["--set", "source.format=none"], "source.format 'none'"),
        (["--set", "gold.a'b={every: 1 minute, measures: {n: count}}"], "is not a valid name"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_use_exits_2_in_one_line(command: str, arguments: list[str], expected: str) -> None:
    conf = [] if "-c" in arguments else ["-c", LOCAL]
    code, said = call(command, *conf, *arguments)
    assert code == 2
    assert expected in said


@pytest.mark.parametrize("command", ["rebuild", "recover"])
def test_an_unknown_stage_is_an_error_before_spark_starts(
    house: House, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))
    code, said = call(
        command, "gold.eror_log", "-c", LOCAL, *(part for flag in house.flags for part in ("--set", flag))
    )
    assert code == 2
    assert said.startswith("oncelake: there is no stage 'gold.eror_log'; the stages are bronze, silver, ")
    assert said.endswith("; did you mean gold.error_log?\n")


def test_a_history_without_rows_names_the_next_command(house: House) -> None:
    assert house.call("history") == "no rows yet. Run first: oncelake run --once\n"
    assert house.call("history", "gold.error_log") == "no rows yet in gold.error_log. Run first: oncelake run --once\n"


def test_a_missing_source_is_an_error_before_spark_starts(house: House) -> None:
    house.sets = ["source.path=/none"]
    assert house.call("run", expect=2) == "oncelake: source.path /none: there is no such directory; " + (
        "create it, or set the directory with your logs\n"
    )
    assert not house.lake.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--watch", "-o", "page.html"], "--watch serves the page and writes no file"),
        (["--port", "1"], "--port is the port of --watch"),
        (["-o", "/none/page.html"], "/none is not a directory that this process may write to"),
    ],
)
def test_a_report_without_a_viewer_is_refused(arguments: list[str], expected: str) -> None:
    code, said = call("report", "-c", LOCAL, *arguments)
    assert (code, expected in said) == (2, True)


def test_a_port_in_use_is_an_error_before_spark_starts(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        house.sets = [f"metrics.port={server.getsockname()[1]}"]
        said = house.call("run", expect=2)
    assert said.startswith(f"oncelake: {house.sets[0].replace('=', ' ')}: cannot listen at 127.0.0.1: Address")
    assert said.count("\n") == 1
    assert not house.lake.exists()


def test_an_error_for_programs_is_json(house: House) -> None:
    said = house.call("doctor", "--json", "--set", "source.kind=socket", expect=2)
    assert json.loads(said.splitlines()[0])["exit_code"] == 2


def test_doctor_and_status_of_a_new_lake_need_no_java(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/none")
    assert "bronze: fresh" in house.call("doctor")
    stages = json.loads(house.call("status", "--json"))["stages"]
    assert [stage["stage"] for stage in stages] == ["bronze", "silver", "gold.error_log", "gold.log_volume"]
    assert {stage["page"] for stage in stages} == {"fresh.md"}
    assert not (house.lake).exists()


def test_doctor_exits_1_if_a_stage_would_be_refused(house: House) -> None:
    commits = house.checkpoint("silver") / "commits"
    commits.mkdir(parents=True)
    (commits / "7").write_text("v1\n{}")
    said = house.call("doctor", expect=1)
    assert "silver: checkpoint ahead" in said
    assert "gold.error_log: fresh" in said


@pytest.mark.parametrize("kind", ["files", "tail"])
def test_doctor_names_a_directory_that_does_not_exist(tmp_path: Path, kind: str) -> None:
    sets = ["--set", f"lake.root={tmp_path}/lake", "--set", f"source.kind={kind}", "--set", "source.path=/no/logs"]
    code, said = call("doctor", *sets)
    assert code == 1
    assert "source.path /no/logs: there is no such directory; create it, or set the directory" in said
    assert "ok  bronze: fresh" in said


def test_without_java_the_error_says_how_to_install_it(house: House) -> None:
    environment = {**os.environ, "JAVA_HOME": "/none"}
    command = ["-m", "oncelake", "run", "--once", "-c", LOCAL, "--set", f"source.path={house.logs}"]
    done = subprocess.run(
        [sys.executable, *command, "--set", f"lake.root={house.lake}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"no Java found (looked in JAVA_HOME=/none); Spark {installed().name} needs Java 17" in done.stderr


def test_a_line_of_a_log_is_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"[red]cart[/] :bug: [link=file:///]{'long ' * 60}"
    with reported(as_json=False, verbose=True) as console:
        console.print(line)
    assert capsys.readouterr().out == f"{line}\n"


def test_a_signal_requests_a_stop_even_while_the_event_is_checked() -> None:
    lock = threading.Lock()

    class Stopping(threading.Event):
        def set(self) -> None:
            with lock:
                super().set()

    stopping, before = Stopping(), {caught: signal.getsignal(caught) for caught in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop_on_signals(stopping)
        with lock:
            signal.raise_signal(signal.SIGTERM)
        assert stopping.wait(10)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def commands(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that call it, groups included."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *words, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_fits_80_columns_and_truncates_no_summary(words: tuple[str, ...], flag: str) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words, flag])
    assert result.exit_code == 0
    assert "…" not in result.output
    assert "[[" not in result.output, "a metavar has no brackets of its own"
    assert not re.search(r"<(bool|str|int|float|list|path|file|directory)", result.output), "a type of Python"
    assert max(map(len, result.output.splitlines())) <= 80
    for inner in getattr(COMMANDS[words], "commands", {}).values():
        summary = inner.help.split("\n\n")[0]
        assert f" {summary} " in result.output, "a summary takes more than one line"


@pytest.mark.parametrize("words", [words for words in COMMANDS if len(words) < 2], ids=" ".join)
def test_the_examples_in_the_help_are_commands(words: tuple[str, ...]) -> None:
    heading, *examples = COMMANDS[words].epilog.splitlines()
    assert heading.strip() == "Examples:"
    assert examples
    for example in examples:
        program, *asked = shlex.split(example.partition(">")[0])
        assert program == "oncelake"
        named = tuple(word for word in asked[:2] if word in {part for command in COMMANDS for part in command})
        if words:
            assert named[0] == words[0]
        flags = {flag for param in COMMANDS[named].params for flag in param.opts} | {"-h"}
        assert {word for word in asked if word.startswith("-")} <= flags, example


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (KeyboardInterrupt(signal.SIGTERM), 143)])
def test_an_interrupted_command_exits_as_a_shell_reports_it(raised: KeyboardInterrupt, code: int) -> None:
    with pytest.raises(typer.Exit) as ended, reported(as_json=False, verbose=True):
        raise raised
    assert ended.value.exit_code == code


def test_a_signal_that_is_handled_as_ctrl_c_is_remembered() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        interrupt(signal.SIGHUP, None)
    assert raised.value.args == (signal.SIGHUP,)


def test_quiet_prints_errors_only(house: House) -> None:
    assert call("doctor", "-q", *house.options) == (0, "")
    assert call("doctor", *house.options)[1].startswith("ok  bronze: fresh")
    code, said = call("doctor", "-q", *house.options, "--set", "source.format=none")
    assert (code, said.count("\n")) == (2, 1)
    code, said = call("doctor", "-q", "--json", *house.options)
    assert code == 2
    assert said.endswith("\noncelake: --quiet prints no result, --json prints it as JSON: give one of them\n")


def test_config_is_an_alias_of_conf(house: House) -> None:
    _, conf, *sets = house.options
    assert call("doctor", "--config", conf, *sets)[0] == 0


def test_a_command_needs_no_file_in_any_directory(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.root)
    code, said = call("doctor")
    assert (code, said.count("\n")) == (2, 1)
    assert "there is no configuration" in said
    code, said = call("doctor", *house.options[2:])
    assert (code, "gold.log_volume: fresh" in said) == (0, True)


def test_the_environment_may_name_the_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = house.root / "mine.yaml"
    conf.write_text(f"source: {{path: {house.logs}}}\nlake: {{root: {house.lake}}}\n")
    monkeypatch.setenv(CONF, str(conf))
    assert "gold" not in call("doctor")[1]
    assert "gold" in call("doctor", *house.options)[1]
    monkeypatch.setenv(CONF, "")
    assert "gold" in call("doctor", *house.options[2:])[1]


@pytest.fixture
def plain_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt as in a command's process, and keep it from the JVM of the other tests."""
    monkeypatch.setattr(launch, "end_jvm", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("plain_ctrl_c")
@pytest.mark.parametrize(
    ("changes", "state"),
    [(False, "nothing was changed"), (True, "what is written stays right; run the command again to do the rest")],
)
def test_ctrl_c_ends_a_command_with_130_and_one_line(
    capsys: pytest.CaptureFixture[str], *, changes: bool, state: str
) -> None:
    with pytest.raises(typer.Exit) as ended, reported(as_json=False, verbose=False, changes=changes):
        signal.raise_signal(signal.SIGINT)
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == f"oncelake: stopped; {state}\n"


def lose_the_jvm() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    raise ConnectionResetError("the JVM ended")


@pytest.mark.usefixtures("plain_ctrl_c")
def test_an_error_that_ctrl_c_causes_is_no_error_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, reported(as_json=False, verbose=False):
        lose_the_jvm()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "oncelake: stopped; nothing was changed\n"


def test_a_second_ctrl_c_ends_a_command_at_once() -> None:
    program = (
        "import signal, time\n"
        "from oncelake.cli.program import reported\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with reported(as_json=False, verbose=False):\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    finally:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGINT


@pytest.mark.usefixtures("plain_ctrl_c")
def test_a_handler_that_the_command_installed_stays() -> None:
    stopping = threading.Event()
    stop_on_signals(stopping)
    with reported(as_json=False, verbose=False):
        signal.raise_signal(signal.SIGINT)
        assert stopping.wait(10)


@pytest.mark.parametrize("inside", ["", "/inside"])
def test_a_lake_at_the_place_of_a_file_is_refused_before_spark_starts(
    house: House, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/none")
    file = house.root / "file"
    file.write_text("mine")
    root = ["--set", f"lake.root={file}{inside}"]
    said = f"lake.root {file}{inside}: {file} is a file, and the tables need a directory; set another directory, or "
    code, run = call("run", "--once", *house.options, *root)
    assert (code, run) == (2, f"oncelake: {said}move the file\n")
    code, doctor = call("doctor", *house.options, *root)
    assert (code, said in doctor) == (1, True)
    assert file.read_text() == "mine"
