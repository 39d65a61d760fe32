"""oncelake's own Java classes, compiled once on this machine with the compiler that Spark ships for its own code.

Many stand on Spark's internals, which differ between its versions. A class that does not compile against the Spark that
is there is left out of the jar with the reason, and what would use it goes on without it: see `CLASSES`.
"""

import hashlib
import json
import os
import threading
import zipfile
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError

from oncelake.common.errors import OncelakeError
from oncelake.common.explain import cause_of
from oncelake.common.spark import jars, versions
from oncelake.common.spark.launch import end_gateway, launch

CLASS_PATH = "spark.driver.extraClassPath"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
# All classes, each after those that it uses, with what happens without it; empty if only others of them use it.
CLASSES: Mapping[str, str] = {
    "DirectFileSystem": "each local file that Spark creates or renames takes 8 ms longer",
    "S3LogStore": "a lake on S3 is refused",
    "S3Checkpoints": "checkpoints on S3 are refused",
    "BoundedRows": "Spark itself commits each batch, in 0.5 to 3 s",
    "FewRows": "a large batch takes further jobs for its counts and its refused lines",
    "PreparedPlan": "each batch's plan is built again, which takes a batch of ten lines twice the time in silver",
    "BoundedLines": "",
    "Colours": "",
    "BoundedPattern": "a pattern may take any number of steps on a line",
    "JsonLine": "many events in a line are refused, and JSON's numbers and nested values have Spark's form",
    "Records": "",
    "Unpacked": "",
    "RecordFormat": "records of several lines are refused, and a line of any size is read into memory",
    "TailSource": "source.kind tail is refused",
    "Topics": "a Kafka record with a timestamp in nanoseconds stops bronze",
    "ReadableFiles": "a batch with a file that holds no text is refused",
    "WakeableClock": "a stage reads new rows at its next run.trigger, and not at once",
    "JsonParts": "",
    "TextView": "",
    "MaskEdits": "",
    "Mask": "source.mask is refused",
}
_PACKAGE = "oncelake"
# In the jar: why each class that is not in it was left out.
_LEFT_OUT = f"{_PACKAGE}/left-out.json"
# Only the JVM's quick compiler, without the counts that the optimizing one needs: a third less processor time in a
# short run, and our classes are compiled in half the time. Java then has room for 48 MB of code, which the libraries of
# S3 fill: a VirtualMachineError ends the batch.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=192m")
# The compiler takes seconds, and minutes where another machine is emulated.
PATIENCE = 600.0
_SOURCES = tuple(Path(__file__).with_name(f"{name}.java") for name in CLASSES)


def jar() -> Path:
    """Return the path of the compiled classes for these sources, Spark and Delta, whether the jar exists or not."""
    sources = "".join(source.read_text(encoding="utf-8") for source in _SOURCES)
    known = f"{pyspark.__version__} {versions.DELTA} {_LEFT_OUT} {sources}"
    return jars.cache_home() / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.jar"


def is_here() -> bool:
    """Return True if the jar exists; a broken one is removed."""
    return jars.is_whole(jar())


def class_path() -> str:
    """Return the class path of a JVM on this machine."""
    own = jar()
    return os.pathsep.join([jars.class_path(), *([str(own)] if jars.is_whole(own) else [])])


def write() -> None:
    """Compile the sources into the jar."""
    checks = {"WakeableClock": versions.installed().trigger}
    compile_java(_SOURCES, jar(), jars.class_path(), optional=CLASSES, checks=checks)


def left_out() -> Mapping[str, str]:
    """Return the classes that the jar lacks, each with the reason; all of them if there is no jar."""
    own = jar()
    if not jars.is_whole(own):
        return dict.fromkeys(CLASSES, "it is not compiled")
    with zipfile.ZipFile(own) as archive:
        reasons: dict[str, str] = json.loads(archive.read(_LEFT_OUT))
    return reasons


def is_on_executors(context: Any) -> bool:
    """Return True if a SparkContext's executors have our classes: they are in the driver's JVM or get the same jar."""
    conf = context.getConf()
    places = (conf.get(key, "") for key in ("spark.jars", "spark.executor.extraClassPath"))
    return context.master.startswith("local") or any(jar().name in place for place in places)


def compile_java(
    sources: Sequence[Path],
    target: Path,
    class_path: str,
    *,
    optional: Container[str] = (),
    checks: Mapping[str, str] | None = None,
) -> None:
    """Compile Java files into a jar with the compiler that Spark ships for its own generated code.

    Args:
        sources: the files, in Janino's subset of Java; each may use the classes of those before it.
        target: the jar, which is written completely or not at all.
        class_path: the jars that the files' classes need.
        optional: the names of classes that are left out if they do not compile, and with them what uses them.
        checks: by the name of a class, the argument for its static method `check`; it is left out if that raises.

    Raises:
        OncelakeError: another class does not compile, or none does, or the JVM did not start.
    """
    gateway = launch({CLASS_PATH: class_path}, QUICK)
    stuck = threading.Timer(PATIENCE, gateway.proc.kill)  # then the call that waits for an answer fails
    stuck.start()
    classes: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    earlier = None
    try:
        gateway.jvm.java.lang.Class.forName(_COMPILER)  # py4j takes the name of a missing class for a package
        for source in sources:
            compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
            if earlier is not None:
                compiler.setParentClassLoader(earlier.getClassLoader())
            try:
                compiler.cook(source.name, gateway.jvm.java.io.StringReader(source.read_text(encoding="utf-8")))
                if checks and source.stem in checks:
                    _check(gateway, compiler.getClassLoader(), source.stem, checks[source.stem])
            except Py4JJavaError as error:
                lacks_memory = is_instance_of(gateway, error.java_exception, "java.lang.VirtualMachineError")
                if source.stem not in optional or lacks_memory:
                    raise
                missing[source.stem] = cause_of(error)
                continue
            classes |= {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
            earlier = compiler
    except Py4JError as error:  # its own text is Java's, so it is asked for before the JVM ends
        raise OncelakeError(cause_of(error)) from None
    finally:
        stuck.cancel()
        end_gateway(gateway)
    if not classes:  # not one class is unfit, but the compiler
        raise OncelakeError(next(iter(missing.values())))
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
        archive.writestr(_LEFT_OUT, json.dumps(missing))
    partial.replace(target)


def _check(gateway: Any, loader: Any, name: str, argument: str) -> None:
    """Call the static method `check` of a class with a text."""
    lang = gateway.jvm.java.lang
    types, arguments = gateway.new_array(lang.Class, 1), gateway.new_array(lang.Object, 1)
    types[0], arguments[0] = lang.Class.forName("java.lang.String"), argument
    loader.loadClass(f"{_PACKAGE}.{name}").getMethod("check", types).invoke(None, arguments)
