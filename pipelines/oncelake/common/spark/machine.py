"""Check before Spark starts that this machine lets it start: the user, the limits, the directories, the variables.

Java and Spark report such a cause with a stack trace, or only minutes later and from a library that loads late.
"""

import math
import os
import pwd
import re
import resource
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from oncelake.common.errors import ConfigError, reason
from oncelake.common.spark.settings import MEBIBYTE, SparkSettings, mebibytes
from oncelake.common.spark.versions import NAMES, line_of

# By trial on a small lake: with the first no run got through, of threads and addresses not even on one core; the second
# has room for a proof and for more cores. On two cores, a run failed with 312 files, with 80 threads, and with 2.25 GiB
# of addresses beside its heap; it got through with 348, 90 and 2.5 GiB. The addresses are in MiB.
FILES, THREADS, ADDRESSES = (240, 512), (70, 400), (2 * 1024, 3 * 1024)
# In MiB. Spark refuses a heap below one and a half times the 300 MiB that it reserves, and takes the heap as Java
# reports it: without the part that its garbage collector keeps empty. Source: Spark's `UnifiedMemoryManager`.
_MIN_HEAP_MIB = 450
# The native libraries that Spark's jars unpack take a few MiB.
_MIN_DISK_MIB = 32
# The options in it come after those on the command line, and win.
_LAST_WORD = "_JAVA_OPTIONS"
TEMPORARY = "-Djava.io.tmpdir="
# What Java reads for options, the last one after those of the command line.
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", _LAST_WORD)
_SPARK_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)")
# The libraries of Spark that its compiler consists of.
_COMPILER = ("commons-compiler", "janino")
_HEAP = re.compile(r"-(?:Xmx|XX:MaxHeapSize=)(\d+)([kmgtKMGT]?)")
_UNITS = {"": 1 / MEBIBYTE, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


def check_machine(settings: SparkSettings) -> None:
    """Check all that is known to keep oncelake's own Spark from starting, or from working later.

    Raises:
        ConfigError: names the limit or the variable, its value, and what is needed.
    """
    _check_pyspark()
    check_user()
    _check_host_name(settings.master)
    _check_loopback()
    _check_limits(settings)
    _check_heap()  # guard: heap-too-small-refused
    _check_spark_home()
    _check_compiler()  # guard: spark-has-its-compiler
    _check_temporary(settings)


def free_mebibytes(place: Path | str) -> float:
    """Return the MiB that are free on the disk of a directory; infinity on a file system that says no sizes."""
    disk = shutil.disk_usage(place)
    return disk.free // MEBIBYTE if disk.total else math.inf


def java_variables() -> list[str]:
    """Return the options that the environment gives Java."""
    return [os.environ.get(name, "") for name in _JAVA_VARIABLES]


def _check_pyspark() -> None:
    if line_of(pyspark.__version__) is None:
        raise ConfigError(
            f"this Python imports PySpark {pyspark.__version__} from {Path(pyspark.__file__).parent}, and oncelake "
            f"runs on PySpark {NAMES}; take it off PYTHONPATH, or install oncelake[local] in an environment of its own"
        )


def check_directory() -> None:
    """Raise ConfigError if the current directory is gone; Java does not start in it, and no relative path works."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the current directory no longer exists; change to another one, and run again") from None


def check_user() -> None:
    number = os.geteuid()
    try:
        pwd.getpwuid(number)
    except KeyError:
        raise ConfigError(
            f"the user with the number {number} has no name, and Spark needs one: start oncelake as a user with an "
            f"entry in /etc/passwd, or add one: oncelake:x:{number}:{os.getegid()}::/tmp:/bin/sh"
        ) from None


def nameless_host() -> str | None:
    """Return this host's name if it has no address, and nothing tells Spark another one; None otherwise."""
    if os.environ.get("SPARK_LOCAL_HOSTNAME") or os.environ.get("SPARK_LOCAL_IP"):
        return None
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return name
    return None


def _check_host_name(master: str) -> None:
    """Raise ConfigError if executors on other machines could not find this host; alone, Spark needs no name."""
    name = None if master.startswith("local") else nameless_host()
    if name is not None:
        raise ConfigError(
            f"this host's name {name} has no address; add it to /etc/hosts or to your DNS, or set SPARK_LOCAL_IP to an "
            f"address that the executors of {master} reach"
        )


def _check_loopback() -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5):
            pass
    except OSError as error:
        raise ConfigError(
            f"a process of this machine cannot connect to 127.0.0.1 ({error.strerror}), and Python talks to Spark "
            "there; bring the loopback interface up (ip link set lo up), or free some local ports"
        ) from None


@dataclass(frozen=True)
class _Limit:
    """A limit of this process that may be too low.

    Attributes:
        command: the shell's command for it.
        what: what it limits.
        limit: the limit.
        least: below this, Spark does not start.
        enough: this is enough for every command.
        remedy: the value to set.
    """

    command: str
    what: str
    limit: int
    least: int
    enough: int
    remedy: str

    def __str__(self) -> str:
        return f"this process may have {self.limit} {self.what} ({self.command})"

    @property
    def raised(self) -> str:
        """Return the command that raises it, in words."""
        return f"raise the limit: {self.command} {self.remedy}"


