"""A new project's files say what was asked for, are accepted by oncelake and systemd, and replace no file."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import ConfigError
from oncelake.common.lake import SILVER
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.lab.project.write import NewSource, check_new
from oncelake.quality.suite import read_suites
from tests.support.terminal import Terminal

FILES = {
    "conf/local.yaml",
    "conf/oncelake.schema.json",
    "conf/expectations/silver.access_log.json",
    "oncelake.service",
    ".gitignore",
}
# no shipped format fits these
TILL = "".join(f"<26.11.2026 10:00:0{at}> (till-{at}) Err: card refused\n" for at in range(9))
JAVA = "".join(f"2026-11-25 10:00:00,123 INFO  [main] c.e.App - started {at}\n" for at in range(9))
AMBIGUOUS = "05/06/26 20:10:40 INFO x\n"


def init(*arguments: str, expect: int = 0) -> str:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exit_code == expect, result.output
    assert "Traceback" not in result.output
    return result.output


def below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory whose name needs quotes everywhere."""
    directory = tmp_path / "50% of 'my' $logs: #1"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_without_a_sample_the_files_and_the_next_command_are_written(place: Path) -> None:
    said = init("my lake").splitlines()
    assert below(place / "my lake") == FILES
    assert sorted(said[:-1]) == sorted(f"wrote my lake/{name}" for name in FILES)
    assert said[-1] == "next: cp YOUR_LOGS 'my lake/data/logs' && cd 'my lake' && oncelake run --once"
    settings, formats = configured(place / "my lake/conf/local.yaml", [])
    source = settings.by_name["access_log"]
    assert (source.kind, source.path, source.format) == ("files", f"{place}/my lake/data/logs", "default")
    assert Path(str(source.path)).is_dir()
    assert settings.places().root == f"{place}/my lake/data/lake"
    assert list(settings.gold) == ["error_log", "log_volume"]
    assert list(formats) == ["access_log"]
    assert settings.quality.expectations == f"{place}/my lake/conf/expectations"
    schema = json.loads((place / "my lake/conf/oncelake.schema.json").read_text())
    jsonschema.validate(yaml.safe_load((place / "my lake/conf/local.yaml").read_text()), schema)
    assert (
        (place / "my lake/conf/local.yaml")
        .read_text()
        .startswith("# yaml-language-server: $schema=oncelake.schema.json\n")
    )
    assert list(read_suites(Path(settings.quality.expectations), [SILVER])) == [SILVER]


def test_a_topic_is_read_as_named(place: Path) -> None:
    said = init(".", "--kafka", "broker1:9092,broker2:9092", "--topic", "app-log")
    assert said.splitlines()[-1] == "next: oncelake run --once"
    settings, _ = configured(Path("conf/local.yaml"), [])
    source = settings.by_name["access_log"]
    assert (source.kind, source.topic) == ("kafka", "app-log")
    assert source.bootstrap_servers == "broker1:9092,broker2:9092"
    assert not (place / "data").exists()


def test_a_directory_of_logs_is_followed_in_the_format_that_was_drafted(place: Path) -> None:
    (place / "my: logs").mkdir()
    (place / "my: logs/shop.log").write_text(TILL)
    said = init("lake", "--from", "my: logs")
    assert below(place / "lake") == {*FILES, "conf/formats/shop.yaml"}
    settings, parsers = configured(place / "lake/conf/local.yaml", [])
    source, declared = settings.by_name["access_log"], parsers["access_log"].declared
    assert (source.kind, source.path, source.format) == ("tail", f"{place}/my: logs", "shop")
    assert "Err" not in str(declared.pattern)
    assert declared.levels == {"ERR": "ERROR"}
    assert said.splitlines()[-1] == "next: cd lake && oncelake run --once"
    assert "zone: UTC                # an assumption: " in (place / "lake/conf/formats/shop.yaml").read_text()


