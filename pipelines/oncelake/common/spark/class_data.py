"""Shorten the JVM's start: share class data between JVMs, and compile rarely called methods later.

A run loads about 27,000 classes. An archive of them is written once by running the demo. Later JVMs map the archive
instead of reading, checking and linking each class again. The JVM ignores an archive that does not fit, for example
after an upgrade. Source: the `java` command's documentation, "Application Class Data Sharing".
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark

from oncelake.common.spark import compiled, jars
from oncelake.common.spark.java import java_command
from oncelake.common.spark.machine import free_mebibytes
from oncelake.common.version import __version__

# The optimizing compiler compiles a method only after ten times the usual number of calls or loop rounds. Code that
# runs for each row reaches this number within a second. To compile code that plans a query would occupy two cores for
# seconds, and the query would be planned before that pays off.
# Source: HotSpot's `tier4` flags; their defaults are 5000, 600, 15000 and 40000.
_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# No log lines about the archive: `write` reports errors, and a JVM continues without an archive that does not fit.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_JAVA_OPTIONS, _RECORD = "SPARK_SUBMIT_OPTS", "-XX:ArchiveClassesAtExit"
# The size of an archive, and some more. The JVM that finds no room for its archive says so to nobody.
_SIZE_MIB = 256
# A busy machine takes minutes to write 200 MB of classes.
PATIENCE = 300.0
# The demo takes a minute.
LONGEST = 1800.0
_SETTLED = 2.0
# How many other archives of a Spark are kept.
_OTHERS = 2


def options(*, quick: bool = False) -> list[str]:
    """Return the options of a JVM whose class path is on this machine.

    Args:
        quick: True for a JVM that works for seconds.
    """
    path = archive()
    archived = [f"-XX:SharedArchiveFile={path}"] if path.exists() else []
    return [*(compiled.QUICK if quick else _LATER), *_SILENT, *archived]


def archive() -> Path:
    """Return the path of the archive for this Java, Spark and class path, whether it exists or not."""
    path = compiled.class_path()
    known = (os.path.realpath(java_command()), pyspark.__version__, _home(), path, __version__)
    return jars.cache_home() / f"{hashlib.sha256(str(known).encode()).hexdigest()[:16]}.jsa"


def is_recording() -> bool:
    """Return True if this process is the demo that `write` runs."""
    return _RECORD in os.environ.get(_JAVA_OPTIONS, "")


def write(heard: Callable[[str], None] = lambda _: None) -> str | None:
    """Write the archive by running the demo in a separate process; return why that failed, or None on success.

    Of this Spark's other archives, the newest two stay, as another checkout or Java may have written them. Older ones,
    and archives of Spark installations that no longer exist, are removed.

    Args:
        heard: called with each line of the demo's output.
    """
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{path.stem}.[0-9]*"):  # of a JVM that was given up
        left.unlink()
    free = free_mebibytes(path.parent)
    if free < _SIZE_MIB:
        return f"{path.parent} has {free} MiB left, and the archive needs {_SIZE_MIB}"
    partial = path.with_suffix(f".{os.getpid()}")
    code, last = _run_demo({_JAVA_OPTIONS: f'{_RECORD}="{partial}"'}, heard)
    if code != 0 or not _is_written(partial):
        partial.unlink(missing_ok=True)
        return f"the demo exited with code {code}: {last}" if code != 0 else "the JVM wrote no archive"
    _remove_former()
    path.with_suffix(".home").write_text(_home(), encoding="utf-8")
    partial.replace(path)
    return None


def _run_demo(environment: Mapping[str, str], heard: Callable[[str], None]) -> tuple[int, str]:
    """Run the demo without the user's settings; return its exit code and the last line of its errors."""
    # -P: no module of the working directory replaces one of ours
    command = [sys.executable, "-P", "-m", "oncelake", "demo"]
    # guard: demo-without-user-settings
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ONCELAKE_")}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, env={**plain, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        until, stuck = time.monotonic() + LONGEST, threading.Timer(LONGEST, process.kill)
        stuck.start()
        try:
            for line in process.stdout or ():
                heard(line.decode(errors="replace"))
        except BaseException:
            process.kill()
            raise
        finally:
            stuck.cancel()
        code = process.wait()
        if code and time.monotonic() > until:
            return code, f"it did not end within {LONGEST:.0f} s"
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    return code, said[-1] if said else "no error message"


def _home() -> str:
    return str(Path(pyspark.__file__).parent)


def _is_written(partial: Path) -> bool:
    """Wait until the JVM has written its archive; return False after `PATIENCE` seconds.

    The JVM ends after the process that started it. The archive counts as written when it is not empty and has not
    changed for `_SETTLED` seconds.
    """
    until = time.monotonic() + PATIENCE
    while True:
        if partial.exists() and partial.stat().st_size and time.time() - partial.stat().st_mtime > _SETTLED:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def _remove_former() -> None:
    newest_first = sorted(jars.cache_home().glob("*.home"), key=lambda name: name.stat().st_mtime, reverse=True)
    homes = {name: name.read_text(encoding="utf-8") for name in newest_first}
    own = [name for name, home in homes.items() if home == _home()]
    for name, home in homes.items():
        if name in own[_OTHERS:] or not Path(home).exists():
            name.with_suffix(".jsa").unlink(missing_ok=True)
            name.unlink(missing_ok=True)
