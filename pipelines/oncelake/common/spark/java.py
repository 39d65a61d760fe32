"""Find a usable Java, before Spark would fail on a missing or wrong one, and a locale in which it reads every name."""

import ctypes
import locale
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from oncelake.common.errors import ConfigError

SUPPORTED = (17, 21)
_INSTALL = (
    "install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or point JAVA_HOME at one"
)
_UTF8 = "UTF-8"
# Each is on some systems and not on others.
_UTF8_LOCALES = ("C.UTF-8", "C.utf8", "en_US.UTF-8")
# `LC_ALL_MASK` of the C library: Java sets every category at once, and has none when one of them is not installed.
_EVERY_CATEGORY = 0x1FBF


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


def utf8_locale() -> Mapping[str, str]:
    """Return the variables by which a JVM reads and writes the names of files as UTF-8; none when it does so already.

    Java takes their encoding from the locale. In any other one, such as `LC_ALL=C` or one that is not installed, it
    lists no file whose name has a letter beyond ASCII, and says nothing.
    """
    if sys.platform != "linux" or _encoding("") == _UTF8:  # macOS has no other
        return {}
    found = next((name for name in _UTF8_LOCALES if _encoding(name) == _UTF8), None)
    return {"LC_ALL": found} if found else {}


def _encoding(name: str) -> str | None:
    """Return a locale's encoding, the environment's for an empty name; None when it is not installed."""
    library = ctypes.CDLL(None)
    library.newlocale.restype = ctypes.c_void_p
    library.nl_langinfo_l.restype = ctypes.c_char_p
    found = library.newlocale(_EVERY_CATEGORY, name.encode(), None)
    if not found:
        return None
    place = ctypes.c_void_p(found)
    try:
        said: bytes = library.nl_langinfo_l(locale.CODESET, place)
        return said.decode()
    finally:
        library.freelocale(place)
