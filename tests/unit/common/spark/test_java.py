"""Without a usable Java, one line says which one was found, and the command for this system."""

import os
import platform
import shutil
from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.spark import java
from oncelake.common.spark.java import java_command


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


@pytest.mark.parametrize(
    ("version", "expected"), [("11.0.2", "is Java 11;"), ("nonsense", "is Java of an unknown vers")]
)
def test_a_wrong_java_is_named(installed: Path, monkeypatch: pytest.MonkeyPatch, version: str, expected: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(installed / "mine", version)))
    assert f"{installed}/mine/bin/java {expected}" in said()


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_a_usable_java_is_used(installed: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(installed / version, version)))
    assert java_command() == str(installed / version / "bin/java")


def test_a_file_that_cannot_be_run_is_no_java(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(installed / "mine", "17")
    (home / "bin/java").write_text("not a program of this machine")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "is Java of an unknown version" in said()


def test_an_installed_java_is_named_before_an_installation(installed: Path) -> None:
    install(installed / "java-11-openjdk", "11.0.2")
    install(installed / "java-21-broken", "nonsense")
    install(installed / "java-21-openjdk", "21.0.2")
    expected = (
        f"no Java found (looked in PATH); Spark needs Java 17 or 21. One is installed: export JAVA_HOME={installed}"
    )
    assert said() == f"{expected}/java-21-openjdk"


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
