"""Start a JVM of this process's own, without a setting on a command line.

Every user of a machine reads the command lines of all its processes, and PySpark writes every setting there, secrets
among them. Here the settings, and Java's options, go by two files in a private directory. It is removed when the JVM
has read them, when it does not start, and when this process is killed meanwhile.
Sources: Spark, "Submitting Applications"; the `java` command's documentation, "java Command-Line Argument Files".
"""

import os
import shlex
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark.java_gateway import launch_gateway

from oncelake.common.afterwards import removed_afterwards
from oncelake.common.errors import ConfigError
from oncelake.common.spark.java import utf8_locale

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PROPERTIES_FILE = "--properties-file"
# PySpark gives its process this process's own environment, which every thread shares.
_one_at_a_time = threading.Lock()
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def launch(conf: Mapping[str, str], java_options: Iterable[str] = ()) -> JavaGateway:
    """Start a JVM with PySpark's gateway in it; the names of files are UTF-8 to it, whatever the locale here.

    Args:
        conf: Spark's settings; the class path and the libraries' path are on the command line, no other one is.
        java_options: one option each, without quotes.

    Raises:
        ConfigError: the environment names a file of settings, whose place is taken.
    """
    with _one_at_a_time:
        return _launch(conf, list(java_options), os.environ.get(_SUBMIT_ARGUMENTS, "pyspark-shell"))


def _launch(conf: Mapping[str, str], options: Sequence[str], arguments: str) -> JavaGateway:
    if any(each.startswith(_PROPERTIES_FILE) for each in shlex.split(arguments)):
        raise ConfigError(
            f"{_SUBMIT_ARGUMENTS} has {_PROPERTIES_FILE}, by which oncelake gives Spark its own settings; write that "
            "file's settings below spark.conf and take the option out"
        )
    with removed_afterwards(Path(tempfile.mkdtemp(prefix="oncelake-start-"))) as directory:
        # Java expands no file that is named inside another; the user's own are named beside it
        written = _write(directory / "java-options", (_argument(each) for each in options if not each.startswith("@")))
        named = [f"@{written}", *(each for each in options if each.startswith("@"))]
        # Spark would ignore any other setting in a file, with a warning; the session gets it all the same
        settings = {key: value for key, value in conf.items() if key.startswith("spark.")}
        settings[JAVA_OPTIONS] = shlex.join(named)
        properties = _write(directory / "settings", ("=".join(map(_escaped, item)) for item in settings.items()))
        ours = shlex.join([_PROPERTIES_FILE, str(properties), "--load-spark-defaults"])
        with _environment({_SUBMIT_ARGUMENTS: f"{ours} {arguments}", **utf8_locale()}):
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    return gateway


def _write(path: Path, lines: Iterable[str]) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def _escaped(text: str) -> str:
    """Return a key or a value of Java's properties, as `java.util.Properties.load` reads it."""
    return "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if " " < character <= "~":
        return f"\\{character}" if character in "\\=:#!" else character
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _argument(option: str) -> str:
    """Return a line of Java's argument file: between quotes a backslash makes the next character plain."""
    plain = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a process that is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
