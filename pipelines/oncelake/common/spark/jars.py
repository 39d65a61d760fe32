"""Download the Java libraries that a local Spark needs in addition to its own.

`spark.jars.packages` would resolve the libraries again at every start and copy 98 MB, most of which PySpark already
ships. So this module lists only the few missing artifacts, without their dependencies. The Ivy that PySpark ships
resolves them once; later starts read the class path from a file.
"""

import fcntl
import hashlib
import os
import subprocess
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.spark import versions
from oncelake.common.spark.java import java_command
from oncelake.common.spark.locales import utf8_locale

_PATIENCE = 600.0


def class_path() -> str:
    """Return the jars as one class path; download them the first time.

    Raises:
        OncelakeError: Ivy could not download one of them.
    """
    return resolve(versions.installed().artifacts, transitive=False)


def are_here() -> bool:
    """Return True if the jars were downloaded before."""
    return _cached(_answer(_ivy_module(versions.installed().artifacts, transitive=False))) is not None


def resolve(artifacts: Iterable[tuple[str, str, str]], *, transitive: bool) -> str:
    """Resolve Maven artifacts to a class path, and cache the result for the next call.

    Args:
        artifacts: (organization, name, revision) of each.
        transitive: True to include their dependencies.

    Raises:
        OncelakeError: Ivy could not download one of them.
    """
    module = _ivy_module(artifacts, transitive=transitive)
    home, answer = cache_home(), _answer(module)
    if (cached := _cached(answer)) is not None:
        return cached
    home.mkdir(parents=True, exist_ok=True)
    with (home / "ivy.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two that download into one cache miss what the other has not written yet
        if (cached := _cached(answer)) is not None:
            return cached
        return _download(module, home, answer)


def _download(module: str, home: Path, answer: Path) -> str:
    """Download the artifacts of an Ivy module, and keep their class path in a file; return it."""
    request = home / f"request-{os.getpid()}.xml"
    request.write_text(module)
    partial = home / f"answer-{os.getpid()}.classpath"
    try:
        _run_ivy(request, partial, home / "ivy")
        text = partial.read_text().strip()
        partial.write_text(text)
        partial.replace(answer)
    finally:
        request.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
    return text


def cache_home() -> Path:
    """Return the directory that caches downloaded jars and compiled files between starts.

    Raises:
        ConfigError: this user has no home directory.
    """
    try:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:
        raise ConfigError(
            f"the user with the number {os.geteuid()} has no home directory for what oncelake keeps between its "
            "starts: set HOME, or XDG_CACHE_HOME to a directory that this process may write to"
        ) from None
    return Path(base) / "oncelake"


def _answer(module: str) -> Path:
    return cache_home() / f"{hashlib.sha256(module.encode()).hexdigest()[:16]}.classpath"


def _cached(answer: Path) -> str | None:
    """Return the class path in a file, or None if there is no such file, or one of its jars is gone or not whole."""
    if not answer.exists():
        return None
    text = answer.read_text()
    return text if all(is_whole(Path(jar)) for jar in text.split(os.pathsep)) else None


def is_whole(jar: Path) -> bool:
    """Return False if a jar is gone, or cut; a cut one is removed, as Ivy would take it for downloaded."""
    try:
        with jar.open("rb") as file:
            is_whole = zipfile.is_zipfile(file)
    except FileNotFoundError:
        return False
    except OSError:  # it cannot be read now, and Java says why
        return True
    if not is_whole:
        with suppress(OSError):
            jar.unlink()
    return is_whole


def _ivy_module(artifacts: Iterable[tuple[str, str, str]], *, transitive: bool) -> str:
    follow = "true" if transitive else "false"
    rows = "".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" transitive="{follow}"/>'
        for org, name, rev in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="oncelake" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{rows}</dependencies></ivy-module>"
    )


def _run_ivy(request: Path, answer: Path, cache: Path) -> None:
    import pyspark  # noqa: PLC0415 - only the extra `local` has it

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    command = [java_command(), "-jar", str(ivy), "-warn", "-cache", str(cache), "-ivy", str(request)]
    command += ["-confs", "default", "-types", "jar", "bundle", "-cachepath", str(answer)]
    environment = {**os.environ, **utf8_locale()}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise OncelakeError(
            f"the Java libraries were not downloaded within {_PATIENCE:.0f} s; the first start needs access to Maven "
            "Central, later starts do not"
        ) from None
    if done.returncode != 0 or not answer.exists():
        said = [
            line.strip().removeprefix('Exception in thread "main" ')
            for line in (done.stdout + done.stderr).splitlines()
            if any(word in line for word in ("not found", "FAILED", "Exception in thread"))
        ]
        if said and "No space left" in said[0]:
            raise OncelakeError(
                f"the Java libraries, 60 MB, do not fit into {cache_home()}: {said[0]}. Free some space there, or set "
                "XDG_CACHE_HOME to a directory of another disk"
            )
        raise OncelakeError(
            f"could not download the Java libraries ({said[0] if said else 'Ivy failed'}); "
            "the first start needs access to Maven Central, later starts do not"
        )