def test_what_the_format_reads_is_shown(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/shop.log").write_text(f"{TILL}no line of this kind\n")
    said = init("lake", "--from", "logs").splitlines()
    assert said[:8] == [
        "90.0% of 10 lines of logs/shop.log parse as shop",
        "  from 2026-11-26 10:00:00 to 2026-11-26 10:00:08 UTC; ERROR 9",
        "  read     <26.11.2026 10:00:00> (till-0) Err: card refused",
        "    2026-11-26 10:00:00.000000 UTC ERROR card refused",
        "    field1=till-0",
        "  refused  no line of this kind",
        "    pattern 1",
        "  assumed: the times have no zone and are read as UTC",
    ]


_LOGS_WITH_FATAL = {
    "java": "2026-11-25 10:00:10,123 FATAL [main] c.e.App - no memory\n",
    "python": "2026-11-25 10:00:10,123 - app.db - CRITICAL - no disk\n",
    "nginx_error": "2026/11/25 10:00:10 [emerg] 99#99: bind() to 0.0.0.0:80 failed\n",
    "syslog": "<2>Nov 25 10:00:10 host kernel: out of memory\n",
    "json": '{"time": "2026-11-25T10:00:10Z", "level": "critical", "message": "no disk"}\n',
}
_LOGS_WITHOUT = {
    "java": "2026-11-25 10:00:10,123 ERROR [main] c.e.App - FATAL is a word of this message\n",
    "python": "2026-11-25 10:00:10,123 - app.db - ERROR - a critical path\n",
    "nginx_error": "2026/11/25 10:00:10 [error] 99#99: emerg is a word\n",
    "syslog": "<3>Nov 25 10:00:10 host kernel: crit\n",
    "json": '{"time": "2026-11-25T10:00:10Z", "level": "error", "message": "fatal"}\n',
}


@pytest.mark.parametrize("name", _LOGS_WITH_FATAL)
def test_fatal_lines_of_the_sample_get_a_gold_table(place: Path, name: str) -> None:
    (place / "logs").mkdir()
    (place / "logs/app.log").write_text(_LOGS_WITHOUT[name] * 9 + _LOGS_WITH_FATAL[name])
    said = init("lake", "--from", "logs")
    assert f"parse as {name}\n" in said
    assert "gold.fatal_log is for the FATAL lines, which gold.error_log does not count\n" in said
    gold = configured(place / "lake/conf/local.yaml", [])[0].gold
    assert list(gold) == ["error_log", "fatal_log", "log_volume"]
    assert gold["error_log"].where == "level = 'ERROR'"
    assert gold["fatal_log"] == gold["error_log"].model_copy(update={"where": "level = 'FATAL'"})


def test_fatal_lines_of_one_of_several_logs_are_enough(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/shop.log").write_text(TILL)
    (place / "logs/app.log").write_text(_LOGS_WITHOUT["java"] * 9 + _LOGS_WITH_FATAL["java"])
    init("lake", "--from", "logs")
    assert "fatal_log" in configured(place / "lake/conf/local.yaml", [])[0].gold


@pytest.mark.parametrize("name", _LOGS_WITHOUT)
def test_a_sample_without_fatal_lines_gets_no_table_for_them(place: Path, name: str) -> None:
    (place / "logs").mkdir()
    (place / "logs/app.log").write_text(_LOGS_WITHOUT[name] * 9)
    assert "fatal_log" not in init("lake", "--from", "logs")
    assert list(configured(place / "lake/conf/local.yaml", [])[0].gold) == ["error_log", "log_volume"]


def test_each_kind_of_logs_is_a_source_of_its_own(place: Path) -> None:
    for name, text in {
        "web/app.log": JAVA,
        "web/app.log.1": JAVA,
        "till/till-20261126.log": TILL,
        "x.log": JAVA,
    }.items():
        (place / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "logs" / name).write_text(text)
    (place / "logs/wtmp").write_bytes(bytes(99))
    said = init("lake", "--from", "logs")
    assert "oncelake: warning: logs/wtmp is left out: it is no text" in said
    sources = configured(place / "lake/conf/local.yaml", [])[0].by_name
    assert {source.format: source.path for source in sources.values()} == {
        "java": f"{place}/logs/{{web/app.log*,x.log*}}",
        "till": f"{place}/logs/till/till-*.log*",
    }


def test_the_names_of_two_kinds_need_not_differ_at_their_beginning(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/app.log").write_text(JAVA)
    (place / "logs/app.log_till").write_text(TILL)
    init("lake", "--from", "logs")
    sources = configured(place / "lake/conf/local.yaml", [])[0].by_name
    paths = {source.format: str(source.path) for source in sources.values()}
    assert paths == {"java": f"{place}/logs/{{app.log,app.log[-.]*}}", "app": f"{place}/logs/app.log_till*"}


@pytest.mark.parametrize("newest", ["app1.log", "app2.log"])
def test_files_whose_names_differ_by_a_number_may_be_of_two_kinds(place: Path, newest: str) -> None:
    (place / "logs").mkdir()
    for name, text in {"app1.log": JAVA, "app2.log": TILL}.items():
        (place / "logs" / name).write_text(text)
        stamp = 1_796_000_000 + (name == newest)
        os.utime(place / "logs" / name, (stamp, stamp))
    init("lake", "--from", "logs")
    sources = configured(place / "lake/conf/local.yaml", [])[0].by_name
    assert {str(source.path) for source in sources.values()} == {
        f"{place}/logs/{{{name},{name}[-.]*}}" for name in ("app1.log", "app2.log")
    }


def test_rotated_files_of_two_kinds_are_refused_by_name(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/app.log").write_text(JAVA)
    (place / "logs/app.log.1").write_text(TILL)
    said = init("lake", "--from", "logs", expect=2)
    assert re.search(r"app\.log(\.1)? is read as \w+, and app\.log(\.1)? is not", said)
    assert not (place / "lake").exists()


def test_one_file_is_read_without_the_files_beside_it(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/app.log").write_text(JAVA)
    (place / "logs/till.log").write_text(TILL)
    init("lake", "--from", "logs/app.log")
    source = configured(place / "lake/conf/local.yaml", [])[0].by_name["access_log"]
    assert (source.path, source.format) == (f"{place}/logs/app.log*", "java")


def test_a_log_that_cannot_be_read_is_left_out_with_the_reason(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/shop.log").write_text(TILL)
    (place / "logs/cut.log.gz").write_bytes(b"no gzip")
    (place / "logs/odd.log.zst").write_bytes(b"x")
    said = init("lake", "--from", "logs")
    assert "oncelake: warning: logs/cut.log.gz is left out: cannot be read: Not a gzipped file" in said
    assert "oncelake: warning: logs/odd.log.zst is left out: the format of .zst files is not read here" in said
    assert init("other", "--from", "none.log", expect=2) == (
        "oncelake: none.log cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize("logs", ["logs", "logs/core"])
def test_a_file_of_bytes_needs_no_format(place: Path, logs: str) -> None:
    (place / "logs").mkdir()
    (place / "logs/core").write_bytes(bytes(99))
    said = init("lake", "--from", logs, expect=1)
    assert said.startswith(f"oncelake: no format reads {logs}, so nothing was written: ")
    assert said.endswith("it is no text; name a log, or a directory of logs\n")
    assert said.count("logs/core") == 1


def test_a_directory_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    with pytest.raises(ConfigError, match=r"^lake cannot be read: Permission denied; name another directory$"):
        check_new(Path("lake"))


def test_a_terminal_of_80_columns_shows_whole_lines(place: Path) -> None:
    (place / "logs").mkdir()
    levels = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    (place / "logs/app.log").write_text(
        "".join(f"2026-11-25 10:00:00,123 {level} [main] c.e.App - {'long ' * 40}\n" for level in levels) + "x" * 200
    )
    terminal = Terminal.start([sys.executable, "-m", "oncelake", "init", "lake", "--from", "logs"], place)
    assert terminal.end() == 0
    lines = terminal.said.replace("\r", "").split("\n")
    assert "  from 2026-11-25 10:00:00 to 2026-11-25 10:00:00 UTC" in lines
    assert "  DEBUG 1, INFO 1, WARN 1, ERROR 1, FATAL 1" in lines
    shown = lines[: lines.index(next(line for line in lines if line.startswith("wrote")))]
    assert max(map(len, shown)) <= 80
    assert any(line.startswith("  read     2026-11-25 10:00:00,123 ") and line.endswith("…") for line in shown)


@pytest.mark.parametrize("logs", ["logs", "logs/a.log"])
def test_without_a_format_nothing_is_written(place: Path, logs: str) -> None:
    (place / "logs").mkdir()
    (place / "logs/a.log").write_text(AMBIGUOUS)
    said = init("lake", "--from", logs, expect=1)
    assert "so nothing was written: " in said
    assert "yy/MM/dd HH:mm:ss (2005-06-26) or dd/MM/yy HH:mm:ss (2026-06-05) or MM/dd/yy" in said
    assert not (place / "lake").exists()


def test_a_new_project_stops_if_most_lines_are_refused(place: Path) -> None:
    init(".")
    limits = configured(place / "conf/local.yaml", [])[0].quality.gate.quarantined
    assert (limits.warn, limits.fail, limits.fail_from) == (0.05, 0.5, 1000)
    assert configured(shipped_conf() / "local.yaml", [])[0].quality.gate.quarantined.fail is None


@pytest.mark.parametrize("service", [[], ["--kafka", "broker1:9092", "--topic", "app-log"]])
def test_systemd_accepts_the_unit(place: Path, monkeypatch: pytest.MonkeyPatch, service: list[str]) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java 17")
    program = place / "bin" / "python"
    (place / "bin").mkdir()
    for name in ("python", "oncelake"):
        (place / "bin" / name).write_text("#!/bin/sh\n")
        (place / "bin" / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    init(".", *service)
    text = (place / "oncelake.service").read_text()
    assert "RestartPreventExitStatus=2\n" in text
    assert 'Environment="JAVA_HOME=/opt/java 17"\n' in text
    escaped = str(place).replace("%", "%%")
    in_words = escaped.replace("$", "$$")
    assert f'ExecStart=/usr/bin/env "{in_words}/bin/oncelake" run -c "{in_words}/conf/local.yaml"\n' in text
    if (verify := shutil.which("systemd-analyze")) is not None:
        unit = place.parent / "oncelake.service"
        shutil.copy(place / "oncelake.service", unit)
        done = subprocess.run([verify, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_no_file_is_overwritten(place: Path) -> None:
    (place / ".gitignore").write_text("mine\n")
    (place / "oncelake.service").symlink_to("/nowhere")
    said = init(".")
    assert "kept .gitignore, which was there already\n" in said
    assert "kept oncelake.service, which was there already\n" in said
    assert (place / ".gitignore").read_text() == "mine\n"
    before = {name: (place / name).read_bytes() for name in FILES - {"oncelake.service"}}
    assert init(".", expect=2) == (
        "oncelake: conf/local.yaml exists, and init overwrites no file; name another directory, or edit that file\n"
    )
    assert {name: (place / name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lake", "--kafka", "h:1"], "--topic is missing: a topic needs both"),
        (["lake", "--topic", "t"], "--kafka is missing: a topic needs both"),
        (["lake", "--kafka", "h:1", "--topic", "a/b"], "--kafka, --topic: topic: "),
        (["file"], "file is a file; name a directory"),
        (["file/lake"], "file/lake/conf cannot be written: Not a directory; name another directory"),
        (["a\nb"], "has a character that cannot be printed"),
        (["lake", "--from", "empty"], "--from empty: there is no file with lines in this directory"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(place: Path, arguments: list[str], said: str) -> None:
    (place / "file").touch()
    (place / "empty").mkdir()
    (place / "empty/.hidden.log").write_text("x\n")
    (place / "empty/zero.log").touch()
    printed = init(*arguments, expect=2)
    assert said in printed
    assert printed.count("\n") == 1
    assert below(place) == {"file", "empty/.hidden.log", "empty/zero.log"}


def test_the_newest_file_of_a_log_is_its_sample(place: Path) -> None:
    for age, (name, text) in enumerate({"new/.b.log": "x\n", "_c.log": "x\n", "a.log": JAVA, "a.log.1": "x\n"}.items()):
        (place / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "logs" / name).write_text(text)
        stamp = 1_790_000_000 - age
        os.utime(place / "logs" / name, (stamp, stamp))
    said = init("lake", "--from", "logs")
    assert "100.0% of 9 records of 9 lines of logs/a.log parse as java\n  and 1 more file: a.log.1\n" in said
    assert "  look: a.log.1 differs, and its lines go to quarantine: no time was found in the lines\n" in said


def test_logs_around_the_project_are_copied_into_it(place: Path) -> None:
    (place / "shop.log").write_text(JAVA)
    said = init("lake", "--from", "shop.log").splitlines()
    assert said[0] == "100.0% of 9 records of 9 lines of shop.log parse as java"
    assert said[-1] == "next: cp shop.log lake/data/logs && cd lake && oncelake run --once"
    source = configured(place / "lake/conf/local.yaml", [])[0].by_name["access_log"]
    assert (source.path, source.kind, source.format) == (f"{place}/lake/data/logs", "files", "java")
    assert Path(str(source.path)).is_dir()


def test_no_jvm_is_started(place: Path) -> None:
    (place / "logs").mkdir()
    (place / "logs/shop.log").write_text(TILL)
    for command in (["init", "lake", "--from", "logs"], ["format", "suggest", "logs/shop.log"]):
        done = subprocess.run(
            [sys.executable, "-m", "oncelake", *command],
            env={**os.environ, "JAVA_HOME": "/none", "PATH": "/none"},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_only_a_terminal_is_asked_for_a_sample(place: Path) -> None:
    command = [sys.executable, "-m", "oncelake", "init", "lake"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shutil.rmtree(place / "lake")
    terminal = Terminal.start(command, place)
    terminal.wait_for(lambda said: "A log file or a directory of logs (Enter: none yet)" in said)
    assert not (place / "lake").exists()
    os.write(terminal.descriptor, b"\n")
    assert terminal.end() == 0
    assert below(place / "lake") == FILES


def is_asleep(process: int) -> bool:
    """Return True if a process waits, as for a line of input."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("key", ["Ctrl-C", "Ctrl-D"])
def test_a_question_that_is_not_answered_ends_the_command(place: Path, key: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest may ignore it
    terminal = Terminal.start([sys.executable, "-m", "oncelake", "init", "lake"], place)
    signal.signal(signal.SIGINT, before)
    terminal.wait_for(lambda said: "(Enter: none yet): " in said)
    if key == "Ctrl-C":
        # Python forgets a signal that comes just before it begins to read a line, which no person is quick enough for
        while not is_asleep(terminal.process.pid):
            time.sleep(0.01)
        terminal.process.send_signal(signal.SIGINT)
    else:
        os.write(terminal.descriptor, b"\x04")
    assert terminal.end() == 130
    assert terminal.said.replace("\r", "").endswith("\noncelake: stopped; nothing was changed\n")
    assert below(place) == set()


def test_a_source_without_its_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="--topic is missing"):
        NewSource(bootstrap_servers="h:1")
