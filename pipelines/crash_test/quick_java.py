"""This is where JVMs that live for seconds are made to start fast; what they do stays the same.

Compiled by the quick compiler alone, as code that lives so short never pays for the other; and with Java's
class data sharing: an archive of the loaded classes is written once, by a run of the chain that is not
killed, and later JVMs map it instead of reading, checking and linking thousands of classes. An archive
that does not fit, such as after an upgrade, is ignored by the JVM.
Source: the `java` command's documentation, "Application Class Data Sharing".
"""

import hashlib
import os
import time
from pathlib import Path

import pyspark

from pipelines import __version__, jars
from pipelines.java import java_command

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# The heap of a process that works on batches of some kilobytes.
MEMORY = "1g"
# From so many kills on, writing the archive takes less time than it saves.
WORTH = 20
PATIENCE = 120.0
_SETTLED = 2.0


def archive() -> Path:
    """Give the place of the archive for this Java, this Spark and these jars."""
    known = "\n".join((os.path.realpath(java_command()), pyspark.__version__, jars.class_path(), __version__))
    return jars.cache_home() / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"


def mapping(path: Path) -> list[str]:
    """Give the options that use an archive; none when there is none."""
    return [f'-XX:SharedArchiveFile="{path}"'] if path.exists() else []


def writing(path: Path) -> list[str]:
    """Give the options that write an archive when the JVM ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return [f'-XX:ArchiveClassesAtExit="{path}"']


def take(partial: Path, path: Path) -> None:
    """Wait until a JVM that has been told to end has written an archive, and put it in place.

    The JVM outlives the process that started it. Without an archive in time it goes without one.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if partial.exists() and partial.stat().st_size and time.time() - partial.stat().st_mtime > _SETTLED:
            partial.replace(path)
            return
        time.sleep(0.1)
    partial.unlink(missing_ok=True)
