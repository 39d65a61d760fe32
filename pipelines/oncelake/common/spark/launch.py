"""Start a JVM for this process, without settings on a command line; report how it ended.

Every user of a machine can read the command lines of all processes, and PySpark writes every setting there, including
secrets. So this module passes the settings and Java's options in two files in a private directory. The directory is
removed when the JVM has read them, when it does not start, and when this process is killed in the meantime.
Sources: Spark, "Submitting Applications"; the `java` command's documentation, "java Command-Line Argument Files".
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark.java_gateway import launch_gateway

from oncelake.common.afterwards import removed_afterwards
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.spark.java import read_at_the_start
from oncelake.common.spark.locales import utf8_locale
from oncelake.common.spark.machine import TEMPORARY, java_variables, nameless_host

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PROPERTIES_FILE = "--properties-file"
# PySpark passes this process's environment to the JVM, and all threads share that environment.
_one_at_a_time = threading.Lock()
# The JVM of this process as `subprocess.Popen`, at most one.
started: list[Any] = []
_SECONDS_TO_END = 5
SECONDS_TO_SAY = 2
# The file that the JVM's output goes to, and where the last start's begins; None if it goes to this process's own.
_output: tuple[Path, int] | None = None
# A start takes seconds; on a machine that swaps, a minute.
PATIENCE = 300.0
# How much of the output's end is read, and how long a quoted line may be.
_TAIL, _LONGEST = 65536, 300
# Lines of Java that only repeat what it was given, or where it was.
_NOISE = ("at ", "... ", "Picked up ", "NOTE: ", "WARNING: ", "Error: A fatal", "Error: Could not create the Java")
_WHERE = re.compile(r'^(# +|Exception in thread "[^"]*" |Caused by: )')
# What Java says when it cannot go on, above lines that say less.
_TELLING = re.compile(
    r"OutOfMemoryError|Could not |Unrecognized |Invalid |Error: |Exception: |Exception in thread|Caused by: |"
    r"annot allocate|No space left|Too many open files|SIG[A-Z]+ \(0x|Native memory allocation"
)
# The beginning of a record in Spark's log, by its own pattern or by ours; and the levels that say why something ended.
_RECORD = re.compile(r"[\d/:.,T -]+ (?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_SERIOUS = ("ERROR", "FATAL")
# What Java itself says after a record of any level; other lines after a record belong to it.
_OF_JAVA = re.compile(
    r'Exception in thread "|Error: |Error occurred|Terminating due to |[^:]* VM warning: |# |'
    r"java\.lang\.OutOfMemoryError"
)
# By these, somebody ends a process that has nothing to do with it: only a lack of memory before is a cause.
_BY_OTHERS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_MEMORY, _ANYTHING = re.compile(r"OutOfMemoryError|GC overhead|annot allocate"), re.compile("")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def launch(conf: Mapping[str, str], java_options: Iterable[str] = ()) -> JavaGateway:
    """Start a JVM with PySpark's gateway in it; it reads file names as UTF-8 if the system has such a locale.

    Args:
        conf: Spark's settings; only the class path and the library path go on the command line.
        java_options: one option each, without quotes.

    Raises:
        ConfigError: PYSPARK_SUBMIT_ARGS already names a file of settings.
        OncelakeError: the JVM did not start; the message says how it ended.
    """
    with _one_at_a_time:
        return _launch(conf, list(java_options), os.environ.get(_SUBMIT_ARGUMENTS, "pyspark-shell"))


def _launch(conf: Mapping[str, str], options: Sequence[str], arguments: str) -> JavaGateway:
    if any(argument.startswith(_PROPERTIES_FILE) for argument in shlex.split(arguments)):
        raise ConfigError(  # guard: no-other-settings-file
            f"{_SUBMIT_ARGUMENTS} has {_PROPERTIES_FILE}, but oncelake needs this option for its own settings; write "
            "that file's settings under spark.conf and remove the option"
        )
    # guard: start-files-removed
    with removed_afterwards(Path(tempfile.mkdtemp(prefix="oncelake-start-"))) as directory:
        # Java does not expand an argument file named in another one; so the user's files are named next to ours
        is_given = any(TEMPORARY in variable for variable in java_variables())
        temporary = [] if is_given else [f"{TEMPORARY}{tempfile.gettempdir()}"]
        own = [*temporary, *(option for option in options if not option.startswith("@"))]
        written = _write(directory / "java-options", map(_argument, own))
        named = [f"@{written}", *(option for option in options if option.startswith("@"))]
        # Spark ignores other settings in a file, with a warning; the session gets them from its builder
        settings = {key: value for key, value in conf.items() if key.startswith("spark.")}
        settings[JAVA_OPTIONS] = shlex.join(named)
        properties = _write(directory / "settings", ("=".join(map(_escaped, item)) for item in settings.items()))
        ours = [_PROPERTIES_FILE, str(properties), "--load-spark-defaults"]
        answer = directory / "gateway"
        started.append(_start([*ours, *shlex.split(arguments)], answer, _without_python()))
        try:
            port, secret = _gateway(started[-1], answer)
        except OncelakeError:
            started.pop()
            raise
    with _environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = started[-1]
    return gateway


def _start(arguments: Sequence[str], answer: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start Spark's script, which becomes the JVM and writes its port to a file.

    PySpark's own `launch_gateway` waits for ever if the JVM ends with code 0, and does not say why it ended.
    """
    # Spark looks up the host's address, which a Spark of one machine does not need
    nameless = {"SPARK_LOCAL_HOSTNAME": "localhost"} if nameless_host() else {}
    own = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)}
    return subprocess.Popen(
        [str(Path(variables["SPARK_HOME"]) / "bin/spark-submit"), *arguments],
        stdin=subprocess.PIPE,  # the JVM ends at its end
        env={**os.environ, **variables, **utf8_locale(), **nameless, **own},  # guard: jvm-in-utf8-locale
        preexec_fn=_ignore_ctrl_c,  # noqa: PLW1509 - as PySpark starts it
    )


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _gateway(process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
    """Return the port and the secret that a JVM has written; wait for them.

    Raises:
        OncelakeError: the JVM ended before, or wrote nothing for `PATIENCE` seconds.
    """
    until = time.monotonic() + PATIENCE
    while not answer.exists():
        if process.poll() is not None:  # guard: silent-jvm-end-noticed
            raise OncelakeError(f"Spark's JVM did not start: {how_jvm_ended()}. {_remedy()}")
        if time.monotonic() > until:
            process.kill()
            raise OncelakeError(
                f"Spark's JVM did not start within {PATIENCE:.0f} s, and was killed{_last_line()}. {_remedy()}"
            )
        time.sleep(0.05)
    written = answer.read_bytes()  # the port, the length of the secret, the secret
    return int.from_bytes(written[:4]), written[8:].decode()


def _remedy() -> str:
    names = ("spark.master", "spark.driver_memory", "spark.conf", *read_at_the_start())
    return f"Correct what it reads at its start: {', '.join(names)}; -v shows all that it said"


def how_jvm_ended() -> str:
    """Return in words how this process's JVM ended, as far as it is known: its signal or code, and its last words."""
    if not started:
        return "killed, or out of memory"
    code = _exit_code()
    if code is None:
        return f"it does not answer{_last_line()}"
    if code >= 0:
        return f"exit code {code}{_last_line()}"
    by = signal.Signals(-code)
    # guard: memory-quoted-after-kill
    return f"killed by {by.name}{_last_line(_MEMORY if by in _BY_OTHERS else _ANYTHING)}"


def jvm_lives() -> bool:
    """Return True if this process started a JVM that has not ended."""
    return bool(started) and _exit_code() is None


def _exit_code() -> int | None:
    """Return the code of the JVM, minus the signal that killed it; None if it lives. An end takes a moment to show."""
    try:
        code: int = started[-1].wait(SECONDS_TO_SAY)
    except subprocess.TimeoutExpired:
        return None
    return code


def _last_line(pattern: re.Pattern[str] = _ANYTHING) -> str:
    """Return the line of the JVM's output since its start that says most, in words; empty without any.

    Args:
        pattern: what a line must have.
    """
    if _output is None:
        return ""
    path, start = _output
    with suppress(OSError), path.open("rb") as file:
        begins = file.seek(max(start, file.seek(0, os.SEEK_END) - _TAIL))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        messages = [
            line
            for line in _serious(lines, from_start=begins == start)
            if not line.startswith(_NOISE) and pattern.search(line)
        ]
        telling = [line for line in messages if _TELLING.search(line)]
        if messages:
            return f"; it said: {_WHERE.sub('', (telling or messages)[-1])[:_LONGEST]}"
    return ""


def _serious(lines: Iterable[str], *, from_start: bool) -> Iterator[str]:
    """Yield the lines of Java itself, and of records in Spark's log that say why something ended."""
    is_serious = from_start  # otherwise the first lines may belong to any record
    for line in lines:
        record = _RECORD.match(line)
        if record is not None:
            is_serious = record["level"] in _SERIOUS  # guard: only-serious-lines-quoted
        if is_serious or _OF_JAVA.match(line):
            yield line


def end_jvm() -> None:
    """Let the JVM of this process end, in the middle of whatever it does; do not wait for it.

    PySpark's gateway ends at the end of its standard input.
    """
    for process in started:
        process.stdin.close()


def end_gateway(gateway: JavaGateway) -> None:
    """End a JVM that has done its work; kill it if that takes too long."""
    process = gateway.proc
    process.stdin.close()
    _wait_for(process)
    started.remove(process)


def wait_for_jvm() -> None:
    """Wait until a JVM that `end_jvm` was called for has ended; kill it if that takes too long."""
    for process in started:
        _wait_for(process)


def _wait_for(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()


def jvm_is_ending() -> bool:
    """Return True if the JVM of this process was told to end."""
    return any(process.stdin.closed for process in started)


@contextmanager
def java_output_to(log: Path) -> Iterator[None]:
    """Redirect the output of a JVM that is started in the block to a file.

    The JVM inherits the two descriptors; Python's own streams are restored afterwards. Otherwise the JVM's warnings
    would appear between the lines that people, or a program that asked for JSON, read.
    """
    global _output  # noqa: PLW0603 - the JVM writes there as long as it lives
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    # guard: spark-log-through-no-link
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    _output = log, os.fstat(target).st_size  # guard: output-of-this-start
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (target, *saved):
            os.close(descriptor)


def _without_python() -> Mapping[str, str]:
    """Return the variables with which Spark's script and its JVM start no Python of their own.

    The script would ask one for Spark's directory, and the JVM would ask one for data sources that are written in
    Python. The JVM does not when it finds no such program. Source: Spark's `DataSourceManager`.
    """
    home = os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))
    return {"SPARK_HOME": home, "PYSPARK_DRIVER_PYTHON": "/no/python"}


def _write(path: Path, lines: Iterable[str]) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # guard: settings-file-private
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def _escaped(text: str) -> str:
    """Escape a key or a value for a Java properties file, as `java.util.Properties.load` reads it."""
    return "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if " " < character <= "~":
        return f"\\{character}" if character in "\\=:#!" else character
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _argument(option: str) -> str:
    """Return an option as a line of a Java argument file: in quotes, with a backslash before special characters."""
    plain = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables during the block, for a process that is started in it."""
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
