"""Without a usable Java, one line says which one was found, and the command for this system."""

import os
import platform
import shutil
from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.spark import java
from oncelake.common.spark.java import java_command
from oncelake.common.spark.versions import LINES


def install(home: Path, version: str) -> Path:
    """Write a java that says that it is a version; return its directory."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the installed versions of Java, of a machine that has no java on its path."""
    monkeypatch.setattr(java, "HOMES", (tmp_path / "jvm",))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "jvm"


def said() -> str:
    with pytest.raises(ConfigError) as raised:
        java_command()
    assert "\n" not in str(raised.value)
    return str(raised.value)


NEEDED = {
    "4.0": "Spark 4.0 needs Java 17 or 21. ",
    "4.1": "Spark 4.1 needs Java 17 or 21. ",
    "4.2": "Spark 4.2 needs Java 17, 21 or 25.0.3 (or a later 25). ",
}


@pytest.fixture(params=[*LINES])
def line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the line of the installed Spark."""
    monkeypatch.setattr(java, "installed", lambda: LINES[request.param])
    return str(request.param)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.8.0_472", "is Java 1.8.0_472;"),
        ("11.0.2", "is Java 11.0.2;"),
        ("22.0.1", "is Java 22.0.1;"),
        ("25", "is Java 25;"),
        ("25.0.2", "is Java 25.0.2;"),
        ("26.0.5", "is Java 26.0.5;"),
        ("nonsense", "is Java of an unknown version;"),
    ],
)
def test_a_wrong_java_is_named(
    installed: Path, monkeypatch: pytest.MonkeyPatch, line: str, version: str, expected: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(installed / "mine", version)))
    assert f"{installed}/mine/bin/java {expected} {NEEDED[line]}" in said()


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2", "25.0.3", "25.1"])
def test_a_java_is_used_if_this_spark_runs_on_it(
    installed: Path, monkeypatch: pytest.MonkeyPatch, line: str, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(installed / version, version)))
    if version.startswith("25") and line != "4.2":
        assert f"is Java {version}; {NEEDED[line]}" in said()
        return
    assert java_command() == str(installed / version / "bin/java")


def test_a_file_that_cannot_be_run_is_no_java(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(installed / "mine", "17")
    (home / "bin/java").write_text("not a program of this machine")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "is Java of an unknown version" in said()


def test_an_installed_java_is_named_before_an_installation(installed: Path, line: str) -> None:
    install(installed / "java-11-openjdk", "11.0.2")
    install(installed / "java-21-broken", "nonsense")
    install(installed / "java-21-openjdk", "21.0.2")
    expected = f"no Java found (looked in PATH); {NEEDED[line]}One is installed: export JAVA_HOME={installed}"
    assert said() == f"{expected}/java-21-openjdk"


def test_only_a_spark_that_runs_on_it_is_told_of_an_installed_java_25(installed: Path, line: str) -> None:
    install(installed / "temurin-25-jdk-amd64", "25.0.3")
    assert ("temurin-25" in said()) == (line == "4.2")


@pytest.mark.parametrize(
    ("manager", "release", "command"),
    [
        ("apt-get", {"ID": "debian", "VERSION_ID": "12"}, "apt-get install -y openjdk-17-jre-headless"),
        ("apt-get", {"ID": "debian", "VERSION_ID": "13"}, "apt-get install -y openjdk-21-jre-headless"),
        ("apt-get", {"ID": "debian"}, "apt-get install -y openjdk-21-jre-headless"),
        ("apt-get", {"ID": "ubuntu", "VERSION_ID": "22.04"}, "apt-get install -y openjdk-21-jre-headless"),
        ("dnf", {}, "dnf install -y java-21-openjdk-headless"),
        ("zypper", {}, "zypper install -y java-21-openjdk-headless"),
        ("apk", {}, "apk add openjdk21-jre-headless"),
        ("pacman", {}, "pacman -S jre21-openjdk-headless"),
        ("brew", {}, 'brew install openjdk@21 && export JAVA_HOME="$(brew --prefix openjdk@21)"'),
        ("none", {}, "Install one from https://adoptium.net, and set JAVA_HOME to its directory"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("installed")
def test_the_command_is_that_of_this_system(
    monkeypatch: pytest.MonkeyPatch, manager: str, release: dict[str, str], command: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == manager else None)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    for user, sudo in ((0, ""), (1000, "sudo ")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        asked = command if manager in ("brew", "none") else f"{sudo}{command}"
        assert said().endswith(asked)
    monkeypatch.setenv("JAVA_HOME", "/none")
    assert said().endswith(asked if manager in ("brew", "none") else f"{asked} && unset JAVA_HOME")
