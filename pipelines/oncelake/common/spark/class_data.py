"""This is where the JVM's start is made short: by class data sharing, and by compiling later what is seldom called.

A run loads some 27,000 classes. An archive of them is written once, by a telling of the demo; later JVMs map it
instead of reading, checking and linking each class anew. An archive that does not fit, such as after an upgrade, is
ignored by the JVM. Source: the `java` command's documentation, "Application Class Data Sharing".
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from oncelake.common.spark import direct_file_system, jars
from oncelake.common.spark.java import java_command
from oncelake.common.version import __version__

# The optimizing compiler takes a method on after ten times as many calls or rounds as usual: what runs for each row
# gets there within a second; what plans a query would take both cores for seconds and be done before that pays.
# Source: HotSpot's `tier4` flags; their defaults are 5000, 600, 15000 and 40000.
_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# What an archive is worth saying of is said by its writer; a JVM that finds one that does not fit goes without.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
PATIENCE = 120.0
_SETTLED = 2.0


def options() -> list[str]:
    """Give the options of a JVM whose class path is on this machine."""
    path = archive()
    return [*_LATER, *_SILENT, *([f"-XX:SharedArchiveFile={path}"] if path.exists() else [])]


def archive() -> Path:
    """Give the place of the archive for this Java, this Spark and these jars, whether it is there or not."""
    path = direct_file_system.class_path()
    known = (os.path.realpath(java_command()), pyspark.__version__, _home(), path, __version__)
    return jars.cache_home() / f"{hashlib.sha256(str(known).encode()).hexdigest()[:16]}.jsa"


def write() -> str | None:
    """Write the archive by a process of its own, which runs the demo; return why that failed, None if it is there.

    Archives of Sparks that are no longer where they were, and former ones of this Spark, are removed.
    """
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": f'-XX:ArchiveClassesAtExit="{partial}"'}
    demo = [sys.executable, "-m", "oncelake", "demo"]
    told = subprocess.run(demo, env=environment, capture_output=True, check=False)
    failed = told.returncode != 0
    if failed or not _is_written(partial):
        partial.unlink(missing_ok=True)
        last = next(reversed(told.stderr.decode(errors="replace").strip().splitlines()), "it said nothing")
        return f"the demo ended with exit code {told.returncode}: {last}" if failed else "the JVM wrote none"
    _remove_former()
    path.with_suffix(".home").write_text(_home(), encoding="utf-8")
    partial.replace(path)
    return None


def _home() -> str:
    return str(Path(pyspark.__file__).parent)


def _is_written(partial: Path) -> bool:
    """Wait until a JVM that has been told to end has written its archive: it outlives the process that started it."""
    until = time.monotonic() + PATIENCE
    while True:
        if partial.exists() and partial.stat().st_size and time.time() - partial.stat().st_mtime > _SETTLED:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def _remove_former() -> None:
    for name in jars.cache_home().glob("*.home"):
        home = name.read_text(encoding="utf-8")
        if home == _home() or not Path(home).exists():
            name.with_suffix(".jsa").unlink(missing_ok=True)
            name.unlink(missing_ok=True)
