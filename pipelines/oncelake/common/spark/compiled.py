"""oncelake's own Java classes, compiled once on this machine with the compiler that Spark ships for its own code.

`DirectFileSystem.java` is the local file system of our own Spark, `BoundedRows.java` collects small batches,
`FewRows.java` counts the lines of large ones and collects the refused ones, `PreparedPlan.java` keeps plans that are
the same in every batch, `WakeableClock.java` wakes a query: without the jar all that works, only slower.
Without `ReadableFiles.java`, which leaves files out of a listing, a batch with a file that holds no text is refused.
`RecordFormat.java` reads complete files and `TailSource.java` files that grow, both with `Records.java` and
`BoundedLines.java`, `Mask.java` masks personal data, with `TextView.java`, `JsonParts.java` and `MaskEdits.java`, and
`Topics.java` reads Kafka records whose timestamp is too large for Spark: nothing else reads records of several lines,
growing files or such records, bounds what a line takes of the memory, or masks. `Colours.java` knows colours in a text.
`BoundedPattern.java` bounds the steps of a regular expression and `JsonLine.java` reads a line of JSON: without the
jar, Spark's own functions do, see `line_functions.py`.
"""

import hashlib
import logging
import os
import threading
import zipfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError

from oncelake.common.errors import OncelakeError
from oncelake.common.explain import explain
from oncelake.common.spark import jars, versions
from oncelake.common.spark.launch import end_gateway, launch

CLASS_PATH = "spark.driver.extraClassPath"
_LOG = logging.getLogger(__name__)
_NAMES = (
    "DirectFileSystem",
    "BoundedRows",
    "FewRows",
    "PreparedPlan",
    "BoundedLines",
    "Colours",
    "BoundedPattern",
    "JsonLine",
    "Records",
    "RecordFormat",
    "TailSource",
    "Topics",
    "ReadableFiles",
    "WakeableClock",
    "JsonParts",
    "TextView",
    "MaskEdits",
    "Mask",
)
# Only the JVM's quick compiler, without the counts that the optimizing one needs: a third less processor time in a
# short run, and our classes are compiled in half the time. Java then has room for 48 MB of code, which the libraries of
# S3 fill: a VirtualMachineError ends the batch.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=192m")
# They stand on Spark's internals, and without them everything works. So one that another Spark cannot have is left out.
_OPTIONAL = ("PreparedPlan", "WakeableClock")
# The compiler takes seconds, and minutes where another machine is emulated.
PATIENCE = 600.0
_SOURCES = tuple(Path(__file__).with_name(f"{name}.java") for name in _NAMES)


def jar() -> Path:
    """Return the path of the compiled classes for these sources, Spark and Delta, whether the jar exists or not."""
    sources = "".join(source.read_text(encoding="utf-8") for source in _SOURCES)
    known = f"{pyspark.__version__} {versions.DELTA} {sources}"
    return jars.cache_home() / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jar"


def class_path() -> str:
    """Return the class path of a JVM on this machine."""
    own = jar()
    return os.pathsep.join([jars.class_path(), *([str(own)] if own.exists() else [])])


def write() -> None:
    """Compile the sources into the jar."""
    compile_java(_SOURCES, jar(), jars.class_path(), optional=_OPTIONAL)


def is_on_executors(context: Any) -> bool:
    """Return True if a SparkContext's executors have our classes: they are in the driver's JVM or get the same jar."""
    conf = context.getConf()
    places = (conf.get(key, "") for key in ("spark.jars", "spark.executor.extraClassPath"))
    return context.master.startswith("local") or any(jar().name in place for place in places)


def compile_java(sources: Sequence[Path], target: Path, class_path: str, *, optional: Container[str] = ()) -> None:
    """Compile Java files into a jar with the compiler that Spark ships for its own generated code.

    Args:
        sources: the files, in Janino's subset of Java; each may use the classes of those before it.
        target: the jar, which is written completely or not at all.
        class_path: the jars that the files' classes need.
        optional: the names of classes that are left out if they cannot be compiled; no other file may use them.

    Raises:
        OncelakeError: one of the others cannot be compiled, or the JVM did not start.
    """
    gateway = launch({CLASS_PATH: class_path}, QUICK)
    stuck = threading.Timer(PATIENCE, gateway.proc.kill)  # then the call that waits for an answer fails
    stuck.start()
    classes: dict[str, bytes] = {}
    earlier = None
    try:
        for source in sources:
            compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
            if earlier is not None:
                compiler.setParentClassLoader(earlier.getClassLoader())
            try:
                compiler.cook(source.name, gateway.jvm.java.io.StringReader(source.read_text(encoding="utf-8")))
            except Py4JJavaError as error:
                lacks_memory = is_instance_of(gateway, error.java_exception, "java.lang.VirtualMachineError")
                if source.stem not in optional or lacks_memory:
                    raise
                _LOG.debug("%s is left out: %s", source.name, explain(error))
                continue
            classes |= {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
            earlier = compiler
    except Py4JError as error:  # its own text is Java's, so it is asked for before the JVM ends
        raise OncelakeError(explain(error).split("; ")[0]) from None
    finally:
        stuck.cancel()
        end_gateway(gateway)
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    partial.replace(target)
