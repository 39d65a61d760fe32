"""A new project's files say what was asked for, are accepted by oncelake and systemd, and replace no file."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import ConfigError
from oncelake.common.lake import SILVER
from oncelake.common.spark import session
from oncelake.engine.configuration import configured
from oncelake.lab.project import write
from oncelake.lab.project.write import Learned, NewSource, sample_in, write_project
from oncelake.quality.suite import read_suites
from tests.support.terminal import Terminal

FILES = {
    "conf/local.yaml",
    "conf/oncelake.schema.json",
    "conf/expectations/silver.access_log.json",
    "oncelake.service",
    ".gitignore",
}
DRAFT = r"""# 2026-11-26 10:00:00 [shop] ERROR x
pattern: '^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+\[shop\]\s+(?<level>[A-Za-z]+)\s*(?<message>.*)$'
time: iso8601
"""


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
    learned = Learned("shop", DRAFT, 0.9, {"name": "silver.access_log", "expectations": []})
    written = write_project(Path("lake"), NewSource(logs="/var/log/my: shop"), learned)
    assert below(place / "lake") == {*FILES, "conf/formats/shop.yaml"}
    settings, formats = configured(place / "lake/conf/local.yaml", [])
    source = settings.by_name["access_log"]
    assert (source.kind, source.path, source.format) == ("tail", "/var/log/my: shop", "shop")
    assert "shop" in str(formats["access_log"].pattern)
    assert json.loads((place / "lake/conf/expectations/silver.access_log.json").read_text())["expectations"] == []
    assert written.next == "cd lake && oncelake run --once"


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


def test_the_newest_file_with_lines_is_the_sample_of_a_directory(place: Path) -> None:
    for age, name in enumerate(("new/.b.log", "_c.log", "new/a.log", "old.log")):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("x\n")
        stamp = 1_000_000_000 - age
        os.utime(place / name, (stamp, stamp))
    assert sample_in(place) == place / "new/a.log"
    assert sample_in(place / "old.log") == place / "old.log"


def test_logs_around_the_project_are_copied_into_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "shop.log").write_text("x\n")
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(write, "learn", lambda *_: Learned("java", share=0.5))
    said = init("lake", "--from", "shop.log").splitlines()
    assert said[0] == "50.0% of the lines of shop.log parse as java"
    assert said[-1] == "next: cp shop.log lake/data/logs && cd lake && oncelake run --once"
    source = configured(place / "lake/conf/local.yaml", [])[0].by_name["access_log"]
    assert (source.path, source.kind, source.format) == (f"{place}/lake/data/logs", "files", "java")
    assert Path(str(source.path)).is_dir()


def test_a_sample_that_no_format_parses_is_a_warning(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "shop.log").write_text("x\n")
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(write, "learn", lambda *_: Learned(share=0.0))
    said = init("lake", "--from", ".")
    assert "oncelake: warning: no known format parses a line of shop.log; write one as docs/formats.md shows" in said
    assert configured(place / "lake/conf/local.yaml", [])[0].by_name["access_log"].format == "default"


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


def test_a_source_without_its_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="--topic is missing"):
        NewSource(bootstrap_servers="h:1")
