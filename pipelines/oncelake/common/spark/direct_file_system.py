"""Faster access to local files: Hadoop's local file system without a process for each file.

PySpark is shipped without Hadoop's native library. Hadoop then runs `chmod` for each file that it creates and
`readlink` for each file that it renames: dozens of processes per batch, 8 ms each. `DirectFileSystem.java` does the
same with system calls. It is compiled once, with the compiler that Spark ships for its own generated code; until then,
Hadoop's own file system is used. Source: `RawLocalFileSystem` and `Shell` of Hadoop 3.4.
"""

import hashlib
import os
import zipfile
from collections.abc import Container, Mapping
from pathlib import Path

import pyspark

from oncelake.common.spark import jars
from oncelake.common.spark.launch import launch

CLASS_PATH = "spark.driver.extraClassPath"
LOG_STORE = "spark.delta.logStore.file.impl"
CONF: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "oncelake.DirectFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "oncelake.DirectFileSystem$Context",
    LOG_STORE: "oncelake.DirectFileSystem$Log",
}
_SOURCE = Path(__file__).with_name("DirectFileSystem.java")


def jar() -> Path:
    """Return the path of the compiled classes for this source, Spark and Delta, whether the jar exists or not."""
    known = f"{pyspark.__version__} {jars.DELTA} {_SOURCE.read_text(encoding='utf-8')}"
    return jars.cache_home() / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jar"


def class_path() -> str:
    """Return the class path of a JVM on this machine."""
    own = jar()
    return os.pathsep.join([jars.class_path(), *([str(own)] if own.exists() else [])])


def conf(given: Container[str] = ()) -> Mapping[str, str]:
    """Return the Spark settings that switch the direct file system on; empty if it cannot be used.

    Args:
        given: the keys that the user sets; the user's own class path or file system replaces all of these settings.
    """
    return CONF if why_not(given) is None else {}


def why_not(given: Container[str]) -> str | None:
    """Return why the direct file system is not used, and what to do; None if it is used.

    Args:
        given: the keys that the user sets.
    """
    own = next((key for key in (CLASS_PATH, *CONF) if key in given), None)
    if own is not None:
        return f"spark.conf.{own} replaces oncelake's log store; remove that setting"
    if not jar().exists():
        return "oncelake's log store is not compiled; run python -m oncelake.set_up"
    return None


def write() -> None:
    """Compile `DirectFileSystem.java`."""
    compile_java(_SOURCE, jar(), jars.class_path())


def compile_java(source: Path, target: Path, class_path: str) -> None:
    """Compile a Java file into a jar with the compiler that Spark ships for its own generated code.

    Args:
        source: the file, in Janino's subset of Java.
        target: the jar, which is written completely or not at all.
        class_path: the jars that the file's classes need.
    """
    gateway = launch({CLASS_PATH: class_path})
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(source.name, gateway.jvm.java.io.StringReader(source.read_text(encoding="utf-8")))
        classes = {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
    finally:
        gateway.shutdown()
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    partial.replace(target)
