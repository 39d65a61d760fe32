"""This is where the way to this machine's own files is made short: no process is started for a file.

PySpark comes without Hadoop's native library, and Hadoop then runs `chmod` for each file it makes and `readlink` for
each it renames: some dozens a batch, of 8 ms each. `DirectFileSystem.java` does the same by system calls. It is
compiled once, by the compiler that Spark brings for its own generated code; before that, Hadoop's way is taken.
Source: `RawLocalFileSystem` and `Shell` of Hadoop 3.4.
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
    """Give the place of the compiled classes for this source and this Spark, whether they are there or not."""
    known = f"{pyspark.__version__} {jars.DELTA} {_SOURCE.read_text(encoding='utf-8')}"
    return jars.cache_home() / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jar"


def class_path() -> str:
    """Give the class path of a JVM on this machine."""
    own = jar()
    return os.pathsep.join([jars.class_path(), *([str(own)] if own.exists() else [])])


def conf(given: Container[str] = ()) -> Mapping[str, str]:
    """Give Spark's settings for it; none where it was not compiled.

    Args:
        given: what the user sets; a class path or a file system of the user's own takes its place as a whole.
    """
    return CONF if why_not(given) is None else {}


def why_not(given: Container[str]) -> str | None:
    """Return why it is not used, and what to do; None when it is.

    Args:
        given: what the user sets.
    """
    own = next((key for key in (CLASS_PATH, *CONF) if key in given), None)
    if own is not None:
        return f"spark.conf.{own} takes the place of oncelake's log store; take it out"
    if not jar().exists():
        return "oncelake's log store is not compiled; run python -m oncelake.set_up"
    return None


def write() -> None:
    """Compile it."""
    compile_java(_SOURCE, jar(), jars.class_path())


def compile_java(source: Path, target: Path, class_path: str) -> None:
    """Compile a Java file into a jar, by the compiler that Spark brings for its own generated code.

    Args:
        source: the file; Janino's subset of Java.
        target: the jar, which is there whole or not at all.
        class_path: what the file's classes need.
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