def low_limits(settings: SparkSettings) -> list[str]:
    """Return a warning for each limit at which Spark starts, and may fail later."""
    return [
        f"{limit}, and Spark may need up to {limit.enough} later; {limit.raised}"
        for limit in _limits(settings)
        if limit.least <= limit.limit < limit.enough
    ]


def _check_limits(settings: SparkSettings) -> None:
    for limit in _limits(settings):
        if limit.limit < limit.least:
            # guard: limit-too-low-refused
            raise ConfigError(f"{limit}, and Spark needs {limit.least} or more to start; {limit.raised}")


def _limits(settings: SparkSettings) -> Iterator[_Limit]:
    """Yield the limits that are set."""
    # Java raises its own limit of files up to the hard one; for the others it does not
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files != resource.RLIM_INFINITY:
        yield _Limit("ulimit -n", "open files", files, *FILES, str(FILES[1]))
    threads = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if threads != resource.RLIM_INFINITY and os.geteuid():  # root has no limit
        yield _Limit("ulimit -u", "threads", threads, *THREADS, str(THREADS[1]))
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if addresses != resource.RLIM_INFINITY:
        least, enough = ((math.ceil(_heap(settings)) + address) * 1024 for address in ADDRESSES)
        yield _Limit("ulimit -v", "KiB of addresses", addresses // 1024, least, enough, "unlimited")


def _check_heap() -> None:
    """Raise ConfigError if a variable makes the heap so small that Spark refuses it."""
    option = _given_heap()
    if option is not None and _size(option) < _MIN_HEAP_MIB:
        raise ConfigError(
            f"{_LAST_WORD} has {option[0]}, which overrides spark.driver_memory, and Spark needs a heap of "
            f"{_MIN_HEAP_MIB}m or more; remove it there"
        )


def _heap(settings: SparkSettings) -> float:
    """Return the size that the heap will have, in MiB."""
    option = _given_heap()
    return mebibytes(settings.driver_memory) if option is None else _size(option)


def _given_heap() -> re.Match[str] | None:
    """Return the option that overrides spark.driver_memory; None if no variable has one."""
    matches = [*map(_HEAP.fullmatch, os.environ.get(_LAST_WORD, "").split())]
    return next((match for match in reversed(matches) if match is not None), None)


def _size(option: re.Match[str]) -> float:
    return int(option[1]) * _UNITS[option[2].lower()]


def _check_spark_home() -> None:
    home = os.environ.get("SPARK_HOME")
    if not home:
        return
    if not (Path(home) / "bin/spark-submit").is_file():
        raise ConfigError(f"SPARK_HOME={home} has no bin/spark-submit; unset it: PySpark brings Spark with it")
    matches = (_SPARK_CORE.match(path.name) for path in Path(home).glob("jars/spark-core_*.jar"))
    versions = [match[1] for match in matches if match is not None]  # a vendor's has more behind its numbers
    if versions and not any(pyspark.__version__.startswith(version) for version in versions):
        raise ConfigError(
            f"SPARK_HOME={home} is Spark {versions[0]}, and this Python has PySpark {pyspark.__version__}; unset it: "
            "PySpark brings Spark with it"
        )


def _check_compiler() -> None:
    """Raise ConfigError if Spark's compiler of Java is missing or broken: it compiles our classes and every query."""
    home = os.environ.get("SPARK_HOME")
    place = Path(home or Path(pyspark.__file__).parent) / "jars"
    again = f"install Spark again: pip install --force-reinstall --no-deps pyspark=={pyspark.__version__}"
    for name in _COMPILER:
        if not any(map(zipfile.is_zipfile, place.glob(f"{name}-[0-9]*.jar"))):
            raise ConfigError(
                f"{name}, a part of Spark, is missing or broken in {place}, and no query runs without it; "
                f"{'unset SPARK_HOME: PySpark brings Spark with it' if home else again}"
            )


def _check_temporary(settings: SparkSettings) -> None:
    """Raise ConfigError if the directory for temporary files, which Java gets too, cannot be used."""
    try:
        place = tempfile.gettempdir()
    except OSError as error:
        raise ConfigError(f"{reason(error)}; free some space there, or set TMPDIR to another directory") from None
    free = free_mebibytes(place)
    if free < _MIN_DISK_MIB:
        raise ConfigError(
            f"{place}: the disk has {free} MiB left, and Spark needs {_MIN_DISK_MIB} for temporary files; free some "
            "space, or set TMPDIR to another directory"
        )
    options = (*settings.conf.values(), *java_variables())
    if os.statvfs(place).f_flag & getattr(os, "ST_NOEXEC", 0) and not any(TEMPORARY in option for option in options):
        raise ConfigError(
            f"{place} is mounted with noexec, and Spark loads its libraries for compression from there; set TMPDIR to "
            "a directory of another file system"
        )
