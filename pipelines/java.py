"""This is where a usable Java is found, before Spark would fail on a missing or wrong one."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from pipelines.errors import ConfigError

SUPPORTED = (17, 21)
_INSTALL = (
    "install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or point JAVA_HOME at one"
)


def java_command() -> str:
    """Give the path of a Java 17 or 21 launcher: JAVA_HOME's first, then the one on PATH.

    Raises:
        ConfigError: there is no Java, or it is another version.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise ConfigError(f"no Java found (looked in {where}); Spark needs Java 17 or 21: {_INSTALL}")
    major = _major(found)
    if major not in SUPPORTED:
        raise ConfigError(f"{found} is Java {major or 'of an unknown version'}; Spark 4.0 needs 17 or 21: {_INSTALL}")
    return found


@cache  # a start asks twice: whether it may start, and which archive of classes is this Java's
def _major(java: str) -> int | None:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None
