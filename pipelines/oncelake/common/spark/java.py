"""Find a usable Java before Spark fails on a missing or wrong one."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from oncelake.common.errors import ConfigError
from oncelake.common.spark.versions import installed

# How each package manager installs one of them; the first that this machine has is named.
_INSTALL: Mapping[str, str] = {
    "apt-get": "apt-get install -y openjdk-{debian}-jre-headless",
    "dnf": "dnf install -y java-21-openjdk-headless",
    "zypper": "zypper install -y java-21-openjdk-headless",
    "apk": "apk add openjdk21-jre-headless",
    "pacman": "pacman -S jre21-openjdk-headless",
    "brew": 'brew install openjdk@21 && export JAVA_HOME="$(brew --prefix openjdk@21)"',
}
# Where systems install Java, each version in a directory of its own.
HOMES = (Path("/usr/lib/jvm"), Path("/usr/lib64/jvm"), Path("/opt/homebrew/opt"), Path("/usr/local/opt"))
# What Java, Spark's script and its JVM read before they read oncelake's own settings.
_READ_AT_THE_START = (
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
)
_LONGEST = 300


def java_command() -> str:
    """Return the path of a launcher of a Java that Spark runs on: JAVA_HOME's if it is set, otherwise the one on PATH.

    Raises:
        ConfigError: there is no Java, or it is another version.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise ConfigError(f"no Java found (looked in {where}); {_needed()}. {_way_out()}")
    version = _version_of(found)
    if version is None and (said := _said(found)):
        names = ", ".join(read_at_the_start())
        raise ConfigError(f"{found} does not start: {said}. {f'Correct or unset {names}' if names else _way_out()}")
    if not _is_supported(version):
        raise ConfigError(f"{found} is Java {version or 'of an unknown version'}; {_needed()}. {_way_out()}")
    return found


def java_version() -> str | None:
    """Return the version of the Java that Spark starts, or has started; None if there is none that starts."""
    with suppress(ConfigError):
        return _version_of(java_command())
    return None


def _needed() -> str:
    """Return which versions of Java the installed Spark runs on, in words."""
    line = installed()
    *others, last = line.javas
    return f"Spark {line.name} needs Java {', '.join(others)} or {last}{' (or a later 25)' if '.' in last else ''}"


def _is_supported(version: str | None) -> bool:
    """Return True if the installed Spark runs on a version of Java."""
    numbers = _numbers(version or "")
    return any(numbers[:1] == oldest[:1] and numbers >= oldest for oldest in map(_numbers, installed().javas))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _way_out() -> str:
    """Return the command that brings a usable Java on this system: one that is installed, or an installation."""
    for home in (path for place in HOMES for path in sorted(place.glob("*"))):
        if re.search(r"\b\d\d\b", home.name) and _is_supported(_version_of(str(home / "bin/java"))):
            return f"One is installed: export JAVA_HOME={home}"
    manager = next((each for each in _INSTALL if shutil.which(each)), None)
    if manager is None:
        return "Install one from https://adoptium.net, and set JAVA_HOME to its directory"
    sudo = "sudo " if os.geteuid() and manager != "brew" else ""
    also = " && unset JAVA_HOME" if os.environ.get("JAVA_HOME") and manager != "brew" else ""
    return f"Install one: {sudo}{_INSTALL[manager].format(debian=_of_debian())}{also}"


def _of_debian() -> int:
    """Return the version that this Debian or Ubuntu has: 17 up to Debian 12, later 21."""
    release = {}
    with suppress(OSError):
        release = platform.freedesktop_os_release()
    number = re.match(r"\d+", release.get("VERSION_ID", ""))
    return 17 if release.get("ID") == "debian" and number is not None and int(number[0]) <= 12 else 21


def read_at_the_start() -> list[str]:
    """Return which variables of the environment are set that Java and Spark read at their start."""
    return [name for name in _READ_AT_THE_START if os.environ.get(name)]


def _version_of(java: str) -> str | None:
    match = re.search(r'version "(\d[^"]*)"', _version(java)[1])
    return match[1] if match else None


def _said(java: str) -> str:
    """Return what a Java said that did not start, in one line; empty if it started, or is no program."""
    code, said = _version(java)
    lines = [line.strip() for line in said.splitlines() if not line.startswith(("Picked up", "NOTE:", "#"))]
    return " ".join(line for line in lines if line)[:_LONGEST] if code else ""


@cache  # a start needs the version twice: to check it, and to find the class archive of this Java
def _version(java: str) -> tuple[int, str]:
    try:
        # a small heap: by default Java reserves a quarter of the memory, more than a limit may allow
        for heap in (["-Xms8m", "-Xmx64m"], []):
            done = subprocess.run([java, *heap, "-version"], capture_output=True, text=True, check=False, cwd="/")
            if not done.returncode:
                break
    except OSError:  # no program, or one of another machine
        return 0, ""
    return done.returncode, done.stderr + done.stdout  # errors of the JVM's own are on its standard output
